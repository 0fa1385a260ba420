"""The context window of the tiny model, for those who ask it and cannot import what makes it."""

WINDOW = 512
