"""
`queue` and `trace`: inbound and outbound work, its history, and retries of what was given up.

An inbound row is named `in12`, an outbound one `out7`, so that neither is mistaken for the other or
for a platform's message id.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from datetime import datetime

from turngate.gateway.daemon.control.requests import (
    Args,
    Line,
    Requests,
    taking,
)
from turngate.gateway.domain.errors import (
    Refused,
    TurngateError,
    UnknownSession,
    UnknownWork,
)
from turngate.gateway.domain.ids import (
    LARGEST_NUMBER,
    InboxId,
    PartId,
    SessionKey,
)
from turngate.gateway.domain.messages import InboxState, MessageKind
from turngate.gateway.domain.outbox import Part, PartState
from turngate.gateway.domain.ports.clock import Clock
from turngate.gateway.domain.ports.store import Store
from turngate.gateway.domain.serialization import Json
from turngate.gateway.domain.store_values import (
    InboxItem,
    Step,
    Trace,
)
from turngate.gateway.rules.authorization import Refusal

_MOST_LISTED = 1000
_NOT_SENT = (PartState.PENDING, PartState.SENDING, PartState.FAILED, PartState.DEAD)
_NAME = re.compile(r"(?P<table>in|out)(?P<number>[0-9]{1,18})")
_TURNED_AWAY = frozenset(refusal.value for refusal in Refusal)
_BY_HAND = "dropped by hand"

Resume = Callable[[InboxItem], None]
RemoveFromLane = Callable[[SessionKey, InboxId], bool]
SendOn = Callable[[Part], None]
ReadAgain = Callable[[InboxItem], Awaitable[None]]


async def needs_daemon(item: InboxItem) -> None:
    """Refuse to convert an event again: no account is connected here."""
    raise Refused(
        f"in{item.id} is an event that could not be read, and only a running daemon can read it "
        "again; start it with `turngate run`, then retry"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkArgs:
    """The name of one row: `in12`, `out7`, or for `trace` a platform's message id."""

    id: str


def queue_requests(
    store: Store,
    clock: Clock,
    resume: Resume = lambda item: None,
    send_on: SendOn = lambda part: None,
    remove_from_lane: RemoveFromLane = lambda key, inbox: False,
    read_again: ReadAgain = needs_daemon,
) -> Requests:
    """
    Return the verbs by name. In a daemon `resume` and `send_on` resume requeued work, which
    otherwise waits for the next start, `remove_from_lane` removes a dropped message from its lane,
    and `read_again` takes in an event that could not be converted before.
    """
    verbs = _QueueVerbs(store, clock, resume, send_on, remove_from_lane, read_again)
    return {
        "queue.list": verbs.list,
        "queue.show": taking(WorkArgs, verbs.show),
        "queue.retry": taking(WorkArgs, verbs.retry),
        "queue.drop": taking(WorkArgs, verbs.drop),
        "trace": taking(WorkArgs, verbs.trace),
    }


