"""
A terminal's conversation over a real socket: what is said, what is shown, and terminals that stand
still.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.fakes import FrozenClock
from turngate.adapters.screens import Screens
from turngate.gateway.daemon.control.chat import chat_requests
from turngate.gateway.daemon.control.chat_events import (
    LARGEST_MESSAGE,
    ChatCommand,
    ChatEvent,
    Hello,
    MessageStored,
    NotStored,
    event_json,
    event_of,
)
from turngate.gateway.daemon.control.client import ControlClient
from turngate.gateway.daemon.control.protocol import decode, encode
from turngate.gateway.daemon.control.server import ControlServer
from turngate.gateway.domain.agent_events import Tool, ToolStatus
from turngate.gateway.domain.errors import (
    MalformedRecord,
    Refused,
    StoreUnavailable,
)
from turngate.gateway.domain.ids import PartId, TurnId
from turngate.gateway.domain.live_view import (
    Arrived,
    Began,
    FellBehind,
    Happened,
    Settled,
)
from turngate.gateway.domain.messages import InboundMessage, SessionSource
from turngate.gateway.domain.outbox import Part
from turngate.gateway.domain.serialization import Json
from turngate.gateway.domain.transcript import Reasoning, Text

COMMANDS = (ChatCommand(name="help", summary="what can be said"),)
CLI = SessionSource.terminal()
TURN = TurnId(7)
TOOL = Tool(id="t", name="look", status=ToolStatus.STARTED)


class Terminal:
    """One connection that is in a conversation."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def send(self, line: dict[str, Json]) -> None:
        self.writer.write(encode(line))

    async def next(self) -> ChatEvent | None:
        return event_of(decode(await self.reader.readline())["item"])


