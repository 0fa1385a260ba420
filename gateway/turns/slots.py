"""
The concurrency limit of turns, first come, first served. A turn that waits for a user gives its
slot back until then.
"""

from __future__ import annotations

import asyncio
from types import TracebackType


class Slots:
    """A number of slots. As many turns again may wait for users without one."""

    def __init__(self, count: int) -> None:
        self.free = asyncio.Semaphore(count)
        self.may_release = count
        self._count = count
        self._owed = 0

    def resize(self, count: int) -> None:
        """Change the number. A smaller number takes effect as running turns end."""
        difference = count - self._count
        self._count = count
        self.may_release = self.may_release + difference
        self._owed -= difference
        while self._owed < 0:
            self._owed += 1
            self.free.release()

    async def acquire(self) -> None:
        """Wait for a slot. Slots that a smaller limit took away are withdrawn first."""
        await self.free.acquire()
        # What was just acquired is not returned but counted against the debt.
        while self._owed > 0:
            self._owed -= 1
            await self.free.acquire()

    def release(self) -> None:
        """Give a slot back."""
        if self._owed > 0:
            self._owed -= 1
        else:
            self.free.release()


class Slot:
    """One turn's slot, held in an `async with` block."""

    def __init__(self, slots: Slots) -> None:
        self._slots = slots
        self._held = self._is_over = False

    async def __aenter__(self) -> Slot:
        """Wait for a slot."""
        await self._slots.acquire()
        self._held = True
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Give the slot back, if it is held."""
        self._is_over = True
        if self._held:
            self._slots.release()
        # The turn ended while it waited for a user: another one may wait in its place.
        else:
            self._slots.may_release += 1

    def release(self) -> None:
        """Give the slot back while the turn waits for a user."""
        # Bounded by `may_release`: a waiting turn still holds memory and perhaps a process.
        if self._held and self._slots.may_release > 0 and not self._is_over:
            self._held = False
            self._slots.may_release -= 1
            self._slots.release()

    async def reacquire(self) -> None:
        """Wait for a slot again, if it was given back."""
        if not self._is_released():
            return

        await self._slots.acquire()
        # Another answer of this turn may have reacquired it, or the turn may be over by now.
        if self._is_released():
            self._held = True
            self._slots.may_release += 1
        else:
            self._slots.release()

    def _is_released(self) -> bool:
        return not (self._held or self._is_over)
