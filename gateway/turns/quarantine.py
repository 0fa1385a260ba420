"""
Turns that were running during a crash run again one at a time, before anything else begins.

A crash says nothing about a turn that merely ran at that moment. Run alone, the one that causes
crashes is found, and no other is blamed for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager

from turngate.gateway.domain.backoff import Backoff
from turngate.gateway.domain.ids import TurnId
from turngate.gateway.turns.batch import Probation

# Seconds before the first suspect runs. A process that is killed again and again from outside
# mostly dies in this pause, while no turn runs, which clears all suspects.
_BEFORE_THE_FIRST = Backoff(first=0.5, longest=10.0)
# Seconds that a suspect runs alone. Longer after each crash, so that one that causes a crash late
# is found as well, and a long healthy turn holds others up for a short time only.
_ALONE = Backoff(first=5.0, longest=900.0)


class Quarantine:
    """Lets one suspect run at a time, and everything else when all suspects are cleared."""

    def __init__(
        self, end_alone: Callable[[TurnId], Awaitable[None]], tasks: asyncio.TaskGroup
    ) -> None:
        self._end_alone = end_alone
        self._tasks = tasks
        self._suspects: dict[TurnId, asyncio.Event] = {}
        self._no_suspects = asyncio.Event()
        self._no_suspects.set()
        self._running = 0

    def begin(self, suspects: Iterable[TurnId], crashes: int) -> None:
        """
        Hold everything back until these turns have run. `crashes`: how many in a row.

        A crash loop without suspects has another cause; it is slowed down all the same.
        """
        self._suspects = {turn: asyncio.Event() for turn in suspects}
        if not self._suspects and crashes < 2:
            return

        self._no_suspects.clear()
        pause = _BEFORE_THE_FIRST.pause(2 * (crashes - 1))
        self._tasks.create_task(self._admit_first_after(pause), name="quarantine")

    def clear(self, turn: TurnId | None) -> None:
        """Suspect a turn no longer: it ended, survived for long enough, or does not run at all."""
        if turn is None or self._suspects.pop(turn, None) is None:
            return
        self._admit_next()

    @asynccontextmanager
    async def enter(self, turn: TurnId | None, attempts: int) -> AsyncIterator[Probation]:
        """Wait until a turn that began so often before may run; None for a new one."""
        admitted = None if turn is None else self._suspects.get(turn)
        probation = Probation()
        if turn is None or admitted is None:
            await self._no_suspects.wait()
        else:
            await admitted.wait()
            # A suspect that was cleared may still run beside it.
            probation.is_alone = self._running == 0
            pause = _ALONE.pause(max(attempts - 1, 0))
            self._tasks.create_task(self._clear_after(pause, turn, probation), name="quarantine")

        self._running += 1
        try:
            yield probation
        finally:
            self._running -= 1
            self.clear(turn)

    async def _admit_first_after(self, pause: float) -> None:
        await asyncio.sleep(pause)
        self._admit_next()

    def _admit_next(self) -> None:
        first = next(iter(self._suspects.values()), None)
        if first is None:
            self._no_suspects.set()
        else:
            first.set()

    async def _clear_after(self, pause: float, turn: TurnId, probation: Probation) -> None:
        await asyncio.sleep(pause)
        if turn not in self._suspects:
            return

        # Recorded before others begin: from then on a crash must not count against this turn.
        if probation.is_alone:
            probation.is_alone = False
            await self._end_alone(turn)
        self.clear(turn)
