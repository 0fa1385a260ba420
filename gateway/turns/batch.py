"""What one turn answers: stored messages that go together, and how whoever works on them is stopped or told more."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from turngate.gateway.domain.messages import InboundMessage, InboxId, TurnId
from turngate.gateway.domain.ports.store import InboxItem
from turngate.gateway.turns.slots import Slot


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """
    A message in the inbox.

    `turn` is the one it already belongs to, if the daemon died during it. `alone`: a command, never answered together
    with others. `recovered`: an earlier run of the daemon had it, and may have done a part of it; `attempts` is how
    often its turn began. `is_surplus`: more than may wait in its lane, and not to be answered.
    """

    id: InboxId
    message: InboundMessage
    turn: TurnId | None = None
    alone: bool = False
    recovered: bool = False
    attempts: int = 0
    is_surplus: bool = False
    is_first_surplus: bool = False

    def is_changed_by(self, edit: InboundMessage) -> bool:
        """Whether it is this message, of this very person, and not yet claimed by a turn."""
        mine, yours = self.message.source, edit.source
        same = self.message.id == edit.id and (mine.chat_id, mine.participant_id) == (
            yours.chat_id,
            yours.participant_id,
        )
        return same and not self.alone and self.turn is None

    @classmethod
    def recovered_from(cls, item: InboxItem, *, alone: bool) -> Stored:
        """A message that an earlier run left."""
        attempts = item.attempts
        return cls(
            id=item.id,
            message=item.message,
            turn=item.turn,
            alone=alone,
            recovered=True,
            attempts=attempts,
        )

    def goes_with(self, other: Stored) -> bool:
        """Whether one turn may answer both."""
        return not (self.alone or other.alone) and self.turn == other.turn


Steer = Callable[[Stored], Awaitable[bool]]


class ActiveBatch:
    """
    A batch whose turn has come. Whoever works on it says how it can be stopped, and when all but the sending is done.

    `runs_once`: an agent is at work that may do harm if it does the same again. `ended_for`: why it was stopped, if not
    because somebody said so. `beside`: not in the lane but next to it, while a turn may run there. `let_go` gives up
    the place that it keeps there. `slot`: the room that it takes from others.
    """

    def __init__(
        self,
        batch: Sequence[Stored],
        *,
        beside: bool = False,
        let_go: Callable[[], None] | None = None,
        slot: Slot | None = None,
    ) -> None:
        self.batch = tuple(batch)
        self.beside = beside
        self._slot = slot
        self.on_stop: Callable[[], None] | None = None
        self.runs_once = False
        self.ended_for: str | None = None
        self._on_steer: Steer | None = None
        self._joined: list[Stored] = []
        self._over: asyncio.Event | None = None
        self._is_over = self.is_answered = False
        self._let_go = let_go
        self._stopped = False

    @property
    def ids(self) -> tuple[str, ...]:
        """What their platform calls these messages, and those that joined them."""
        return tuple(stored.message.id for stored in (*self.batch, *self._joined))

    def answered(self) -> None:
        """The answer is on disk. Whoever sees it may already say the next thing, and must not find the lane busy."""
        self.is_answered = True
        if self._let_go is not None:
            self._let_go()
            self._let_go = None

    def rest(self) -> None:
        """It waits for people, and lets others work meanwhile."""
        if self._slot is not None:
            self._slot.rest()

    async def go_on(self) -> None:
        """Wait until it may work again."""
        if self._slot is not None:
            await self._slot.go_on()

    def stoppable(self, stop: Callable[[], None]) -> None:
        """From now on it can be stopped, and at once if that was asked for before."""
        self.on_stop = stop
        if self._stopped:
            stop()

    def steerable(self, steer: Steer | None) -> None:
        """From now on more can be said to it; with None, no longer."""
        self._on_steer = steer

    async def takes(self, stored: Stored) -> bool:
        """Say one thing more to it. False if it does not listen, or no longer."""
        taken = self._on_steer is not None and await self._on_steer(stored)
        if taken:
            self._joined.append(stored)
        return taken

    def end(self, why: str) -> None:
        """Stop it for a reason that is not a person's, and that he hears."""
        self.ended_for = why
        self.stop()

    def stop(self) -> None:
        """Ask for it; `until_over` tells when what was said has been kept."""
        self._stopped = True
        if self.on_stop is not None:
            self.on_stop()

    def finish(self) -> None:
        """Nothing more comes of it."""
        self.answered()
        self._is_over = True
        if self._over is not None:
            self._over.set()

    async def until_over(self) -> None:
        """Few wait for it, so room for them is made when the first one does."""
        if not self._is_over:
            self._over = self._over or asyncio.Event()
            await self._over.wait()
