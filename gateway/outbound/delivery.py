"""
Outbox to adapter: every part pending, sending, sent; or failed and tried again; or a dead letter.

One queue per chat, so that replies keep their order and a chat that has to wait delays no other. `sending` is committed
before a part leaves, because after that nobody can know. Whoever finds a part in that state settles the doubt first: by
looking for it, by an edit, which may be made twice, or else by words that say that it may come twice.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial

from turngate.gateway.domain.crashpoints import crashpoint
from turngate.gateway.domain.errors import (
    AlreadySettled,
    Refused,
    Retryable,
    StoreError,
    Throttled,
    TurngateError,
    Undeliverable,
    Unreachable,
)
from turngate.gateway.domain.messages import (
    LARGEST_NUMBER,
    File,
    Part,
    PartId,
    PartState,
    Sent,
    SessionSource,
    TurnId,
)
from turngate.gateway.domain.ports.adapter import (
    Adapter,
    AsksWithButtons,
    Clock,
    EditsMessages,
    FetchesFiles,
    FindsSent,
    Limits,
    LocatesChats,
    SendsFiles,
    can,
)
from turngate.gateway.domain.ports.store import Store
from turngate.gateway.observability.error_text import whole_reason
from turngate.gateway.observability.observer import Observer
from turngate.gateway.outbound.live_message import PreviewSettings, Showing
from turngate.gateway.outbound.preview import Preview, follower_of, harmless
from turngate.gateway.outbound.rate_limiter import RateLimiter
from turngate.gateway.stores.session_files import discard, is_there
from turngate.gateway.stores.waiting_store import until_stored

_OPEN = (PartState.PENDING, PartState.SENDING, PartState.FAILED)
_REPEAT = "(possible repeat)\n\n"
ROOM_FOR_MARK = 2 * len(_REPEAT)
"""A part leaves so much of its platform's limit to the mark that it may be sent with."""

_FIRST_PAUSE, _LONGEST_PAUSE = 2.0, 60.0
_LONGEST_WAIT_AT_START = 3600.0

