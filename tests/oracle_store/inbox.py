"""Inbound messages, for the store in memory. Its caller holds the lock and tells the time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime

from turngate.gateway.domain.errors import AlreadySettled, UnknownWork
from turngate.gateway.domain.ids import (
    InboxId,
    SessionKey,
    TurnId,
)
from turngate.gateway.domain.messages import InboundMessage, InboxState, MessageKind
from turngate.gateway.domain.store_values import MOST_UNREADABLE, Accepted, InboxItem
from turngate.gateway.stores.texts import scrub, scrubbed
from turngate.gateway.stores.unreadable import with_raw_only

_AT_WORK = (InboxState.WAITING, InboxState.RUNNING)


class MemoryInbox:
    """By number. What was seen outlives its message; what is settled has no words left."""

    def __init__(self, numbers: Iterator[int]) -> None:
        self._numbers = numbers
        self._items: dict[InboxId, InboxItem] = {}
        self._seen: dict[str, tuple[InboxId, datetime]] = {}
        self._settled: dict[InboxId, datetime] = {}

    def accept(self, message: InboundMessage, key: SessionKey, now: datetime) -> Accepted:
        """Unless any of its names was seen before; all of them are from now on."""
        source = message.source
        events = [f"{source.platform}/{source.account}:{event}" for event in message.event_ids]
        known = [self._seen[event][0] for event in events if event in self._seen]
        id_ = min(known) if known else InboxId(next(self._numbers))
        if not known:
            self._items[id_] = InboxItem(
                id=id_,
                key=key,
                message=scrubbed(message),
                state=InboxState.WAITING,
                received_at=now,
            )
        for event in events:
            self._seen.setdefault(event, (id_, now))
        return Accepted(id=id_, duplicate=bool(known))

    def set_aside(
        self, message: InboundMessage, key: SessionKey, reason: str, now: datetime
    ) -> Accepted:
        """A dead letter. The oldest of its kind make room."""
        accepted = self.accept(with_raw_only(message), key, now)
        if not accepted.duplicate:
            self.fail((accepted.id,), InboxState.DEAD, reason)
            for id_ in self._unreadable()[:-MOST_UNREADABLE]:
                del self._items[id_]
        return accepted

    def accept_again(
        self, inbox: InboxId, message: InboundMessage, key: SessionKey, now: datetime
    ) -> Accepted:
        """In the place of the event that it could not be read from."""
        item = self.given_up(inbox)
        if item.message.kind is not MessageKind.UNREADABLE:
            raise AlreadySettled(f"inbound message {inbox} is {item.state}")
        self._items[inbox] = replace(
            item, key=key, message=scrubbed(message), state=InboxState.WAITING, reason=None
        )
        source = message.source
        for event in message.event_ids:
            self._seen.setdefault(f"{source.platform}/{source.account}:{event}", (inbox, now))
        return Accepted(id=inbox, duplicate=False)

    def forget_unreadable(self, before: datetime) -> int:
        """Those that were set aside before then."""
        old = [id_ for id_ in self._unreadable() if self._items[id_].received_at < before]
        for id_ in old:
            del self._items[id_]
        return len(old)

    def _unreadable(self) -> list[InboxId]:
        return sorted(
            id_
            for id_, item in self._items.items()
            if item.message.kind is MessageKind.UNREADABLE and id_ not in self._settled
        )

    def amend(self, inbox: InboxId, text: str) -> bool:
        """Other words for one that still waits for its first turn."""
        item = self._items.get(inbox)
        if item is None or item.state is not InboxState.WAITING:
            return False
        self._items[inbox] = replace(item, message=scrubbed(replace(item.message, text=text)))
        return True

    def items(
        self, states: Sequence[InboxState], limit: int, *, with_settled: bool
    ) -> list[InboxItem]:
        """Oldest first."""
        items = [item for _, item in sorted(self._items.items()) if item.state in states]
        return [item for item in items if with_settled or item.id not in self._settled][
            : max(limit, 0)
        ]

    def existing(self, inbox: InboxId) -> InboxItem:
        """As it stands."""
        item = self._items.get(inbox)
        if item is None:
            raise UnknownWork(f"there is no inbound message {inbox}")
        return item

    def turn_of(self, inbox: Iterable[InboxId]) -> TurnId | None:
        """
        The turn they belong to already. What is settled, unknown, or a mixture that makes no sense
        is refused.
        """
        turns = set()
        for item in map(self.existing, inbox):
            if item.state not in _AT_WORK:
                raise AlreadySettled(f"inbound message {item.id} is {item.state}")
            turns.add(item.turn)
        if len(turns) > 1:
            raise AlreadySettled("some of these messages already belong to a turn, others do not")
        return turns.pop() if turns else None

    def without_turn(self, inbox: InboxId) -> None:
        """Refuse one that no longer waits for its first turn."""
        if self.turn_of((inbox,)) is not None:
            raise AlreadySettled(f"inbound message {inbox} belongs to a turn")

    def begin(self, inbox: Iterable[InboxId], turn: TurnId) -> None:
        """They are being answered."""
        self._change(
            inbox, lambda item: replace(item, state=InboxState.RUNNING, turn=turn, attempts=1)
        )

    def count_attempt(self, inbox: Iterable[InboxId], attempt: int) -> None:
        """Once more."""
        self._change(inbox, lambda item: replace(item, attempts=attempt))

    def fail(self, inbox: Iterable[InboxId], state: InboxState, reason: str) -> None:
        """They keep their words: they may be taken back to work."""
        self._change(inbox, lambda item: replace(item, state=state, reason=scrub(reason)))

    def refuse(self, inbox: Iterable[InboxId], reason: str) -> bool:
        """Those that wait, with their words kept; whether there were any."""
        items = [self._items[id_] for id_ in inbox if id_ in self._items]
        waiting = [
            item.id for item in items if item.state is InboxState.WAITING and item.turn is None
        ]
        self.fail(waiting, InboxState.REFUSED, reason)
        return bool(waiting)

    def settle(
        self, inbox: Sequence[InboxId], state: InboxState, reason: str | None, now: datetime
    ) -> None:
        """The end of them: neither what was said is left nor what people and places are called."""
        why = reason and scrub(reason)
        self._change(
            inbox,
            lambda item: replace(item, state=state, reason=why, message=item.message.wordless),
        )
        for id_ in inbox:
            self._settled.setdefault(id_, now)

    def settled_at(self, inbox: InboxId) -> datetime | None:
        """When it ended."""
        return self._settled.get(inbox)

    def given_up(self, inbox: InboxId) -> InboxItem:
        """One that nobody works on and that still has its words."""
        item = self.existing(inbox)
        if inbox in self._settled or item.state in _AT_WORK:
            raise AlreadySettled(f"inbound message {inbox} is {item.state}")
        return item

    def requeue(self, inbox: Iterable[InboxId], state: InboxState) -> None:
        """Back to work."""
        self._change(inbox, lambda item: replace(item, state=state, attempts=0, reason=None))

    def drop(self, inbox: InboxId, reason: str, now: datetime) -> None:
        """Refused for good, unless somebody works on it."""
        item = self._items.get(inbox)
        if item is None or item.state is not InboxState.WAITING:
            self.given_up(inbox)
        self.settle((inbox,), InboxState.REFUSED, reason, now)

    def find(self, message_id: str) -> list[InboxId]:
        """By what the platform calls it, newest first."""
        wanted = scrub(message_id)
        return sorted(
            (id_ for id_, item in self._items.items() if item.message.id == wanted), reverse=True
        )

    def waiting(self) -> int:
        """How many are not answered yet."""
        return sum(item.state in _AT_WORK for item in self._items.values())

    def dead(self) -> int:
        """How many somebody has to look at."""
        return sum(item.state is InboxState.DEAD for item in self._items.values())

    def oldest(self) -> datetime | None:
        """Since when somebody waits for an answer."""
        return min(
            (item.received_at for item in self._items.values() if item.state in _AT_WORK),
            default=None,
        )

    def forget(self, before: datetime) -> int:
        """
        Those that came before then, with nobody at work on them, and names that no platform repeats
        any more.
        """
        items = [
            n
            for n, item in self._items.items()
            if item.received_at < before and item.state not in _AT_WORK
        ]
        for n in items:
            del self._items[n]
        events = [
            event for event, (n, at) in self._seen.items() if at < before and n not in self._items
        ]
        for event in events:
            del self._seen[event]
        return len(items) + len(events)

    def _change(self, inbox: Iterable[InboxId], change: Callable[[InboxItem], InboxItem]) -> None:
        """Those of them that are not settled yet."""
        for id_ in inbox:
            if id_ not in self._settled and id_ in self._items:
                self._items[id_] = change(self._items[id_])
