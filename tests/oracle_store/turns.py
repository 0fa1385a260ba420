"""Turns, for the store in memory. Its caller holds the lock and tells the time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from turngate.gateway.domain.errors import AlreadySettled, UnknownWork
from turngate.gateway.domain.ids import (
    EntryId,
    InboxId,
    SessionId,
    TurnId,
)
from turngate.gateway.domain.store_values import (
    Claim,
    Outcome,
    Step,
)
from turngate.gateway.domain.transcript import Entry
from turngate.gateway.stores.texts import on_one_line, scrub


@dataclass(slots=True)
class MemoryTurn:
    """What it answers, in which run of the daemon, and how it has gone so far."""

    session: SessionId
    first_seq: int
    inbox: tuple[InboxId, ...]
    run: int
    said: tuple[EntryId, ...]
    repeatable: bool
    steps: list[Step]
    state: str = "running"
    attempt: int = 1
    preview: str | None = None
    alone: bool = False
    alone_crashes: int = 0


class MemoryTurns:
    """By number, until their session is deleted."""

    def __init__(self, numbers: Iterator[int]) -> None:
        self._numbers = numbers
        self._turns: dict[TurnId, MemoryTurn] = {}

    def __getitem__(self, turn: TurnId) -> MemoryTurn:
        return self._turns[turn]

    def start(
        self, session: SessionId, said: Sequence[Entry], claim: Claim, run: int, now: datetime
    ) -> TurnId:
        """One that runs."""
        turn = TurnId(next(self._numbers))
        self._turns[turn] = MemoryTurn(
            session,
            said[0].seq if said else next(self._numbers),
            claim.inbox,
            run,
            said=tuple(entry.id for entry in said),
            repeatable=claim.repeatable,
            steps=[Step(at=now, step="claimed")],
        )
        return turn

    def start_again(self, turn: TurnId, run: int, now: datetime, *, alone: bool) -> MemoryTurn:
        """Once more, after the daemon died during it."""
        found = self._turns[turn]
        if found.run == run:
            raise AlreadySettled(f"turn {turn} is being worked on")
        found.run = run
        found.alone = alone
        found.attempt += 1
        found.steps.append(Step(at=now, step="claimed again"))
        return found

    def count_crash(self, run: int | None) -> None:
        """A crash counts against the turn that ran alone in it, or shows another cause."""
        suspects = [turn for turn in self._turns.values() if turn.state == "running"]
        ran = [turn for turn in suspects if turn.run == run]
        for turn in suspects:
            if run is not None and not ran:
                turn.alone_crashes = 0
            turn.alone_crashes += turn in ran and turn.alone
            turn.alone = False

    def end_alone(self, turn: TurnId) -> None:
        """Others may run beside it."""
        if turn in self._turns:
            self._turns[turn].alone = False

    def running(self, turn: TurnId) -> MemoryTurn:
        """One that may still be finished."""
        found = self._turns.get(turn)
        if found is None:
            raise UnknownWork(f"there is no turn {turn}; its session may have been deleted")
        if found.state != "running":
            raise AlreadySettled(f"turn {turn} is {found.state}")
        return found

    def extend(self, turn: TurnId, inbox: InboxId, said: Sequence[Entry], now: datetime) -> None:
        """It answers one message more."""
        found = self._turns[turn]
        found.inbox = (*found.inbox, inbox)
        found.said = (*found.said, *(entry.id for entry in said))
        found.steps.append(Step(at=now, step="joined"))

    def end(self, turn: TurnId, outcome: Outcome, now: datetime) -> None:
        """It is over."""
        found = self._turns[turn]
        if outcome.failure is None:
            found.state = "done"
            found.steps.append(Step(at=now, step="finished"))
        else:
            found.state = "failed"
            found.steps.append(
                Step(at=now, step=outcome.state.value, detail=on_one_line(outcome.failure))
            )

    def record_tool(self, turn: TurnId) -> None:
        """It must not run again."""
        self.running(turn).repeatable = False

    def record_preview(self, turn: TurnId, message_id: str) -> None:
        """Where it is being shown."""
        self.running(turn).preview = scrub(message_id)

    def requeue(self, turn: TurnId, now: datetime) -> MemoryTurn:
        """As if its daemon had died during it, before the first attempt."""
        found = self._turns[turn]
        found.state, found.run, found.attempt = "running", 0, 0
        found.alone_crashes = 0
        found.steps.append(Step(at=now, step="requeued"))
        return found

    def find(self, turn: TurnId | None) -> MemoryTurn | None:
        """Unless there was none, or its session was deleted."""
        return self._turns.get(turn) if turn is not None else None

    def is_running_in(self, session: SessionId) -> bool:
        """Whether that session is being worked on."""
        return any(
            turn.session == session and turn.state == "running" for turn in self._turns.values()
        )

    def drop_of(self, session: SessionId) -> list[MemoryTurn]:
        """
        Its session is gone; they are handed back, because what they did not answer waits for its
        end.
        """
        gone = [id_ for id_, turn in self._turns.items() if turn.session == session]
        return [self._turns.pop(id_) for id_ in gone]
