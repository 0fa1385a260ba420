"""
Named points at which tests kill the daemon.

Nothing happens at a point unless a test has armed it. This is the one module with global state: a
point deep inside the store cannot be passed an object that no operator ever needs.
"""

from __future__ import annotations

from collections.abc import Callable

POINTS = (
    "received",
    "accepted",
    "catching-up",
    "turn-started",
    "mid-stream",
    "preview-sending",
    "preview-sent",
    "turn-finishing",
    "turn-finished",
    "sending",
    "sent",
    "between-parts",
    "session-ended",
    "reset",
    "committing",
    "committed",
    "migration-step",
    "drain",
    "checkpoint",
)
"""Those that a message can meet, in that order; the store's own and the daemon's end come last."""

UPKEEP_POINTS = (
    "migration-statement",
    "restore-copied",
    "restore-ready",
    "restore-set-aside",
    "restore-cleared",
    "restored",
)
"""
Those that no message meets: a database that is brought up to date or exchanged, before anything
listens.
"""

# Empty in production, so a point costs one empty loop.
_reached: list[Callable[[str], None]] = []


def crashpoint(name: str) -> None:
    """Mark a point at which the daemon may die."""
    for tell in _reached:
        tell(name)


def arm(tell: Callable[[str], None]) -> None:
    """For tests: call a function at every point, on the thread that reaches it."""
    _reached.append(tell)
