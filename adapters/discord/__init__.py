"""Discord: its gateway and its REST API through discord.py."""
