"""
The rate limiter: every outbound call passes here, and none exceeds the limits of its account, its
chat and its class of methods.

Answers wait for room. Hints (previews, typing) never do: they use room that no answer needs, or are
left out. When a platform asks for a pause, only what it concerns waits: the class of methods, or
the chat, or the whole account.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass

from turngate.gateway.domain.errors import Throttled
from turngate.gateway.domain.messages import (
    AccountKey,
    ChatKey,
    SessionSource,
)
from turngate.gateway.domain.ports.adapter import CallKind, Limits, PlatformCall, Rate

SEND = PlatformCall(kind=CallKind.SEND)

_LONGEST_PAUSE = 86400.0
# Seconds. A timer of asyncio may fire early by the resolution of its clock: no second sleep then.
_AN_INSTANT = 1e-6
_FEW = 64
# Seconds. A preview that was refused asks again after its interval, a second or a few.
_ASKS_AGAIN_WITHIN = 5.0
# Up to this share of the room for hints they pass at the pace of their previews.
_UNHURRIED = 0.25


class RateLimiter:
    """One for all accounts. Uses the time of its event loop."""

    def __init__(self) -> None:
        self._accounts: dict[AccountKey, _Gate] = {}
        self._methods: dict[tuple[AccountKey, str], _MethodGate] = {}
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

    def has_to_wait(self, target: SessionSource, limits: Limits, call: PlatformCall = SEND) -> bool:
        """Return whether an answer would have to wait."""
        gates = self._gates(target, limits, call)
        return gates.has_line or not gates.are_open

    async def admit(self, target: SessionSource, limits: Limits, call: PlatformCall = SEND) -> None:
        """
        Wait until an answer may be sent, and count it: first for the chat, then for the class of
        methods, then for the account.

        The locks are fair, so chats are served in the order in which they came.
        """
        while True:
            gates = self._gates(target, limits, call)
            await gates.chat.opened(limits.rate_in(target))
            async with gates.method.line if gates.method else nullcontext():
                if gates.method:
                    await gates.method.opened(gates.method_rate)
                async with gates.account.line:
                    await gates.account.opened(limits.per_account)
                    gates = self._gates(target, limits, call)
                    # Others may have been sent while this one waited for the account.
                    if gates.are_open:
                        gates.count()
                        return

    @contextmanager
    def hint(
        self, target: SessionSource, limits: Limits, call: PlatformCall = SEND
    ) -> Iterator[bool]:
        """Yield whether a hint may be sent now. Half of each limit is reserved for answers."""
        gates = self._gates(target, limits, call)
        gives_way = target.chat_key in self._answers or gates.has_line
        is_full = any(gate.wait(rate, sparing=True) for gate, rate in gates.all)
        if gives_way or is_full:
            yield False
            return
        # What comes again and again is slowed down, what comes once per answer is not.
        if call.message_id is not None and gates.is_early(target.chat_key):
            yield False
            return

        gates.count()
        with self.limited(target, limits, call):
            yield True

    @contextmanager
    def limited(
        self, target: SessionSource, limits: Limits, call: PlatformCall = SEND
    ) -> Iterator[None]:
        """
        Wrap a platform call; on Throttled, close the gate of its class of methods, of its chat if
        it has none, or of the account.
        """
        try:
            yield
        except Throttled as exc:
            gates = self._gates(target, limits, call)
            gate = gates.account if exc.everywhere else gates.method or gates.chat
            gate.close(exc.retry_after)
            raise

    def _gates(self, target: SessionSource, limits: Limits, call: PlatformCall) -> _Gates:
        """Return the gates of a call. Looked up each time, because idle gates are forgotten."""
        account = self._accounts.get(target.account_key)
        chat = self._chats.get(target.chat_key)
        if account is None:
            account = self._accounts[target.account_key] = _Gate()
        if chat is None:
            self._make_room()
            chat = self._chats[target.chat_key] = _Gate()

        counted = limits.class_of(target, call)
        return _Gates(
            chat=chat,
            chat_rate=limits.rate_in(target),
            account=account,
            account_rate=limits.per_account,
            method=self._method(target.account_key, counted.name) if counted else None,
            method_rate=counted.rate if counted else None,
        )

    def _method(self, account: AccountKey, name: str) -> _MethodGate:
        """Return the gate of a class of methods. A platform has few, so they are kept."""
        gate = self._methods.get((account, name))
        if gate is None:
            gate = self._methods[account, name] = _MethodGate()
        return gate

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
            room = _room_for_hints(rate) if sparing else rate.count
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


class _MethodGate(_Gate):
    """The gate of a class of methods, with the hints of each chat that passed it."""

    def __init__(self) -> None:
        super().__init__()
        self._hinted: dict[ChatKey, float] = {}
        self._refused: dict[ChatKey, float] = {}

    def is_early(self, rate: Rate, chat: ChatKey) -> bool:
        """
        Return whether a hint of this chat comes too soon after the others, and note it.

        The pause between hints grows with the calls of the last interval, so the more previews
        grow, the slower each of them does, and the room lasts. Chats take turns.
        """
        now = _now()
        lately = now - rate.per.total_seconds()
        self._hinted = {each: at for each, at in self._hinted.items() if at > lately}
        self._refused = {
            each: at for each, at in self._refused.items() if at > now - _ASKS_AGAIN_WITHIN
        }
        last = max(self._hinted.values(), default=lately)
        others = (self._hinted.get(each, lately) for each in self._refused if each != chat)
        is_early = now - last < self._pause(rate) or min(others, default=now) < self._hinted.get(
            chat, lately
        )
        if is_early:
            self._refused[chat] = now
            return True

        self._hinted[chat] = now
        self._refused.pop(chat, None)
        return False

    def _pause(self, rate: Rate) -> float:
        """Return the seconds between two hints: none at first, later more than would last."""
        room = _room_for_hints(rate)
        lately = _now() - rate.per.total_seconds()
        used = sum(at > lately for at in self._passed) / room
        evenly = rate.per.total_seconds() / room
        return evenly * 2 * max(used - _UNHURRIED, 0.0) / (1 - _UNHURRIED)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Gates:
    """The gates that a call has to pass, each with its rate."""

    chat: _Gate
    chat_rate: Rate | None
    account: _Gate
    account_rate: Rate | None
    method: _MethodGate | None
    method_rate: Rate | None

    @property
    def all(self) -> Iterator[tuple[_Gate, Rate | None]]:
        yield self.chat, self.chat_rate
        yield self.account, self.account_rate
        if self.method is not None:
            yield self.method, self.method_rate

    @property
    def are_open(self) -> bool:
        return all(gate.wait(rate) == 0 for gate, rate in self.all)

    @property
    def has_line(self) -> bool:
        """Whether answers of other chats are waiting."""
        return self.account.line.locked() or (self.method is not None and self.method.line.locked())

    def is_early(self, chat: ChatKey) -> bool:
        """Whether a hint comes too soon after others of its class of methods; notes it if not."""
        return (
            self.method is not None
            and self.method_rate is not None
            and self.method.is_early(self.method_rate, chat)
        )

    def count(self) -> None:
        for gate, rate in self.all:
            gate.count(rate)


def _room_for_hints(rate: Rate) -> int:
    """Return half of the limit, rounded up: a limit of one call still lets a hint pass."""
    return rate.count - rate.count // 2


def _now() -> float:
    return asyncio.get_running_loop().time()