class _QueueVerbs:
    def __init__(
        self,
        store: Store,
        clock: Clock,
        resume: Resume,
        send_on: SendOn,
        remove_from_lane: RemoveFromLane,
        read_again: ReadAgain,
    ) -> None:
        self._store = store
        self._clock = clock
        self._resume = resume
        self._send_on = send_on
        self._remove_from_lane = remove_from_lane
        self._read_again = read_again

    async def list(self, args: Args, line: Line) -> Json:
        """
        Return all work that is not done, and dead letters. The names are part of the contract.
        """
        now = self._clock.now()
        given_up = (InboxState.FAILED, InboxState.DEAD, InboxState.REFUSED)
        states = (InboxState.WAITING, InboxState.RUNNING, *given_up)
        items = await self._store.inbox(*states, limit=_MOST_LISTED, with_settled=False)
        parts = await self._store.outbox(*_NOT_SENT, limit=_MOST_LISTED)
        keys = await self._keys(parts)

        return {
            "inbox": [_item_json(item, now) for item in items],
            "outbox": [_part_json(part, keys, now) for part in parts],
        }

    async def show(self, asked: WorkArgs, line: Line) -> Json:
        """Return one row with its text; for an inbound one also its steps."""
        table, number = _row(asked.id)
        now = self._clock.now()
        if table == "in":
            trace = await self._store.trace(InboxId(number))
            message = trace.item.message
            return {
                **_item_json(trace.item, now),
                "text": message.text,
                "raw": message.raw,
                "steps": _steps_json(trace.steps),
            }
        part = await self._part(PartId(number))
        keys = await self._keys([part])
        return {**_part_json(part, keys, now), "text": part.text}

    async def retry(self, asked: WorkArgs, line: Line) -> Json:
        """Requeue one row and, in a daemon, resume it."""
        table, number = _row(asked.id)
        now = self._clock.now()
        if table == "in":
            return _item_json(await self._retry(InboxId(number)), now)
        part = await self._store.requeue_part(PartId(number))
        self._send_on(part)
        return _part_json(part, await self._keys([part]), now)

    async def _retry(self, inbox: InboxId) -> InboxItem:
        item = (await self._store.trace(inbox)).item
        is_dead = item.state is InboxState.DEAD
        if is_dead and item.message.kind is MessageKind.UNREADABLE:
            await self._read_again(item)
            return (await self._store.trace(inbox)).item

        item = await self._store.requeue(inbox)
        self._resume(item)
        return item

    async def drop(self, asked: WorkArgs, line: Line) -> Json:
        """Give up one row for good."""
        table, number = _row(asked.id)
        if table == "in":
            await self._drop(InboxId(number))
        else:
            await self._store.drop_part(PartId(number), _BY_HAND)
        return {"id": asked.id}

    async def _drop(self, inbox: InboxId) -> None:
        """Remove a message from its lane, then drop it. Put it back if the store refuses."""
        item = (await self._store.trace(inbox)).item
        # Out of the lane first: a batch with a dropped row fails, and its other messages would stay
        # unanswered until the next start.
        waited = self._remove_from_lane(item.key, inbox)

        try:
            await self._store.drop(inbox, _BY_HAND)
        except TurngateError:
            if waited:
                self._resume(item)
            raise

    async def trace(self, asked: WorkArgs, line: Line) -> Json:
        """Return the steps of one message. The names are part of the contract."""
        trace = await self._store.trace(await self._find(asked.id))
        return {
            "message": {
                **_item_json(trace.item, self._clock.now()),
                "message_id": trace.item.message.id,
                "session": trace.session,
            },
            "steps": _steps_json(_whole_life(trace)),
        }

    async def _find(self, written: str) -> InboxId:
        """Return the row with our name for it, else with the platform's message id."""
        ours = _NAME.fullmatch(written)
        if ours is not None and ours["table"] == "in":
            return InboxId(int(ours["number"]))

        found = await self._store.find(written)
        if not found:
            raise UnknownWork(
                f"there is no message {written}; it may be older than what is kept, or never "
                "came here"
            )

        if len(found) > 1:
            told = ", ".join(f"in{number}" for number in found[:10])
            raise Refused(f"{len(found)} messages are called {written}: {told}; trace one of these")

        return found[0]

    async def _part(self, number: PartId) -> Part:
        for part in await self._store.outbox(*_NOT_SENT, limit=LARGEST_NUMBER):
            if part.id == number:
                return part
        raise UnknownWork(
            f"there is no part out{number} on its way or given up; what was sent is in the "
            "transcript"
        )

    async def _keys(self, parts: Iterable[Part]) -> dict[str, SessionKey]:
        keys: dict[str, SessionKey] = {}
        for session in {part.session for part in parts if part.session}:
            try:
                keys[session] = (await self._store.session(session)).key
            except UnknownSession:
                continue  # deleted since the parts were read: it has no key any more
        return keys


def _row(written: str) -> tuple[str, int]:
    name = _NAME.fullmatch(written)
    if name is None:
        raise Refused(
            f"{written} is no row of the queue; `turngate queue list` shows names such as in12 "
            "and out7"
        )
    return name["table"], int(name["number"])


def _whole_life(trace: Trace) -> list[Step]:
    came = Step(
        at=trace.item.received_at, step="received", detail=trace.item.message.source.platform
    )
    # A message that was not authorized was refused on arrival, before any turn.
    if trace.item.reason in _TURNED_AWAY:
        return [came, Step(at=trace.item.received_at, step="refused", detail=trace.item.reason)]

    admitted = Step(at=trace.item.received_at, step="admitted")
    steps = [came, admitted, *trace.steps]

    if trace.item.state is InboxState.REFUSED and not any(step.step == "refused" for step in steps):
        steps.append(
            Step(at=trace.item.received_at, step="refused", detail=trace.item.reason or "")
        )

    return sorted(steps, key=lambda step: step.at)


def _steps_json(steps: Iterable[Step]) -> Json:
    return [{"at": step.at.isoformat(), "step": step.step, "detail": step.detail} for step in steps]


def _item_json(item: InboxItem, now: datetime) -> dict[str, Json]:
    return {
        "id": f"in{item.id}",
        "key": item.key,
        "state": item.state.value,
        "age_s": round((now - item.received_at).total_seconds(), 3),
        "attempts": item.attempts,
        "reason": item.reason,
    }


def _part_json(part: Part, keys: dict[str, SessionKey], now: datetime) -> dict[str, Json]:
    return {
        "id": f"out{part.id}",
        "key": keys.get(part.session or ""),
        "state": part.state.value,
        "age_s": round((now - (part.created_at or now)).total_seconds(), 3),
        "attempts": part.attempts,
        "reason": part.reason,
    }
