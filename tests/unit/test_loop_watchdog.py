"""The lag probe: it names what holds up the loop while it does, and blames nobody for waiting."""

from __future__ import annotations

import asyncio
import threading
import time
from datetime import timedelta

from turngate.gateway.observability.loop_watchdog import StallProbe
from turngate.gateway.observability.observer import Observer


class Watching(Observer):
    """Remembers what it was told."""

    def __init__(self) -> None:
        super().__init__()
        self.places: list[str] = []
        self.seen, self.over = threading.Event(), threading.Event()

    def stalled(self, where: str) -> None:
        """Held up."""
        super().stalled(where)
        self.places.append(where)
        self.seen.set()

    def stall_over(self, lasted: timedelta) -> None:
        """No longer."""
        super().stall_over(lasted)
        self.over.set()


def hold_up(observer: Watching, secret: str) -> None:
    """As a regular expression or a disk would."""
    assert secret
    assert observer.seen.wait(30)


async def test_who_holds_up_the_loop_is_named_once_with_line_and_function_and_no_value() -> None:
    observer = Watching()
    probe = asyncio.ensure_future(StallProbe(observer, allowed=timedelta(milliseconds=200)).run())
    await asyncio.sleep(0.1)
    hold_up(observer, "hush-hush")
    await asyncio.to_thread(observer.over.wait, 30)
    probe.cancel()

    assert observer.over.is_set()
    (place,) = observer.places
    assert "test_loop_watchdog.py:" in place
    assert ":hold_up" in place
    assert "hush" not in place


async def test_a_loop_that_has_nothing_to_do_holds_up_nobody() -> None:
    observer = Watching()
    probe = asyncio.ensure_future(StallProbe(observer, allowed=timedelta(milliseconds=200)).run())
    await asyncio.to_thread(time.sleep, 1)
    probe.cancel()

    assert observer.places == []
