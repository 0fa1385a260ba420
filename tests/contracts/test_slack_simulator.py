"""
The Slack simulator keeps Slack's rules: the real slack-sdk and slack-bolt find what they would find
there.

Nothing is timed: what must happen is waited for, and what Slack waits for takes milliseconds by
setting.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from slack_bolt import BoltResponse
from slack_bolt.adapter.aiohttp import to_aiohttp_response, to_bolt_request
from slack_bolt.adapter.socket_mode.aiohttp import AsyncSocketModeHandler
from slack_bolt.async_app import AsyncApp
from slack_sdk.errors import SlackApiError
from slack_sdk.models.messages.chunk import MarkdownTextChunk, TaskUpdateChunk
from slack_sdk.socket_mode.aiohttp import SocketModeClient
from slack_sdk.socket_mode.request import SocketModeRequest
from slack_sdk.socket_mode.response import SocketModeResponse
from slack_sdk.web.async_client import AsyncWebClient

from tests import specifications
from tests.simulators.common import Simulator
from tests.simulators.running import PATIENCE, Remote, as_process, in_process
from tests.simulators.slack import Settings, Slack
from tests.simulators.slack.samples import Maker, kinds
from tests.simulators.slack.specified import (
    troubles_of_answer,
    troubles_of_event,
    troubles_of_request,
)
from tests.simulators.slack.tiers import TIERS

DM, ROOM = "D1", "C1"
ANN, BOB = "U1", "U2"
BOT = "U0BOTMAIN"
MAIN_BOT, MAIN_APP = "xoxb-main", "xapp-main"
NOBODY, THIRD_BOT = "xapp-nobody", "xoxb-third"
SUPPORT_BOT, SUPPORT_APP = "xoxb-support", "xapp-support"
BUTTONS = [
    {"type": "section", "text": {"type": "mrkdwn", "text": "Sure?"}},
    {
        "type": "actions",
        "elements": [
            {
                "type": "button",
                "text": {"type": "plain_text", "text": label},
                "action_id": label,
                "value": value,
            }
            for label, value in (("Yes", "0f"), ("No", "1e"))
        ],
    },
]
METADATA = {"event_type": "part", "event_payload": {"id": 7}}
CONTENT = bytes(range(256)) * 40


@pytest.fixture
async def sim() -> AsyncIterator[Remote]:
    """
    Slack, in a hurry, with a DM and a channel. Whatever a test is about, it says so if it breaks a
    strict rule.
    """
    async with in_process(
        Simulator(Slack(Settings(ack_within=1.0, retries=(0.0, 0.01, 0.02))))
    ) as remote:
        await remote.do("open", chat=DM, user=ANN)
        await remote.do("open", chat=ROOM, members=[ANN, BOB])
        yield remote


@pytest.fixture
def web_api(sim: Remote) -> AsyncWebClient:
    """The main bot's."""
    return client(sim)


def client(sim: Remote, token: str | None = MAIN_BOT, **more: Any) -> AsyncWebClient:
    return AsyncWebClient(token=token, base_url=f"{sim.url}/api/", **{"retry_handlers": [], **more})


async def refused(call: Awaitable[object]) -> str:
    """The word with which Slack refuses it."""
    with pytest.raises(SlackApiError) as caught:
        await call
    return str(caught.value.response["error"])


async def violated(sim: Remote) -> list[str]:
    return [each["rule"] for each in await sim.violations()]


async def test_auth_test_says_who_the_bot_is_and_what_it_may_do(web_api: AsyncWebClient) -> None:
    answer = await web_api.auth_test()

    assert (answer["user_id"], answer["team_id"], answer["bot_id"]) == (BOT, "T0001", "B0MAIN")
    assert "chat:write" in answer.headers["x-oauth-scopes"].split(",")


@pytest.mark.parametrize(
    ("token", "error"),
    [("xoxb-nobody", "invalid_auth"), (None, "not_authed"), (MAIN_APP, "not_allowed_token_type")],
)
async def test_a_wrong_token_is_refused_and_called_wrong(
    sim: Remote, token: str | None, error: str
) -> None:
    assert await refused(client(sim, token).auth_test()) == error


async def test_a_revoked_token_is_called_revoked(sim: Remote, web_api: AsyncWebClient) -> None:
    await sim.do("app", revoked=True)

    assert await refused(web_api.auth_test()) == "token_revoked"


async def test_only_an_app_token_opens_a_connection(sim: Remote, web_api: AsyncWebClient) -> None:
    opened = await web_api.apps_connections_open(app_token=MAIN_APP)

    assert opened["url"].startswith("ws://")
    assert (
        await refused(web_api.apps_connections_open(app_token=MAIN_BOT)) == "not_allowed_token_type"
    )
    assert await refused(web_api.apps_connections_open(app_token=NOBODY)) == "invalid_auth"


async def test_a_missing_scope_is_named(sim: Remote, web_api: AsyncWebClient) -> None:
    await sim.do("app", scopes=["chat:write"])

    with pytest.raises(SlackApiError) as caught:
        await web_api.conversations_history(channel=DM)

    answer = caught.value.response
    assert (answer["error"], answer["needed"], answer["provided"]) == (
        "missing_scope",
        "im:history",
        "chat:write",
    )


@pytest.mark.parametrize(
    ("what", "trouble"),
    [
        ({"channel": DM, "text": "x", "colour": "red"}, "colour is unknown"),
        ({"text": "x"}, "channel is missing"),
        ({"channel": DM, "text": 7}, "text is int and not str"),
    ],
)
async def test_a_wrong_parameter_is_refused_and_is_a_violation(
    sim: Remote, web_api: AsyncWebClient, what: dict[str, object], trouble: str
) -> None:
    assert await refused(web_api.api_call("chat.postMessage", json=what)) == "invalid_arguments"

    (violation,) = await sim.violations()
    assert trouble in violation["what"]
    assert await sim.texts() == []


async def test_a_method_that_does_not_exist_is_a_violation(
    sim: Remote, web_api: AsyncWebClient
) -> None:
    assert await refused(web_api.api_call("chat.shout")) == "unknown_method"
    assert (
        await refused(web_api.api_call("socket.hello", params={"num_connections": 1}))
        == "unknown_method"
    )
    assert await violated(sim) == ["known methods", "known methods"]


async def test_every_rule_says_where_it_comes_from(sim: Remote) -> None:
    assert all(rule["source"] for rule in await sim.rules())


@pytest.mark.parametrize("field", ["text", "markdown_text"])
@pytest.mark.parametrize(
    ("written", "kept", "seen"),
    [
        ("1 < 2 & 3", "1 &lt; 2 &amp; 3", "1 < 2 & 3"),
        ("1 &lt; 2 &amp; 3", "1 &lt; 2 &amp; 3", "1 < 2 & 3"),
        ("&amp;lt;", "&amp;lt;", "&lt;"),
        ("<@U1> <https://a.b|here>", "<@U1> <https://a.b|here>", "@user-u1 here"),
        ("<b>", "&lt;b&gt;", "<b>"),
    ],
)
async def test_text_is_escaped_once(
    sim: Remote, web_api: AsyncWebClient, field: str, written: str, kept: str, seen: str
) -> None:
    answer = await web_api.chat_postMessage(channel=DM, **{field: written})

    assert answer["message"]["text"] == kept
    assert await sim.texts() == [seen]


async def test_a_call_to_a_whole_channel_is_seen_as_one(
    sim: Remote, web_api: AsyncWebClient
) -> None:
    await web_api.chat_postMessage(channel=ROOM, text="<!channel> hi")
    await web_api.chat_postMessage(channel=ROOM, text="&lt;!channel&gt; hi")

    assert [message["calls_everybody"] for message in await sim.messages()] == [True, False]


@pytest.mark.parametrize(
    ("what", "error"),
    [
        ({"markdown_text": "x" * 12_001}, "msg_too_long"),
        ({"text": "x" * 40_001}, "msg_too_long"),
        ({"text": ""}, "no_text"),
        ({}, "no_text"),
        ({"markdown_text": "x", "text": "x"}, "markdown_text_conflict"),
        ({"markdown_text": "x", "blocks": BUTTONS}, "markdown_text_conflict"),
        ({"text": "x", "metadata": {"id": 7}}, "invalid_metadata_format"),
        ({"text": "x", "thread_ts": "1.000001"}, "thread_not_found"),
    ],
)
async def test_a_message_that_slack_does_not_take_is_not_posted(
    sim: Remote, web_api: AsyncWebClient, what: dict[str, Any], error: str
) -> None:
    asked = {"channel": DM, **what}

    assert await refused(web_api.api_call("chat.postMessage", json=asked)) == error
    assert await sim.texts() == []


@pytest.mark.parametrize("what", [{"markdown_text": "x" * 12_000}, {"text": "x" * 40_000}])
async def test_the_longest_message_is_taken(
    sim: Remote, web_api: AsyncWebClient, what: dict[str, Any]
) -> None:
    await web_api.chat_postMessage(channel=DM, **what)

    assert await sim.texts() == [*what.values()]


def _section(text: str) -> dict[str, Any]:
    return {"type": "section", "text": {"type": "mrkdwn", "text": text}}


