"""
What goes out, and what became of it, for the store in memory. Its caller holds the lock and tells
the time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from turngate.gateway.domain.errors import AlreadySettled, UnknownWork
from turngate.gateway.domain.ids import (
    PartId,
    SessionId,
    TurnId,
)
from turngate.gateway.domain.outbox import (
    Part,
    PartState,
    Sent,
)
from turngate.gateway.domain.store_values import InboxItem, Step
from turngate.gateway.stores.texts import on_one_line, scrubbed

_UNSENT = (PartState.PENDING, PartState.SENDING, PartState.FAILED)


@dataclass(slots=True)
class Outgoing:
    """A part as it stands, and how it came there."""

    session: SessionId | None
    part: Part
    born: datetime
    steps: list[Step] = field(default_factory=list)


class MemoryOutbox:
    """By number. What a part asks is not kept here: it must outlast its sending."""

    def __init__(self, numbers: Iterator[int]) -> None:
        self._numbers = numbers
        self._outgoing: dict[PartId, Outgoing] = {}

    def put(
        self, session: SessionId | None, turn: TurnId | None, part: Part, now: datetime
    ) -> Part:
        """At the end, as if it had never been tried."""
        new = replace(
            part, state=PartState.PENDING, attempts=0, sent_id=None, reason=None, not_before=None
        )
        id_ = PartId(next(self._numbers))
        stored = scrubbed(replace(new, id=id_, session=session, turn=turn, created_at=now))
        self._outgoing[stored.id] = Outgoing(session, replace(stored, question=None), now)
        return stored

    def parts(self, states: Sequence[PartState], limit: int) -> list[Part]:
        """Oldest first."""
        return [out.part for _, out in sorted(self._outgoing.items()) if out.part.state in states][
            : max(limit, 0)
        ]

    def record_sending(self, part: PartId, now: datetime) -> Part:
        """Before it leaves."""
        return self._change(
            part,
            lambda found: replace(found, state=PartState.SENDING, attempts=found.attempts + 1),
            Step(at=now, step="sending"),
        )

    def record_sent(self, part: PartId, sent: Sent) -> None:
        """It arrived; its words live on in the transcript alone."""
        self._change(
            part,
            lambda found: replace(
                found, state=PartState.SENT, sent_id=sent.message_id, text="", file=None, buttons=()
            ),
            Step(at=sent.at, step="sent", detail=sent.message_id),
        )

    def record_unsent(
        self, part: PartId, reason: str, retry_at: datetime | None, now: datetime, *, in_doubt: bool
    ) -> None:
        """It did not, or nobody knows: to be tried again, or a dead letter."""
        state = (
            PartState.DEAD
            if retry_at is None
            else PartState.SENDING
            if in_doubt
            else PartState.FAILED
        )
        self._change(
            part,
            lambda found: replace(found, state=state, reason=reason, not_before=retry_at),
            Step(
                at=now,
                step="in doubt" if state is PartState.SENDING else state.value,
                detail=reason,
            ),
        )

    def requeue(self, part: PartId, now: datetime) -> Part:
        """Back to work."""
        found = self._given_up(part)
        found.part = replace(found.part, state=PartState.PENDING, not_before=None)
        found.steps.append(Step(at=now, step="requeued"))
        return found.part

    def drop(self, part: PartId) -> None:
        """Unless it is on its way or has arrived."""
        found = self._outgoing.get(part)
        if found is None or found.part.state is not PartState.PENDING:
            self._given_up(part)
        del self._outgoing[part]

    def take_back(self, parts: Iterable[PartId]) -> None:
        """Those of them that have not left yet."""
        for part in parts:
            found = self._outgoing.get(part)
            if found is not None and found.part.state in (PartState.PENDING, PartState.FAILED):
                del self._outgoing[part]

    def drop_unsent_of(self, session: SessionId) -> None:
        """Its session is gone."""
        self._drop(lambda out: out.session == session and out.part.state is not PartState.SENT)

    def has_unsent_of(self, session: SessionId) -> bool:
        """Whether something of that session may still leave."""
        return any(
            out.session == session and out.part.state in _UNSENT for out in self._outgoing.values()
        )

    def sent_id(self, part: PartId) -> str | None:
        """What the platform calls it."""
        found = self._outgoing.get(part)
        return found.part.sent_id if found else None

    def about(self, item: InboxItem, settled_at: datetime | None) -> list[Outgoing]:
        """What its turn said; or, where it had none, what was said to it when it was settled."""
        return [
            out
            for _, out in sorted(self._outgoing.items())
            if (item.turn is not None and out.part.turn == item.turn)
            or (
                out.part.turn is None
                and out.born == settled_at
                and out.part.reply_to == item.message.id
            )
        ]

    def waiting(self) -> int:
        """How many have not arrived yet."""
        return sum(out.part.state in _UNSENT for out in self._outgoing.values())

    def dead(self) -> int:
        """How many somebody has to look at."""
        return sum(out.part.state is PartState.DEAD for out in self._outgoing.values())

    def oldest(self) -> datetime | None:
        """Since when something waits to be sent."""
        parts = [out.part for out in self._outgoing.values() if out.part.state in _UNSENT]
        return min((part.created_at for part in parts if part.created_at), default=None)

    def forget(self, before: datetime) -> int:
        """Those from before then that arrived or never will."""
        given_up = (PartState.SENT, PartState.DEAD)
        return self._drop(lambda out: out.born < before and out.part.state in given_up)

    def _change(self, part: PartId, change: Callable[[Part], Part], step: Step) -> Part:
        found = self._existing(part)
        if found.part.state in (PartState.SENT, PartState.DEAD):
            raise AlreadySettled(f"part {part} is {found.part.state}")
        found.part = scrubbed(change(found.part))
        found.steps.append(replace(step, detail=on_one_line(step.detail)))
        return found.part

    def _given_up(self, part: PartId) -> Outgoing:
        found = self._existing(part)
        if found.part.state not in (PartState.FAILED, PartState.DEAD):
            raise AlreadySettled(f"part {part} is {found.part.state}")
        return found

    def _existing(self, part: PartId) -> Outgoing:
        found = self._outgoing.get(part)
        if found is None:
            raise UnknownWork(f"there is no part {part}; its session may have been deleted")
        return found

    def _drop(self, which: Callable[[Outgoing], bool]) -> int:
        gone = [id_ for id_, out in self._outgoing.items() if which(out)]
        for id_ in gone:
            del self._outgoing[id_]
        return len(gone)
