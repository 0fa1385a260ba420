"""What a test can turn, for all bots."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True, kw_only=True)
class Settings:
    """
    `heartbeat` in seconds, `rates` whether limits are enforced, `nonces` for how many seconds one
    is remembered.
    """

    heartbeat: float = 41.25
    rates: bool = False
    nonces: float = 300.0
