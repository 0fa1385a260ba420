"""
Outbox to adapter: every part pending, sending, sent; or failed and tried again; or a dead letter.

One queue per chat, so that replies keep their order and a chat that has to wait delays no other. `sending` is committed
before a part leaves, because after that nobody can know.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import timedelta

from gateway.errors import (
    AlreadySettled,
    Refused,
    Retryable,
    StoreError,
    Throttled,
    TurngateError,
    Undeliverable,
    Unreachable,
)
from gateway.model import LARGEST_NUMBER, AgentEvent, Part, PartState, Sent, SessionSource, TurnId
from gateway.observe import Observer, reason_of
from gateway.patience import until_stored
from gateway.ports import Adapter, Clock, FindsSent, FollowsTurns, Store

_OPEN = (PartState.PENDING, PartState.SENDING, PartState.FAILED)
_REPEAT = "(possible repeat)\n\n"
_FIRST_PAUSE, _LONGEST_PAUSE = 2.0, 60.0

_Account = tuple[str, str]
_Chat = tuple[str, str, str | None, str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryRules:
    """How long to try."""

    retry_for: timedelta = timedelta(hours=24)


class Delivery:
    """Owns every part from the outbox to its platform."""

    def __init__(
        self, rules: DeliveryRules, store: Store, clock: Clock, observer: Observer, tasks: asyncio.TaskGroup
    ) -> None:
        self._rules = rules
        self._store = store
        self._clock = clock
        self._observer = observer
        self._tasks = tasks
        self._adapters: dict[_Account, Adapter] = {}
        self._queues: dict[_Chat, _Queue] = {}

    def connect(self, adapters: Mapping[_Account, Adapter]) -> None:
        """The accounts there are, by platform and name."""
        self._adapters.update(adapters)

    def preview(
        self, target: SessionSource, turn: TurnId, messages: Sequence[str], shown_in: str | None = None
    ) -> Preview:
        """What is shown of a turn while it runs; `shown_in` is the message that shows what an earlier run had of it."""
        preview = Preview(_follower(self._adapters.get(_account(target))), target, turn, self._observer, shown_in)
        preview.begin(messages)
        return preview

    def settled(self, target: SessionSource, messages: Sequence[str]) -> None:
        """Nothing more comes for these messages."""
        follower = _follower(self._adapters.get(_account(target)))
        if follower is not None:
            with _harmless(self._observer):
                follower.settled(target, messages)

    async def recover(self) -> None:
        """Go on with what an earlier run left in the outbox."""
        for part in await self._store.outbox(*_OPEN, limit=LARGEST_NUMBER):
            self.take_up(part)

    def take_up(self, part: Part) -> None:
        """Go on with one of them."""
        self._enqueue(part)

    async def deliver(self, parts: Sequence[Part]) -> None:
        """Send in order. Returns when each was tried, or when the chat turns out to be one that has to wait."""
        for sending in [self._enqueue(part) for part in parts]:
            await sending.tried.wait()

    def _enqueue(self, part: Part) -> _Sending:
        sending, chat = _Sending(part), _chat(part.target)
        queue = self._queues.get(chat)
        if queue is None:
            queue = self._queues[chat] = _Queue()
            self._tasks.create_task(self._serve(chat, queue), name="delivery")
        queue.add(sending)
        return sending

    async def _serve(self, chat: _Chat, queue: _Queue) -> None:
        while queue.sendings:
            try:
                await self._send_until_settled(queue)
            except Refused:
                pass  # its session was deleted meanwhile, and the part with it
            except StoreError as exc:
                self._observer.store_failed(exc)  # the outbox still has it; the next start goes on
            except Exception as exc:  # noqa: BLE001 - an adapter's bug ends this part's try, never the other chats
                self._observer.bug(exc)
            queue.go_on()
        del self._queues[chat]

    async def _send_until_settled(self, queue: _Queue) -> None:
        part, pause = queue.sendings[0].part, _FIRST_PAUSE
        while True:
            await self._wait_until(part)
            failure = await self._try(part)
            if failure is None:
                return
            wait = _pause(failure, pause)
            pause = min(pause * 2, _LONGEST_PAUSE)
            part = await self._record_failure(part, failure, wait)
            if part.state is PartState.DEAD:
                return
            queue.has_to_wait()

    async def _try(self, part: Part) -> TurngateError | None:
        """Send once. Returns why it did not arrive, or None."""
        adapter = self._adapters.get(_account(part.target))
        if adapter is None:
            return Refused(f"there is no account {'/'.join(_account(part.target))} in the config any more")
        in_doubt, part_id = part.state is PartState.SENDING, part.id
        part = await until_stored(lambda: self._store.record_sending(part_id), self._observer)
        try:
            sent = await self._settle_doubt(adapter, part) if in_doubt else await adapter.send(part)
        except TurngateError as exc:
            return exc
        except Exception as exc:  # noqa: BLE001 - an adapter's bug: nobody knows what it did, so it is not done again
            self._observer.bug(exc)
            return Undeliverable(f"the adapter broke down: {type(exc).__name__}")
        with suppress(AlreadySettled):  # a part is settled once, whoever does it
            await until_stored(lambda: self._store.record_sent(part.id, sent), self._observer)
        self._observer.sent(part)
        return None

    async def _settle_doubt(self, adapter: Adapter, part: Part) -> Sent:
        """It was on its way when the daemon died: look for it, and if nobody can, say that it may come twice."""
        if isinstance(adapter, FindsSent):
            found = await adapter.find_sent(part, part.created_at or self._clock.now())
            return found or await adapter.send(part)
        return await adapter.send(replace(part, text=_REPEAT + part.text))

    async def _record_failure(self, part: Part, failure: TurngateError, wait: float) -> Part:
        """A part in doubt stays in `sending`: marked as failed, it would be sent again as if it could not be there."""
        now = self._clock.now()
        left = self._rules.retry_for - (now - (part.created_at or now))
        dead = not isinstance(failure, Retryable) or wait > left.total_seconds()
        retry_at = None if dead else now + timedelta(seconds=wait)
        in_doubt = part.state is PartState.SENDING or isinstance(failure, Unreachable)
        reason = reason_of(failure)
        if dead or not in_doubt:
            with suppress(AlreadySettled):
                await until_stored(
                    lambda: self._store.record_unsent(part.id, reason, retry_at=retry_at), self._observer
                )
        self._observer.unsent(part, reason, dead=dead)
        state = PartState.DEAD if dead else PartState.SENDING if in_doubt else PartState.FAILED
        return replace(part, state=state, not_before=retry_at)

    async def _wait_until(self, part: Part) -> None:
        """In steps, because the clock may be set meanwhile."""
        while part.not_before is not None and self._clock.now() < part.not_before:
            wait = (part.not_before - self._clock.now()).total_seconds()
            await asyncio.sleep(min(wait, _LONGEST_PAUSE))


class Preview:
    """A turn as it happens, for a platform that can show it. Never waits, and spoils no turn."""

    def __init__(
        self,
        follower: FollowsTurns | None,
        target: SessionSource,
        turn: TurnId,
        observer: Observer,
        shown_in: str | None,
    ) -> None:
        self._shown_in = shown_in
        self._follower = follower
        self._target = target
        self._turn = turn
        self._observer = observer

    def begin(self, messages: Sequence[str]) -> None:
        """These messages are being answered."""
        if self._follower is not None:
            with _harmless(self._observer):
                self._follower.turn_began(self._target, self._turn, messages)

    def show(self, event: AgentEvent) -> None:
        """What the agent said or did."""
        if self._follower is not None:
            with _harmless(self._observer):
                self._follower.turn_event(self._target, self._turn, event)

    async def close(self) -> str | None:
        """Nothing more is shown. Returns the message that shows it, if the answer is to take its place."""
        return self._shown_in


@contextmanager
def _harmless(observer: Observer) -> Iterator[None]:
    try:
        yield
    except Exception as exc:  # noqa: BLE001 - an adapter's bug: what it shows is a hint, and the answer comes anyway
        observer.bug(exc)


class _Sending:
    def __init__(self, part: Part) -> None:
        self.part = part
        self.tried = asyncio.Event()


class _Queue:
    """The parts of one chat, in order. While the first of them has to wait, nobody waits for any of them."""

    def __init__(self) -> None:
        self.sendings: deque[_Sending] = deque()
        self._waits = False

    def add(self, sending: _Sending) -> None:
        self.sendings.append(sending)
        if self._waits:
            sending.tried.set()

    def has_to_wait(self) -> None:
        self._waits = True
        for sending in self.sendings:
            sending.tried.set()

    def go_on(self) -> None:
        self._waits = False
        self.sendings.popleft().tried.set()


def _pause(failure: TurngateError, longest: float) -> float:
    """As long as the platform asks for, to the second; else anything up to twice the last pause."""
    if isinstance(failure, Throttled):
        return failure.retry_after
    return random.uniform(0, longest)  # noqa: S311 - jitter, no secret


def _follower(adapter: object) -> FollowsTurns | None:
    return adapter if isinstance(adapter, FollowsTurns) else None


def _account(source: SessionSource) -> _Account:
    return source.platform, source.account


def _chat(source: SessionSource) -> _Chat:
    return source.platform, source.account, source.chat_id, source.thread_id
