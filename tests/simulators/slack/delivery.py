"""
How what happened comes to a bot: by socket or by HTTP, again if it was not acknowledged, and then
no more.

Every attempt is recorded as a call that does `receive`, every acknowledgement as one that does
`acknowledge`, so faults can be put on both. Only events are sent again; commands and presses have
one chance, as at Slack.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

from tests.simulators.common import Simulator
from tests.simulators.faults import Fault
from tests.simulators.slack import rules, specified
from tests.simulators.slack.server import Server
from tests.simulators.slack.world import Bot

EVENT_TYPES = ("events_api", "interactive", "slash_commands")
NO_MORE = "no more"
"""Instead of a reason to try again: the bot does not want it."""


@dataclass(kw_only=True, eq=False)
class Event:
    """Something a bot is told of. `own` is what it did itself."""

    n: int
    bot: Bot
    type: str
    kind: str
    payload: dict[str, Any]
    chat: str
    id: str
    text: str
    own: bool = False
    state: str = "pending"
    attempts: list[str] = field(default_factory=list)
    """What became of each."""
    answer: Any = None

    @property
    def event_id(self) -> str:
        """As Slack calls it; commands and presses have none."""
        return str(self.payload.get("event_id", "")) if isinstance(self.payload, dict) else ""

    def facts(self, attempt: int) -> dict[str, object]:
        """What is recorded of an attempt, and what a fault can be about."""
        return {
            "event_id": self.event_id,
            "kind": self.kind,
            "id": self.id,
            "text": self.text,
            "attempt": attempt,
        }


class Way(Protocol):
    """One way to a bot."""

    async def attempt(self, event: Event, attempt: int, reason: str) -> str | None:
        """Hand it over. Returns why it has to be tried again, or None once it is acknowledged."""


class Courier:
    """Hands out events in the order in which they happen, each until it is taken."""

    def __init__(self, server: Server) -> None:
        self.events: list[Event] = []
        self._server = server
        self._tasks: set[asyncio.Task[None]] = set()
        self._ways: dict[str, Way] = {}
        self._answered: Callable[[Mapping[str, Any], object], None] = lambda payload, answer: None

    def go_by(self, **ways: Way) -> None:
        """`socket` and `http`."""
        self._ways |= ways

    def when_answered(self, tell: Callable[[Mapping[str, Any], object], None]) -> None:
        """Who is told what a command was acknowledged with."""
        self._answered = tell

    def hand_out(
        self,
        bot: Bot,
        payload: dict[str, Any],
        *,
        kind: str,
        chat: str,
        id: str,  # noqa: A002
        text: str = "",
        type: str = "events_api",  # noqa: A002
        own: bool = False,
        invented: bool = False,
    ) -> Event:
        """
        From now on this is tried. What a test has `invented` is not compared with Slack's samples.
        """
        for trouble in () if invented else specified.troubles_of_event(payload):
            self._server.running.note_violation(trouble, rules.SPECIFIED)
        n = len(self.events) + 1
        event = Event(
            n=n,
            bot=bot,
            type=type,
            kind=kind,
            payload=payload,
            chat=chat,
            id=id,
            text=text,
            own=own,
        )
        self.events.append(event)
        task = asyncio.get_running_loop().create_task(self._deliver(event))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return event

    @asynccontextmanager
    async def at_work(self) -> AsyncIterator[None]:
        """Whatever is still to be tried at the end is not tried."""
        try:
            yield
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _deliver(self, event: Event) -> None:
        reason: str | None = ""
        pauses = (0.0, *self._server.settings.retries) if event.type == "events_api" else (0.0,)
        for attempt, pause in enumerate(pauses):
            if attempt:
                await asyncio.sleep(pause)
            way = self._ways["http" if event.bot.app.url else "socket"]
            reason = await way.attempt(event, attempt, reason or "")
            event.attempts.append(reason or "acknowledged")
            if reason is None:
                event.state = "acknowledged"
                if event.type == "slash_commands":
                    self._answered(event.payload, event.answer)
                return
            if reason == NO_MORE:
                break
        event.state = "gone"


def event_id() -> str:
    """One for each event; a retry keeps it."""
    return f"Ev{secrets.token_hex(5).upper()}"


def without_faults_of_events(simulator: Simulator, fault: Fault | None) -> Fault | None:
    """
    What goes wrong with something that is no event: a fault that only events can have waits for the
    next of them.
    """
    if fault is None or fault.kind not in ("duplicate", "reorder"):
        return fault
    if fault.times is not None:
        simulator.faults.add({**asdict(fault), "times": 1, "skip": 0})
    return None
