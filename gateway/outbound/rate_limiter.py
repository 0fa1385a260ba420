"""
The rate limiter: every outbound call passes here, and none exceeds the limits of its account and
chat.

Answers wait for room. Hints (previews, typing) never do: they use room that no answer needs, or are
left out. When a platform asks for a pause, only the chat it concerns waits, unless it concerns the
whole account.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from turngate.gateway.domain.errors import Throttled
from turngate.gateway.domain.messages import (
    AccountKey,
    ChatKey,
    SessionSource,
)
from turngate.gateway.domain.ports.adapter import Limits, Rate

_LONGEST_PAUSE = 86400.0
# Seconds. A timer of asyncio may fire early by the resolution of its clock: no second sleep then.
_AN_INSTANT = 1e-6
_FEW = 64


class RateLimiter:
    """One for all accounts. Uses the time of its event loop."""

    def __init__(self) -> None:
        self._accounts: dict[AccountKey, _Gate] = {}
        # Threads share the rate of their chat.
        self._chats: dict[ChatKey, _Gate] = {}
        self._answers: Counter[ChatKey] = Counter()
        self._sweep_at = _FEW

    def answer_waits(self, target: SessionSource) -> None:
        """Hold back the hints of this chat until its waiting answers are sent."""
        self._answers[target.chat_key] += 1

    def answer_is_over(self, target: SessionSource) -> None:
        """Count an answer that was sent or given up."""
        chat = target.chat_key
        self._answers[chat] -= 1
        if self._answers[chat] <= 0:
            del self._answers[chat]

    def has_to_wait(self, target: SessionSource, limits: Limits) -> bool:
        """Return whether an answer would have to wait."""
        chat, account = self._gates(target)
        return (
            account.line.locked()
            or chat.wait(limits.rate_in(target)) > 0
            or account.wait(limits.per_account) > 0
        )

    async def admit(self, target: SessionSource, limits: Limits) -> None:
        """
        Wait until an answer may be sent, and count it: first for the chat, then for the account.

        The lock of the account is fair, so its chats are served in the order in which they came.
        """
        account = self._gates(target)[1]
        while True:
            await self._gates(target)[0].opened(limits.rate_in(target))
            async with account.line:
                await account.opened(limits.per_account)
                chat = self._gates(target)[0]
                # Others of the chat may have been sent while this one waited for the account.
                if chat.wait(limits.rate_in(target)) == 0:
                    chat.count(limits.rate_in(target))
                    account.count(limits.per_account)
                    return

    @contextmanager
    def hint(self, target: SessionSource, limits: Limits) -> Iterator[bool]:
        """Yield whether a hint may be sent now. Half of the limit is reserved for answers."""
        chat, account = self._gates(target)
        gives_way = target.chat_key in self._answers or account.line.locked()
        is_full = chat.wait(limits.rate_in(target), sparing=True) or account.wait(
            limits.per_account, sparing=True
        )
        if gives_way or is_full:
            yield False
            return

        chat.count(limits.rate_in(target))
        account.count(limits.per_account)
        with self.limited(target):
            yield True

    @contextmanager
    def limited(self, target: SessionSource) -> Iterator[None]:
        """Wrap a platform call; on Throttled, close the gate of its chat or of the account."""
        try:
            yield
        except Throttled as exc:
            chat, account = self._gates(target)
            (account if exc.everywhere else chat).close(exc.retry_after)
            raise

    def _gates(self, target: SessionSource) -> tuple[_Gate, _Gate]:
        """Return the gates of a chat. Looked up each time, because idle gates are forgotten."""
        account = self._accounts.get(target.account_key)
        chat = self._chats.get(target.chat_key)
        if account is None:
            account = self._accounts[target.account_key] = _Gate()
        if chat is None:
            self._make_room()
            chat = self._chats[target.chat_key] = _Gate()
        return chat, account

    def _make_room(self) -> None:
        """Forget idle gates once there are twice as many as were in use the last time."""
        if len(self._chats) >= self._sweep_at:
            self._chats = {chat: gate for chat, gate in self._chats.items() if gate.matters}
            self._sweep_at = max(2 * len(self._chats), _FEW)


class _Gate:
    """
    A sliding window: at most so many calls in any interval of that length.

    A leaky bucket (aiolimiter) lets a full burst through and then refills: with 20 per minute, 39
    passed within one minute.
    """

    def __init__(self) -> None:
        self.line = asyncio.Lock()
        # A list: an empty deque takes ten times the memory, and there are many gates.
        self._passed: list[float] = []
        self._closed_until = self._matters_until = 0.0

    @property
    def matters(self) -> bool:
        """Whether the gate differs from a new one."""
        return self._matters_until > _now()

    def wait(self, rate: Rate | None, *, sparing: bool = False) -> float:
        """Return the seconds until one more call may pass; `sparing` uses half of the limit."""
        until = self._closed_until
        if rate is not None:
            # Rounded up, so that a limit of one call still lets a hint pass.
            room = rate.count - rate.count // 2 if sparing else rate.count
            if len(self._passed) >= room:
                until = max(until, self._passed[-room] + rate.per.total_seconds())

        wait = until - _now()
        return wait if wait > _AN_INSTANT else 0.0

    async def opened(self, rate: Rate | None) -> None:
        """Wait until one more call may pass."""
        while True:
            wait = self.wait(rate)
            if wait == 0:
                return
            await asyncio.sleep(wait)

    def count(self, rate: Rate | None) -> None:
        """Count a call."""
        if rate is None:
            return
        self._passed.append(_now())
        del self._passed[: -rate.count]
        self._matters_until = max(self._matters_until, _now() + rate.per.total_seconds())

    def close(self, seconds: float) -> None:
        """Let nothing pass for some seconds; at most a day, whatever the platform asks for."""
        self._closed_until = max(self._closed_until, _now() + min(seconds, _LONGEST_PAUSE))
        self._matters_until = max(self._matters_until, self._closed_until)


def _now() -> float:
    return asyncio.get_running_loop().time()
