"""
The web door with everything real in front of it and behind it (store, screens, server), and a small
stand-in for the pipeline: it stores a message, answers it by script, and puts the answer where the
pipeline would.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from pathlib import Path

from aiohttp import ClientSession

from tests.fakes import add_entries
from turngate.adapters.http_server import ConnectionLimits, serving
from turngate.adapters.screens import Screens
from turngate.gateway.daemon.system_clock import SystemClock
from turngate.gateway.domain.agent_events import (
    AgentEvent,
    Tool,
    ToolStatus,
)
from turngate.gateway.domain.ids import SessionId, SessionKey
from turngate.gateway.domain.messages import (
    WEB_PLATFORM,
    InboundMessage,
    SessionSource,
)
from turngate.gateway.domain.outbox import Part
from turngate.gateway.domain.ports.clock import Clock
from turngate.gateway.domain.store_values import (
    Claim,
    Opening,
    Outcome,
)
from turngate.gateway.domain.transcript import (
    Entry,
    Origin,
    Role,
    Text,
    ToolCall,
)
from turngate.gateway.rules.session_keys import build_session_key
from turngate.gateway.stores.sqlite import SqliteStore
from turngate.gateway.web import (
    Readiness,
    WebDependencies,
    WebServer,
)
from turngate.gateway.web.chat import MOST_TABS

COOKIE_KEY = b"k" * 32
Answer = Callable[[str], AsyncIterator[AgentEvent]]

COMMANDS = (
    ("help", "", "what you can say here"),
    ("new", "[title]", "start afresh; the old conversation is kept"),
    ("resume", "[session]", "go back to an earlier conversation"),
    ("retry", "", "ask the last thing again"),
    ("status", "", "what is going on here"),
    ("stop", "", "stop the answer that is being written"),
    ("title", "<text>", "give this conversation a name"),
    ("undo", "", "take back the last exchange"),
)


async def echo(text: str) -> AsyncIterator[AgentEvent]:
    """Word by word, as an agent would."""
    for word in f"You said: {text}".split(" "):
        yield Text(f"{word} ")


@dataclass
class ScriptedPipeline:
    """One turn at a time for each conversation, and four commands."""

    store: SqliteStore
    screens: Screens
    clock: Clock
    answer: Answer = echo
    received: list[InboundMessage] = field(default_factory=list)
    refuse: Exception | None = None
    _waiting: dict[SessionKey, list[InboundMessage]] = field(default_factory=dict)
    _lanes: dict[SessionKey, asyncio.Lock] = field(default_factory=dict)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)
    _turns: dict[SessionKey, asyncio.Task[None]] = field(default_factory=dict)

    def waiting(self, key: SessionKey) -> Sequence[InboundMessage]:
        """What has not had its turn."""
        return tuple(self._waiting.get(key, ()))

    def questions(self, key: SessionKey) -> Sequence[Part]:
        """It asks nothing."""
        return ()

    async def receive(self, message: InboundMessage) -> None:
        """Stored when it returns; answered later."""
        if self.refuse is not None:
            raise self.refuse
        key = build_session_key(message.source)
        accepted = await self.store.accept(message, key)
        if accepted.duplicate:
            return
        self.received.append(message)
        self._waiting.setdefault(key, []).append(message)
        handled = (
            self._command(key, message)
            if message.text.startswith("/")
            else self._turn(key, message, accepted.id)
        )
        task = asyncio.create_task(handled)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def stop(self) -> None:
        """Whatever is going on."""
        for task in [*self._tasks]:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def _turn(self, key: SessionKey, message: InboundMessage, inbox: int) -> None:
        async with self._lanes.setdefault(key, asyncio.Lock()):
            asked = Entry(
                role=Role.USER,
                content=(Text(message.text),),
                at=message.sent_at,
                message_id=message.id,
            )
            opening = Opening(key=key, source=message.source, owner="web:browser")
            begun = await self.store.begin(
                Claim(inbox=(inbox,), opening=opening, entries=(asked,), history=5)
            )
            self._waiting[key].remove(message)
            self.screens.turn_began(message.source, begun.turn, [message.id])
            said = Said()
            self._turns[key] = asyncio.create_task(self._run(message, begun.turn, said))
            with suppress(asyncio.CancelledError):
                await self._turns[key]
            parts = (Part(target=message.source, text=said.text, turn=begun.turn),)
            entries = said.entries(self.clock.now())
            for part in await self.store.finish(begun.turn, Outcome(entries=entries, parts=parts)):
                await self.screens.send(part)
            self.screens.settled(message.source, [message.id])

    async def _run(self, message: InboundMessage, turn: int, said: Said) -> None:
        async for event in self.answer(message.text):
            said.hear(event)
            self.screens.turn_event(message.source, turn, event)

    async def _command(self, key: SessionKey, message: InboundMessage) -> None:
        word = message.text.split()[0]
        if word == "/stop" and key in self._turns:
            self._turns[key].cancel()
        if word == "/new":
            await self.store.reset(key)
        opened = await self.store.open(Opening(key=key, source=message.source, owner="web:browser"))
        if word == "/undo":
            await self.store.truncate(opened.session.id, max(0, opened.session.messages - 2))
        output = f"`{word}` done."
        now = self.clock.now()
        await add_entries(
            self.store,
            opened.session.id,
            (
                _entry(Role.USER, message.text, now, message.id),
                _entry(Role.ASSISTANT, output, now),
            ),
        )
        self._waiting[key].remove(message)
        await self.screens.send(Part(target=message.source, text=output))
        self.screens.settled(message.source, [message.id])


@dataclass
class Said:
    """What an answer has come to."""

    text: str = ""
    tools: dict[str, Tool] = field(default_factory=dict)

    def hear(self, event: AgentEvent) -> None:
        """One more event."""
        match event:
            case Text(text=text):
                self.text += text
            case Tool(id=tool):
                before = self.tools.get(tool)
                self.tools[tool] = replace(
                    event, input=event.input or (before.input if before else None)
                )

    def entries(self, at: datetime) -> tuple[Entry, ...]:
        """As the transcript keeps it."""
        calls = tuple(
            ToolCall(id=one.id, name=one.name, arguments=one.input or "{}")
            for one in self.tools.values()
        )
        asked = (Entry(role=Role.ASSISTANT, content=(), at=at, tool_calls=calls),) if calls else ()
        results = tuple(
            Entry(
                role=Role.TOOL,
                content=(Text(one.output or one.status.value),),
                at=at,
                tool_call_id=one.id,
            )
            for one in self.tools.values()
        )
        return (
            *asked,
            *results,
            Entry(role=Role.ASSISTANT, content=(Text(self.text or "Stopped."),), at=at),
        )


def _entry(role: Role, text: str, at: datetime, message_id: str | None = None) -> Entry:
    return Entry(
        role=role, content=(Text(text),), at=at, origin=Origin.COMMAND, message_id=message_id
    )


@dataclass
class Door:
    """An open door, and what tests reach behind it for."""

    store: SqliteStore
    screens: Screens
    pipeline: ScriptedPipeline
    readiness: Readiness = field(default=Readiness(ready=True))
    server: WebServer = field(init=False)
    forgotten: list[SessionId] = field(default_factory=list)

    async def forget(self, session: SessionId) -> None:
        """Here nobody has files."""
        self.forgotten.append(session)


async def _metrics() -> bytes:
    return b"turngate_up 1\n"


def needs_of(door: Door) -> WebDependencies:
    """What the composition root would hand over."""

    async def readiness() -> Readiness:
        return door.readiness

    return WebDependencies(
        store=door.store,
        screens=door.screens,
        key_of=build_session_key,
        waiting=door.pipeline.waiting,
        questions=door.pipeline.questions,
        commands=COMMANDS,
        readiness=readiness,
        metrics=_metrics,
        metrics_type="text/plain; version=0.0.4; charset=utf-8",
        clock=door.pipeline.clock,
        cookie_key=COOKIE_KEY,
        forget=door.forget,
        serve=partial(
            serving, shutdown_timeout=2.0, limits=ConnectionLimits(connections=MOST_TABS + 128)
        ),
    )


@asynccontextmanager
async def open_door(
    folder: Path, *, clock: Clock | None = None, answer: Answer = echo, port: int = 0
) -> AsyncIterator[Door]:
    """On a free port of this machine."""
    clock = clock or SystemClock()
    store = await SqliteStore.connect(folder / "turngate.db", clock)
    screens = Screens(WEB_PLATFORM, SessionSource.browser, clock)
    pipeline = ScriptedPipeline(store, screens, clock, answer)
    door = Door(store, screens, pipeline)
    door.server = WebServer("127.0.0.1", port, needs_of(door))
    receiving = asyncio.create_task(screens.run(pipeline.receive))
    await door.server.start()
    try:
        yield door
    finally:
        await pipeline.stop()
        receiving.cancel()
        with suppress(asyncio.CancelledError):
            await receiving
        await door.server.stop()
        await store.close()


async def enter(client: ClientSession, door: Door) -> str:
    """Open a one-time link, and return the address of the sockets as the page then knows it."""
    async with client.get(door.server.link(), allow_redirects=False) as response:
        key = response.headers["Location"].removeprefix("/chat#")
    return f"{door.server.address}/chat/socket?{key}"


def tool(id: str, name: str, status: ToolStatus, **more: str) -> Tool:  # noqa: A002
    """A step."""
    return Tool(id=id, name=name, status=status, **more)