@pytest.mark.parametrize(
    ("blocks", "error"),
    [
        ([_section("x" * 3_001)], "invalid_blocks"),
        ([_section("x")] * 51, "invalid_blocks"),
        ([{"type": "header", "text": {"type": "plain_text", "text": "x" * 151}}], "invalid_blocks"),
        ([{"type": "paragraph"}], "invalid_blocks"),
        ([{"type": "actions", "elements": []}], "invalid_blocks"),
        ([{"type": "markdown", "text": "x" * 6_001}] * 2, "msg_blocks_too_long"),
    ],
)
async def test_blocks_have_their_limits(
    web_api: AsyncWebClient, blocks: list[dict[str, Any]], error: str
) -> None:
    assert await refused(web_api.chat_postMessage(channel=DM, text="x", blocks=blocks)) == error


async def test_the_largest_blocks_are_taken(sim: Remote, web_api: AsyncWebClient) -> None:
    await web_api.chat_postMessage(channel=DM, text="x", blocks=[_section("x" * 3_000)] * 50)

    (shown,) = await sim.messages()
    assert len(shown["blocks"]) == 50


async def test_people_read_the_blocks_and_see_their_buttons(
    sim: Remote, web_api: AsyncWebClient
) -> None:
    await web_api.chat_postMessage(channel=DM, text="for the notification", blocks=BUTTONS)

    (shown,) = await sim.messages()
    assert (shown["text"], shown["fallback"]) == ("Sure?", "for the notification")
    assert [(each["label"], each["nonce"]) for each in shown["buttons"]] == [
        ("Yes", "0f"),
        ("No", "1e"),
    ]
    assert [call["does"] for call in await sim.calls(method="chat.postMessage")] == ["ask"]


@pytest.mark.parametrize(
    ("deed", "chat", "error"),
    [
        ("archive", ROOM, "is_archived"),
        ("remove_bot", ROOM, "not_in_channel"),
        ("block", DM, "messages_tab_disabled"),
        ("unblock", DM, None),
    ],
)
async def test_where_nothing_is_taken_from_the_bot_that_is_said(
    sim: Remote, web_api: AsyncWebClient, deed: str, chat: str, error: str | None
) -> None:
    await sim.do(deed, chat=chat)

    posting = web_api.chat_postMessage(channel=chat, text="x")
    assert (await refused(posting) if error else (await posting)["ok"]) == (error or True)


async def test_a_channel_that_does_not_exist_is_not_found(web_api: AsyncWebClient) -> None:
    assert await refused(web_api.chat_postMessage(channel="C404", text="x")) == "channel_not_found"


async def test_an_answer_stands_in_its_thread_and_if_asked_for_in_the_channel(
    sim: Remote, web_api: AsyncWebClient
) -> None:
    parent = await sim.say("hi", chat=ROOM, user=ANN)
    await web_api.chat_postMessage(channel=ROOM, text="only there", thread_ts=parent)
    await web_api.chat_postMessage(
        channel=ROOM, text="for all", thread_ts=parent, reply_broadcast=True
    )

    history = await web_api.conversations_history(channel=ROOM)
    assert [message["reply_to"] for message in await sim.messages()] == [parent, parent]
    assert [message["text"] for message in history["messages"]] == ["for all", "hi"]
    assert history["messages"][1]["reply_count"] == 2


async def test_nobody_answers_a_reply(sim: Remote, web_api: AsyncWebClient) -> None:
    parent = await sim.say("hi", chat=ROOM, user=ANN)
    reply = await sim.say("there", chat=ROOM, user=BOB, thread=parent)

    answering = web_api.chat_postMessage(channel=ROOM, text="x", thread_ts=reply)
    assert await refused(answering) == "cannot_reply_to_message"
    assert await violated(sim) == ["no reply"]


async def test_metadata_is_found_by_whoever_asks_for_it(
    sim: Remote, web_api: AsyncWebClient
) -> None:
    await web_api.chat_postMessage(channel=DM, text="x", metadata=METADATA)

    with_it = await web_api.conversations_history(channel=DM, include_all_metadata=True)
    without = await web_api.conversations_history(channel=DM)
    assert with_it["messages"][0]["metadata"] == METADATA
    assert "metadata" not in without["messages"][0]
    assert [call["does"] for call in await sim.calls(method="conversations.history")] == [
        "find",
        "history",
    ]


async def test_unfurling_is_as_it_was_asked_for(sim: Remote, web_api: AsyncWebClient) -> None:
    await web_api.chat_postMessage(
        channel=DM, text="https://a.b", unfurl_links=False, unfurl_media=False
    )

    assert [message["unfurl"] for message in await sim.messages()] == [
        {"unfurl_links": False, "unfurl_media": False}
    ]


async def test_an_edit_replaces_text_and_buttons(sim: Remote, web_api: AsyncWebClient) -> None:
    sent = await web_api.chat_postMessage(channel=DM, text="Sure?", blocks=BUTTONS)

    await web_api.chat_update(channel=DM, ts=sent["ts"], text="Yes.", blocks=[])

    (shown,) = await sim.messages()
    assert (shown["id"], shown["text"], shown["edits"], shown["buttons"]) == (
        sent["ts"],
        "Yes.",
        ["Sure?"],
        [],
    )


async def test_an_edit_that_does_not_mention_them_leaves_blocks_and_metadata(
    sim: Remote, web_api: AsyncWebClient
) -> None:
    sent = await web_api.chat_postMessage(
        channel=DM, text="Sure?", blocks=BUTTONS, metadata=METADATA
    )
    where = {"channel": DM, "ts": sent["ts"]}

    await web_api.chat_update(**where, text="Yes.")
    (left,) = await sim.messages()
    await web_api.chat_update(**where, markdown_text="Yes.", metadata={})
    (gone,) = await sim.messages()

    assert (left["text"], left["fallback"], len(left["buttons"]), left["metadata"]) == (
        "Sure?",
        "Yes.",
        2,
        METADATA,
    )
    assert (gone["text"], gone["buttons"], gone["metadata"]) == ("Yes.", [], None)


async def test_an_edit_of_plain_text_is_shorter_than_a_message(web_api: AsyncWebClient) -> None:
    sent = await web_api.chat_postMessage(channel=DM, text="x")

    await web_api.chat_update(channel=DM, ts=sent["ts"], markdown_text="x" * 12_000)
    await web_api.chat_update(channel=DM, ts=sent["ts"], text="x" * 4_000)
    assert (
        await refused(web_api.chat_update(channel=DM, ts=sent["ts"], text="x" * 4_001))
        == "msg_too_long"
    )


async def test_only_what_is_there_and_ones_own_can_be_changed(
    sim: Remote, web_api: AsyncWebClient
) -> None:
    theirs = await sim.say("mine", chat=DM, user=ANN)
    sent = await web_api.chat_postMessage(channel=DM, text="x")
    await web_api.chat_delete(channel=DM, ts=sent["ts"])

    assert (
        await refused(web_api.chat_update(channel=DM, ts=theirs, text="x")) == "cant_update_message"
    )
    assert await refused(web_api.chat_delete(channel=DM, ts=theirs)) == "cant_delete_message"
    assert (
        await refused(web_api.chat_update(channel=DM, ts=sent["ts"], text="y"))
        == "message_not_found"
    )
    assert await sim.messages() == []


async def test_an_ephemeral_message_is_for_one_who_is_there(
    sim: Remote, web_api: AsyncWebClient
) -> None:
    await web_api.chat_postEphemeral(channel=ROOM, user=ANN, text="psst")

    (shown,) = await sim.messages()
    assert (shown["ephemeral_to"], shown["text"]) == (ANN, "psst")
    assert (await web_api.conversations_history(channel=ROOM))["messages"] == []
    stranger = web_api.chat_postEphemeral(channel=ROOM, user="U404", text="psst")
    assert await refused(stranger) == "user_not_in_channel"


@pytest.mark.parametrize(("everywhere", "error"), [(False, "ratelimited"), (True, "rate_limited")])
async def test_too_many_calls_are_told_how_long_to_wait(
    sim: Remote, web_api: AsyncWebClient, everywhere: bool, error: str
) -> None:
    await sim.fault("429", does="send", retry_after=7, everywhere=everywhere)

    with pytest.raises(SlackApiError) as caught:
        await web_api.chat_postMessage(channel=DM, text="x")

    answer = caught.value.response
    assert (answer.status_code, answer["error"], answer.headers["Retry-After"]) == (429, error, "7")


async def test_one_channel_takes_about_a_message_a_second(
    sim: Remote, web_api: AsyncWebClient
) -> None:
    await sim.do("server", rates=True)
    for _ in range(5):
        await web_api.chat_postMessage(channel=DM, text="x")

    assert await refused(web_api.chat_postMessage(channel=DM, text="x")) == "ratelimited"
    await web_api.chat_postMessage(channel=ROOM, text="x")
    await sim.do("later", seconds=5)
    await web_api.chat_postMessage(channel=DM, text="x")


@pytest.mark.parametrize(("more", "posted"), [({}, 1), ({"retry_handlers": None}, 2)])
async def test_a_lost_answer_makes_the_sdk_post_twice_unless_it_is_told_not_to(
    sim: Remote, more: dict[str, Any], posted: int
) -> None:
    await sim.fault("lost answer", does="send")

    try:
        await client(sim, **more).chat_postMessage(channel=DM, text="x")
    except aiohttp.ClientError:
        await sim.until_shown("x")

    assert await sim.texts() == ["x"] * posted


