"""
Endings that agents have yet to hear of, for the store in memory. Its caller holds the lock and
tells the time.
"""

from __future__ import annotations

from datetime import UTC, datetime

from turngate.gateway.domain.ids import SessionId
from turngate.gateway.domain.session import Session
from turngate.gateway.domain.store_values import LONGEST_PUT_OFF

_AT_ONCE = datetime.min.replace(tzinfo=UTC)


class MemoryEndings:
    """How often each was tried, and before when it is not tried again."""

    def __init__(self) -> None:
        self._untold: dict[SessionId, tuple[int, datetime]] = {}

    def note(self, session: Session) -> None:
        """It is over. Where nothing was said there is nothing to hear of."""
        if session.has_talk:
            self._untold[session.id] = 0, _AT_ONCE

    def untold(self, now: datetime) -> dict[SessionId, int]:
        """
        Those whose time has come, and how often they were tried. Nothing is put off for longer than
        the longest.
        """
        return {
            session: attempts
            for session, (attempts, not_before) in self._untold.items()
            if not now < not_before <= now + LONGEST_PUT_OFF
        }

    def count_attempt(self, session: SessionId, retry_at: datetime) -> bool:
        """False if there is nothing to tell any more."""
        if session not in self._untold:
            return False
        self._untold[session] = self._untold[session][0] + 1, retry_at
        return True

    def forget(self, session: SessionId) -> None:
        """It was told, or there is nothing to tell any more."""
        self._untold.pop(session, None)
