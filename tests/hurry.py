"""
An event loop whose time passes only when nobody has anything to do, and then at once.

Timeouts, pauses and bursts are tested to the second without a second being waited for. Only for
what lives on the loop alone: a thread that is still working looks like nobody to it.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import wraps
from inspect import iscoroutinefunction
from typing import TypeVar

from tests.fakes import NOON

_TOO_LONG = 5.0


class _Impatient(selectors.DefaultSelector):
    """Instead of waiting it moves the clock."""

    def __init__(self) -> None:
        super().__init__()
        self.passed = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        happened = super().select(_TOO_LONG if timeout is None else 0)
        if timeout is None and not happened:
            raise RuntimeError("everybody waits, and nothing will ever happen")
        if not happened:
            self.passed += timeout or 0.0
        return happened


class HurriedLoop(asyncio.SelectorEventLoop):
    """An hour is over as soon as nobody has anything to do before it is."""

    def __init__(self) -> None:
        self._impatient = _Impatient()
        super().__init__(self._impatient)

    def time(self) -> float:
        """Seconds since the loop was made."""
        return self._impatient.passed


class LoopClock:
    """The time of the running loop, as a date."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.ahead = timedelta(0)

    def now(self) -> datetime:
        """It was noon when the loop was made."""
        return NOON + timedelta(seconds=self._loop.time()) + self.ahead

    def monotonic(self) -> float:
        """The loop's own."""
        return self._loop.time()

    def advance(self, **amount: float) -> None:
        """Jump, without anybody's timers being due."""
        self.ahead += timedelta(**amount)


async def later(seconds: float = 60.0) -> None:
    """When everything that can happen until then has happened."""
    await asyncio.sleep(seconds)


T = TypeVar("T", bound=Callable[..., object])


def hurried(tests: T) -> T:
    """Run a test, or every test of a class, on such a loop."""
    if isinstance(tests, type):
        for name in [name for name in vars(tests) if name.startswith("test_")]:
            setattr(tests, name, hurried(getattr(tests, name)))
        return tests
    if not iscoroutinefunction(tests):
        return tests

    @wraps(tests)
    def run(*args: object, **fixtures: object) -> None:
        with asyncio.Runner(loop_factory=HurriedLoop) as runner:
            runner.run(tests(*args, **fixtures))

    return run  # type: ignore[return-value]
