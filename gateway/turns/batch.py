"""
The messages that one turn answers together, and how the running work on them is stopped or steered.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from turngate.gateway.domain.ids import InboxId, TurnId
from turngate.gateway.domain.messages import InboundMessage
from turngate.gateway.domain.store_values import InboxItem
from turngate.gateway.turns.slots import Slot


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuedMessage:
    """
    A message in the inbox.

    `turn` is the one it belongs to already, if the daemon died during it. `alone`: a command, never
    answered together with others. `recovered`: an earlier run of the daemon had it and may have
    done part of it; `attempts` is how often its turn began. `is_surplus`: it exceeds the queue
    limit and is refused.
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
        """Return whether an edit changes this message: same sender, and no turn claimed it."""
        mine = self.message.source
        yours = edit.source
        is_sender = (mine.chat_id, mine.participant_id) == (yours.chat_id, yours.participant_id)
        is_same = self.message.id == edit.id and is_sender
        return is_same and not self.alone and self.turn is None

    @classmethod
    def recovered_from(cls, item: InboxItem, *, alone: bool) -> QueuedMessage:
        """Make a queued message from an inbox row of an earlier run."""
        return cls(
            id=item.id,
            message=item.message,
            turn=item.turn,
            alone=alone,
            recovered=True,
            attempts=item.attempts,
        )

    def goes_with(self, other: QueuedMessage) -> bool:
        """Return whether one turn may answer both."""
        return not (self.alone or other.alone) and self.turn == other.turn


@dataclass(slots=True)
class Probation:
    """Whether a turn that was running during a crash runs alone now."""

    is_alone: bool = False


Steer = Callable[[QueuedMessage], Awaitable[bool]]


class ActiveBatch:
    """
    A batch that is being worked on. The worker sets how it can be stopped, and reports when the
    answer is stored.

    `runs_once`: the agent may do harm if it does the same again. `ended_for`: why it was stopped,
    if not by a user. `beside`: it runs beside the lane, while a turn may run in it. `release_hold`
    frees the place it holds in the lane. `slot`: its share of the concurrency limit. `probation`:
    whether a crash would be its fault.
    """

    def __init__(
        self,
        batch: Sequence[QueuedMessage],
        *,
        beside: bool = False,
        release_hold: Callable[[], None] | None = None,
        slot: Slot | None = None,
        probation: Probation | None = None,
    ) -> None:
        self.queued = tuple(batch)
        self._probation = probation
        self.beside = beside
        self._slot = slot
        self.on_stop: Callable[[], None] | None = None
        self.runs_once = False
        self.ended_for: str | None = None
        self._on_steer: Steer | None = None
        self._joined: list[QueuedMessage] = []
        self._over: asyncio.Event | None = None
        self._is_over = self.is_answered = False
        self._release_hold = release_hold
        self._stopped = False

    @property
    def is_alone(self) -> bool:
        """Whether it runs alone because it was running during a crash."""
        return self._probation is not None and self._probation.is_alone

    @property
    def ids(self) -> tuple[str, ...]:
        """The platform's ids of these messages, and of those that joined the turn."""
        return tuple(stored.message.id for stored in (*self.queued, *self._joined))

    @property
    def rows(self) -> frozenset[InboxId]:
        """The inbox rows of these messages, and of those that joined the turn."""
        return frozenset(stored.id for stored in (*self.queued, *self._joined))

    def mark_answered(self) -> None:
        """Free the lane: the answer is stored, and a user who sees it may write at once."""
        self.is_answered = True
        if self._release_hold is not None:
            self._release_hold()
            self._release_hold = None

    async def count_slot_for(self, agent: str) -> None:
        """Count the slot toward the agent that really answers, within that agent's share."""
        if self._slot is not None:
            await self._slot.count_for(agent)

    def release_slot(self) -> None:
        """Give the slot to other turns while this one waits for a user."""
        if self._slot is not None:
            self._slot.release()

    async def reacquire_slot(self) -> None:
        """Wait for a slot again."""
        if self._slot is not None:
            await self._slot.reacquire()

    def stoppable(self, stop: Callable[[], None]) -> None:
        """Set how to stop it. Stops at once if that was asked for before."""
        self.on_stop = stop
        if self._stopped:
            stop()

    def steerable(self, steer: Steer | None) -> None:
        """Set what takes further messages during the turn; None: nothing does any more."""
        self._on_steer = steer

    async def takes(self, stored: QueuedMessage) -> bool:
        """Offer another message to the running turn. False if it does not take it."""
        taken = self._on_steer is not None and await self._on_steer(stored)
        if taken:
            self._joined.append(stored)
        return taken

    def end(self, why: str) -> None:
        """Stop it for a reason that the user is given."""
        self.ended_for = why
        self.stop()

    def stop(self) -> None:
        """Ask it to stop; `until_over` waits until the partial answer is stored."""
        self._stopped = True
        if self.on_stop is not None:
            self.on_stop()

    def finish(self) -> None:
        """End the batch, once all work on it is done."""
        # Work that failed has not marked it, and must not hold its place in the lane for ever.
        self.mark_answered()
        self._is_over = True
        if self._over is not None:
            self._over.set()

    async def until_over(self) -> None:
        """Wait for the end."""
        if not self._is_over:
            # Made by the first waiter: most batches have none.
            self._over = self._over or asyncio.Event()
            await self._over.wait()
