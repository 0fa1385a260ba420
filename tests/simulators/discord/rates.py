"""How often may be asked: told with every answer, enforced where a test wants it."""

from __future__ import annotations

import hashlib
import time
from collections import defaultdict, deque

from tests.simulators.common import Refusal
from tests.simulators.discord.rules import RATES
from tests.simulators.discord.settings import Settings

EVERYWHERE = 50
_TIGHT = ("create_message", "edit_message", "start_thread")
"""
Five in five seconds in a channel is what bots are told for these; Discord promises no figures.
"""


class Rates:
    """
    Counts by bucket. Real time, whatever the clock of the world says: bots sleep in real time.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._taken: dict[str, deque[float]] = defaultdict(deque)

    def take(self, account: str, method: str, chat: str | None) -> None:
        """Raises Refusal if that is one too many."""
        if not self._settings.rates:
            return
        bucket, (limit, seconds) = self._bucket(account, method, chat), self._limit(method)
        self._check(self._recent(f"{account} everywhere", 1.0), EVERYWHERE, 1.0, everywhere=True)
        self._check(self._recent(bucket, seconds), limit, seconds, everywhere=False)
        now = time.monotonic()
        self._taken[bucket].append(now)
        self._taken[f"{account} everywhere"].append(now)

    def headers(self, account: str | None, method: str, chat: str | None) -> dict[str, str]:
        """What every answer says of its bucket."""
        limit, seconds = self._limit(method)
        taken = self._recent(self._bucket(account or "", method, chat), seconds)
        left = max(0.0, taken[0] + seconds - time.monotonic()) if taken else seconds
        return {
            "X-RateLimit-Limit": str(limit),
            "X-RateLimit-Remaining": str(max(0, limit - max(1, len(taken)))),
            "X-RateLimit-Reset": f"{time.time() + left:.3f}",
            "X-RateLimit-Reset-After": f"{left:.3f}",
            "X-RateLimit-Bucket": hashlib.sha256(method.split("+")[0].encode()).hexdigest()[:32],
        }

    def _limit(self, method: str) -> tuple[int, float]:
        if not self._settings.rates:
            return 10_000, 1.0
        return (5, 5.0) if method.startswith(_TIGHT) else (50, 1.0)

    @staticmethod
    def _bucket(account: str, method: str, chat: str | None) -> str:
        return f"{account} {method.split('+')[0]} {chat}"

    def _recent(self, bucket: str, seconds: float) -> deque[float]:
        taken = self._taken[bucket]
        while taken and time.monotonic() - taken[0] > seconds:
            taken.popleft()
        return taken

    @staticmethod
    def _check(taken: deque[float], limit: int, seconds: float, *, everywhere: bool) -> None:
        if len(taken) >= limit:
            wait = round(taken[0] + seconds - time.monotonic(), 3)
            raise Refusal(
                429,
                "You are being rate limited.",
                rule=RATES,
                retry_after=max(0.001, wait),
                everywhere=everywhere,
            )