@pytest.mark.parametrize(("what", "passes"), [("markdown_text", False), ("text", True)])
async def test_formatting_is_refused_by_rule_and_plain_text_is_not(
    sim: Remote, web_api: AsyncWebClient, what: str, passes: bool
) -> None:
    await sim.fault("unparsable", does="send")

    posting = web_api.chat_postMessage(channel=DM, **{what: "**x**"})
    assert ((await posting)["ok"] if passes else await refused(posting)) == (
        True if passes else "invalid_blocks"
    )


async def test_a_stream_grows_and_ends_with_what_was_streamed(
    sim: Remote, web_api: AsyncWebClient
) -> None:
    parent = await sim.say("hi", chat=DM, user=ANN)
    stream = await web_api.chat_startStream(channel=DM, thread_ts=parent, markdown_text="Hel")
    (growing,) = await sim.messages()
    await web_api.chat_appendStream(channel=DM, ts=stream["ts"], markdown_text="lo &")
    await web_api.chat_stopStream(
        channel=DM, ts=stream["ts"], markdown_text="amp; bye.", metadata=METADATA
    )

    (shown,) = await sim.messages()
    assert (growing["text"], growing["stream"]["open"]) == ("Hel", True)
    assert (shown["text"], shown["stream"]["open"], shown["reply_to"]) == (
        "Hello & bye.",
        False,
        parent,
    )
    assert [chunk["text"] for chunk in shown["stream"]["chunks"]] == ["Hel", "lo &", "amp; bye."]
    assert shown["metadata"] == METADATA


async def test_a_stream_shows_tasks_and_their_newest_state(
    sim: Remote, web_api: AsyncWebClient
) -> None:
    parent = await sim.say("hi", chat=ROOM, user=ANN)
    stream = await web_api.chat_stream(
        channel=ROOM,
        thread_ts=parent,
        recipient_team_id="T0001",
        recipient_user_id=ANN,
        buffer_size=1,
    )
    await stream.append(chunks=[TaskUpdateChunk(id="1", title="Search", status="in_progress")])
    await stream.append(markdown_text="Found.")
    await stream.stop(
        chunks=[TaskUpdateChunk(id="1", title="Search", status="complete", output="3 pages")]
    )

    (shown,) = await sim.messages()
    (task,) = shown["stream"]["tasks"]
    assert (shown["text"], task["status"], task["output"]) == ("Found.", "complete", "3 pages")
    assert await sim.violations() == []


@pytest.mark.parametrize(
    ("what", "error"),
    [
        ({}, "missing_recipient_team_id"),
        ({"recipient_team_id": "T0001"}, "missing_recipient_user_id"),
        ({"recipient_team_id": "T0002", "recipient_user_id": ANN}, "team_not_found"),
        ({"recipient_team_id": "T0001", "recipient_user_id": "U404"}, "user_not_found"),
    ],
)
async def test_a_stream_in_a_channel_is_for_somebody(
    sim: Remote, web_api: AsyncWebClient, what: dict[str, str], error: str
) -> None:
    parent = await sim.say("hi", chat=ROOM, user=ANN)

    assert await refused(web_api.chat_startStream(channel=ROOM, thread_ts=parent, **what)) == error
    assert await violated(sim) == ["recipient"]


async def test_a_stream_wants_a_thread(sim: Remote, web_api: AsyncWebClient) -> None:
    assert (
        await refused(web_api.api_call("chat.startStream", json={"channel": DM}))
        == "invalid_arguments"
    )
    assert await violated(sim) == ["parameters"]


@pytest.mark.parametrize(
    "chunk",
    [
        {"type": "song"},
        {"type": "task_update", "id": "1", "title": "x", "status": "done"},
        {"type": "markdown_text"},
    ],
)
async def test_a_chunk_is_of_a_known_kind(
    sim: Remote, web_api: AsyncWebClient, chunk: dict[str, str]
) -> None:
    parent = await sim.say("hi", chat=DM, user=ANN)

    starting = web_api.chat_startStream(channel=DM, thread_ts=parent, chunks=[chunk])
    assert await refused(starting) == "invalid_chunks"


async def test_a_stream_that_ended_takes_nothing_more(sim: Remote, web_api: AsyncWebClient) -> None:
    parent = await sim.say("hi", chat=DM, user=ANN)
    stream = await web_api.chat_startStream(
        channel=DM, thread_ts=parent, chunks=[MarkdownTextChunk(text="x")]
    )
    assert (
        await refused(web_api.chat_update(channel=DM, ts=stream["ts"], text="y"))
        == "streaming_state_conflict"
    )
    await web_api.chat_stopStream(channel=DM, ts=stream["ts"])

    appending = web_api.chat_appendStream(channel=DM, ts=stream["ts"], markdown_text="y")
    assert await refused(appending) == "message_not_in_streaming_state"
    await web_api.chat_update(channel=DM, ts=stream["ts"], text="y")


async def test_a_stream_that_nobody_fed_for_long_has_ended(
    sim: Remote, web_api: AsyncWebClient
) -> None:
    parent = await sim.say("hi", chat=DM, user=ANN)
    stream = await web_api.chat_startStream(channel=DM, thread_ts=parent, markdown_text="x")
    await sim.do("later", seconds=301)

    appending = web_api.chat_appendStream(channel=DM, ts=stream["ts"], markdown_text="y")
    assert await refused(appending) == "message_not_in_streaming_state"


async def test_a_chunk_has_the_limit_of_a_message(sim: Remote, web_api: AsyncWebClient) -> None:
    parent = await sim.say("hi", chat=DM, user=ANN)
    stream = await web_api.chat_startStream(
        channel=DM, thread_ts=parent, markdown_text="x" * 12_000
    )

    appending = web_api.chat_appendStream(channel=DM, ts=stream["ts"], markdown_text="x" * 12_001)
    assert await refused(appending) == "msg_too_long"


async def test_a_workspace_may_have_no_streams(sim: Remote, web_api: AsyncWebClient) -> None:
    parent = await sim.say("hi", chat=DM, user=ANN)
    await sim.do("server", streaming=False)

    starting = web_api.chat_startStream(channel=DM, thread_ts=parent)
    assert await refused(starting) == "channel_type_not_supported"


async def test_a_history_comes_newest_first_and_page_by_page(
    sim: Remote, web_api: AsyncWebClient
) -> None:
    for number in range(5):
        await sim.say(str(number), chat=DM, user=ANN)

    pages = [
        [message["text"] for message in page["messages"]]
        async for page in await web_api.conversations_history(channel=DM, limit=2)
    ]

    assert pages == [["4", "3"], ["2", "1"], ["0"]]
    assert (
        await refused(web_api.conversations_history(channel=DM, cursor="nonsense"))
        == "invalid_cursor"
    )
    assert await refused(web_api.conversations_history(channel=DM, limit=1000)) == "invalid_limit"


@pytest.mark.parametrize(
    ("inclusive", "texts"),
    [(None, ["2"]), (False, ["2"]), (True, ["3", "2", "1"])],
    ids=["unsaid", "no", "yes"],
)
async def test_a_history_is_between_two_times(
    sim: Remote, web_api: AsyncWebClient, inclusive: bool | None, texts: list[str]
) -> None:
    ids = [await sim.say(str(number), chat=DM, user=ANN) for number in range(5)]

    page = await web_api.conversations_history(
        channel=DM, oldest=ids[1], latest=ids[3], inclusive=inclusive
    )

    assert [message["text"] for message in page["messages"]] == texts


async def test_what_was_said_long_ago_has_the_time_at_which_it_was_said(sim: Remote) -> None:
    assert await sim.say("old", chat=DM, user=ANN, at=1700000000.25) == "1700000000.250000"
    assert (
        await sim.say("at the same time", chat=DM, user=ANN, at=1700000000.25)
        == "1700000000.250001"
    )


async def test_what_is_forgotten_is_not_in_the_history_and_that_is_said(
    sim: Remote, web_api: AsyncWebClient
) -> None:
    await sim.say("old", chat=DM, user=ANN, at=1700000000.0)
    await sim.say("new", chat=DM, user=ANN, at=1800000000.0)
    await sim.do("forget", before=1750000000.0)

    all_there_is = await web_api.conversations_history(channel=DM)
    the_newest = await web_api.conversations_history(channel=DM, oldest="1760000000.000000")
    assert [message["text"] for message in all_there_is["messages"]] == ["new"]
    assert (all_there_is["is_limited"], the_newest["is_limited"]) == (True, False)


async def test_a_thread_comes_oldest_first_after_its_parent(
    sim: Remote, web_api: AsyncWebClient
) -> None:
    parent = await sim.say("0", chat=ROOM, user=ANN)
    ids = [await sim.say(str(number), chat=ROOM, user=BOB, thread=parent) for number in range(1, 5)]

    pages = [
        [message["text"] for message in page["messages"]]
        async for page in await web_api.conversations_replies(channel=ROOM, ts=parent, limit=2)
    ]
    since = await web_api.conversations_replies(channel=ROOM, ts=parent, oldest=ids[2])
    assert pages == [["0", "1"], ["2", "3"], ["4"]]
    assert [message["text"] for message in since["messages"]] == ["0", "4"]
    assert since["messages"][1]["parent_user_id"] == ANN
    assert (
        await refused(web_api.conversations_replies(channel=ROOM, ts="1.000001"))
        == "thread_not_found"
    )


