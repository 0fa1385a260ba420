"""What the Slack adapter does beyond what every adapter must: the traps that others have found."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.contracts.adapter_scene import Ear, Scene, listening, part
from tests.contracts.platforms.slack import SlackUnderTest
from tests.fakes import FrozenClock, WrongClock
from tests.oracle_store import MemoryStore
from tests.simulators.running import Remote
from turngate.adapters.slack import plugin as slack
from turngate.gateway.daemon.system_clock import SystemClock
from turngate.gateway.domain.agent_events import (
    File,
    Tool,
    ToolStatus,
)
from turngate.gateway.domain.errors import (
    GapRemains,
    NotSent,
    Refused,
    Retryable,
    StoreUnavailable,
    Unauthorized,
    Undeliverable,
    Unreachable,
)
from turngate.gateway.domain.ids import TurnId
from turngate.gateway.domain.messages import (
    ChatType,
    MessageKind,
    SessionSource,
)
from turngate.gateway.domain.outbox import Button
from turngate.gateway.domain.ports.adapter import (
    CatchUpChats,
    MenuEntry,
    no_chats,
)
from turngate.gateway.domain.ports.clock import Clock

ANN = "U71001"
CHANNEL = SessionSource(
    platform="slack",
    chat_id="C5001",
    user_id=ANN,
    chat_type=ChatType.CHANNEL,
    scope="T0001",
    chat_name="chat-c5001",
)
LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)


@pytest.fixture
async def at() -> AsyncIterator[Scene]:
    """A fresh Slack, a bot, two people and a channel. No bot may ask for what Slack forbids."""
    tested = SlackUnderTest()
    async with tested.simulator() as sim:
        await sim.do("open", chat=CHANNEL.chat_id, members=[ANN])
        async with tested.adapter(sim) as adapter:
            yield Scene(tested=tested, sim=sim, adapter=adapter)
        assert await sim.violations() == []


@asynccontextmanager
async def another(
    sim: Remote,
    *,
    places: CatchUpChats = no_chats,
    timeouts: slack.Timeouts | None = None,
    clock: Clock = SystemClock(),  # noqa: B008 - it holds nothing
    **account: Any,
) -> AsyncIterator[slack.SlackAdapter]:
    """An adapter that is set up in another way."""
    settings = {
        "bot_token": "xoxb-main",
        "app_token": "xapp-main",
        "api_url": f"{sim.url}/api/",
        **account,
    }
    usual = slack.Timeouts(connect=10.0, answer=10.0, ping=0.1)
    adapter = slack.SlackAdapter(slack.Account(**settings), clock, places, timeouts or usual)
    try:
        yield adapter
    finally:
        await adapter.close()


async def until_sockets(sim: Remote, count: int) -> None:
    async def is_so() -> bool:
        return await sim.do("sockets") == count

    await sim.until(is_so)


def methods(calls: list[dict[str, Any]]) -> list[str]:
    return [call["method"] for call in calls]


async def test_a_mention_is_two_events_and_one_message(at: Scene) -> None:
    ear, store = Ear(), MemoryStore(FrozenClock())
    async with at.listening(ear):
        await at.say("ship it", to=CHANNEL, mention=True)
        heard = await ear.until_heard(2)
    accepted = [await store.accept(each, "key") for each in heard]  # type: ignore[arg-type]

    assert [(each.text, each.addressed_to_bot) for each in heard] == [("ship it", True)] * 2
    assert [each.duplicate for each in accepted] == [False, True]


async def test_an_event_that_comes_twice_is_one_message(at: Scene) -> None:
    ear, store = Ear(), MemoryStore(FrozenClock())
    await at.sim.fault("duplicate", method="socket.events_api")
    async with at.listening(ear):
        await at.say()
        heard = await ear.until_heard(2)
    accepted = [await store.accept(each, "key") for each in heard]  # type: ignore[arg-type]

    assert [each.duplicate for each in accepted] == [False, True]


async def test_a_retry_is_taken_as_if_it_were_the_first(at: Scene) -> None:
    """The first may have died with us."""
    ear = Ear(StoreUnavailable("full"), StoreUnavailable("full"))
    async with at.listening(ear):
        await at.say("third time lucky")
        await ear.until_heard()
        await at.sim.until(at.all_is_acknowledged)

    assert len(ear.tried) == 3


async def test_every_kind_of_event_is_acknowledged(at: Scene) -> None:
    """One that nobody listens to would come again for ever."""
    async with at.listening(Ear()):
        for kind in ("team_join", "emoji_changed", "something_new", "app_home_opened"):
            await at.sim.do("tell", event={"type": kind, "user": {"id": ANN}, "channel": "C5001"})
        await at.sim.do(
            "tell",
            event={"type": "message", "channel": "C5001", "message": "no object", "files": 7},
        )
        await at.sim.do(
            "tell", event={"type": "message", "channel": "C5001", "user": 7, "text": "hello"}
        )
        await at.sim.until(at.all_is_acknowledged)


async def test_what_the_bot_says_itself_is_acknowledged_and_not_heard(at: Scene) -> None:
    ear = Ear()
    async with at.listening(ear):
        await at.adapter.send(part(at.here, "my own words"))
        await at.say("somebody else's")
        await ear.until_heard()

        async def is_told() -> bool:
            return all(event["acknowledged"] for event in await at.sim.do("events"))

        await at.sim.until(is_told)

    assert ear.texts == ["somebody else's"]


@pytest.mark.parametrize("reason", ["refresh_requested", "warning"])
async def test_a_connection_that_slack_wants_renewed_is_renewed_without_an_interruption(
    at: Scene, reason: str
) -> None:
    ear = Ear()
    running = asyncio.ensure_future(at.adapter.run(ear.receive))
    await until_sockets(at.sim, 1)
    await at.say("before")
    await ear.until_heard()
    await at.sim.do("disconnect", reason=reason)
    await at.say("after")
    await ear.until_heard(2)

    assert not running.done()
    assert len(await at.sim.calls(method="socket.connect")) == 2
    assert await at.sim.do("sockets") == 1, "the old one is gone before there is a new one"
    running.cancel()
    await asyncio.wait({running})


async def test_what_is_being_stored_when_a_connection_is_renewed_is_acknowledged_where_it_came_from(
    at: Scene,
) -> None:
    ear = Ear()
    ear.may_go_on.clear()
    async with at.listening(ear):
        await at.say()
        await ear.until(lambda: bool(ear.tried))
        await at.sim.do("disconnect", reason="refresh_requested")
        ear.may_go_on.set()
        await at.sim.until(at.all_is_acknowledged)

    assert len(ear.tried) == 1


@pytest.mark.parametrize(
    ("reason", "advice"),
    [("link_disabled", "Socket Mode switched on"), ("too_many_websockets", "too many connections")],
)
async def test_a_connection_that_slack_does_not_want_is_told_with_the_cure(
    at: Scene, reason: str, advice: str
) -> None:
    running = asyncio.ensure_future(at.adapter.run(Ear().receive))
    await until_sockets(at.sim, 1)
    await at.sim.do("disconnect", reason=reason)

    with pytest.raises(Retryable, match=advice):
        await running


async def test_an_app_without_socket_mode_is_told_what_to_switch_on(at: Scene) -> None:
    await at.sim.do("app", socket_mode=False)

    with pytest.raises(Retryable, match=r"Socket Mode switched on.*connections:write"):
        await at.adapter.run(Ear().receive)


@pytest.mark.parametrize("method", ["socket.connect", "socket.hello"])
async def test_a_connection_that_hangs_is_given_up_with_advice(at: Scene, method: str) -> None:
    await at.sim.fault("half-open", method=method)
    hasty = slack.Timeouts(connect=0.3, answer=5.0)

    async with another(at.sim, timeouts=hasty) as adapter:
        with pytest.raises(Unreachable, match=r"connections:write"):
            await adapter.run(Ear().receive)


async def test_an_app_token_in_the_place_of_the_bots_is_told_as_such(at: Scene) -> None:
    async with another(at.sim, bot_token="xapp-main", app_token="xoxb-main") as adapter:  # noqa: S106
        with pytest.raises(Unauthorized, match="xoxb-"):
            await adapter.run(Ear().receive)


async def test_a_socket_that_is_open_and_silent_is_found_out(at: Scene) -> None:
    timeouts = slack.Timeouts(connect=5.0, answer=0.5, ping=0.1)
    async with another(at.sim, timeouts=timeouts) as adapter:
        running = asyncio.ensure_future(adapter.run(Ear().receive))
        await until_sockets(at.sim, 1)
        await at.sim.do("silence")

        with pytest.raises(Unreachable, match="timed out"):
            await running


async def test_a_connection_that_was_cut_ends_the_life_so_that_what_was_missed_is_read(
    at: Scene,
) -> None:
    running = asyncio.ensure_future(at.adapter.run(Ear().receive))
    await until_sockets(at.sim, 1)
    await at.sim.do("cut")

    with pytest.raises(Unreachable):
        await running


async def test_what_is_for_another_workspace_of_the_same_app_is_left_to_its_connection(
    at: Scene,
) -> None:
    await at.sim.do(
        "add_bot",
        name="branch",
        token="xoxb-branch",  # noqa: S106
        app_token="xapp-main",  # noqa: S106
        team="T0009",  # noqa: RUF100, S106
    )
    here, there = Ear(), Ear()
    async with (
        another(at.sim, name="branch", bot_token="xoxb-branch") as branch,  # noqa: S106
        at.listening(here),
        listening(branch, there.receive),
    ):
        await until_sockets(at.sim, 2)
        for number in range(6):
            await at.sim.say(f"{number}", chat="D71001", user=ANN, account="branch")
            await at.say(f"{number}")
        await here.until_heard(6)
        await there.until_heard(6)

    assert sorted(here.texts) == sorted(there.texts) == [str(number) for number in range(6)]
    assert {each.source.scope for each in here.heard} == {"T0001"}
    assert {each.source.scope for each in there.heard} == {"T0009"}


async def test_a_name_that_cannot_be_looked_up_is_done_without(at: Scene) -> None:
    ear = Ear()
    await at.sim.do("app", scopes=["chat:write", "im:history", "channels:history"])
    async with at.listening(ear):
        await at.say()
        (message,) = await ear.until_heard()

    assert message.source.user_id == ANN
    assert message.source.user_name is None


async def test_nobody_waits_for_a_name_longer_than_slack_waits_for_us(at: Scene) -> None:
    ear = Ear()
    for method in ("users.info", "conversations.info"):
        await at.sim.fault("half-open", method=method, times=None)
    hasty = slack.Timeouts(connect=10.0, answer=10.0, ping=0.1, ack=0.2)
    async with another(at.sim, timeouts=hasty) as adapter, listening(adapter, ear.receive):
        await at.say()
        await at.sim.until(at.all_is_acknowledged)

    assert [(update["attempts"]) for update in await at.sim.updates()] == [["acknowledged"]]
    assert ear.texts == ["hello"]


async def test_people_and_places_are_looked_up_once(at: Scene) -> None:
    ear = Ear()
    await at.sim.do("person", user=ANN, name="Ann")
    async with at.listening(ear):
        for number in range(3):
            await at.say(str(number), to=CHANNEL, mention=True)
        heard = await ear.until_heard(6)

    assert {(each.source.user_name, each.source.chat_name) for each in heard} == {
        ("Ann", "chat-c5001")
    }
    assert len(await at.sim.calls(method="users.info")) == 1
    assert len(await at.sim.calls(method="conversations.info")) == 1


async def test_a_thread_is_followed_without_a_new_mention_once_the_bot_takes_part(
    at: Scene,
) -> None:
    ear = Ear()
    theirs = await at.say("among ourselves", to=CHANNEL)
    ours = await at.say("you there?", to=CHANNEL, mention=True)
    await at.adapter.send(part(replace(CHANNEL, thread_id=ours)))
    async with another(at.sim) as again, listening(again, ear.receive):
        await at.say("in theirs", to=CHANNEL, thread=theirs)
        await at.say("in ours", to=CHANNEL, thread=ours)
        await ear.until(lambda: {"in theirs", "in ours"} <= set(ear.texts))

    meant = {each.text: each.addressed_to_bot for each in ear.heard}
    assert (meant["in theirs"], meant["in ours"]) == (False, True)


async def test_a_thread_is_followed_from_the_call_on_before_the_bot_has_said_anything(
    at: Scene,
) -> None:
    ear = Ear()
    theirs = await at.say("among ourselves", to=CHANNEL)
    async with at.listening(ear):
        await at.say("still among ourselves", to=CHANNEL, thread=theirs)
        await ear.until(lambda: "still among ourselves" in ear.texts)
        await at.say("or shall we ask", to=CHANNEL, thread=theirs, mention=True)
        await at.say("what it thinks", to=CHANNEL, thread=theirs)
        await ear.until(lambda: "what it thinks" in ear.texts)

    meant = {each.text: each.addressed_to_bot for each in ear.heard}
    assert (meant["still among ourselves"], meant["what it thinks"]) == (False, True)


async def test_a_call_that_another_life_heard_is_read_in_the_thread(at: Scene) -> None:
    ear = Ear()
    ours = await at.say("you there?", to=CHANNEL, mention=True)
    async with another(at.sim) as again, listening(again, ear.receive):
        await at.say("one more thing", to=CHANNEL, thread=ours)
        await ear.until(lambda: "one more thing" in ear.texts)

    assert [each.addressed_to_bot for each in ear.heard if each.text == "one more thing"] == [True]


async def test_whose_thread_it_is_is_not_guessed(at: Scene) -> None:
    ear = Ear()
    thread = await at.say("you there?", to=CHANNEL, mention=True)
    await at.adapter.send(part(replace(CHANNEL, thread_id=thread)))
    async with another(at.sim) as again:
        await at.sim.fault("500", method="conversations.replies")
        async with listening(again, ear.receive):
            await at.say("go on", to=CHANNEL, thread=thread)
            await ear.until(lambda: "go on" in ear.texts)

    assert [each.addressed_to_bot for each in ear.heard if each.text == "go on"] == [True]


async def test_threads_that_the_gateway_talks_in_are_known_without_asking(at: Scene) -> None:
    """
    Where people talk a lot Slack lets itself be asked for some fifty threads a minute, and no more.
    """
    ear = Ear()
    theirs, ours = [await at.say("a thread", to=CHANNEL) for _ in range(2)]
    await at.sim.fault("429", method="conversations.replies", times=None)

    async def places() -> list[SessionSource]:
        return [replace(CHANNEL, thread_id=ours)]

    async with another(at.sim, places=places) as adapter, listening(adapter, ear.receive):
        await at.say("in theirs", to=CHANNEL, thread=theirs)
        await at.say("in ours", to=CHANNEL, thread=ours)
        await ear.until(lambda: {"in theirs", "in ours"} <= set(ear.texts))

    meant = {each.text: each.addressed_to_bot for each in ear.heard}
    assert (meant["in theirs"], meant["in ours"]) == (False, True)


async def test_a_bot_that_is_no_person_is_looked_up_once(at: Scene) -> None:
    ear = Ear()
    async with at.listening(ear):
        for number in range(3):
            await at.sim.do("say", chat=CHANNEL.chat_id, text=str(number), bot="B9")
        heard = await ear.until_heard(3)

    assert {(each.source.user_id, each.from_bot) for each in heard} == {("B9", True)}
    assert len(await at.sim.calls(method="users.info")) <= 1


async def test_a_line_on_which_only_pings_are_heard_is_no_line(at: Scene) -> None:
    await at.sim.fault("wrong types", method="socket.hello")
    async with another(
        at.sim, timeouts=slack.Timeouts(connect=0.5, answer=5.0, ping=0.05)
    ) as adapter:
        with pytest.raises(Unreachable, match="sent no hello"):
            await adapter.run(Ear().receive)

        assert adapter.progress is None


async def test_an_answer_stands_in_the_thread_of_what_it_answers(at: Scene) -> None:
    ear = Ear()
    async with at.listening(ear):
        id_ = await at.say("hello", to=CHANNEL, mention=True)
        message = (await ear.until_heard())[0]
    await at.adapter.send(part(message.source, "hi"))

    (shown,) = await at.sim.messages()
    assert (shown["thread"], shown["broadcast"], shown["unfurl"]) == (
        id_,
        False,
        {"unfurl_links": False, "unfurl_media": False},
    )


async def test_a_thread_that_is_gone_gets_its_answer_outside_of_it(at: Scene) -> None:
    await at.adapter.send(part(replace(CHANNEL, thread_id="1700000000.000100"), "outside"))

    (shown,) = await at.sim.messages()
    assert (shown["text"], shown["thread"]) == ("outside", None)


@pytest.mark.parametrize(
    "text", ["<!channel> hello", "<!here|here>", "<!everyone>", "`<!channel>`", "<!subteam^S1>"]
)
async def test_nobody_is_called_by_an_agents_words(at: Scene, text: str) -> None:
    sent = await at.adapter.send(part(at.here, text))
    await at.adapter.edit(part(at.here, f"edited: {text}"), sent.message_id)
    await at.adapter.ask(
        replace(part(at.here, text), buttons=(Button(label="Yes", nonce="0f" * 16),))
    )

    assert [message["calls_everybody"] for message in await at.sim.messages()] == [False, False]
    assert text in (await at.sim.texts())[0]


@pytest.mark.parametrize(
    ("deed", "words"),
    [("archive", "archived"), ("remove_bot", "invite"), ("block", "administrator")],
)
async def test_a_channel_that_takes_nothing_is_told_with_what_to_do(
    at: Scene, deed: str, words: str
) -> None:
    await at.sim.do(deed, chat=CHANNEL.chat_id)

    with pytest.raises(Undeliverable, match=words):
        await at.adapter.send(part(CHANNEL))


async def test_a_missing_scope_is_named(at: Scene) -> None:
    await at.sim.do("app", scopes=["im:history"])

    with pytest.raises(Unauthorized, match=r"scope chat:write.*install the app again"):
        await at.adapter.send(part(at.here))


async def test_an_edit_of_more_than_plain_text_could_hold_is_whole(at: Scene) -> None:
    sent = await at.adapter.send(part(at.here, "Hel …"))
    text = "word " * 1500 + "end"

    await at.adapter.edit(part(at.here, text), sent.message_id)

    assert await at.sim.texts() == [text]


async def test_more_options_than_fit_into_a_row_are_all_shown_and_long_labels_are_cut(
    at: Scene,
) -> None:
    labels = ["a long label " * 20, *map(str, range(30))]
    buttons = tuple(
        Button(label=label, nonce=f"{number:032x}") for number, label in enumerate(labels)
    )

    await at.adapter.ask(replace(part(at.here, "Which?"), buttons=buttons))

    (shown,) = await at.sim.messages()
    assert [button["nonce"] for button in shown["buttons"]] == [button.nonce for button in buttons]
    assert (shown["text"], shown["fallback"]) == ("Which?", "Which?")


async def test_a_press_is_acknowledged_after_it_is_stored_by_whoever_runs_then(at: Scene) -> None:
    button = Button(label="Yes", nonce="0f" * 16)
    thread = await at.say("hello", to=CHANNEL)
    asked = await at.adapter.ask(
        replace(part(replace(CHANNEL, thread_id=thread), "Sure?"), buttons=(button,))
    )
    ear = Ear()
    async with another(at.sim) as again, listening(again, ear.receive):
        pressed = {"message": asked.message_id, "nonce": button.nonce}
        await at.sim.do("press", chat=CHANNEL.chat_id, user=ANN, **pressed)
        await ear.until(lambda: any(each.kind is MessageKind.BUTTON for each in ear.heard))
        await at.sim.until(at.all_is_acknowledged)

    press = next(each for each in ear.heard if each.kind is MessageKind.BUTTON)
    assert (press.text, press.source.thread_id, press.source.user_id) == (button.nonce, thread, ANN)


async def test_a_command_is_answered_where_the_bot_may_not_write(at: Scene) -> None:
    ear = Ear()
    await at.sim.do("remove_bot", chat=CHANNEL.chat_id)
    async with at.listening(ear):
        await at.sim.do(
            "command", chat=CHANNEL.chat_id, user=ANN, command="/turngate-help", text="me"
        )
        (message,) = await ear.until_heard()
        await at.sim.until(at.all_is_acknowledged)
    await at.adapter.send(replace(part(message.source, "Here is & help"), reply_to=message.id))

    (shown,) = await at.sim.messages()
    assert (message.kind, message.text) == (MessageKind.COMMAND, "/help me")
    assert (shown["text"], shown["ephemeral_to"]) == ("Here is & help", ANN)


async def test_a_command_that_was_given_too_long_ago_cannot_be_answered_there(at: Scene) -> None:
    ear = Ear()
    await at.sim.do("remove_bot", chat=CHANNEL.chat_id)
    async with at.listening(ear):
        await at.sim.do("command", chat=CHANNEL.chat_id, user=ANN, command="/new")
        (message,) = await ear.until_heard()
    await at.sim.do("later", seconds=3600.0)

    with pytest.raises(Undeliverable, match="has expired"):
        await at.adapter.send(replace(part(message.source), reply_to=message.id))


async def test_a_command_in_words_works_in_a_thread(at: Scene) -> None:
    ear = Ear()
    thread = await at.say("hello", to=CHANNEL)
    commands = (MenuEntry(name="new", summary="begin anew"),)
    async with another(at.sim, commands=commands) as adapter, listening(adapter, ear.receive):
        await at.say("!new now", to=CHANNEL, thread=thread)
        await ear.until(lambda: any(each.kind is MessageKind.COMMAND for each in ear.heard))

    command = next(each for each in ear.heard if each.kind is MessageKind.COMMAND)
    assert (command.text, command.source.thread_id) == ("/new now", thread)


async def test_the_status_stands_in_the_thread_and_goes_away(at: Scene) -> None:
    thread = await at.say("hello", to=CHANNEL)
    place = replace(CHANNEL, thread_id=thread)

    await at.adapter.show_typing(place)
    assert [each["over"] for each in await at.sim.do("statuses")] == [False]
    await at.adapter.hide_typing(place)

    assert [each["over"] for each in await at.sim.do("statuses")] == [True, True]


async def test_a_flat_chat_has_no_place_for_a_status(at: Scene) -> None:
    await at.adapter.show_typing(at.here)
    await at.adapter.hide_typing(at.here)

    assert await at.sim.calls(does="type") == []


async def test_a_thread_of_the_assistants_pane_is_a_conversation_and_gets_a_title(
    at: Scene,
) -> None:
    ear = Ear()
    async with at.listening(ear):
        thread = (await at.sim.do("assistant", chat=at.here.chat_id, user=ANN))["id"]
        await at.say("plan  my\nweek", thread=thread)
        await at.say("and the next", thread=thread)
        heard = await ear.until_heard(2)

        async def has_title() -> object:
            return await at.sim.do("titles")

        await at.sim.until(has_title)

    assert {each.source.thread_id for each in heard} == {thread}
    assert (await at.sim.do("titles"))[0]["titles"] == {thread: "plan my week"}


async def test_the_assistants_pane_is_known_after_a_restart(at: Scene) -> None:
    ear = Ear()
    thread = (await at.sim.do("assistant", chat=at.here.chat_id, user=ANN))["id"]
    await at.say("long ago", thread=thread)
    async with another(at.sim) as again:
        (caught_up,) = [message async for message in again.catch_up(LONG_AGO)]
        async with listening(again, ear.receive):
            await at.say("go on", thread=thread)
            await ear.until(lambda: "go on" in ear.texts)

    assert {each.source.thread_id for each in (caught_up, *ear.heard)} == {thread}


@pytest.mark.parametrize("emoji", ["👀", "✅", ":eyes:", "eyes", "🤖", "❤️"])
async def test_a_reaction_goes_by_its_name_and_once(at: Scene, emoji: str) -> None:
    id_ = await at.say()

    await at.adapter.react(at.here, id_, emoji)
    await at.adapter.react(at.here, id_, emoji)

    (update,) = await at.sim.updates()
    assert len(update["reactions"]) == 1


async def streamed(at: Scene) -> dict[str, Any]:
    (shown,) = await at.sim.messages()
    return shown


async def test_an_answer_grows_in_a_stream_and_ends_as_one_message_with_its_name(at: Scene) -> None:
    place = replace(CHANNEL, thread_id=await at.say("hello", to=CHANNEL))
    preview = replace(part(place, "Hel", 0), turn=TurnId(1))

    begun = await at.adapter.begin(preview, ())
    await at.adapter.grow(replace(preview, text="Hello **wor"), begun.message_id, ())
    assert (await streamed(at))["stream"]["open"]
    ended = await at.adapter.edit(part(place, "Hello **world**.", 7), begun.message_id)

    shown = await streamed(at)
    assert (ended.message_id, shown["text"], shown["edits"]) == (
        begun.message_id,
        "Hello **world**.",
        [],
    )
    assert not shown["stream"]["open"]
    assert await at.adapter.find_sent(part(place, "", 7), datetime.now(UTC)) is not None
    assert methods(await at.sim.calls(does="edit")) == ["chat.appendStream", "chat.stopStream"]


async def test_an_answer_that_is_not_what_was_streamed_takes_its_place(at: Scene) -> None:
    place = replace(CHANNEL, thread_id=await at.say("hello", to=CHANNEL))
    begun = await at.adapter.begin(part(place, "Something else", 0), ())

    await at.adapter.edit(part(place, "Hello."), begun.message_id)

    shown = await streamed(at)
    assert (shown["text"], shown["stream"]["open"]) == ("Hello.", False)


async def test_a_stream_that_another_process_began_ends_as_one_message(at: Scene) -> None:
    place = replace(CHANNEL, thread_id=await at.say("hello", to=CHANNEL))
    begun = await at.adapter.begin(part(place, "Hel", 0), ())

    async with another(at.sim) as again:
        await again.edit(part(place, "Hello."), begun.message_id)
        await again.edit(part(place, "Hello."), begun.message_id)

    shown = await streamed(at)
    assert (shown["text"], shown["stream"]["open"]) == ("Hello.", False)


async def test_a_stream_of_which_nobody_knows_how_far_it_came_is_replaced(at: Scene) -> None:
    place = replace(CHANNEL, thread_id=await at.say("hello", to=CHANNEL))
    begun = await at.adapter.begin(part(place, "Hel", 0), ())
    await at.sim.fault("lost answer", method="chat.appendStream")
    with pytest.raises(Unreachable):
        await at.adapter.grow(part(place, "Hello wo", 0), begun.message_id, ())

    with pytest.raises(Undeliverable):
        await at.adapter.grow(part(place, "Hello world", 0), begun.message_id, ())
    await at.adapter.edit(part(place, "Hello world."), begun.message_id)

    assert (await streamed(at))["text"] == "Hello world."


async def test_a_stream_that_slack_has_ended_is_edited(at: Scene) -> None:
    place = replace(CHANNEL, thread_id=await at.say("hello", to=CHANNEL))
    begun = await at.adapter.begin(part(place, "Hel", 0), ())
    await at.sim.do("later", seconds=3600.0)

    with pytest.raises(Undeliverable):
        await at.adapter.grow(part(place, "Hello", 0), begun.message_id, ())
    await at.adapter.edit(part(place, "Hello."), begun.message_id)

    assert (await streamed(at))["text"] == "Hello."


async def test_the_end_of_a_stream_that_got_lost_may_be_made_again(at: Scene) -> None:
    place = replace(CHANNEL, thread_id=await at.say("hello", to=CHANNEL))
    begun = await at.adapter.begin(part(place, "Hel", 0), ())
    await at.sim.fault("lost answer", method="chat.stopStream")
    with pytest.raises(Unreachable):
        await at.adapter.edit(part(place, "Hello."), begun.message_id)

    await at.adapter.edit(part(place, "Hello."), begun.message_id)

    assert (await streamed(at))["text"] == "Hello."


async def test_tools_at_work_are_tasks_of_the_stream_and_none_is_left_at_work(at: Scene) -> None:
    place = replace(CHANNEL, thread_id=await at.say("hello", to=CHANNEL))
    search = Tool(id="t1", name="search", status=ToolStatus.STARTED, title="Look\nit up")
    begun = await at.adapter.begin(part(place, "", 0), (search,))
    await at.adapter.grow(
        part(place, "Found", 0), begun.message_id, (replace(search, status=ToolStatus.FAILED),)
    )
    await at.adapter.grow(
        part(place, "Found", 0), begun.message_id, (replace(search, id="t2", title=None),)
    )

    await at.adapter.edit(part(place, "Found it."), begun.message_id)

    shown = await streamed(at)
    assert shown["text"] == "Found it."
    assert [(task["title"], task["status"]) for task in shown["stream"]["tasks"]] == [
        ("Look it up", "error"),
        ("search", "complete"),
    ]


async def test_a_stream_needs_a_thread_and_somebody_whom_it_is_for(at: Scene) -> None:
    in_thread = replace(CHANNEL, thread_id="1700000000.000100")

    assert at.adapter.can_stream(in_thread)
    assert not at.adapter.can_stream(at.here)
    assert not at.adapter.can_stream(replace(in_thread, user_id=None))
    assert at.adapter.can_stream(replace(at.here, thread_id="1700000000.000100"))


async def test_a_workspace_without_streams_is_asked_once(at: Scene) -> None:
    await at.sim.do("server", streaming=False)
    place = replace(CHANNEL, thread_id=await at.say("hello", to=CHANNEL))

    with pytest.raises(Undeliverable):
        await at.adapter.begin(part(place, "Hel", 0), ())

    assert not at.adapter.can_stream(place)


async def test_a_beginning_that_got_lost_is_found_by_where_it_stands(at: Scene) -> None:
    """A stream carries no name until it ends."""
    asked = await at.say("hello", to=CHANNEL)
    preview = replace(
        part(replace(CHANNEL, thread_id=asked), "Hel", 0), reply_to=asked, turn=TurnId(1)
    )
    assert await at.adapter.find_preview(preview) is None
    await at.adapter.send(part(preview.target, "something before", 3))
    await at.sim.fault("lost answer", method="chat.startStream")
    with pytest.raises(Unreachable):
        await at.adapter.begin(preview, ())

    found = await at.adapter.find_preview(preview)

    assert found is not None
    assert [each["text"] for each in await at.sim.messages() if each["id"] == found.message_id] == [
        "Hel"
    ]


async def test_a_preview_that_got_lost_is_found_by_its_turn(at: Scene) -> None:
    asked = await at.say()
    preview = replace(part(at.here, "Hel …", 0), reply_to=asked, turn=TurnId(5))
    await at.sim.fault("lost answer", does="send")
    with pytest.raises(Unreachable):
        await at.adapter.send(preview)

    found = await at.adapter.find_preview(preview)

    assert found is not None
    assert (
        await at.adapter.find_preview(
            replace(preview, turn=TurnId(6), reply_to="1800000000.000100")
        )
        is None
    )


async def test_messages_in_chats_and_threads_are_caught_up_in_one_order(at: Scene) -> None:
    old = await at.say("an old thread", to=CHANNEL, mention=True, at=LONG_AGO.timestamp())
    await at.adapter.send(part(replace(CHANNEL, thread_id=old)))
    since = datetime.now(UTC)

    async def places() -> list[SessionSource]:
        return [replace(CHANNEL, thread_id=old)]

    new = await at.say("1", to=CHANNEL, mention=True)
    await at.say("2", to=CHANNEL, thread=old)
    await at.say("3")
    await at.say("4", to=CHANNEL, thread=new)
    await at.say("5", to=CHANNEL, thread=old)
    async with another(at.sim, places=places) as again:
        found = [message async for message in again.catch_up(since)]

    assert [each.text for each in found] == ["1", "2", "3", "4", "5"]
    assert [each.source.thread_id for each in found] == [new, old, None, new, old]
    assert all(each.addressed_to_bot for each in found)


@pytest.mark.parametrize("days", [1, -1])
async def test_with_a_clock_that_is_wrong_nothing_is_missed_and_what_was_sent_is_found(
    at: Scene, days: int
) -> None:
    clock = WrongClock(days=days)
    answer, since = part(CHANNEL), clock.now()
    async with another(at.sim, clock=clock) as wrong:
        began = await wrong.platform_time() - timedelta(seconds=2)
        await at.say("hello")
        sent = await wrong.send(answer)
        found = await wrong.find_sent(answer, since)

        assert [message.text async for message in wrong.catch_up(began)] == ["hello"]
        assert found is not None
        assert found.message_id == sent.message_id


async def test_a_thread_in_which_nobody_answered_since_is_not_asked_for(at: Scene) -> None:
    """There may be thousands, and Slack lets itself be asked for fifty a minute."""
    threads = [await at.say("a thread", to=CHANNEL, mention=True) for _ in range(5)]
    for thread in threads:
        await at.adapter.send(part(replace(CHANNEL, thread_id=thread)))
    since = datetime.now(UTC)
    await at.say("go on", to=CHANNEL, thread=threads[3])

    async def places() -> list[SessionSource]:
        return [replace(CHANNEL, thread_id=thread) for thread in threads]

    async with another(at.sim, places=places) as again:
        found = [message.text async for message in again.catch_up(since)]

    asked = {
        call["parameters"]["ts"] for call in await at.sim.calls(method="conversations.replies")
    }
    assert (found, asked) == (["go on"], {threads[3]})


@pytest.mark.parametrize("scopes", [[], ["channels:read"]], ids=["unknown", "unreadable"])
async def test_a_chat_that_may_not_be_read_keeps_no_other_from_being_caught_up(
    at: Scene, scopes: list[str]
) -> None:
    await at.say("in the channel", to=CHANNEL)
    await at.say("to the bot")
    await at.sim.do("app", scopes=["im:history", "im:read", "chat:write", "users:read", *scopes])

    found = [message.text async for message in at.adapter.catch_up(LONG_AGO)]

    assert found == ["to the bot"]


async def test_a_pause_that_slack_asks_for_is_made_while_catching_up(at: Scene) -> None:
    await at.say()
    await at.sim.fault("429", does="history", retry_after=1)

    assert [message.text async for message in at.adapter.catch_up(LONG_AGO)] == ["hello"]


async def test_too_much_to_catch_up_with_is_said_to_be_a_gap(
    at: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Ten thousand messages would show the same, a minute later.
    monkeypatch.setattr("turngate.adapters.slack.catch_up.MOST_MESSAGES", 250)
    for number in range(450):
        await at.say(str(number))
    found = list[str]()

    async def catch_up() -> None:
        async for message in at.adapter.catch_up(LONG_AGO):
            found.append(message.text)

    with pytest.raises(GapRemains):
        await catch_up()

    assert found == [str(number) for number in range(50, 450)], "the newest, in order"


async def test_what_takes_too_long_to_catch_up_with_is_said_to_be_a_gap(
    at: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Five minutes of reading would show the same.
    monkeypatch.setattr("turngate.adapters.slack.catch_up.LONGEST", 0.0)
    await at.say()

    with pytest.raises(GapRemains):
        [message async for message in at.adapter.catch_up(LONG_AGO)]


async def test_a_login_page_is_not_taken_for_a_file(at: Scene) -> None:
    ear = Ear()
    async with at.listening(ear):
        await at.say("look", file=("a.bin", b"bytes"))
        (message,) = await ear.until_heard()
    await at.sim.do("app", scopes=["im:history", "im:read"])

    with pytest.raises(Refused, match="page"):
        [piece async for piece in at.adapter.fetch(message.attachments[0])]


async def test_the_token_goes_to_slack_alone(at: Scene) -> None:
    ear = Ear()
    async with at.listening(ear):
        await at.say("look", file=("a.bin", b"bytes"))
        (message,) = await ear.until_heard()
    elsewhere = replace(
        message.attachments[0], ref="F1 http://127.0.0.1:9/files-pri/T0001-F1/a.bin"
    )

    with pytest.raises(Refused, match="address"):
        [piece async for piece in at.adapter.fetch(elsewhere)]


async def test_a_file_whose_answer_was_lost_is_found_by_its_name_and_size(
    at: Scene, tmp_path: Path
) -> None:
    path = tmp_path / "random-name"
    path.write_bytes(b"some bytes")
    thread = await at.say("hello", to=CHANNEL)
    lost = replace(
        part(replace(CHANNEL, thread_id=thread), ""), file=File(path=str(path), name="plan.txt")
    )
    await at.sim.fault("lost answer", does="send_file")
    with pytest.raises(Unreachable):
        await at.adapter.send_file(lost)

    found = await at.adapter.find_sent(lost, LONG_AGO)

    (shown,) = await at.sim.messages()
    assert (found and found.message_id, shown["thread"]) == (shown["id"], thread)
    assert (
        await at.adapter.find_sent(
            replace(lost, file=File(path=str(path), name="other.txt")), LONG_AGO
        )
        is None
    )


@pytest.mark.parametrize("method", ["files.getUploadURLExternal", "files.upload"])
async def test_a_file_that_could_not_be_uploaded_was_certainly_not_sent(
    at: Scene, tmp_path: Path, method: str
) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"some bytes")
    await at.sim.fault("lost answer", method=method)

    with pytest.raises(NotSent):
        await at.adapter.send_file(replace(part(at.here), file=File(path=str(path))))

    assert await at.sim.messages() == []


async def test_an_empty_file_is_not_taken(at: Scene, tmp_path: Path) -> None:
    (tmp_path / "empty").touch()

    with pytest.raises(Undeliverable, match="empty"):
        await at.adapter.send_file(replace(part(at.here), file=File(path=str(tmp_path / "empty"))))


async def test_a_server_that_has_no_such_thing_is_not_taken_for_one_that_fails(at: Scene) -> None:
    """What stands in Slack's place may not know everything that Slack does."""
    for method in ("users.conversations", "conversations.info", "users.info"):
        await at.sim.fault("404", method=method, times=None)
    ear = Ear()

    assert [message async for message in at.adapter.catch_up(LONG_AGO)] == []
    async with at.listening(ear):
        await at.say()
        await ear.until_heard()


