"""Room for turns that work, first come, first served. A turn that waits for people gives its own back meanwhile."""

from __future__ import annotations

import asyncio
from types import TracebackType


class Slots:
    """Room for so many at work; as many again may wait for people. What waits beyond that keeps its slot."""

    def __init__(self, count: int) -> None:
        self.free = asyncio.Semaphore(count)
        self.may_rest = count
        self._count = count
        self._owed = 0

    def resize(self, count: int) -> None:
        """Room for more at once; for fewer as soon as enough of those at work are done."""
        difference = count - self._count
        self._count, self.may_rest = count, self.may_rest + difference
        self._owed -= difference
        while self._owed < 0:
            self._owed += 1
            self.free.release()

    async def acquire(self) -> None:
        """Wait for room. What is owed is paid first, from whatever is free."""
        await self.free.acquire()
        while self._owed > 0:
            self._owed -= 1
            await self.free.acquire()

    def release(self) -> None:
        """Whoever was at work is not any more."""
        if self._owed > 0:
            self._owed -= 1
        else:
            self.free.release()


class Slot:
    """One turn's room, from `async with` to its end."""

    def __init__(self, slots: Slots) -> None:
        self._slots = slots
        self._held = self._is_over = False

    async def __aenter__(self) -> Slot:
        """Wait for room."""
        await self._slots.acquire()
        self._held = True
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Leave, wherever it is."""
        self._is_over = True
        if self._held:
            self._slots.release()
        else:
            self._slots.may_rest += 1

    def rest(self) -> None:
        """Nothing is done until somebody answers: let others work."""
        if self._held and self._slots.may_rest > 0 and not self._is_over:
            self._held = False
            self._slots.may_rest -= 1
            self._slots.release()

    async def go_on(self) -> None:
        """Wait for room again. Several answers may come at once, and the turn may be over by the time there is room."""
        if not self._rests():
            return
        await self._slots.acquire()
        if self._rests():
            self._held = True
            self._slots.may_rest += 1
        else:
            self._slots.release()

    def _rests(self) -> bool:
        return not (self._held or self._is_over)