async def test_chats_are_described_by_their_type(sim: Remote, web_api: AsyncWebClient) -> None:
    await sim.do("open", chat="C2", type="private", name="secrets")
    await sim.do("open", chat="G1", members=[ANN, BOB])

    flags = ("is_im", "is_mpim", "is_group", "is_channel")
    infos = {
        id_: (await web_api.conversations_info(channel=id_))["channel"]
        for id_ in (DM, "G1", "C2", ROOM)
    }
    assert [next(flag for flag in flags if info[flag]) for info in infos.values()] == [*flags]
    assert (infos[DM]["user"], infos["C2"]["name"]) == (ANN, "secrets")
    listed = await web_api.conversations_list(types=["im", "private_channel"])
    assert [chat["id"] for chat in listed["channels"]] == ["C2", DM]
    members = await web_api.conversations_members(channel=ROOM, limit=2)
    assert (members["members"], bool(members["response_metadata"]["next_cursor"])) == (
        [BOT, ANN],
        True,
    )


async def test_a_private_channel_without_the_bot_is_unknown_to_it(
    sim: Remote, web_api: AsyncWebClient
) -> None:
    await sim.do("open", chat="C2", type="private")
    await sim.do("remove_bot", chat="C2")
    await sim.do("remove_bot", chat=ROOM)

    assert await refused(web_api.conversations_history(channel="C2")) == "channel_not_found"
    assert await refused(web_api.conversations_history(channel=ROOM)) == "not_in_channel"


async def test_a_bot_joins_a_channel_and_knows_where_it_is(
    sim: Remote, web_api: AsyncWebClient
) -> None:
    await sim.do("open", chat="C2")
    await sim.do("remove_bot", chat="C2")
    everywhere = ["public_channel", "im"]
    before = await web_api.users_conversations(types=everywhere)
    await web_api.conversations_join(channel="C2")
    after = await web_api.users_conversations(types=everywhere)

    assert [chat["id"] for chat in before["channels"]] == [ROOM, DM]
    assert [chat["id"] for chat in after["channels"]] == [ROOM, "C2", DM]


async def test_a_dm_is_opened_once_and_a_group_dm_with_more_people(
    sim: Remote, web_api: AsyncWebClient
) -> None:
    known = await web_api.conversations_open(users=ANN)
    new = await web_api.conversations_open(users=BOB)
    group = await web_api.conversations_open(users=[ANN, BOB])

    assert known["channel"]["id"] == DM
    assert (new["channel"]["id"][0], group["channel"]["id"][0]) == ("D", "G")
    assert await refused(web_api.conversations_open(users="U404")) == "user_not_found"


async def test_people_bots_and_the_workspace_have_names(
    sim: Remote, web_api: AsyncWebClient
) -> None:
    await sim.do("person", user=ANN, name="ann", real_name="Ann Lee")

    assert (await web_api.users_info(user=ANN))["user"]["profile"]["real_name"] == "Ann Lee"
    assert await refused(web_api.users_info(user="U404")) == "user_not_found"
    assert (await web_api.bots_info(bot="B0MAIN"))["bot"]["user_id"] == BOT
    assert await refused(web_api.bots_info(bot="B404")) == "bot_not_found"
    assert (await web_api.team_info())["team"]["id"] == "T0001"


async def test_a_reaction_is_put_once_and_seen_as_a_picture(
    sim: Remote, web_api: AsyncWebClient
) -> None:
    id_ = await sim.say("hi", chat=DM, user=ANN)
    where = {"channel": DM, "timestamp": id_}

    await web_api.reactions_add(name="eyes", **where)

    (update,) = await sim.updates()
    assert update["reactions"] == ["👀"]
    assert await refused(web_api.reactions_add(name="eyes", **where)) == "already_reacted"
    assert await refused(web_api.reactions_add(name="👀", **where)) == "invalid_name"
    await web_api.reactions_remove(name="eyes", **where)
    assert await refused(web_api.reactions_remove(name="eyes", **where)) == "no_reaction"
    gone = web_api.reactions_add(name="eyes", channel=DM, timestamp="1.000001")
    assert await refused(gone) == "message_not_found"


async def test_an_assistant_shows_what_it_does_and_what_it_is_about(
    sim: Remote, web_api: AsyncWebClient
) -> None:
    await sim.do("app", view="assistant")
    thread = (await sim.do("assistant", chat=DM, user=ANN))["id"]
    where = {"channel_id": DM, "thread_ts": thread}

    await web_api.assistant_threads_setStatus(status="is thinking...", **where)
    await web_api.assistant_threads_setStatus(status="", **where)
    await web_api.assistant_threads_setTitle(title="Trains", **where)
    await web_api.assistant_threads_setSuggestedPrompts(
        prompts=[{"title": "A", "message": "a?"}], **where
    )

    assert [(each["status"], each["over"]) for each in await sim.do("statuses")] == [
        ("is thinking...", True),
        ("", True),
    ]
    assert await sim.do("typing") == [DM]
    (shown,) = await sim.do("titles")
    assert (shown["titles"], shown["prompts"]) == (
        {thread: "Trains"},
        [{"title": "A", "message": "a?"}],
    )
    astray = web_api.assistant_threads_setStatus(status="x", channel_id=DM, thread_ts="1.000001")
    assert await refused(astray) == "invalid_thread_ts"


@pytest.mark.parametrize("ends_with", ["an answer", "two minutes"])
async def test_a_status_ends_with_an_answer_or_after_two_minutes(
    sim: Remote, web_api: AsyncWebClient, ends_with: str
) -> None:
    thread = await sim.say("hi", chat=DM, user=ANN)
    await web_api.assistant_threads_setStatus(
        status="is thinking...", channel_id=DM, thread_ts=thread
    )
    (before,) = await sim.do("statuses")

    await {
        "an answer": lambda: web_api.chat_postMessage(channel=DM, text="x", thread_ts=thread),
        "two minutes": lambda: sim.do("later", seconds=121),
    }[ends_with]()

    (after,) = await sim.do("statuses")
    assert (before["over"], after["over"]) == (False, True)


async def test_a_file_is_uploaded_in_three_steps_and_then_seen(
    sim: Remote, web_api: AsyncWebClient
) -> None:
    parent = await sim.say("hi", chat=ROOM, user=ANN)

    uploaded = await web_api.files_upload_v2(
        channel=ROOM,
        content=CONTENT,
        filename="a.bin",
        title="A",
        initial_comment="Here.",
        thread_ts=parent,
    )

    (shown,) = await sim.messages()
    info = (await web_api.files_info(file=uploaded["file"]["id"]))["file"]
    assert (shown["text"], shown["file"]["name"], shown["reply_to"]) == ("Here.", "a.bin", parent)
    assert (info["size"], info["shares"]["public"][ROOM][0]["ts"]) == (len(CONTENT), shown["id"])
    assert await sim.violations() == []


async def test_a_file_without_its_bytes_is_no_file(sim: Remote, web_api: AsyncWebClient) -> None:
    begun = await web_api.files_getUploadURLExternal(filename="a.bin", length=3)

    completing = web_api.files_completeUploadExternal(
        files=[{"id": begun["file_id"]}], channel_id=DM
    )
    assert await refused(completing) == "file_not_found"
    async with (
        aiohttp.ClientSession() as http,
        http.post(begun["upload_url"], data=b"four") as response,
    ):
        assert response.status == 400
    assert await sim.messages() == []


@pytest.mark.parametrize(
    ("token", "mime"),
    [
        (MAIN_BOT, "text/plain"),
        (None, "text/html"),
        (SUPPORT_BOT, "text/html"),
        (MAIN_APP, "text/html"),
    ],
)
async def test_a_download_without_the_token_answers_200_with_a_login_page(
    sim: Remote, web_api: AsyncWebClient, token: str | None, mime: str
) -> None:
    await sim.say("look", chat=DM, user=ANN, file=("../ü.txt", CONTENT))
    (message,) = (await web_api.conversations_history(channel=DM))["messages"]
    url = message["files"][0]["url_private"]

    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with aiohttp.ClientSession(headers=headers) as http, http.get(url) as response:
        status, kind, content = response.status, response.content_type, await response.read()

    assert (status, kind) == (200, mime)
    assert (content == CONTENT) == (mime == "text/plain")


async def test_a_file_that_was_deleted_is_gone(sim: Remote, web_api: AsyncWebClient) -> None:
    said = await sim.do(
        "say", chat=DM, user=ANN, files=[{"name": "a", "mime": "text/plain", "content": "YQ=="}]
    )
    await sim.do("delete_file", file=said["files"][0])

    assert await refused(web_api.files_info(file=said["files"][0])) == "file_deleted"
    assert await refused(web_api.files_info(file="F404")) == "file_not_found"