async def test_a_place_is_known_by_its_id_before_anybody_wrote_from_there(at: Scene) -> None:
    group = {"chat": "C5009", "type": "mpim", "members": [ANN]}
    await at.sim.do("open", **group)
    assert at.adapter.source_of("C5009", None).chat_type is ChatType.CHANNEL
    ear = Ear()
    async with at.listening(ear):
        await at.sim.say("hello", chat="C5009", user=ANN)
        (message,) = await ear.until_heard()

    assert replace(at.adapter.source_of("C5009", None), user_id=ANN) == message.source.nameless
    assert at.adapter.source_of("C5001", "1700000000.000100") == replace(
        CHANNEL.nameless, user_id=None, thread_id="1700000000.000100"
    )
    assert at.adapter.source_of("D71001", None).chat_type is ChatType.DM
    assert at.adapter.source_of(ANN, None) == replace(at.here, chat_id=ANN)


async def test_two_turns_of_one_second_have_names_of_their_own(at: Scene) -> None:
    """Numbers begin anew with a new installation, and the old messages are still there."""
    before = replace(part(at.here, "old", 1), created_at=datetime.now(UTC) - timedelta(seconds=1))
    await at.adapter.send(before)

    assert (
        await at.adapter.find_sent(replace(before, created_at=datetime.now(UTC)), LONG_AGO) is None
    )
    assert await at.adapter.find_sent(before, LONG_AGO) is not None
