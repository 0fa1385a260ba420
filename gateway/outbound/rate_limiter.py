"""
The rate governor: everything outbound passes here, and nothing goes faster than its account and its chat may.

Answers wait for room. Hints (previews, typing) never do: they take room that no answer needs, or are left out. When a
platform asks for a pause, only the chat it was said of waits, unless it was said of the whole account.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from turngate.gateway.domain.errors import Throttled
from turngate.gateway.domain.messages import SessionSource
from turngate.gateway.domain.ports.adapter import Limits, Rate

_LONGEST_PAUSE = 86400.0
_AN_INSTANT = 1e-6
_FEW = 64

_Account = tuple[str, str]
_Chat = tuple[str, str, str | None]


class RateLimiter:
    """One for all accounts. Lives on one event loop, and goes by its time."""

    def __init__(self) -> None:
        self._accounts: dict[_Account, _Gate] = {}
        self._chats: dict[_Chat, _Gate] = {}
        self._answers: Counter[_Chat] = Counter()
        self._sweep_at = _FEW

    def answer_waits(self, target: SessionSource) -> None:
        """From now on the hints of this chat give way, until as many answers are over as wait."""
        self._answers[_chat(target)] += 1

    def answer_is_over(self, target: SessionSource) -> None:
        """It went, or it never will."""
        chat = _chat(target)
        self._answers[chat] -= 1
        if self._answers[chat] <= 0:
            del self._answers[chat]

    def has_to_wait(self, target: SessionSource, limits: Limits) -> bool:
        """Whether an answer could not go at once."""
        chat, account = self._gates(target)
        return (
            account.line.locked()
            or chat.wait(limits.rate_in(target)) > 0
            or account.wait(limits.per_account) > 0
        )

    async def admit(self, target: SessionSource, limits: Limits) -> None:
        """
        Wait until an answer may go, and count it: first for the chat, then in line with all others for the account.

        Others of the chat may have gone while this one stood in line; then it waits for the chat again.
        """
        account = self._gates(target)[1]
        while True:
            await self._gates(target)[0].opened(limits.rate_in(target))
            async with account.line:
                await account.opened(limits.per_account)
                chat = self._gates(target)[0]
                if chat.wait(limits.rate_in(target)) == 0:
                    chat.count(limits.rate_in(target))
                    account.count(limits.per_account)
                    return

    @contextmanager
    def hint(self, target: SessionSource, limits: Limits) -> Iterator[bool]:
        """A hint's way out: whether it may go now. Half of the room is left to answers."""
        chat, account = self._gates(target)
        gives_way = _chat(target) in self._answers or account.line.locked()
        is_full = chat.wait(limits.rate_in(target), sparing=True) or account.wait(
            limits.per_account, sparing=True
        )
        if gives_way or is_full:
            yield False
            return
        chat.count(limits.rate_in(target))
        account.count(limits.per_account)
        with self.heeding(target):
            yield True

    @contextmanager
    def heeding(self, target: SessionSource) -> Iterator[None]:
        """Around every call: the pause that a platform asks for holds for all that would go the same way."""
        try:
            yield
        except Throttled as exc:
            chat, account = self._gates(target)
            (account if exc.everywhere else chat).close(exc.retry_after)
            raise

    def _gates(self, target: SessionSource) -> tuple[_Gate, _Gate]:
        """Looked up each time, because a chat's gate is forgotten when it holds nobody up."""
        account, chat = (
            self._accounts.get((target.platform, target.account)),
            self._chats.get(_chat(target)),
        )
        if account is None:
            account = self._accounts[target.platform, target.account] = _Gate()
        if chat is None:
            self._make_room()
            chat = self._chats[_chat(target)] = _Gate()
        return chat, account

    def _make_room(self) -> None:
        """Whenever there are twice as many gates as mattered the last time."""
        if len(self._chats) >= self._sweep_at:
            self._chats = {chat: gate for chat, gate in self._chats.items() if gate.matters}
            self._sweep_at = max(2 * len(self._chats), _FEW)


class _Gate:
    """
    What has passed lately, and until when nothing may.

    Exact: at most so many in any stretch of that length. A leaky bucket (aiolimiter) lets a full burst through and then
    refills: with 20 a minute, 39 went within one minute.
    """

    def __init__(self) -> None:
        self.line = asyncio.Lock()
        self._passed: list[
            float
        ] = []  # short, and there are many gates: an empty deque takes ten times the room
        self._closed_until = self._matters_until = 0.0

    @property
    def matters(self) -> bool:
        """Whether a new gate would be another one."""
        return self._matters_until > _now()

    def wait(self, rate: Rate | None, *, sparing: bool = False) -> float:
        """How long until one more may pass; `sparing` as if only half as many might."""
        until = self._closed_until
        if rate is not None:
            room = rate.count - rate.count // 2 if sparing else rate.count
            if len(self._passed) >= room:
                until = max(until, self._passed[-room] + rate.per.total_seconds())
        wait = until - _now()
        return wait if wait > _AN_INSTANT else 0.0

    async def opened(self, rate: Rate | None) -> None:
        """Wait until one more may pass."""
        while True:
            wait = self.wait(rate)
            if wait == 0:
                return
            await asyncio.sleep(wait)

    def count(self, rate: Rate | None) -> None:
        """One passes now."""
        if rate is None:
            return
        self._passed.append(_now())
        del self._passed[: -rate.count]
        self._matters_until = max(self._matters_until, _now() + rate.per.total_seconds())

    def close(self, seconds: float) -> None:
        """For so long nothing passes; but a platform that asks for years is asked again the next day."""
        self._closed_until = max(self._closed_until, _now() + min(seconds, _LONGEST_PAUSE))
        self._matters_until = max(self._matters_until, self._closed_until)


def _now() -> float:
    return asyncio.get_running_loop().time()


def _chat(source: SessionSource) -> _Chat:
    """Threads share their chat's rate."""
    return source.platform, source.account, source.chat_id