class Ears:
    """A real Socket Mode client that acknowledges at once, or when it is told to."""

    def __init__(
        self, sim: Remote, *, token: str = MAIN_APP, acks: bool = True, ping_interval: float = 5.0
    ) -> None:
        self.heard: list[SocketModeRequest] = []
        self.frames: list[dict[str, Any]] = []
        self.acks = acks
        self.client = SocketModeClient(token, web_client=client(sim), ping_interval=ping_interval)
        self.client.socket_mode_request_listeners.append(self._hear)  # type: ignore[arg-type]
        self.client.message_listeners.append(self._note)  # type: ignore[arg-type]

    async def _note(self, _: object, message: dict[str, Any], __: str | None) -> None:
        self.frames.append(message)

    async def _hear(self, _: object, request: SocketModeRequest) -> None:
        self.heard.append(request)
        if self.acks:
            await self.ack(request)

    async def ack(self, request: SocketModeRequest, **payload: object) -> None:
        answer = SocketModeResponse(envelope_id=request.envelope_id, payload=payload or None)  # type: ignore[arg-type]
        await self.client.send_socket_mode_response(answer)

    async def until_heard(self, count: int) -> list[SocketModeRequest]:
        async with asyncio.timeout(PATIENCE):
            while len(self.heard) < count:
                await asyncio.sleep(0.002)
        return self.heard

    @property
    def events(self) -> list[dict[str, Any]]:
        return [request.payload["event"] for request in self.heard if "event" in request.payload]


@asynccontextmanager
async def listening(sim: Remote, **how: Any) -> AsyncIterator[Ears]:
    ears = Ears(sim, **how)
    await ears.client.connect()
    try:
        yield ears
    finally:
        await ears.client.close()


async def until_all(sim: Remote, state: str, account: str = "main") -> list[dict[str, Any]]:
    """Wait until everything that people did is acknowledged, or gone."""

    async def is_so() -> bool:
        return {update["state"] for update in await sim.updates(account)} == {state}

    await sim.until(is_so)
    return await sim.updates(account)


async def test_a_message_arrives_in_an_envelope_and_is_acknowledged_by_its_id(sim: Remote) -> None:
    async with listening(sim) as ears:
        id_ = await sim.say("1 < 2 & https://a.b", chat=DM, user=ANN)
        (request,) = await ears.until_heard(1)
        (update,) = await until_all(sim, "acknowledged")

    payload, event = request.payload, request.payload["event"]
    assert (request.type, request.retry_attempt, request.accepts_response_payload) == (
        "events_api",
        0,
        False,
    )
    assert (payload["type"], payload["team_id"], payload["api_app_id"]) == (
        "event_callback",
        "T0001",
        "A0MAIN",
    )
    assert (event["ts"], event["user"], event["channel"], event["channel_type"]) == (
        id_,
        ANN,
        DM,
        "im",
    )
    assert event["text"] == "1 &lt; 2 &amp; <https://a.b>"
    assert (update["text"], update["attempts"]) == ("1 < 2 & https://a.b", ["acknowledged"])
    assert [frame["type"] for frame in ears.frames] == ["hello", "events_api"]


@pytest.mark.parametrize(
    ("chat", "kind", "channel_type"),
    [("D9", None, "im"), ("C9", None, "channel"), ("C9", "private", "group"), ("G9", None, "mpim")],
)
async def test_events_name_the_type_of_the_chat(
    sim: Remote, chat: str, kind: str | None, channel_type: str
) -> None:
    await sim.do("open", chat=chat, **({"type": kind} if kind else {}))
    async with listening(sim) as ears:
        await sim.say("hi", chat=chat, user=ANN)
        await ears.until_heard(1)

    assert ears.events[0]["channel_type"] == channel_type


async def test_a_mention_is_two_events_of_one_message(sim: Remote) -> None:
    async with listening(sim) as ears:
        await sim.say("hi", chat=ROOM, user=ANN, mention=True)
        first, second = await ears.until_heard(2)

    assert {event["type"] for event in ears.events} == {"message", "app_mention"}
    assert ears.events[0]["ts"] == ears.events[1]["ts"]
    assert ears.events[0]["text"] == f"<@{BOT}> hi"
    assert first.payload["event_id"] != second.payload["event_id"]


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ({"bot": "B9"}, {"subtype": "bot_message", "bot_id": "B9"}),
        ({"bot": "B9", "user": "U9"}, {"bot_id": "B9", "user": "U9"}),
        (
            {"user": ANN, "files": [{"name": "a", "mime": "text/plain", "content": "YQ=="}]},
            {"subtype": "file_share"},
        ),
        ({"user": ANN, "more": {"subtype": "me_message"}}, {"subtype": "me_message"}),
        ({"user": ANN, "raw": "<!here> &amp;", "text": ""}, {"text": "<!here> &amp;"}),
    ],
)
async def test_messages_come_in_many_forms(
    sim: Remote, said: dict[str, Any], expected: dict[str, Any]
) -> None:
    async with listening(sim) as ears:
        await sim.do("say", **{"chat": ROOM, "text": "x", **said})
        await ears.until_heard(1)

    assert {name: ears.events[0].get(name) for name in expected} == expected


async def test_a_quote_is_in_the_blocks_only_and_a_forward_hangs_on_the_message(
    sim: Remote,
) -> None:
    async with listening(sim) as ears:
        await sim.say(
            "so what?",
            chat=DM,
            user=ANN,
            quote="the sky is blue",
            forward={"text": "news", "user": BOB},
        )
        await ears.until_heard(1)

    (event,) = ears.events
    quote, section = event["blocks"][0]["elements"]
    assert event["text"] == "so what?"
    assert (quote["type"], quote["elements"][0]["text"]) == ("rich_text_quote", "the sky is blue")
    assert section["elements"][0]["text"] == "so what?"
    assert (event["attachments"][0]["text"], event["attachments"][0]["author_id"]) == ("news", BOB)


async def test_a_thread_reply_names_its_parent_and_a_broadcast_shows_it(sim: Remote) -> None:
    async with listening(sim) as ears:
        parent = await sim.say("0", chat=ROOM, user=ANN)
        await ears.until_heard(1)
        await sim.say("1", chat=ROOM, user=BOB, thread=parent)
        await ears.until_heard(2)
        await sim.say("2", chat=ROOM, user=BOB, thread=parent, broadcast=True)
        await ears.until_heard(3)

    first, reply, broadcast = ears.events
    assert "thread_ts" not in first
    assert (reply["thread_ts"], reply["parent_user_id"]) == (parent, ANN)
    assert (broadcast["subtype"], broadcast["root"]["ts"]) == ("thread_broadcast", parent)


async def test_edits_and_deletes_are_events_about_a_message(sim: Remote) -> None:
    async with listening(sim) as ears:
        id_ = await sim.say("tpyo", chat=DM, user=ANN)
        await ears.until_heard(1)
        await sim.do("change", chat=DM, id=id_, text="typo")
        await ears.until_heard(2)
        await sim.do("delete", chat=DM, id=id_)
        await ears.until_heard(3)

    _, changed, deleted = ears.events
    assert (changed["subtype"], changed["message"]["text"], changed["message"]["ts"]) == (
        "message_changed",
        "typo",
        id_,
    )
    assert changed["previous_message"]["text"] == "tpyo"
    assert (deleted["subtype"], deleted["deleted_ts"]) == ("message_deleted", id_)
    assert len({changed["ts"], deleted["ts"], id_}) == 3


async def test_a_parent_that_is_deleted_leaves_a_tombstone_and_its_thread(
    sim: Remote, web_api: AsyncWebClient
) -> None:
    async with listening(sim) as ears:
        parent = await sim.say("0", chat=ROOM, user=ANN)
        await sim.say("1", chat=ROOM, user=BOB, thread=parent)
        await sim.do("delete", chat=ROOM, id=parent)
        await ears.until_heard(3)

    told = ears.events[2]
    assert (told["subtype"], told["message"]["subtype"]) == ("message_changed", "tombstone")
    assert told["previous_message"]["text"] == "0"
    await web_api.chat_postMessage(channel=ROOM, text="2", thread_ts=parent)


async def test_an_agent_app_has_no_pane_and_hears_of_an_opened_chat(
    sim: Remote, web_api: AsyncWebClient
) -> None:
    async with listening(sim) as ears:
        await sim.do("home", chat=DM, user=ANN)
        await ears.until_heard(1)
        id_ = await sim.say("hi", chat=DM, user=ANN)
        await ears.until_heard(2)
    prompts = [{"title": "A", "message": "a?"}]
    await web_api.assistant_threads_setSuggestedPrompts(
        prompts=prompts, channel_id=DM, thread_ts=id_
    )

    opened, message = ears.events
    assert (opened["type"], opened["tab"], opened["user"]) == ("app_home_opened", "messages", ANN)
    assert "thread_ts" not in message
    assert await sim.do("titles") == [], "Slack takes it and shows nothing"
    with pytest.raises(ValueError, match="assistant_view"):
        await sim.do("assistant", chat=DM, user=ANN)


async def test_a_reaction_and_an_opened_assistant_are_told(sim: Remote) -> None:
    await sim.do("app", view="assistant")
    async with listening(sim) as ears:
        id_ = await sim.say("hi", chat=DM, user=ANN)
        await ears.until_heard(1)
        await sim.do("react", chat=DM, user=ANN, message=id_, emoji="👍")
        await ears.until_heard(2)
        thread = (await sim.do("assistant", chat=DM, user=ANN))["id"]
        await ears.until_heard(3)

    _, reaction, opened = ears.events
    assert (reaction["type"], reaction["reaction"], reaction["item"]["ts"]) == (
        "reaction_added",
        "+1",
        id_,
    )
    assert (opened["type"], opened["assistant_thread"]["thread_ts"]) == (
        "assistant_thread_started",
        thread,
    )


