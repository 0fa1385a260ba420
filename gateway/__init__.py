"""The messaging gateway: the life of a message, from a platform to an agent and back."""

__version__ = "0.1.0"
