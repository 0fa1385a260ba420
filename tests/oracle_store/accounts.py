"""
What is known of each account, for the store in memory. Its caller holds the lock and tells the
time.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from turngate.gateway.domain.messages import InboundMessage, MessageKind
from turngate.gateway.domain.store_values import AccountRecord


class MemoryAccounts:
    """By platform and name."""

    def __init__(self) -> None:
        self._records: dict[tuple[str, str], AccountRecord] = {}

    def record(self, platform: str, account: str) -> AccountRecord:
        """Of one that was never heard of, an empty one."""
        return self._records.get((platform, account), AccountRecord())

    def note_message(self, message: InboundMessage) -> None:
        """It heard something; only new messages have a time of the platform's for certain."""
        if message.kind is not MessageKind.NEW:
            return
        account = message.source.platform, message.source.account
        found = self.record(*account)
        newest = max(found.received_at or message.sent_at, message.sent_at)
        self._records[account] = replace(found, received_at=newest)

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
        found = self.record(platform, account)
        received = None if found.received_at is None else min(found.received_at, since)
        self._records[platform, account] = replace(found, behind_since=since, received_at=received)

    def record_caught_up(self, platform: str, account: str, until: datetime) -> None:
        """It has now; what it heard by itself may be newer."""
        found = self.record(platform, account)
        received = max(found.received_at or until, until)
        self._records[platform, account] = replace(found, behind_since=None, received_at=received)