async def test_any_other_event_can_be_told(sim: Remote) -> None:
    async with listening(sim) as ears:
        await sim.do("tell", event={"type": "member_joined_channel", "user": BOB, "channel": ROOM})
        await ears.until_heard(1)

    assert (ears.events[0]["type"], ears.events[0]["user"]) == ("member_joined_channel", BOB)
    assert [update["kind"] for update in await sim.updates()] == ["member_joined_channel"]


async def test_a_bot_hears_of_what_it_wrote_itself(sim: Remote, web_api: AsyncWebClient) -> None:
    async with listening(sim) as ears:
        sent = await web_api.chat_postMessage(channel=DM, text="x")
        await ears.until_heard(1)

    (event,) = ears.events
    assert (event["ts"], event["bot_id"], event["user"]) == (sent["ts"], "B0MAIN", BOT)
    assert await sim.updates() == []


async def test_a_bot_is_told_only_what_it_subscribed_to(sim: Remote) -> None:
    await sim.do("app", events=["app_mention"])
    async with listening(sim) as ears:
        await sim.say("hi", chat=ROOM, user=ANN)
        await sim.say("hi", chat=ROOM, user=ANN, mention=True)
        await ears.until_heard(1)

    assert [event["type"] for event in ears.events] == ["app_mention"]


async def test_what_is_not_acknowledged_comes_again_as_the_same_event_and_then_never(
    sim: Remote,
) -> None:
    await sim.do("server", ack_within=0.02)
    async with listening(sim, acks=False) as ears:
        await sim.say("hi", chat=DM, user=ANN)
        (update,) = await until_all(sim, "gone")
        await ears.until_heard(4)

    assert [request.retry_attempt for request in ears.heard] == [0, 1, 2, 3]
    assert [request.retry_reason for request in ears.heard] == ["", "timeout", "timeout", "timeout"]
    assert len({request.payload["event_id"] for request in ears.heard}) == 1
    assert len({request.envelope_id for request in ears.heard}) == 4
    assert update["attempts"] == ["timeout"] * 4


async def test_what_was_said_while_nobody_listened_comes_with_a_retry(sim: Remote) -> None:
    await sim.do("server", retries=[0.0, 0.0, *[0.02] * 200])
    await sim.say("hi", chat=DM, user=ANN)
    async with listening(sim) as ears:
        (request,) = await ears.until_heard(1)
        await until_all(sim, "acknowledged")

    assert (request.retry_attempt or 0) > 0
    assert request.retry_reason == "connection_failed"


async def test_what_waits_for_a_connection_comes_in_order_and_after_the_hello(sim: Remote) -> None:
    await sim.do("server", waits=PATIENCE, retries=[])
    for number in range(5):
        await sim.say(str(number), chat=DM, user=ANN)
    async with listening(sim) as ears:
        await sim.say("5", chat=DM, user=ANN)
        await ears.until_heard(6)

    assert [event["text"] for event in ears.events] == [str(number) for number in range(6)]
    assert [frame["type"] for frame in ears.frames] == ["hello"] + ["events_api"] * 6


async def test_an_acknowledgement_that_comes_too_late_does_not_count(sim: Remote) -> None:
    await sim.do("server", ack_within=0.02, retries=[])
    async with listening(sim, acks=False) as ears:
        await sim.say("hi", chat=DM, user=ANN)
        await until_all(sim, "gone")
        await ears.ack(ears.heard[0])
        await sim.until(lambda: sim.calls(method="socket.ack"))

    assert [call["answered"] for call in await sim.calls(method="socket.ack")] == ["too late"]


@pytest.mark.parametrize(
    "answer", [{"envelope_id": "nobody's"}, {"payload": {}}, {"envelope_id": "x", "colour": "red"}]
)
async def test_an_acknowledgement_of_nothing_is_a_violation(
    sim: Remote, answer: dict[str, Any]
) -> None:
    async with listening(sim) as ears:
        await ears.client.send_socket_mode_response(answer)
        await sim.until(sim.violations)


@pytest.mark.parametrize("reason", ["refresh_requested", "warning", "too_many_websockets"])
async def test_a_disconnect_frame_makes_the_sdk_connect_anew(sim: Remote, reason: str) -> None:
    async with listening(sim) as ears:
        await sim.do("disconnect", reason=reason)
        await _until_connects(sim, 2)
        await sim.say("hi", chat=DM, user=ANN)
        await ears.until_heard(1)


async def test_what_is_said_between_two_connections_is_not_lost(sim: Remote) -> None:
    async with listening(sim) as ears:
        await sim.do("disconnect", reason="refresh_requested")
        await sim.do("server", retries=[0.0, 0.0, *[0.02] * 200])
        await sim.say("hi", chat=DM, user=ANN)
        await ears.until_heard(1)
        await until_all(sim, "acknowledged")


@pytest.mark.parametrize(("reason", "goes_on"), [("warning", True), ("refresh_requested", False)])
async def test_a_warned_connection_goes_on_for_a_while_and_a_refreshed_one_does_not(
    sim: Remote, web_api: AsyncWebClient, reason: str, goes_on: bool
) -> None:
    await sim.do("server", retries=[], grace=0.2)
    opened = await web_api.apps_connections_open(app_token=MAIN_APP)
    async with aiohttp.ClientSession() as http, http.ws_connect(opened["url"]) as ws:
        await ws.receive_json()
        await sim.do("disconnect", reason=reason)
        await sim.say("hi", chat=DM, user=ANN)
        frames = [message async for message in ws]

    types = [frame.json()["type"] for frame in frames if frame.type is aiohttp.WSMsgType.TEXT]
    assert types == ["disconnect", *(["events_api"] if goes_on else [])]


async def test_an_app_without_socket_mode_is_told_that_the_link_is_disabled(sim: Remote) -> None:
    await sim.do("app", socket_mode=False)
    opened = await client(sim).apps_connections_open(app_token=MAIN_APP)
    async with aiohttp.ClientSession() as http, http.ws_connect(opened["url"]) as ws:
        frame = await ws.receive_json()
        closing = await ws.receive()

    assert (frame["type"], frame["reason"]) == ("disconnect", "link_disabled")
    assert closing.type in (aiohttp.WSMsgType.CLOSE, aiohttp.WSMsgType.CLOSED)


async def test_one_connection_too_many_is_sent_away(sim: Remote, web_api: AsyncWebClient) -> None:
    await sim.do("server", connections=1)
    async with listening(sim):
        await _until_sockets(sim, 1)
        opened = await web_api.apps_connections_open(app_token=MAIN_APP)
        async with aiohttp.ClientSession() as http, http.ws_connect(opened["url"]) as ws:
            frame = await ws.receive_json()

    assert (frame["type"], frame["reason"]) == ("disconnect", "too_many_websockets")


async def test_an_address_is_good_for_one_connection(sim: Remote, web_api: AsyncWebClient) -> None:
    opened = await web_api.apps_connections_open(app_token=MAIN_APP)
    async with aiohttp.ClientSession() as http:
        async with http.ws_connect(opened["url"]) as ws:
            assert (await ws.receive_json())["num_connections"] == 1
        with pytest.raises(aiohttp.WSServerHandshakeError):
            await http.ws_connect(opened["url"])


async def test_an_event_goes_to_one_of_several_connections(sim: Remote) -> None:
    async with listening(sim) as one, listening(sim) as other:
        await _until_sockets(sim, 2)
        for number in range(4):
            await sim.say(str(number), chat=DM, user=ANN)
        await until_all(sim, "acknowledged")

    assert (len(one.heard), len(other.heard)) == (2, 2)


@pytest.mark.parametrize("deed", ["silence", "cut"])
async def test_a_connection_that_died_is_noticed_by_the_sdk(sim: Remote, deed: str) -> None:
    await sim.do("server", retries=[0.0, *[0.05] * 200], ack_within=0.05)
    async with listening(sim, ping_interval=0.05) as ears:
        await _until_sockets(sim, 1)
        await sim.do(deed)
        await sim.say("hi", chat=DM, user=ANN)
        await ears.until_heard(1)


async def test_an_old_connection_is_to_be_refreshed(sim: Remote) -> None:
    await sim.do("server", lifetime=0.02)
    async with listening(sim):
        await _until_connects(sim, 2)


async def test_slack_pings_and_answers_pings(sim: Remote) -> None:
    await sim.do("server", ping_every=0.01)
    async with listening(sim, ping_interval=0.01):
        await sim.until(lambda: sim.calls(method="socket.ping"))
        await sim.until(lambda: sim.calls(method="socket.pong"))


async def _until_connects(sim: Remote, count: int) -> None:
    async def is_so() -> bool:
        return len(await sim.calls(method="socket.hello")) >= count

    await sim.until(is_so)


async def _until_sockets(sim: Remote, count: int) -> None:
    async def is_so() -> bool:
        return await sim.do("sockets") == count

    await sim.until(is_so)


async def test_a_fault_of_events_waits_for_an_event(sim: Remote) -> None:
    await sim.fault("duplicate", does="receive")
    async with listening(sim) as ears:
        await _until_sockets(sim, 1)
        await sim.say("a", chat=DM, user=ANN)
        await sim.say("b", chat=DM, user=ANN)
        await ears.until_heard(3)

    assert [event["text"] for event in ears.events] == ["a", "a", "b"]