class House:
    """Screens behind a socket, and what was said to them."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.screens = Screens(
            "local", lambda name: SessionSource.terminal(name or None), FrozenClock()
        )
        self.said: list[InboundMessage] = []
        self._writers: list[asyncio.StreamWriter] = []

    async def receive(self, message: InboundMessage) -> None:
        if message.text == "refuse":
            raise Refused("not now; say it later")
        if message.text == "full":
            raise StoreUnavailable("the disk is full")
        self.said.append(message)

    async def terminal(self, session: str | None = None) -> Terminal:
        reader, writer = await asyncio.open_unix_connection(self.path, limit=2**26)
        self._writers.append(writer)
        terminal = Terminal(reader, writer)
        terminal.send({"do": "chat", "args": {} if session is None else {"session": session}})
        assert await terminal.next() == Hello(commands=COMMANDS)
        return terminal

    def close(self) -> None:
        for writer in self._writers:
            writer.close()


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    house = House(tmp_path / "control.sock")
    running = asyncio.create_task(house.screens.run(house.receive))
    await asyncio.sleep(0)
    async with ControlServer(house.path, chat_requests(house.screens, COMMANDS)):
        yield house
    house.close()
    running.cancel()


async def test_what_is_said_is_received_once_it_is_stored(house: House) -> None:
    terminal = await house.terminal()

    terminal.send({"say": {"id": "m1", "text": "hello"}})

    assert await terminal.next() == MessageStored(id="m1")
    assert [(message.id, message.text, message.source) for message in house.said] == [
        ("m1", "hello", CLI)
    ]


async def test_a_named_session_is_a_place_of_its_own(house: House) -> None:
    terminal = await house.terminal("work")

    terminal.send({"say": {"id": "m1", "text": "hello"}})
    await terminal.next()

    assert house.said[0].source == SessionSource.terminal("work")


@pytest.mark.parametrize(
    ("text", "reason"), [("refuse", "not now; say it later"), ("full", "the disk is full")]
)
async def test_what_is_not_stored_is_told_with_the_reason(
    house: House, text: str, reason: str
) -> None:
    terminal = await house.terminal()

    terminal.send({"say": {"id": "m1", "text": text}})

    assert await terminal.next() == NotStored(id="m1", reason=reason)


async def test_a_message_that_is_too_long_is_refused(house: House) -> None:
    terminal = await house.terminal()

    terminal.send({"say": {"id": "m1", "text": "ü" * (LARGEST_MESSAGE // 2 + 1)}})
    event = await terminal.next()

    assert isinstance(event, NotStored)
    assert event.reason.startswith(
        "a message of 1,048,578 bytes is too long; send at most 1,048,576"
    )
    assert house.said == []


@pytest.mark.parametrize(
    "line", [{}, {"say": "hello"}, {"say": {"id": [], "text": "x"}}, {"do": "chat"}]
)
async def test_nonsense_is_answered_and_the_conversation_goes_on(
    house: House, line: dict[str, Json]
) -> None:
    terminal = await house.terminal()

    terminal.send(line)
    terminal.send({"say": {"id": "m1", "text": "hello"}})

    refused = await terminal.next()
    assert isinstance(refused, NotStored)
    assert refused.id == ""
    assert await terminal.next() == MessageStored(id="m1")


async def test_a_turn_is_shown_as_it_happens(house: House) -> None:
    terminal = await house.terminal()
    part = Part(id=PartId(1), target=CLI, text="Hi Ann", turn=TURN, reply_to="m1")

    house.screens.turn_began(CLI, TURN, ["m1"])
    house.screens.turn_event(CLI, TURN, Reasoning(text="she is polite"))
    house.screens.turn_event(CLI, TURN, TOOL)
    house.screens.turn_event(CLI, TURN, Text("Hi Ann"))
    await house.screens.send(part)
    house.screens.settled(CLI, ["m1"])

    assert [await terminal.next() for _ in range(5)] == [
        Began(turn=TURN, messages=("m1",)),
        Happened(turn=TURN, event=TOOL),
        Happened(turn=TURN, event=Text("Hi Ann")),
        Arrived(part=part),
        Settled(messages=("m1",)),
    ]


async def test_who_comes_in_the_middle_is_told_from_the_beginning(house: House) -> None:
    house.screens.turn_began(CLI, TURN, ["m1"])
    house.screens.turn_event(CLI, TURN, Text("Hi "))
    house.screens.turn_event(CLI, TURN, TOOL)

    terminal = await house.terminal()
    first = [await terminal.next() for _ in range(3)]
    house.screens.turn_event(CLI, TURN, Text("Ann"))

    assert first == [
        Began(turn=TURN, messages=("m1",)),
        Happened(turn=TURN, event=TOOL),
        Happened(turn=TURN, event=Text("Hi ")),
    ]
    assert await terminal.next() == Happened(turn=TURN, event=Text("Ann"))


async def still_terminal(house: House) -> ControlClient:
    """One that reads nothing until it is asked to."""
    client = await asyncio.to_thread(ControlClient.connect, house.path)
    client.send({"do": "chat"})
    while not house.screens._watches:
        await asyncio.sleep(0)
    return client


def events_until(last: type, client: ControlClient) -> list[ChatEvent | None]:
    """All but the last, and hang up."""
    events = []
    with client:
        while not isinstance(event := event_of((client.receive() or {})["item"]), last):
            events.append(event)
    return events


async def test_a_terminal_that_stood_still_gets_all_the_text_in_few_pieces(house: House) -> None:
    client = await still_terminal(house)
    pieces = [f"{number:06}" * 20 for number in range(50_000)]

    house.screens.turn_began(CLI, TURN, ["m1"])
    for start in range(0, len(pieces), 100):
        for piece in pieces[start : start + 100]:
            house.screens.turn_event(CLI, TURN, Text(piece))
        await asyncio.sleep(0)
    house.screens.settled(CLI, ["m1"])

    events = await asyncio.to_thread(events_until, Settled, client)
    texts = [
        event.event.text
        for event in events
        if isinstance(event, Happened) and isinstance(event.event, Text)
    ]
    assert "".join(texts) == "".join(pieces)
    assert len(texts) < 5_000


async def test_a_terminal_that_missed_far_too_much_is_told_so(house: House) -> None:
    client = await still_terminal(house)
    part = Part(id=PartId(1), target=CLI, text="x" * 1000)

    for _ in range(12_000):
        await house.screens.send(part)
        await asyncio.sleep(0)

    events = await asyncio.to_thread(events_until, FellBehind, client)
    assert set(map(type, events)) == {Hello, Arrived}
    assert 10_000 < len(events) < 12_000


async def test_a_terminal_that_hangs_up_is_forgotten(house: House) -> None:
    for _ in range(3):
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(house.path))
            client.sendall(encode({"do": "chat"}) + encode({"say": {"id": "m", "text": "bye"}}))
    terminal = await house.terminal()
    terminal.writer.write_eof()

    assert decode(await terminal.reader.readline()) == {"done": None}
    assert await terminal.reader.read() == b""
    assert house.screens._watches == {}


def test_every_event_is_the_same_after_crossing() -> None:
    events: list[ChatEvent] = [
        Hello(commands=COMMANDS),
        MessageStored(id="m"),
        NotStored(id="m", reason="no"),
        Began(turn=TURN, messages=("a", "b")),
        Happened(turn=TURN, event=TOOL),
        Arrived(part=Part(target=CLI, text="x")),
        Settled(messages=()),
        FellBehind(),
    ]

    assert [
        event_of(decode(encode({"item": event_json(event)}))["item"]) for event in events
    ] == events


def test_an_event_that_nobody_knows_yet_is_none() -> None:
    assert event_of({"sang": {"song": "x"}}) is None


@pytest.mark.parametrize(
    "line", [None, [], {}, {"stored": {}, "began": {}}, {"stored": {"id": []}}]
)
def test_what_is_no_event_is_told(line: Json) -> None:
    with pytest.raises(MalformedRecord):
        event_of(line)
