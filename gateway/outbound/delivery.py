"""
From the outbox to the adapter: each part is pending, sending, sent, failed (to be retried) or a
dead letter.

One queue per chat, so that replies keep their order and a chat that has to wait delays no other.
`sending` is committed before the call, because after a crash during it nothing is certain. A part
found in that state is looked for, or edited again (which is idempotent), or sent with a mark that
it may be a repeat.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import count

from turngate.gateway.domain.crashpoints import crashpoint
from turngate.gateway.domain.errors import (
    AlreadySettled,
    Refused,
    StoreError,
    TurngateError,
    Undeliverable,
)
from turngate.gateway.domain.ids import (
    LARGEST_NUMBER,
    PartId,
    TurnId,
)
from turngate.gateway.domain.messages import (
    SessionSource,
    ThreadKey,
)
from turngate.gateway.domain.outbox import (
    Part,
    PartState,
)
from turngate.gateway.domain.ports.adapter import (
    Adapter,
    CallKind,
    PlatformCall,
)
from turngate.gateway.domain.ports.clock import Clock
from turngate.gateway.domain.ports.store import Store
from turngate.gateway.observability.error_text import whole_reason
from turngate.gateway.observability.observer import Observer
from turngate.gateway.outbound.connected_accounts import ConnectedAccounts
from turngate.gateway.outbound.live_message import PreviewSettings, PreviewTarget
from turngate.gateway.outbound.preview import (
    Preview,
    follower_of,
    harmless,
)
from turngate.gateway.outbound.rate_limiter import SEND, RateLimiter
from turngate.gateway.outbound.retry import BACKOFF, decide, pause_after
from turngate.gateway.outbound.send_part import send_part
from turngate.gateway.stores.session_files import discard

_OPEN = (PartState.PENDING, PartState.SENDING, PartState.FAILED)
_LONGEST_WAIT_AT_START = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryRules:
    """How long to retry, how to show growing answers, and the reaction when a turn begins."""

    retry_for: timedelta = timedelta(hours=24)
    stream: bool = True
    drafts: bool = False
    reaction: str | None = None


class Delivery:
    """Sends every part of the outbox to its platform."""

    def __init__(
        self,
        rules: DeliveryRules,
        accounts: ConnectedAccounts,
        store: Store,
        clock: Clock,
        observer: Observer,
        tasks: asyncio.TaskGroup,
    ) -> None:
        self._rules = rules
        self._accounts = accounts
        self._store = store
        self._clock = clock
        self._observer = observer
        self._tasks = tasks
        self.rate_limiter = RateLimiter()
        self._stage = PreviewSettings(
            store=store,
            rate_limiter=self.rate_limiter,
            observer=observer,
            tasks=tasks,
            stream=rules.stream,
            drafts=rules.drafts,
            reaction=rules.reaction,
        )
        self._queues: dict[ThreadKey, _Queue] = {}
        # Previews by turn, for the answer that replaces them; turns by their first message, for
        # `settled`.
        self._previews: dict[TurnId, Preview] = {}
        self._shown: dict[tuple[ThreadKey, str], TurnId] = {}
        self._on_dead: Callable[[PartId], None] = _ignore_dead

    def change(self, rules: DeliveryRules) -> None:
        """Replace the rules for turns that begin and parts that fail from now on."""
        self._rules = rules
        self._stage = replace(
            self._stage, stream=rules.stream, drafts=rules.drafts, reaction=rules.reaction
        )

    def on_dead(self, call: Callable[[PartId], None]) -> None:
        """Set what is called, at once, with each part that is given up."""
        self._on_dead = call

    def preview(
        self,
        target: SessionSource,
        turn: TurnId,
        messages: Sequence[str],
        shown_in: str | None = None,
    ) -> Preview:
        """Start the preview of a turn; `shown_in` is the message that an earlier run used."""
        showing = PreviewTarget(
            target=target, turn=turn, messages=tuple(messages), shown_in=shown_in
        )
        preview = self._previews[turn] = Preview(
            self._accounts.adapter_of(target), showing, self._stage
        )
        self._shown[target.thread_key, messages[0]] = turn

        return preview

    def settled(self, target: SessionSource, messages: Sequence[str]) -> None:
        """End the preview of messages for which nothing more will be sent."""
        turn = self._shown.pop((target.thread_key, messages[0]), None)
        if turn is not None:
            self._tasks.create_task(self._previews.pop(turn).tidy_up(), name="preview")
        follower = follower_of(self._accounts.adapter_of(target))
        if follower is not None:
            with harmless(self._observer):
                follower.settled(target, messages)

    async def recover(self) -> None:
        """Resume what an earlier run left in the outbox."""
        for part in await self._store.outbox(*_OPEN, limit=LARGEST_NUMBER):
            self.enqueue(part)

    def enqueue(self, part: Part) -> None:
        """Send a part of the outbox without waiting for it."""
        self._add_to_queue(part)

    async def deliver(self, parts: Sequence[Part]) -> None:
        """Send in order. Returns when each was tried once, or when the chat has to wait."""
        # All are queued before the first wait, so that no other part gets between them.
        for sending in [self._add_to_queue(part) for part in parts]:
            await sending.tried.wait()

    def _add_to_queue(self, part: Part) -> _Sending:
        sending = _Sending(part)
        chat = part.target.thread_key
        preview = (
            self._previews.get(part.turn)
            if part.turn is not None and part.edits is not None
            else None
        )
        # The answer will replace the preview, so it need not be cleaned up.
        if preview is not None:
            preview.is_replaced = True

        queue = self._queues.get(chat)
        if queue is None:
            queue = self._queues[chat] = _Queue()
            # From now on previews of this chat give way to the answer.
            self.rate_limiter.answer_waits(part.target)
            self._tasks.create_task(self._serve(chat, queue), name="delivery")

        queue.add(sending)
        return sending

    async def _serve(self, chat: ThreadKey, queue: _Queue) -> None:
        target = queue.sendings[0].part.target
        while queue.sendings:
            try:
                await self._send_until_settled(queue)
            except Refused:
                pass  # its session was deleted in the meantime, and the part with it
            except StoreError as exc:
                # Damage: whatever is restored has it in its outbox.
                self._observer.store_failed(exc)
            # An adapter's bug ends this part's try, never the other chats.
            except Exception as exc:  # noqa: BLE001
                self._observer.bug(exc)
            queue.resume()
            if queue.sendings:
                crashpoint("between-parts")

        # No await since the queue was found empty: a part added in between would never be sent.
        del self._queues[chat]
        self.rate_limiter.answer_is_over(target)

    async def _send_until_settled(self, queue: _Queue) -> None:
        part = queue.sendings[0].part
        age = self._age(part)
        wait = self._wait_at_start(part)

        for attempt in count():
            if wait > 0:
                queue.has_to_wait()
                await asyncio.sleep(wait)

            adapter = self._accounts.adapter_of(part.target)
            # Only to tell `deliver` not to wait; the waiting itself is in `_try`.
            if adapter is not None and self.rate_limiter.has_to_wait(
                part.target, adapter.limits, _call_for(part)
            ):
                queue.has_to_wait()

            failure = await self._try(adapter, part)
            if failure is None:
                return

            wait = pause_after(failure, attempt)
            part = await self._record_failure(part, failure, wait, age())
            if part.state is PartState.DEAD:
                self._on_dead(part.id)
                return

    async def _try(self, adapter: Adapter | None, part: Part) -> TurngateError | None:
        """Send once. Returns why it did not arrive, or None."""
        if adapter is None:
            return Refused(
                f"there is no account {part.target.platform}/{part.target.account} in the config "
                "any more"
            )

        # Before `sending` is recorded: a crash while this waits must leave no doubt about the part.
        call = _call_for(part)
        await self.rate_limiter.admit(part.target, adapter.limits, call)
        # Found in `sending`: an earlier attempt may have arrived.
        in_doubt = part.state is PartState.SENDING
        part = await self._store.record_sending(part.id)
        crashpoint("sending")
        try:
            with self.rate_limiter.limited(part.target, adapter.limits, call):
                sent = await send_part(adapter, part, in_doubt=in_doubt, since=self._born(part))
        except TurngateError as exc:
            return exc
        # An adapter's bug: what it did is unknown, so it is not repeated.
        except Exception as exc:  # noqa: BLE001
            self._observer.bug(exc)
            return Undeliverable(f"unexpected error in the adapter: {type(exc).__name__}")

        crashpoint("sent")
        # Recorded after the call. A crash in between leaves `sending`, which is settled at the next
        # start.
        with suppress(AlreadySettled):  # another path may have settled the part
            await self._store.record_sent(part.id, sent)

        self._observer.sent(part)
        await self._discard(part)
        return None

    async def _discard(self, part: Part) -> None:
        """Delete the copy of a file that arrived. If that fails, the sweep deletes it later."""
        if part.file is None:
            return
        try:
            await discard(part.file)
        except OSError as exc:
            self._observer.files_failed(exc)

    async def _record_failure(
        self, part: Part, failure: TurngateError, wait: float, age: float
    ) -> Part:
        """Record why a part was not sent. Returns it with its new state."""
        decision = decide(part, failure, pause=wait, age=age, retry_for=self._rules.retry_for)
        retry_at = None if decision.dead else self._clock.now() + timedelta(seconds=wait)

        # Another path may have settled the part already: a user who deleted its session, a restore.
        with suppress(AlreadySettled):
            await self._store.record_unsent(
                part.id,
                whole_reason(failure),
                retry_at=retry_at,
                in_doubt=decision.in_doubt,
            )

        self._observer.unsent(part, failure, dead=decision.dead)
        return replace(part, state=decision.state, not_before=retry_at)

    def _age(self, part: Part) -> Callable[[], float]:
        """Return a function for the age in seconds: wall clock up to now, monotonic from now on."""
        now = self._clock.now()
        began = self._clock.monotonic()
        before = max((now - (part.created_at or now)).total_seconds(), 0.0)
        return lambda: before + self._clock.monotonic() - began

    def _wait_at_start(self, part: Part) -> float:
        """Return the rest, in seconds, of a pause that an earlier run began."""
        now = self._clock.now()
        left = 0.0 if part.not_before is None else (part.not_before - now).total_seconds()
        # A part from the future: the clock was set back, so its stored time means nothing.
        is_sure = part.created_at is None or part.created_at <= now
        return min(left, _LONGEST_WAIT_AT_START if is_sure else BACKOFF.longest)

    def _born(self, part: Part) -> datetime:
        """Return the earliest time the part can have been sent, even if the clock was set back."""
        now = self._clock.now()
        born = part.created_at or now
        return born if born <= now else now - self._rules.retry_for


def _call_for(part: Part) -> PlatformCall:
    if part.file is not None:
        return PlatformCall(kind=CallKind.FILE)
    if part.edits is not None:
        return PlatformCall(kind=CallKind.EDIT, message_id=part.edits)
    return SEND


def _ignore_dead(part: PartId) -> None:
    """Do nothing: a dead letter is listed by the queue command."""


class _Sending:
    def __init__(self, part: Part) -> None:
        self.part = part
        self.tried = asyncio.Event()


class _Queue:
    """The parts of one chat, in order. While the first has to wait, `deliver` does not."""

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

    def resume(self) -> None:
        self._waits = False
        self.sendings.popleft().tried.set()