async def test_an_event_can_come_twice_and_in_the_wrong_order(sim: Remote) -> None:
    async with listening(sim) as ears:
        await sim.fault("duplicate", method="socket.events_api")
        await sim.say("a", chat=DM, user=ANN)
        await ears.until_heard(2)
        await sim.fault("reorder", method="socket.events_api")
        await sim.say("b", chat=DM, user=ANN)
        await sim.say("c", chat=DM, user=ANN)
        await ears.until_heard(4)

    assert [event["text"] for event in ears.events] == ["a", "a", "c", "b"]
    assert await sim.violations() == []


@pytest.mark.parametrize(
    "kind",
    ["reset", "lost answer", "garbage", "truncated", "html", "wrong types", "500", "half-open"],
)
async def test_a_frame_that_goes_wrong_is_made_good_by_a_retry(sim: Remote, kind: str) -> None:
    await sim.do("server", ack_within=0.1, retries=[0.0, *[0.05] * 200])
    async with listening(sim, ping_interval=0.1) as ears:
        await _until_sockets(sim, 1)
        await sim.fault(kind, method="socket.events_api", chat=DM)
        await sim.say("hi", chat=DM, user=ANN)
        await until_all(sim, "acknowledged")

    assert {event["text"] for event in ears.events} == {"hi"}


@pytest.mark.parametrize(("kind", "times_heard"), [("reset", 2), ("lost answer", 1)])
async def test_an_acknowledgement_can_get_lost_with_its_connection(
    sim: Remote, kind: str, times_heard: int
) -> None:
    await sim.do("server", retries=[0.0, *[0.05] * 200])
    async with listening(sim, ping_interval=0.1) as ears:
        await _until_sockets(sim, 1)
        await sim.fault(kind, does="acknowledge")
        await sim.say("hi", chat=DM, user=ANN)
        await until_all(sim, "acknowledged")

    assert len(ears.heard) == times_heard


@pytest.mark.parametrize("kind", ["500", "429", "html", "garbage", "reset"])
async def test_the_way_to_a_connection_can_be_broken_too(sim: Remote, kind: str) -> None:
    await sim.fault(kind, does="receive", times=2, after=False, retry_after=0)
    async with listening(sim, ping_interval=0.02):
        await _until_connects(sim, 1)


async def test_a_command_is_acknowledged_with_words_for_whoever_gave_it(sim: Remote) -> None:
    async with listening(sim, acks=False) as ears:
        await sim.do("command", chat=ROOM, user=ANN, command="/ask", text="why?")
        (request,) = await ears.until_heard(1)
        await ears.ack(request, text="Let me see.")
        await sim.until_shown("Let me see.")

    payload = request.payload
    assert (request.type, request.accepts_response_payload) == ("slash_commands", True)
    assert (payload["command"], payload["text"], payload["user_id"]) == ("/ask", "why?", ANN)
    assert (await sim.messages())[0]["ephemeral_to"] == ANN


async def test_a_command_that_nobody_takes_does_not_come_again(sim: Remote) -> None:
    await sim.do("command", chat=ROOM, user=ANN, command="/ask")

    (update,) = await until_all(sim, "gone")
    assert len(update["attempts"]) == 1


async def test_an_event_takes_no_words_in_its_acknowledgement(sim: Remote) -> None:
    async with listening(sim, acks=False) as ears:
        await sim.say("hi", chat=DM, user=ANN)
        (request,) = await ears.until_heard(1)
        await ears.ack(request, text="no")
        await sim.until(sim.violations)

    assert await violated(sim) == ["acknowledgements"]


async def test_only_a_button_that_is_shown_can_be_pressed(
    sim: Remote, web_api: AsyncWebClient
) -> None:
    sent = await web_api.chat_postMessage(channel=DM, text="Sure?", blocks=BUTTONS)

    with pytest.raises(ValueError, match="no such button"):
        await sim.do("press", chat=DM, user=ANN, message=sent["ts"], nonce="2d")


async def test_a_response_url_works_five_times_in_half_an_hour(sim: Remote) -> None:
    async with listening(sim) as ears, aiohttp.ClientSession() as http:
        await sim.do("command", chat=ROOM, user=ANN, command="/ask")
        await sim.do("command", chat=ROOM, user=ANN, command="/ask")
        first, second = [request.payload["response_url"] for request in await ears.until_heard(2)]
        statuses = [
            (await http.post(first, json={"text": str(number)})).status for number in range(6)
        ]
        await sim.do("later", seconds=1801)
        late = await http.post(second, json={"text": "late"})
        late_text = await late.text()

    assert statuses == [200] * 5 + [404]
    assert (late.status, "expired_url" in late_text) == (404, True)
    assert await sim.texts() == [str(number) for number in range(5)]


@asynccontextmanager
async def bolt(sim: Remote, app: AsyncApp) -> AsyncIterator[AsyncApp]:
    """Over Socket Mode."""
    handler = AsyncSocketModeHandler(app, MAIN_APP)
    await handler.connect_async()
    try:
        yield app
    finally:
        await handler.close_async()


@asynccontextmanager
async def bolt_over_http(sim: Remote, app: AsyncApp) -> AsyncIterator[AsyncApp]:
    """At an address of its own, which Slack is told."""

    async def answer(request: web.Request) -> web.Response:
        return await to_aiohttp_response(await app.async_dispatch(await to_bolt_request(request)))

    async with served(answer) as url:
        await sim.do("app", url=url)
        yield app


@asynccontextmanager
async def served(
    answer: Callable[[web.Request], Awaitable[web.StreamResponse]],
) -> AsyncIterator[str]:
    application = web.Application()
    application.router.add_post("/slack/events", answer)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        host, port = runner.addresses[0][:2]
        yield f"http://{host}:{port}/slack/events"
    finally:
        await runner.cleanup()


def app_of(sim: Remote, **more: Any) -> AsyncApp:
    how = {"signing_secret": "main-signing-secret", "process_before_response": True, **more}
    app = AsyncApp(client=client(sim), **how)

    @app.event("message")
    async def echo(event: dict[str, Any], say: Any) -> None:
        if event.get("subtype") is None:
            await say(f"you said {event['text']}", thread_ts=event.get("thread_ts", event["ts"]))

    @app.event({"type": "message", "subtype": "message_changed"})
    async def ignore() -> None:
        """Edits of our own."""

    @app.command("/ask")
    async def ask(ack: Any, respond: Any, command: dict[str, Any]) -> None:
        await ack()
        await respond(f"asked {command['text']}")

    @app.action("Yes")
    async def agree(ack: Any, respond: Any, action: dict[str, Any]) -> None:
        await ack()
        await respond(f"agreed {action['value']}", replace_original=True)

    return app


Way = Callable[[Remote, AsyncApp], AbstractAsyncContextManager[AsyncApp]]
both_ways = pytest.mark.parametrize("way", [bolt, bolt_over_http], ids=["socket", "http"])


@both_ways
async def test_bolt_answers_a_message_in_its_thread(sim: Remote, way: Way) -> None:
    async with way(sim, app_of(sim)):
        id_ = await sim.say("1 < 2", chat=ROOM, user=ANN)
        await until_all(sim, "acknowledged")

    (shown,) = await sim.messages()
    assert (shown["text"], shown["reply_to"]) == ("you said 1 < 2", id_)
    assert await sim.violations() == []


@both_ways
async def test_bolt_answers_a_command_and_a_button_at_the_response_url(
    sim: Remote, way: Way
) -> None:
    sent = await client(sim).chat_postMessage(channel=DM, text="Sure?", blocks=BUTTONS)
    async with way(sim, app_of(sim)):
        await sim.do("press", chat=DM, user=ANN, message=sent["ts"], nonce="0f")
        await sim.do("command", chat=ROOM, user=ANN, command="/ask", text="why?")
        await sim.until_shown("agreed 0f", "asked why?")

    (replaced, answered) = await sim.messages()
    assert (replaced["id"], replaced["buttons"], answered["ephemeral_to"]) == (sent["ts"], [], ANN)
    assert await sim.violations() == []


@both_ways
async def test_bolt_that_fails_is_not_taken_for_bolt_that_acknowledged(
    sim: Remote, way: Way
) -> None:
    app, tries = app_of(sim), list[str]()

    @app.middleware
    async def fail_twice(body: dict[str, Any], next: Any) -> BoltResponse | None:  # noqa: A002
        tries.append(body["event_id"])
        if len(tries) > 2:
            return await next()  # type: ignore[no-any-return]
        return BoltResponse(status=503, body="the disk is full")

    await sim.do("server", ack_within=0.2, echo=False)
    async with way(sim, app):
        await sim.say("hi", chat=DM, user=ANN)
        await until_all(sim, "acknowledged")

    assert tries == [tries[0]] * 3


@pytest.mark.parametrize(
    ("more", "reasons"),
    [({"secret": "another"}, ["http_error"] * 4), ({"skew": -400.0}, ["http_error"] * 4)],
    ids=["a wrong secret", "an old signature"],
)
async def test_bolt_refuses_what_is_not_signed_for_it_now(
    sim: Remote, more: dict[str, Any], reasons: list[str]
) -> None:
    async with bolt_over_http(sim, app_of(sim)):
        await sim.do("app", **more)
        await sim.say("hi", chat=DM, user=ANN)
        (update,) = await until_all(sim, "gone")

    assert update["attempts"] == reasons
    assert await sim.texts() == []


