"""
A server that speaks as Slack does and says no more than it must: what it leaves out keeps nobody
from working.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from aiohttp import web

from tests.contracts.adapter_scene import part
from turngate.adapters.slack import plugin as slack
from turngate.adapters.slack.check import examine
from turngate.gateway.daemon.system_clock import SystemClock
from turngate.gateway.domain.errors import Undeliverable
from turngate.gateway.domain.messages import ChatType, SessionSource
from turngate.gateway.domain.ports.adapter import (
    CatchUpChats,
    LocatesChats,
    no_chats,
)

Json = dict[str, Any]

ME: Json = {"ok": True, "user_id": "U0BOT", "bot_id": "B0BOT", "team_id": "T1"}
LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)
ROOT, REPLY = "1790000000.000100", "1790000001.000200"
CHANNEL = SessionSource(platform="slack", chat_id="C1", chat_type=ChatType.CHANNEL, scope="T1")
DM = SessionSource(platform="slack", chat_id="D1", user_id="U2", chat_type=ChatType.DM, scope="T1")
KNOWS_NOTHING_ELSE: list[Json] = [{"ok": False, "error": "unknown_method"}, {"ok": True}]


class LeanSlack:
    """To each method one answer, whoever asks, and to all others the same."""

    def __init__(self, answers: dict[str, Json], otherwise: Json) -> None:
        self.url = ""
        self.asked: list[tuple[str, Json]] = []
        self.answers = {"auth.test": ME, **answers}
        self._otherwise = otherwise

    async def answer(self, request: web.Request) -> web.Response:
        method = request.match_info["method"]
        said = (
            await request.json()
            if request.content_type == "application/json"
            else dict(await request.post())
        )
        self.asked.append((method, {**request.query, **said}))
        return web.json_response(self.answers.get(method, self._otherwise))


@asynccontextmanager
async def lean_slack(otherwise: Json | None = None, **answers: Json) -> AsyncIterator[LeanSlack]:
    """Methods are written with `_` for `.`."""
    server = LeanSlack(
        {name.replace("_", "."): said for name, said in answers.items()}, otherwise or {"ok": True}
    )
    app = web.Application()
    app.router.add_route("*", "/api/{method}", server.answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    server.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield server
    finally:
        await runner.cleanup()


@asynccontextmanager
async def adapter_at(
    server: LeanSlack, places: CatchUpChats = no_chats
) -> AsyncIterator[slack.SlackAdapter]:
    account = slack.Account(bot_token="xoxb-1", app_token="xapp-1", api_url=f"{server.url}/api/")  # noqa: S106
    adapter = slack.SlackAdapter(account, SystemClock(), places)
    try:
        yield adapter
    finally:
        await adapter.close()


def said(text: str, ts: str = ROOT, **more: object) -> Json:
    return {"type": "message", "user": "U2", "text": text, "ts": ts, **more}


def messages(*found: Json) -> Json:
    return {"ok": True, "messages": list(found)}


async def in_the_channel_s_thread() -> list[SessionSource]:
    return [replace(CHANNEL, thread_id=ROOT)]


async def in_the_direct_chat() -> list[SessionSource]:
    return [DM]


@pytest.mark.parametrize("otherwise", KNOWS_NOTHING_ELSE, ids=["refused", "nothing said"])
async def test_chats_with_conversations_are_read_where_nobody_lists_chats(otherwise: Json) -> None:
    async with (
        lean_slack(otherwise, conversations_history=messages(said("hello"))) as server,
        adapter_at(server, in_the_direct_chat) as adapter,
    ):
        found = [message.text async for message in adapter.catch_up(LONG_AGO)]

    assert found == ["hello"]


async def test_a_conversation_of_which_no_history_tells_is_read_in_its_thread() -> None:
    root, reply = said("<@U0BOT> hello"), said("go on", REPLY, thread_ts=ROOT)
    told = {"conversations_history": messages(root), "conversations_replies": messages(root, reply)}
    async with lean_slack(**told) as server, adapter_at(server, in_the_channel_s_thread) as adapter:
        since = datetime.fromtimestamp(1790000001, UTC)
        found = [message.text async for message in adapter.catch_up(since)]

    assert found == ["go on"]


async def test_what_a_history_holds_are_messages_even_if_it_does_not_say_so() -> None:
    untyped = said("hello")
    del untyped["type"]
    async with (
        lean_slack(conversations_history=messages(untyped)) as server,
        adapter_at(server, in_the_direct_chat) as adapter,
    ):
        found = [message.text async for message in adapter.catch_up(LONG_AGO)]

    assert found == ["hello"]


async def test_what_was_sent_is_found_where_nobody_says_who_wrote_it() -> None:
    async with (
        lean_slack(chat_postMessage={"ok": True, "ts": ROOT}) as server,
        adapter_at(server) as adapter,
    ):
        asked = part(DM, "hello")
        await adapter.send(asked)
        (_, posted) = server.asked[-1]
        server.answers["conversations.history"] = messages(
            {"text": "hello", "ts": ROOT, "metadata": posted["metadata"]}
        )

        found = await adapter.find_sent(asked, LONG_AGO)

    assert found is not None
    assert found.message_id == ROOT


async def test_what_nobody_wrote_no_person_wrote() -> None:
    """
    Else a server that tells the bot its own words without an author would have it talk to itself
    for ever.
    """
    nobodys = said("hello")
    del nobodys["user"]
    async with (
        lean_slack(conversations_history=messages(nobodys)) as server,
        adapter_at(server, in_the_direct_chat) as adapter,
    ):
        found = [message.from_bot async for message in adapter.catch_up(LONG_AGO)]

    assert found == [True]


async def test_a_server_that_names_no_workspace_has_one() -> None:
    me = {"ok": True, "user_id": "U0BOT"}
    theirs = said("hello", user_team="T7")
    async with (
        lean_slack(auth_test=me, conversations_history=messages(theirs)) as server,
        adapter_at(server, in_the_direct_chat) as adapter,
    ):
        (found,) = [message async for message in adapter.catch_up(LONG_AGO)]

    assert (found.source.scope, found.source.user_id, found.source.user_id_alt) == (
        None,
        "U2",
        None,
    )


async def test_words_go_as_plain_text_to_a_server_that_takes_no_markdown() -> None:
    async with (
        lean_slack(chat_postMessage={"ok": False, "error": "no_text"}) as server,
        adapter_at(server) as adapter,
    ):
        with pytest.raises(Undeliverable):
            await adapter.send(part(DM, "a < b"))

    assert [
        words.get("text") for method, words in server.asked if method == "chat.postMessage"
    ] == [None, "a &lt; b"]


@pytest.mark.parametrize("otherwise", KNOWS_NOTHING_ELSE, ids=["refused", "nothing said"])
async def test_a_check_blames_no_token_for_what_a_server_does_not_tell(otherwise: Json) -> None:
    async with lean_slack(otherwise, auth_test={"ok": True, "user_id": "U0BOT"}) as server:
        http = slack.Http(host="127.0.0.1", port=3000, signing_secret="s")  # noqa: S106 - nobody's
        findings = await examine(
            slack.Account(bot_token="xoxb-1", http=http, api_url=f"{server.url}/api/")  # noqa: S106
        )

    assert not [finding.words for finding in findings if finding.is_error]
    assert findings[0].words == (
        "the bot token is valid: this is id U0BOT, in an unnamed workspace"
    )


async def test_a_place_is_known_by_its_id_before_anybody_wrote_from_there() -> None:
    async with lean_slack() as server, adapter_at(server) as adapter:
        assert isinstance(adapter, LocatesChats)
        before = adapter.source_of("C1", ROOT)
        [message async for message in adapter.catch_up(LONG_AGO)]

        assert before == replace(CHANNEL, thread_id=ROOT, scope=None)
        assert adapter.source_of("C1", ROOT) == replace(CHANNEL, thread_id=ROOT)
        assert adapter.source_of("G1", None) == replace(CHANNEL, chat_id="G1")
        assert adapter.source_of("D1", None) == replace(DM, user_id=None)
        assert adapter.source_of("U2", None) == replace(DM, chat_id="U2")


async def test_a_place_is_what_a_message_from_there_says_it_is() -> None:
    listed = {"ok": True, "channels": [{"id": "C1", "is_mpim": True}, {"id": "D1", "is_im": True}]}
    told = {"users_conversations": listed, "conversations_history": messages(said("hello"))}
    async with lean_slack(**told) as server, adapter_at(server) as adapter:
        heard = {
            message.source.chat_id or "": message.source
            async for message in adapter.catch_up(LONG_AGO)
        }

        for chat, source in heard.items():
            assert adapter.source_of(chat, source.thread_id) == replace(source, user_id=None)
    assert {source.chat_type for source in heard.values()} == {ChatType.GROUP, ChatType.DM}
