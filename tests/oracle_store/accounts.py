"""
What is known of each account, for the store in memory. Its caller holds the lock and tells the
time.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from turngate.gateway.domain.messages import SessionSource
from turngate.gateway.domain.store_values import AccountRecord


class MemoryAccounts:
    """By platform and name."""

    def __init__(self) -> None:
        self._records: dict[tuple[str, str], AccountRecord] = {}

    def record(self, platform: str, account: str) -> AccountRecord:
        """Of one that was never heard of, an empty one."""
        return self._records.get((platform, account), AccountRecord())

    def note_message(self, source: SessionSource, now: datetime) -> None:
        """It heard something."""
        account = source.platform, source.account
        self._records[account] = replace(self.record(*account), received_at=now)

    def record_refused(self, platform: str, account: str, now: datetime) -> AccountRecord:
        """Once more in a row."""
        found = self.record(platform, account)
        counted = replace(found, refused=found.refused + 1, refused_at=now)
        self._records[platform, account] = counted
        return counted

    def record_welcome(self, platform: str, account: str) -> None:
        """Whatever was counted is over."""
        if (platform, account) in self._records:
            self._records[platform, account] = replace(
                self.record(platform, account), refused=0, refused_at=None
            )

    def record_behind(self, platform: str, account: str, since: datetime) -> None:
        """It has not heard what was said since then."""
        self._records[platform, account] = replace(
            self.record(platform, account), behind_since=since
        )

    def record_caught_up(self, platform: str, account: str, until: datetime) -> None:
        """It has now; what it heard by itself may be newer."""
        found = self.record(platform, account)
        received = max(found.received_at or until, until)
        self._records[platform, account] = replace(found, behind_since=None, received_at=received)