async def test_a_request_that_is_refused_comes_again_with_its_number_and_reason(
    sim: Remote,
) -> None:
    numbers: list[tuple[str | None, str | None]] = []

    async def answer(request: web.Request) -> web.StreamResponse:
        body = await request.json()
        if body["type"] == "url_verification":
            return web.json_response({"challenge": body["challenge"]})
        numbers.append(
            (request.headers.get("X-Slack-Retry-Num"), request.headers.get("X-Slack-Retry-Reason"))
        )
        return web.Response(status=200 if len(numbers) == 3 else 500)

    async with served(answer) as url:
        await sim.do("app", url=url)
        await sim.say("hi", chat=DM, user=ANN)
        await until_all(sim, "acknowledged")

    assert numbers == [(None, None), ("1", "http_error"), ("2", "http_error")]


async def test_a_request_that_nobody_wants_again_does_not_come_again(sim: Remote) -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        body = await request.json()
        no = {"X-Slack-No-Retry": "1"}
        return (
            web.Response(text=body["challenge"])
            if "challenge" in body
            else web.Response(status=500, headers=no)
        )

    async with served(answer) as url:
        await sim.do("app", url=url)
        await sim.say("hi", chat=DM, user=ANN)
        (update,) = await until_all(sim, "gone")

    assert len(update["attempts"]) == 1


async def test_requests_come_in_the_wrong_order_by_rule(sim: Remote) -> None:
    texts: list[str] = []

    async def answer(request: web.Request) -> web.StreamResponse:
        body = await request.json()
        texts.extend([body["event"]["text"]] if "event" in body else [])
        return web.Response(text=body.get("challenge", ""))

    async with served(answer) as url:
        await sim.do("app", url=url)
        await sim.fault("reorder", does="receive")
        await sim.say("a", chat=DM, user=ANN)
        await sim.say("b", chat=DM, user=ANN)
        await until_all(sim, "acknowledged")

    assert texts == ["b", "a"]


async def test_the_answer_to_a_command_over_http_is_shown_to_whoever_gave_it(sim: Remote) -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        if request.content_type == "application/json":
            return web.Response(text=(await request.json())["challenge"])
        return web.Response(text=f"you asked {(await request.post())['text']}")

    async with served(answer) as url:
        await sim.do("app", url=url)
        await sim.do("command", chat=ROOM, user=ANN, command="/ask", text="why & how?")
        await sim.until_shown("you asked why & how?")

    assert [message["ephemeral_to"] for message in await sim.messages()] == [ANN]


async def test_an_address_that_does_not_know_the_challenge_is_not_taken(sim: Remote) -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        return web.Response(text="what?")

    async with served(answer) as url:
        with pytest.raises(ValueError, match="challenge_failed"):
            await sim.do("app", url=url)
    with pytest.raises(ValueError, match="url_not_reached"):
        await sim.do("app", url="http://127.0.0.1:1/")


@pytest.mark.parametrize(
    ("fault", "heard"),
    [
        ({"kind": "reset", "does": "receive"}, 1),
        ({"kind": "lost answer", "does": "receive"}, 2),
        ({"kind": "reset", "does": "acknowledge"}, 2),
        ({"kind": "duplicate", "does": "receive"}, 2),
    ],
)
async def test_requests_and_their_answers_get_lost_by_rule(
    sim: Remote, fault: dict[str, Any], heard: int
) -> None:
    ids: list[str] = []

    async def answer(request: web.Request) -> web.StreamResponse:
        body = await request.json()
        ids.extend([body["event_id"]] if "event_id" in body else [])
        return web.Response(text=body.get("challenge", ""))

    async with served(answer) as url:
        await sim.do("app", url=url)
        await sim.fault(**fault)
        await sim.say("hi", chat=DM, user=ANN)
        await until_all(sim, "acknowledged")

    assert (len(ids), len(set(ids))) == (heard, 1)


async def test_two_workspaces_keep_apart_though_their_ids_repeat(sim: Remote) -> None:
    await sim.do("open", account="support", chat=DM, user=ANN)
    async with listening(sim) as main, listening(sim, token=SUPPORT_APP) as support:
        await sim.say("to main", chat=DM, user=ANN)
        await sim.say("to support", chat=DM, user=ANN, account="support")
        (first,) = await main.until_heard(1)
        (second,) = await support.until_heard(1)
        await client(sim, SUPPORT_BOT).chat_postMessage(channel=DM, text="from support")

    assert (first.payload["team_id"], second.payload["team_id"]) == ("T0001", "T0002")
    assert await sim.texts() == []
    assert await sim.texts("support") == ["from support"]


async def test_one_app_in_two_workspaces_hears_both_over_one_connection(sim: Remote) -> None:
    await sim.do("add_bot", name="third", token=THIRD_BOT, app_token=MAIN_APP, team="T0003")
    async with listening(sim) as ears:
        await sim.say("to main", chat=DM, user=ANN)
        await sim.say("to the third", chat=DM, user=ANN, account="third")
        await ears.until_heard(2)

    assert [request.payload["team_id"] for request in ears.heard] == ["T0001", "T0003"]


async def test_what_people_cannot_do_is_told_to_the_test(
    sim: Remote, web_api: AsyncWebClient
) -> None:
    sent = await web_api.chat_postMessage(channel=DM, text="x")

    with pytest.raises(ValueError, match="what the bot wrote"):
        await sim.do("change", chat=DM, id=sent["ts"], text="y")
    with pytest.raises(ValueError, match="no such thread"):
        await sim.say("hi", chat=DM, user=ANN, thread="1.000001")
    with pytest.raises(ValueError, match="no account nobody"):
        await sim.say("hi", chat=DM, user=ANN, account="nobody")


async def test_it_runs_as_a_process_of_its_own() -> None:
    async with (
        as_process("tests.simulators.slack", "--port", "0", "--pace", "0.1") as sim,
        listening(sim) as ears,
    ):
        await sim.say("hi", chat=DM, user=ANN)
        await ears.until_heard(1)
        await client(sim).chat_postMessage(channel=DM, text="hello")

        assert await sim.texts() == ["hello"]
        assert await sim.violations() == []


async def test_each_method_has_its_tier_in_each_workspace(
    sim: Remote, web_api: AsyncWebClient
) -> None:
    """Finding A4: there were no tiers, so nothing showed that previews ate them."""
    await sim.do("server", rates=True, minute=2.0)
    sent = await web_api.chat_postMessage(channel=DM, text="x")
    where = {"channel": DM, "ts": sent["ts"]}
    for number in range(50):
        await web_api.chat_update(text=str(number), **where)

    with pytest.raises(SlackApiError) as refusal:
        await web_api.chat_update(text="one too many", **where)
    await web_api.users_info(user=ANN)
    assert refusal.value.response.status_code == 429
    assert refusal.value.response.data["error"] == "ratelimited"
    assert 1 <= int(refusal.value.response.headers["Retry-After"]) <= 2


@specifications.NEEDED
def test_the_tiers_are_slack_s_own() -> None:
    theirs = specifications.load("slack-samples/rate_limit_tiers.json")

    assert {name: f"Tier{tier}" for name, tier in TIERS.items()} == {
        name: theirs[name] for name in TIERS
    }
    tiered = {name for name in Slack()._asked if theirs.get(name, "").startswith("Tier")}
    assert tiered <= set(TIERS)


@specifications.NEEDED
def test_what_slack_never_said_is_found_in_answers_events_and_requests() -> None:
    """Finding A4: answers had fields that are in no sample of Slack's."""
    profile = {"id": "B1", "name": "bot", "colour": "red"}
    posted = {"ok": True, "channel": "C1", "ts": "1.000001", "message": {"bot_profile": profile}}
    event = {"type": "message", "ts": 1.5, "channel": "C1", "colour": "red"}

    assert troubles_of_answer("chat.postMessage", posted) == [
        "chat.postMessage.message.bot_profile has colour, which no sample has"
    ]
    assert troubles_of_answer("no.such.method", {"x": 1}) == []
    assert troubles_of_event({"type": "event_callback", "event": event}) == [
        "Message.event.ts is float, and at Slack str",
        "Message.event has colour, which no sample has",
    ]
    assert troubles_of_event({"type": "event_callback", "event": {"type": "of_tomorrow"}}) == []
    assert troubles_of_request("chat.update", {"channel": "C1", "colour": "red"}) == [
        "chat.update takes no colour"
    ]
    assert troubles_of_request("chat.appendStream", {"channel": "C1", "chunks": []}) == []


@specifications.NEEDED
@pytest.mark.parametrize("name", ["Message", "MessageChanged", "AppMention", "ReactionAdded"])
def test_what_slack_recorded_is_as_slack_says_it(name: str) -> None:
    maker = Maker(seed=3)
    recorded = json.loads(kinds()[name].read_text(encoding="utf-8"))

    assert troubles_of_event(recorded) == []
    assert json.dumps(maker.regular(name)) == json.dumps(Maker(seed=3).regular(name))


@specifications.NEEDED
def test_every_type_is_made_with_its_optional_fields_and_without() -> None:
    maker = Maker(seed=4)
    fields: dict[str, set[frozenset[str]]] = {}
    for _ in range(30):
        for name in kinds():
            body = maker.regular(name)
            event = body.get("event") if isinstance(body.get("event"), dict) else body
            fields.setdefault(name, set()).add(frozenset(event or {}) | frozenset(body))

    assert len(kinds()) > 50
    assert all(len(each) > 1 for each in fields.values())