_Account = tuple[str, str]
_Chat = tuple[str, str, str | None, str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryRules:
    """How long to try, whether to show answers while they grow, and what to put on a message whose turn begins."""

    retry_for: timedelta = timedelta(hours=24)
    stream: bool = True
    drafts: bool = False
    reaction: str | None = None


class Delivery:
    """Owns every part from the outbox to its platform."""

    def __init__(
        self,
        rules: DeliveryRules,
        store: Store,
        clock: Clock,
        observer: Observer,
        tasks: asyncio.TaskGroup,
    ) -> None:
        self._rules = rules
        self._store = store
        self._clock = clock
        self._observer = observer
        self._tasks = tasks
        self._governor = RateLimiter()
        self._stage = PreviewSettings(
            store=store,
            governor=self._governor,
            observer=observer,
            tasks=tasks,
            stream=rules.stream,
            drafts=rules.drafts,
            reaction=rules.reaction,
        )
        self._adapters: dict[_Account, Adapter] = {}
        self._queues: dict[_Chat, _Queue] = {}
        self._previews: dict[TurnId, Preview] = {}
        self._shown: dict[tuple[_Chat, str], TurnId] = {}
        self._tell_of_dead: Callable[[PartId], None] = _nobody_is_told

    def change(self, rules: DeliveryRules) -> None:
        """Other rules from now on, for the turns that begin and the parts that fail."""
        self._rules = rules
        self._stage = replace(
            self._stage, stream=rules.stream, drafts=rules.drafts, reaction=rules.reaction
        )

    def connect(self, adapters: Mapping[_Account, Adapter]) -> None:
        """The accounts there are, by platform and name."""
        self._adapters.update(adapters)

    def when_dead(self, tell: Callable[[PartId], None]) -> None:
        """Whom to tell, at once, of parts that are given up."""
        self._tell_of_dead = tell

    def limits(self, source: SessionSource) -> Limits | None:
        """What can be sent there at once; None if its account is gone."""
        adapter = self._adapters.get(_account(source))
        return None if adapter is None else adapter.limits

    def takes_files(self, source: SessionSource) -> bool:
        """Whether files can be sent there."""
        return can(self._adapters.get(_account(source)), SendsFiles)

    def has_buttons(self, source: SessionSource) -> bool:
        """Whether a question can be asked there with buttons."""
        return can(self._adapters.get(_account(source)), AsksWithButtons)

    def place(self, platform: str, account: str, chat: str, thread: str | None) -> SessionSource:
        """A chat by its id alone, as its platform would name it in a message. Raises Refused if nobody is there."""
        adapter: object = self._adapters.get((platform, account))
        if not can(adapter, LocatesChats):
            raise Refused(f"nothing can be sent to {platform}/{account} from here")
        return adapter.place(chat, thread)

    def fetcher(self, source: SessionSource) -> FetchesFiles | None:
        """Whoever can fetch what was sent from there."""
        adapter: object = self._adapters.get(_account(source))
        return adapter if can(adapter, FetchesFiles) else None

    def preview(
        self,
        target: SessionSource,
        turn: TurnId,
        messages: Sequence[str],
        shown_in: str | None = None,
    ) -> Preview:
        """What is shown of a turn while it runs; `shown_in` is the message that shows what an earlier run had of it."""
        showing = Showing(target=target, turn=turn, messages=tuple(messages), shown_in=shown_in)
        preview = self._previews[turn] = Preview(
            self._adapters.get(_account(target)), showing, self._stage
        )
        self._shown[_chat(target), messages[0]] = turn
        return preview

    def settled(self, target: SessionSource, messages: Sequence[str]) -> None:
        """Nothing more comes for these messages."""
        turn = self._shown.pop((_chat(target), messages[0]), None)
        if turn is not None:
            self._tasks.create_task(self._previews.pop(turn).tidy_up(), name="preview")
        follower = follower_of(self._adapters.get(_account(target)))
        if follower is not None:
            with harmless(self._observer):
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
        preview = (
            self._previews.get(part.turn)
            if part.turn is not None and part.edits is not None
            else None
        )
        if preview is not None:
            preview.is_replaced = True
        queue = self._queues.get(chat)
        if queue is None:
            queue = self._queues[chat] = _Queue()
            self._governor.answer_waits(part.target)
            self._tasks.create_task(self._serve(chat, queue), name="delivery")
        queue.add(sending)
        return sending

    async def _serve(self, chat: _Chat, queue: _Queue) -> None:
        target = queue.sendings[0].part.target
        while queue.sendings:
            try:
                await self._send_until_settled(queue)
            except Refused:
                pass  # its session was deleted meanwhile, and the part with it
            except StoreError as exc:
                self._observer.store_failed(
                    exc
                )  # damage: whatever is restored has it in its outbox
            except Exception as exc:  # noqa: BLE001 - an adapter's bug ends this part's try, never the other chats
                self._observer.bug(exc)
            queue.go_on()
            if queue.sendings:
                crashpoint("between-parts")
        del self._queues[chat]
        self._governor.answer_is_over(target)

    async def _send_until_settled(self, queue: _Queue) -> None:
        part, pause = queue.sendings[0].part, _FIRST_PAUSE
        age, wait = self._age(part), self._wait_at_start(part)
        while True:
            if wait > 0:
                queue.has_to_wait()
                await asyncio.sleep(wait)
            adapter = self._adapters.get(_account(part.target))
            if adapter is not None and self._governor.has_to_wait(part.target, adapter.limits):
                queue.has_to_wait()
            failure = await self._try(adapter, part)
            if failure is None:
                return
            wait = _pause(failure, pause)
            pause = min(pause * 2, _LONGEST_PAUSE)
            part = await self._record_failure(part, failure, wait, age())
            if part.state is PartState.DEAD:
                self._tell_of_dead(part.id)
                return

    async def _try(self, adapter: Adapter | None, part: Part) -> TurngateError | None:
        """Send once. Returns why it did not arrive, or None."""
        if adapter is None:
            return Refused(
                f"there is no account {'/'.join(_account(part.target))} in the config any more"
            )
        await self._governor.admit(part.target, adapter.limits)
        in_doubt, part_id = part.state is PartState.SENDING, part.id
        part = await until_stored(lambda: self._store.record_sending(part_id), self._observer)
        crashpoint("sending")
        try:
            with self._governor.heeding(part.target):
                sent = await _hand_over(adapter, part, in_doubt=in_doubt, since=self._born(part))
        except TurngateError as exc:
            return exc
        except Exception as exc:  # noqa: BLE001 - an adapter's bug: nobody knows what it did, so it is not done again
            self._observer.bug(exc)
            return Undeliverable(f"the adapter broke down: {type(exc).__name__}")
        crashpoint("sent")
        with suppress(AlreadySettled):  # a part is settled once, whoever does it
            await until_stored(lambda: self._store.record_sent(part.id, sent), self._observer)
        self._observer.sent(part)
        await self._discard(part)
        return None

    async def _discard(self, part: Part) -> None:
        """Of a file that arrived, the copy. What cannot be deleted now is swept later."""
        if part.file is None:
            return
        try:
            await discard(part.file)
        except OSError as exc:
            self._observer.files_failed(exc)

    async def _record_failure(
        self, part: Part, failure: TurngateError, wait: float, age: float
    ) -> Part:
        """A part in doubt stays in `sending`: marked as failed, it would be sent again as if it could not be there."""
        dead = (
            not isinstance(failure, Retryable) or wait > self._rules.retry_for.total_seconds() - age
        )
        retry_at = None if dead else self._clock.now() + timedelta(seconds=wait)
        in_doubt = part.state is PartState.SENDING or isinstance(failure, Unreachable)
        reason = whole_reason(failure)
        with suppress(AlreadySettled):
            recording = partial(
                self._store.record_unsent, part.id, reason, retry_at=retry_at, in_doubt=in_doubt
            )
            await until_stored(recording, self._observer)
        self._observer.unsent(part, failure, dead=dead)
        state = PartState.DEAD if dead else PartState.SENDING if in_doubt else PartState.FAILED
        return replace(part, state=state, not_before=retry_at)

    def _age(self, part: Part) -> Callable[[], float]:
        """How old it is, in seconds: by the time of day as of now, and from now on by what really passes."""
        now, began = self._clock.now(), self._clock.monotonic()
        before = max((now - (part.created_at or now)).total_seconds(), 0.0)
        return lambda: before + self._clock.monotonic() - began

    def _wait_at_start(self, part: Part) -> float:
        """What is left of the pause that an earlier run began; if the clock was set back since, a usual one."""
        now = self._clock.now()
        left = 0.0 if part.not_before is None else (part.not_before - now).total_seconds()
        is_sure = part.created_at is None or part.created_at <= now
        return min(left, _LONGEST_WAIT_AT_START if is_sure else _LONGEST_PAUSE)

    def _born(self, part: Part) -> datetime:
        """When there was nothing of it yet. If the clock was set back since nobody knows, but none lives for ever."""
        now = self._clock.now()
        born = part.created_at or now
        return born if born <= now else now - self._rules.retry_for


async def _hand_over(adapter: Adapter, part: Part, *, in_doubt: bool, since: datetime) -> Sent:
    """
    To the platform, as it was meant to arrive: in the place of its preview, or as a new message.

    An edit settles a doubt by itself: made twice, it is still one message. If its message is gone, a new one is sent.
    """
    if part.file is not None:
        return await _hand_over_file(adapter, part, part.file, in_doubt=in_doubt, since=since)
    if part.edits is not None and can(adapter, EditsMessages):
        with suppress(Undeliverable):
            return await adapter.edit(part, part.edits)
    if in_doubt:
        return await _settle_doubt(adapter, part, since)
    return await _send(adapter, part)


async def _send(adapter: Adapter, part: Part) -> Sent:
    if part.buttons and can(adapter, AsksWithButtons):
        return await adapter.ask(part)
    return await adapter.send(part)


async def _hand_over_file(
    adapter: Adapter, part: Part, file: File, *, in_doubt: bool, since: datetime
) -> Sent:
    """With its caption; where no file can be sent, in words. The copy may be gone: disks are tidied up by many."""
    if in_doubt and can(adapter, FindsSent):
        found = await adapter.find_sent(part, since)
        if found is not None:
            return found
    elif in_doubt:
        part = replace(part, text=(_REPEAT + part.text).rstrip())
    if not can(adapter, SendsFiles):
        return await adapter.send(_in_words(part, file))
    if not await is_there(file):
        raise Undeliverable("its file is no longer there")
    return await adapter.send_file(part)


def _in_words(part: Part, file: File) -> Part:
    words = f"(a file was made here: {file.name or 'without a name'}; this platform cannot show it)"
    return replace(part, text=f"{part.text}\n\n{words}".strip(), file=None)


async def _settle_doubt(adapter: Adapter, part: Part, since: datetime) -> Sent:
    """It may have arrived: look for it, and if nobody can, say that it may come twice."""
    finder: object = adapter
    if can(finder, FindsSent):
        return await finder.find_sent(part, since) or await _send(adapter, part)
    return await _send(adapter, replace(part, text=_REPEAT + part.text))


def _nobody_is_told(part: PartId) -> None:
    """A dead letter shows in the queue."""


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


def _account(source: SessionSource) -> _Account:
    return source.platform, source.account


def _chat(source: SessionSource) -> _Chat:
    return source.platform, source.account, source.chat_id, source.thread_id
