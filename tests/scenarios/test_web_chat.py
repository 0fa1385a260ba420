"""The chat's socket, frame by frame: what one tab says, and what it and the others are shown."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession, ClientWebSocketResponse, CookieJar

from tests.fakes import add_entries, user
from tests.talk import exchange
from tests.web_door import Door, echo, enter, open_door, tool
from turngate.gateway.domain.agent_events import AgentEvent, ToolStatus
from turngate.gateway.domain.errors import Refused, StoreUnavailable
from turngate.gateway.domain.messages import SessionSource
from turngate.gateway.domain.outbox import Part
from turngate.gateway.domain.store_values import SessionFilter
from turngate.gateway.domain.transcript import (
    Entry,
    Origin,
    Role,
    Text,
)
from turngate.gateway.rules.session_keys import build_session_key
from turngate.gateway.web.chat import LONGEST_MESSAGE
from turngate.gateway.web.transcript_cursor import ENTRIES_A_PAGE

PATIENCE = 5.0

Frame = dict[str, Any]


class Script:
    """An agent that goes on when told to."""

    def __init__(self) -> None:
        self.go_on = asyncio.Event()

    async def answer(self, text: str) -> AsyncIterator[AgentEvent]:
        """The beginning at once, the rest later."""
        yield Text("first ")
        yield tool("t", "search", ToolStatus.STARTED, title="Search", input='{"q": 1}')
        await self.go_on.wait()
        yield tool("t", "search", ToolStatus.DONE, output="found")
        yield Text("last")


class Tab:
    """One tab, as its script sees it."""

    def __init__(self, socket: ClientWebSocketResponse) -> None:
        self.socket = socket

    async def send(self, type: str, conversation: str = "one", **fields: object) -> None:  # noqa: A002
        """A frame."""
        await self.socket.send_str(
            json.dumps({"type": type, "conversation": conversation, **fields})
        )

    async def until(self, type: str) -> Frame:  # noqa: A002
        """The next frame of a type."""
        return (await self.all_until(type))[-1]

    async def all_until(self, type: str) -> list[Frame]:  # noqa: A002
        """Everything up to the next frame of a type."""
        frames: list[Frame] = []
        async with asyncio.timeout(PATIENCE):
            while not frames or frames[-1]["type"] != type:
                frames.append(json.loads(await self.socket.receive_str()))
        return frames

    async def open(self, conversation: str = "one") -> Frame:
        """Show a conversation."""
        await self.send("open", conversation)
        return await self.until("snapshot")

    async def say(self, text: str, *, id: str, conversation: str = "one") -> Frame:  # noqa: A002
        """A message, and what became of it."""
        await self.send("say", conversation, id=id, text=text)
        async with asyncio.timeout(PATIENCE):
            while True:
                frame: Frame = json.loads(await self.socket.receive_str())
                if frame["type"] in ("stored", "refused", "unstored"):
                    return frame


class Browser:
    """A browser that was let in."""

    def __init__(
        self, door: Door, client: ClientSession, tabs: AsyncExitStack, socket: str
    ) -> None:
        self.door = door
        self._socket = socket
        self._client = client
        self._tabs = tabs

    async def tab(self) -> Tab:
        """One more."""
        connecting = self._client.ws_connect(
            self._socket, origin=self.door.server.address, max_msg_size=0
        )
        return Tab(await self._tabs.enter_async_context(connecting))


@asynccontextmanager
async def let_in(door: Door) -> AsyncIterator[Browser]:
    """By a link."""
    async with ClientSession(cookie_jar=CookieJar(unsafe=True)) as client, AsyncExitStack() as tabs:
        yield Browser(door, client, tabs, await enter(client, door))


@pytest.fixture
def script() -> Script:
    """Waits to be told."""
    return Script()


@pytest.fixture
async def browser(tmp_path: Path) -> AsyncIterator[Browser]:
    """In front of a gateway that echoes."""
    async with open_door(tmp_path, answer=echo) as door, let_in(door) as browser:
        yield browser


@pytest.fixture
async def slow(tmp_path: Path, script: Script) -> AsyncIterator[Browser]:
    """In front of a gateway that answers when told to."""
    async with open_door(tmp_path, answer=script.answer) as door, let_in(door) as browser:
        yield browser


def said_in(frame: Frame) -> list[tuple[str, str]]:
    return [(entry["role"], entry["text"]) for entry in frame["entries"]]


async def test_a_tab_is_told_the_commands_and_the_list(browser: Browser) -> None:
    tab = await browser.tab()

    hello = await tab.until("hello")
    listed = await tab.until("conversations")

    assert {
        "name": "title",
        "arguments": "<text>",
        "help": "give this conversation a name",
    } in hello["commands"]
    assert hello["longest_message"] == LONGEST_MESSAGE
    assert listed["conversations"] == []


async def test_a_new_conversation_is_empty(browser: Browser) -> None:
    snapshot = await (await browser.tab()).open()

    assert snapshot["session"] is None
    assert snapshot["name"] == "New conversation"
    assert (snapshot["entries"], snapshot["waiting"], snapshot["live"]) == ([], [], None)


async def test_a_message_is_stored_then_streamed_then_in_the_transcript(browser: Browser) -> None:
    await exchange(browser.door.store, source=SessionSource.browser("one"))
    tab = await browser.tab()
    await tab.open()

    await tab.send("say", id="m1", text="good morning")
    frames = await tab.all_until("settled")

    order = list(
        dict.fromkeys(
            frame["type"] for frame in frames if frame["type"] not in ("conversations", "waiting")
        )
    )
    assert order == ["stored", "entries", "began", "happened", "arrived", "settled"]
    streamed = [frame["event"]["text"] for frame in frames if frame["type"] == "happened"]
    assert streamed == ["You ", "said: ", "good ", "morning "]
    entries = [
        entry for frame in frames if frame["type"] == "entries" for entry in frame["entries"]
    ]
    assert [(entry["message_id"], entry["text"]) for entry in entries] == [
        ("m1", "good morning"),
        (None, "You said: good morning "),
    ]
    assert frames[-1]["messages"] == ["m1"]


async def test_the_first_message_of_a_conversation_makes_its_session(browser: Browser) -> None:
    tab = await browser.tab()
    assert (await tab.open())["session"] is None

    await tab.say("good morning", id="m1")
    snapshot = await tab.until("snapshot")

    assert snapshot["session"]
    assert snapshot["entries"][0]["message_id"] == "m1"


async def test_a_message_sent_again_is_one_message(browser: Browser) -> None:
    tab = await browser.tab()
    await tab.open()

    for _ in range(3):
        assert (await tab.say("once", id="m1"))["type"] == "stored"
    await tab.say("twice", id="m2")

    assert [message.text for message in browser.door.pipeline.received] == ["once", "twice"]


async def test_a_tab_that_opens_in_the_middle_is_shown_the_answer_so_far(
    slow: Browser, script: Script
) -> None:
    await exchange(slow.door.store, source=SessionSource.browser("one"))
    first = await slow.tab()
    await first.open()
    await first.send("say", id="m1", text="hello")
    for _ in ("text", "tool"):
        await first.until("happened")

    second = await slow.tab()
    snapshot = await second.open()
    script.go_on.set()
    frames = await second.all_until("settled")

    assert snapshot["live"]["text"] == "first "
    assert snapshot["live"]["messages"] == ["m1"]
    assert [(step["title"], step["status"]) for step in snapshot["live"]["tools"]] == [
        ("Search", "started")
    ]
    assert [frame["event"]["type"] for frame in frames if frame["type"] == "happened"] == [
        "tool",
        "text",
    ]
    answered = next(frame for frame in frames if frame["type"] == "entries")
    assert answered["entries"][-1]["text"] == "first last"
    assert answered["entries"][0]["tool_calls"] == [
        {"id": "t", "name": "search", "input": '{"q": 1}'}
    ]


async def test_what_waits_for_its_turn_is_shown_to_every_tab_and_after_a_reload(
    slow: Browser, script: Script
) -> None:
    await exchange(slow.door.store, source=SessionSource.browser("one"))
    one, other = await slow.tab(), await slow.tab()
    await one.open()
    await other.open()
    await one.say("first", id="m1")
    await other.until("began")

    await one.say("second", id="m2")
    told = await other.until("waiting")
    while [message["id"] for message in told["waiting"]] != ["m2"]:
        told = await other.until("waiting")
    reloaded = await (await slow.tab()).open()

    assert [(message["id"], message["text"]) for message in reloaded["waiting"]] == [
        ("m2", "second")
    ]
    script.go_on.set()
    assert (await other.until("settled"))["messages"] == ["m1"]
    assert (await other.until("settled"))["messages"] == ["m2"]


async def test_a_new_session_under_the_same_name_is_shown_afresh(browser: Browser) -> None:
    await exchange(browser.door.store, source=SessionSource.browser("one"))
    tab = await browser.tab()
    await tab.open()

    await tab.say("/new", id="m2")
    snapshot = await tab.until("snapshot")

    assert said_in(snapshot) == [("user", "/new"), ("assistant", "`/new` done.")]
    assert {entry["origin"] for entry in snapshot["entries"]} == {"command"}


async def test_what_was_taken_back_disappears(browser: Browser) -> None:
    for number in range(2):
        await exchange(
            browser.door.store,
            f"hello {number}",
            id=str(number),
            source=SessionSource.browser("one"),
        )
    tab = await browser.tab()
    await tab.open()

    await tab.say("/undo", id="undo")
    snapshot = await tab.until("snapshot")

    assert said_in(snapshot) == [
        ("user", "hello 0"),
        ("assistant", "hi"),
        ("user", "/undo"),
        ("assistant", "`/undo` done."),
    ]


async def test_conversations_are_listed_with_the_last_used_first(browser: Browser) -> None:
    for name in ("one", "two"):
        await exchange(browser.door.store, f"about {name}", source=SessionSource.browser(name))

    listed = await (await browser.tab()).until("conversations")

    assert [item["conversation"] for item in listed["conversations"]] == ["two", "one"]


async def test_a_name_is_given_to_every_tab_without_what_could_mislead(browser: Browser) -> None:
    await exchange(browser.door.store, source=SessionSource.browser("one"))
    one, other = await browser.tab(), await browser.tab()

    await one.send("rename", title="\u202ePlans\nfor <b>May</b>")
    listed = await other.until("conversations")
    while not listed["conversations"] or not listed["conversations"][0]["titled"]:
        listed = await other.until("conversations")

    assert listed["conversations"][0]["name"] == "Plans for <b>May</b>"
    assert (await other.open())["name"] == "Plans for <b>May</b>"


async def test_a_conversation_can_be_put_away_and_taken_back(browser: Browser) -> None:
    await exchange(browser.door.store, source=SessionSource.browser("one"))
    tab = await browser.tab()

    for archived in (True, False):
        await tab.send("archive", archived=archived)
        listed = await tab.until("conversations")
        while listed["conversations"][0]["archived"] is not archived:
            listed = await tab.until("conversations")


async def test_deleting_takes_everything_that_was_said_there(browser: Browser) -> None:
    await exchange(browser.door.store, source=SessionSource.browser("one"))
    tab = await browser.tab()
    await tab.open()
    await tab.say("/new", id="m2")
    await tab.until("snapshot")

    await tab.send("delete")
    await tab.send("archive", archived=True)
    refused = await tab.until("error")

    assert "no messages yet" in refused["reason"]
    key = build_session_key(SessionSource.browser("one"))
    assert await browser.door.store.sessions(SessionFilter(key=key)) == []
    assert len(browser.door.forgotten) == 2  # the files of both sessions


async def test_a_long_conversation_is_shown_page_by_page(browser: Browser) -> None:
    session = await exchange(browser.door.store, source=SessionSource.browser("one"))
    await add_entries(
        browser.door.store, session.id, [user(f"text {n}") for n in range(2 * ENTRIES_A_PAGE)]
    )
    tab = await browser.tab()

    newest = await tab.open()
    await tab.send("earlier", before=newest["entries"][0]["seq"])
    middle = await tab.until("earlier")
    await tab.send("earlier", before=middle["entries"][0]["seq"])
    oldest = await tab.until("earlier")

    assert [page["earlier"] for page in (newest, middle, oldest)] == ["more", "more", "none"]
    seqs = [entry["seq"] for page in (oldest, middle, newest) for entry in page["entries"]]
    assert seqs == sorted(set(seqs))
    assert len(seqs) == 2 * ENTRIES_A_PAGE + 2


async def test_a_notice_from_elsewhere_arrives_in_an_open_tab(browser: Browser) -> None:
    session = await exchange(browser.door.store, source=SessionSource.browser("one"))
    tab = await browser.tab()
    await tab.open()

    notice = Entry(
        role=Role.ASSISTANT,
        content=(Text("Backup done"),),
        at=session.started_at,
        origin=Origin.DELIVERY,
    )
    await add_entries(browser.door.store, session.id, [notice])
    await browser.door.screens.send(Part(target=SessionSource.browser("one"), text="Backup done"))

    assert [
        (entry["origin"], entry["text"]) for entry in (await tab.until("entries"))["entries"]
    ] == [("delivery", "Backup done")]


async def test_a_message_that_is_too_long_is_refused_with_the_reason(browser: Browser) -> None:
    tab = await browser.tab()
    await tab.open()

    refused = await tab.say("x" * 10_000_000, id="big")
    fine = await tab.say("x" * LONGEST_MESSAGE, id="fits")

    assert (refused["type"], refused["id"]) == ("refused", "big")
    assert "1,000,000 characters" in refused["reason"]
    assert fine["type"] == "stored"


async def test_a_frame_past_every_measure_closes_that_tab_alone(browser: Browser) -> None:
    tab, other = await browser.tab(), await browser.tab()

    with suppress(ConnectionError):  # it may be closed before all of it was sent
        await tab.send("say", id="huge", text="x" * (17 * 2**20))
    while not tab.socket.closed:
        await tab.socket.receive()

    assert (await other.open())["entries"] == []


async def test_a_refusal_and_a_full_disk_are_two_answers(browser: Browser) -> None:
    tab = await browser.tab()
    await tab.open()

    browser.door.pipeline.refuse = Refused("too many messages are waiting here")
    assert await tab.say("one", id="m1") == {
        "type": "refused",
        "id": "m1",
        "reason": "too many messages are waiting here",
    }
    browser.door.pipeline.refuse = StoreUnavailable("the disk is full")
    assert await tab.say("one", id="m1") == {
        "type": "unstored",
        "id": "m1",
        "reason": "the disk is full",
    }
    browser.door.pipeline.refuse = None
    assert (await tab.say("one", id="m1"))["type"] == "stored"


@pytest.mark.parametrize(
    "frame", ["{", "[]", '{"type": "open"}', '{"type": "dance", "conversation": "one"}']
)
async def test_a_frame_that_makes_no_sense_gets_an_error_and_the_tab_lives(
    browser: Browser, frame: str
) -> None:
    tab = await browser.tab()

    await tab.socket.send_str(frame)
    error = await tab.until("error")
    await tab.socket.send_bytes(b"\x00")
    await tab.until("error")

    assert error["reason"]
    assert (await tab.open())["entries"] == []


async def test_a_slow_tab_holds_up_nobody_and_is_shown_everything_anew(browser: Browser) -> None:
    tab = await browser.tab()
    await tab.open()
    place, screens = SessionSource.browser("one"), browser.door.screens
    turn = 1
    screens.turn_began(place, turn, ["m"])

    for _ in range(3000):
        screens.turn_event(place, turn, Text("x" * 1000))
    snapshot = await tab.until("snapshot")

    assert len(snapshot["live"]["text"]) == 3_000_000


async def test_a_tab_shows_only_the_conversation_it_has_open(browser: Browser) -> None:
    await exchange(browser.door.store, source=SessionSource.browser("two"))
    tab, other = await browser.tab(), await browser.tab()
    await tab.open("one")
    await tab.open("two")

    await other.say("hello", id="m1", conversation="one")
    await other.say("hello", id="m2", conversation="two")
    frames = await tab.all_until("settled")

    assert {frame["conversation"] for frame in frames if "conversation" in frame} == {"two"}


async def test_stopping_tells_the_tabs(tmp_path: Path) -> None:
    async with open_door(tmp_path) as door, let_in(door) as browser:
        tab = await browser.tab()
        await tab.open()

        stopping = asyncio.create_task(door.server.stop())
        while not tab.socket.closed:
            await tab.socket.receive()
        await stopping

    assert tab.socket.close_code == 1001


async def test_stopping_does_not_wait_for_a_tab_that_has_gone_silent(tmp_path: Path) -> None:
    async with open_door(tmp_path) as door, let_in(door) as browser:
        await (await browser.tab()).open()

        async with asyncio.timeout(PATIENCE):
            await door.server.stop()


async def test_a_conversation_deleted_under_an_open_tab_is_empty(browser: Browser) -> None:
    session = await exchange(browser.door.store, source=SessionSource.browser("one"))
    tab = await browser.tab()
    await tab.open()

    await browser.door.store.delete(session.id)
    browser.door.screens.settled(SessionSource.browser("one"), ["m"])

    assert (await tab.until("snapshot"))["entries"] == []


async def test_a_conversation_is_listed_whose_first_turn_is_over_before_the_tab_was_shown_it(
    browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tab reads the transcript anew at the first turn; the turn ends meanwhile."""
    store, pipeline = browser.door.store, browser.door.pipeline
    listed, over = asyncio.Event(), asyncio.Event()
    begin, current, sessions = store.begin, store.current, store.sessions

    async def begin_after_the_list(claim: Any) -> Any:
        await listed.wait()
        return await begin(claim)

    async def current_after_the_turn(key: Any) -> Any:
        await over.wait()
        return await current(key)

    async def list_and_say_so(wanted: Any) -> Any:
        found = await sessions(wanted)
        listed.set()
        return found

    def settle(*arguments: Any) -> None:
        settled(*arguments)
        over.set()

    tab = await browser.tab()
    assert (await tab.until("conversations"))["conversations"] == []
    await tab.open()
    await asyncio.sleep(0.4)  # until the pause between two lists is over

    settled = pipeline.screens.settled
    monkeypatch.setattr(store, "begin", begin_after_the_list)
    monkeypatch.setattr(store, "current", current_after_the_turn)
    monkeypatch.setattr(store, "sessions", list_and_say_so)
    monkeypatch.setattr(pipeline.screens, "settled", settle)
    await tab.say("hello", id="m1")

    (one,) = (await tab.until("conversations"))["conversations"]
    assert one["conversation"] == "one"
