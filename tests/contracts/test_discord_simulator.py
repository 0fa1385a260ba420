"""
The simulator of Discord, asked by the real discord.py: what must be right for the tests of the
adapter to be right.

Each test is a rule of Discord's. Where discord.py would never do the wrong thing itself, the
request is made by hand.
"""

from __future__ import annotations

import asyncio
import io
import json
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import aiohttp
import discord
import pytest
from discord import app_commands
from discord.http import Route

from tests.simulators.common import Simulator
from tests.simulators.discord import CHANNEL, GUILD, TOKENS, Discord
from tests.simulators.discord.pointing import Elsewhere
from tests.simulators.discord.rules import RULES
from tests.simulators.running import PATIENCE, Remote, as_process, in_process

ANN, BOB = "42", "43"
HERE, DM = str(CHANNEL), "501"
WRONG = "somebody else's"
INTENTS = discord.Intents(guilds=True, messages=True, message_content=True, reactions=True)
AGENT = {"User-Agent": "DiscordBot (https://example.org, 1)"}


class Listener(discord.Client):
    """A bot that remembers what it was told."""

    def __init__(self, **options: Any) -> None:
        super().__init__(guild_ready_timeout=0.01, **options)
        self.told: defaultdict[str, list[Any]] = defaultdict(list)

    async def before_identify_hook(self, shard_id: int | None, *, initial: bool = False) -> None:
        """Not to wait five seconds before a new session."""

    async def until(self, what: str, count: int = 1) -> list[Any]:
        """Wait until it was told that many of these."""
        async with asyncio.timeout(PATIENCE):
            while len(self.told[what]) < count:
                await asyncio.sleep(0.005)
        return self.told[what]

    async def texts(self, count: int) -> list[str]:
        """What people said, once it is that much."""
        return [message.content for message in await self.until("message", count)]

    async def on_socket_event_type(self, event: str) -> None:
        self.told[event].append(event)

    async def on_message(self, message: discord.Message) -> None:
        if message.author.id != self.user.id:  # type: ignore[union-attr]
            self.told["message"].append(message)

    async def on_raw_message_edit(self, payload: discord.RawMessageUpdateEvent) -> None:
        self.told["edit"].append(payload.message)

    async def on_raw_message_delete(self, payload: discord.RawMessageDeleteEvent) -> None:
        self.told["delete"].append(payload)

    async def on_raw_reaction_add(self, payload: discord.RawReactionActionEvent) -> None:
        self.told["reaction"].append(payload)

    async def on_thread_create(self, thread: discord.Thread) -> None:
        self.told["thread"].append(thread)

    async def on_interaction(self, interaction: discord.Interaction) -> None:
        self.told["interaction"].append(interaction)


class Sharded(Listener, discord.AutoShardedClient):
    """The same, in as many shards as Discord recommends."""


@pytest.fixture
async def sim() -> AsyncIterator[Remote]:
    """A fresh Discord. Only tests that say so may leave violations behind."""
    async with in_process(Simulator(Discord())) as remote:
        yield remote


@asynccontextmanager
async def bot(
    sim: Remote, account: str = "main", *, token: str | None = None, **options: Any
) -> AsyncIterator[Any]:
    """A bot that is ready. Whatever ends it before that comes out."""
    kind = options.pop("kind", Listener)
    client = kind(connector=Elsewhere(sim.url), **{"intents": INTENTS, **options})
    running = asyncio.create_task(client.start(token or TOKENS[account]))
    ready = asyncio.create_task(client.until("READY"))
    try:
        await asyncio.wait({running, ready}, return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            await running
        await client.wait_until_ready()
        client.running = running  # type: ignore[attr-defined]
        yield client
    finally:
        ready.cancel()
        await client.close()
        with suppress(discord.DiscordException):
            await running


@asynccontextmanager
async def socket(sim: Remote) -> AsyncIterator[Any]:
    """The gateway by hand, without compression."""
    async with (
        aiohttp.ClientSession() as http,
        http.ws_connect(sim.url + "/gateway?v=10&encoding=json") as ws,
    ):
        assert (await ws.receive_json())["op"] == 10
        yield ws


def identify(**changes: object) -> dict[str, object]:
    """As a bot says it."""
    return {
        "op": 2,
        "d": {"token": TOKENS["main"], "properties": {}, "intents": INTENTS.value, **changes},
    }


async def code_of(ws: Any) -> int:
    """What a socket was closed with."""
    async with asyncio.timeout(PATIENCE):
        async for _ in ws:
            pass
    return int(ws.close_code)


async def broken_rules(sim: Remote) -> list[str]:
    return [violation["rule"] for violation in await sim.violations()]


async def test_a_bot_logs_in_and_knows_where_it_is(sim: Remote) -> None:
    async with bot(sim) as client:
        (guild,) = client.guilds
        channel = guild.get_channel(CHANNEL)

        assert (guild.id, channel.name, client.user.name) == (GUILD, "general", "main-bot")
        assert channel.permissions_for(guild.me).send_messages
        assert (await client.application_info()).flags.gateway_message_content_limited
    (call,) = await sim.calls(method="gateway")
    assert call["parameters"] == {"v": "10", "encoding": "json", "compress": "zlib-stream"}

    assert await sim.violations() == []


async def test_nothing_that_discord_py_asks_for_leaves_the_machine(sim: Remote) -> None:
    async with aiohttp.ClientSession(connector=Elsewhere(sim.url)) as http:
        with pytest.raises(aiohttp.InvalidURL):
            await http.get("https://example.org/")


async def test_a_wrong_token_is_refused(sim: Remote) -> None:
    with pytest.raises(discord.LoginFailure):
        async with bot(sim, token=WRONG):
            pass


async def test_a_wrong_token_ends_the_socket_with_4004(sim: Remote) -> None:
    async with socket(sim) as ws:
        await ws.send_json(identify(token=WRONG))

        assert await code_of(ws) == 4004


async def test_a_token_that_is_revoked_ends_the_session_with_4004(sim: Remote) -> None:
    async with bot(sim) as client:
        await sim.do("bot", revoked=True)

        with pytest.raises(discord.ConnectionClosed) as closed:
            await client.running
        assert closed.value.code == 4004


async def test_intents_that_are_not_switched_on_are_refused_with_4014(sim: Remote) -> None:
    await sim.do("bot", intents=[])

    with pytest.raises(discord.PrivilegedIntentsRequired):
        async with bot(sim):
            pass


async def test_intents_that_do_not_exist_are_refused_with_4013(sim: Remote) -> None:
    async with socket(sim) as ws:
        await ws.send_json(identify(intents=1 << 40))

        assert await code_of(ws) == 4013


async def test_what_may_not_be_read_is_empty_except_in_dms_and_mentions(sim: Remote) -> None:
    async with bot(sim, intents=discord.Intents(guilds=True, messages=True)) as client:
        await sim.say("secret", chat=HERE, user=ANN)
        await sim.say(f"<@{client.user.id}> called", chat=HERE, user=ANN)
        await sim.say("private", chat=DM, user=ANN)

        assert await client.texts(3) == ["", f"<@{client.user.id}> called", "private"]


async def test_only_what_was_asked_for_is_told(sim: Remote) -> None:
    async with bot(sim, intents=discord.Intents(guilds=True, dm_messages=True)) as client:
        await sim.say("in a channel", chat=HERE, user=ANN)
        await sim.say("private", chat=DM, user=ANN)

        assert await client.texts(1) == ["private"]


async def test_what_may_not_be_read_is_empty_in_the_history_too(sim: Remote) -> None:
    await sim.do("bot", intents=[])
    await sim.say("secret", chat=HERE, user=ANN)
    async with bot(sim, intents=discord.Intents(guilds=True)) as client:
        assert [said.content async for said in client.get_channel(CHANNEL).history()] == [""]


async def test_two_bots_have_dms_of_their_own(sim: Remote) -> None:
    async with bot(sim) as main, bot(sim, "support") as support:
        await sim.say("for main", chat=DM, user=ANN)
        await sim.say("for support", chat=DM, user=ANN, account="support")
        await sim.say("for both", chat=HERE, user=ANN)

        assert await main.texts(2) == ["for main", "for both"]
        assert await support.texts(2) == ["for support", "for both"]


async def test_session_starts_are_counted_until_the_token_is_reset(sim: Remote) -> None:
    await sim.do("bot", starts_left=1)
    async with bot(sim) as client:
        assert (await client.http.get_bot_gateway())[2]["remaining"] == 0

    with pytest.raises(discord.ConnectionClosed, match="4004"):
        async with bot(sim):
            pass
    with pytest.raises(discord.LoginFailure):
        async with bot(sim):
            pass


async def test_a_shard_is_told_only_of_its_own_guilds(sim: Remote) -> None:
    async with (
        bot(sim, shard_id=0, shard_count=2) as first,
        bot(sim, shard_id=1, shard_count=2) as second,
    ):
        await sim.say("hello", chat=HERE, user=ANN)

        assert await first.texts(1) == ["hello"]
        assert list(second.guilds) == []


async def test_a_bot_has_as_many_shards_as_are_recommended(sim: Remote) -> None:
    await sim.do("bot", shards=2)
    async with bot(sim, kind=Sharded) as client:
        assert (client.shard_count, len(client.guilds)) == (2, 1)
        assert [session["shard"] for session in await sim.do("sessions")] == [[0, 2], [1, 2]]


async def test_a_bot_that_must_be_sharded_and_is_not_is_closed_with_4011(sim: Remote) -> None:
    await sim.do("bot", shards=2, shards_needed=2)

    with pytest.raises(discord.ConnectionClosed, match="4011"):
        async with bot(sim):
            pass


@pytest.mark.parametrize(
    "trouble",
    [
        {"do": "cut"},
        {"do": "close", "code": 4000},
        {"do": "reconnect"},
        {"do": "invalidate", "resumable": True},
    ],
)
async def test_a_session_that_was_interrupted_goes_on(
    sim: Remote, trouble: dict[str, object]
) -> None:
    async with bot(sim) as client:
        await sim.say("before", chat=HERE, user=ANN)
        await client.texts(1)
        await sim.do("gateway", **trouble)
        await sim.say("meanwhile", chat=HERE, user=ANN)
        await client.until("RESUMED")
        await sim.say("after", chat=HERE, user=ANN)

        assert await client.texts(3) == ["before", "meanwhile", "after"]
        assert len(client.told["READY"]) == 1


@pytest.mark.parametrize("trouble", ["invalidate", "expire"])
async def test_a_session_that_is_over_begins_anew_without_what_was_missed(
    sim: Remote, trouble: str
) -> None:
    async with bot(sim) as client:
        await sim.do("gateway", do=trouble)
        await sim.say("missed", chat=HERE, user=ANN)
        await client.until("READY", 2)
        await client.until("GUILD_CREATE", 2)
        await sim.say("heard", chat=HERE, user=ANN)

        assert await client.texts(1) == ["heard"]
        assert [said.content async for said in client.get_channel(CHANNEL).history()] == [
            "heard",
            "missed",
        ]


async def test_a_session_is_kept_for_minutes_only(sim: Remote) -> None:
    async with socket(sim) as ws:
        await ws.send_json(identify())
        ready = await ws.receive_json()
        await ws.close(code=4000)
    await sim.until(lambda: _is_disconnected(sim))
    await sim.do("later", seconds=600)
    async with socket(sim) as again:
        resume = {
            "token": TOKENS["main"],
            "session_id": ready["d"]["session_id"],
            "seq": ready["s"],
        }
        await again.send_json({"op": 6, "d": resume})

        assert await again.receive_json() == {"op": 9, "d": False, "s": None, "t": None}


async def _is_disconnected(sim: Remote) -> bool:
    return not any(session["connected"] for session in await sim.do("sessions"))


@pytest.mark.parametrize(("code", "left"), [(1000, 0), (1001, 0), (4000, 1)])
async def test_a_bot_that_closes_with_1000_or_1001_ends_its_session(
    sim: Remote, code: int, left: int
) -> None:
    async with socket(sim) as ws:
        await ws.send_json(identify())
        assert (await ws.receive_json())["t"] == "READY"
        await ws.close(code=code)
    await sim.until(lambda: _is_disconnected(sim))

    assert len(await sim.do("sessions")) == left


async def test_heartbeats_are_acknowledged(sim: Remote) -> None:
    await sim.do("server", heartbeat=0.02)
    async with bot(sim):

        async def are_acknowledged() -> bool:
            return len(await sim.calls(method="heartbeat_ack")) > 2

        await sim.until(are_acknowledged)


async def test_on_a_silent_socket_nothing_comes_and_a_resume_has_it(sim: Remote) -> None:
    async with socket(sim) as ws:
        await ws.send_json(identify())
        ready, guild = await ws.receive_json(), await ws.receive_json()
        await sim.do("gateway", do="silence")
        await sim.say("unheard", chat=HERE, user=ANN)
        async with socket(sim) as again:
            resume = {
                "token": TOKENS["main"],
                "session_id": ready["d"]["session_id"],
                "seq": guild["s"],
            }
            await again.send_json({"op": 6, "d": resume})
            assert (await again.receive_json())["d"]["content"] == "unheard"
            assert (await again.receive_json())["t"] == "RESUMED"
        ws._response.close()
    assert len(await sim.calls(event="MESSAGE_CREATE")) == 1


async def test_discord_py_gives_up_a_silent_socket_and_resumes(sim: Remote) -> None:
    await sim.do("server", heartbeat=0.05)
    async with bot(sim, heartbeat_timeout=0.3) as client:
        await sim.do("gateway", do="silence")
        await sim.say("meanwhile", chat=HERE, user=ANN)

        assert await client.texts(1) == ["meanwhile"]
        await client.until("RESUMED")


async def test_on_a_deaf_socket_heartbeats_go_on_and_only_history_has_what_was_said(
    sim: Remote,
) -> None:
    await sim.do("server", heartbeat=0.02)
    async with bot(sim) as client:
        await sim.fault("deaf", method="dispatch", times=2)
        await sim.say("unheard", chat=HERE, user=ANN)
        await sim.say("unheard too", chat=HERE, user=ANN)
        await sim.say("heard", chat=HERE, user=ANN)
        await sim.do("gateway", do="reconnect")
        await client.until("RESUMED")

        assert await client.texts(1) == ["heard"]
        assert len([said async for said in client.get_channel(CHANNEL).history()]) == 3


async def test_heartbeats_can_go_unacknowledged_while_dispatches_come(sim: Remote) -> None:
    async with socket(sim) as ws:
        await sim.fault("deaf", method="heartbeat")
        await ws.send_json({"op": 1, "d": None})
        await ws.send_json(identify())

        assert (await ws.receive_json())["t"] == "READY"


@pytest.mark.parametrize(("kind", "code"), [("401", 4004), ("500", 4000), ("reset", 1006)])
async def test_what_a_bot_says_can_break_the_socket(sim: Remote, kind: str, code: int) -> None:
    async with socket(sim) as ws:
        await sim.fault(kind, method="identify")
        await ws.send_json(identify())

        assert await code_of(ws) == code
    assert await sim.do("sessions") == []


async def test_a_frame_can_leave_the_socket_half_open(sim: Remote) -> None:
    async with socket(sim) as ws:
        await sim.fault("half-open", does="receive")
        await ws.send_json(identify())
        await ws.send_json({"op": 1, "d": None})

        async def is_silent() -> bool:
            return [call["answered"] for call in await sim.calls(method="dispatch")] == [
                "half-open"
            ]

        await sim.until(is_silent)
        assert await sim.calls(method="heartbeat_ack") == []
        ws._response.close()


async def test_credentials_that_hold_no_longer_end_the_socket_with_4004(sim: Remote) -> None:
    async with bot(sim) as client:
        await sim.fault("401", account="main", times=None)
        await sim.say("hello", chat=HERE, user=ANN)

        with pytest.raises(discord.ConnectionClosed, match="4004"):
            await client.running


async def test_a_second_session_within_five_seconds_is_invalid_where_rates_are_enforced(
    sim: Remote,
) -> None:
    await sim.do("server", rates=True)
    async with socket(sim) as first, socket(sim) as second:
        await first.send_json(identify())
        assert (await first.receive_json())["t"] == "READY"
        await second.send_json(identify())

        assert (await second.receive_json())["op"] == 9


async def test_a_dispatch_can_come_twice_or_the_wrong_way_round(sim: Remote) -> None:
    async with bot(sim) as client:
        await sim.fault("duplicate", method="dispatch")
        await sim.fault("reorder", method="dispatch")
        for text in "abc":
            await sim.say(text, chat=HERE, user=ANN)

        assert await client.texts(4) == ["a", "a", "c", "b"]


@pytest.mark.parametrize("kind", ["reset", "500", "429", "502 html"])
async def test_frames_break_by_rule_and_the_session_goes_on(sim: Remote, kind: str) -> None:
    async with bot(sim) as client:
        await sim.fault(kind, method="dispatch")
        await sim.say("hello", chat=HERE, user=ANN)

        assert await client.texts(1) == ["hello"]


async def test_members_are_told_when_asked_for(sim: Remote) -> None:
    await sim.do("join", user=ANN)
    async with bot(sim, intents=INTENTS | discord.Intents(members=True)) as client:
        assert client.guilds[0].get_member(int(ANN)).name == "user42"


@pytest.mark.parametrize(
    ("said", "code", "rule"),
    [
        ("no JSON", 4002, "frames"),
        ("[]", 4002, "frames"),
        ('{"op": 99}', 4001, "order"),
        ('{"op": 8, "d": {"guild_id": "1"}}', 4003, "order"),
        (json.dumps({"op": 1, "d": "x" * 5000}), 4002, "frames"),
        ('{"op": 2, "d": {"token": "x", "colour": "red"}}', 4002, "parameters"),
    ],
)
async def test_frames_that_no_bot_should_send_are_refused(
    sim: Remote, said: str, code: int, rule: str
) -> None:
    async with socket(sim) as ws:
        await ws.send_str(said)

        assert await code_of(ws) == code
    assert await broken_rules(sim) == [rule]


async def test_a_second_identify_is_refused_with_4005(sim: Remote) -> None:
    async with socket(sim) as ws:
        await ws.send_json(identify())
        await ws.send_json(identify())

        assert await code_of(ws) == 4005


async def test_a_resume_with_a_number_that_never_was_is_refused_with_4007(sim: Remote) -> None:
    async with socket(sim) as ws:
        await ws.send_json(identify())
        session = (await ws.receive_json())["d"]["session_id"]
        async with socket(sim) as again:
            await again.send_json(
                {"op": 6, "d": {"token": TOKENS["main"], "session_id": session, "seq": 999}}
            )

            assert await code_of(again) == 4007


async def test_a_message_is_sent_edited_and_deleted(sim: Remote) -> None:
    async with bot(sim) as client:
        sent = await client.get_channel(CHANNEL).send("helo")
        await sent.edit(content="hello")
        (shown,) = await sim.messages()
        await sent.delete()

    assert (shown["id"], shown["text"], shown["edits"]) == (str(sent.id), "hello", ["helo"])
    assert await sim.messages() == []
    assert await sim.violations() == []


async def test_a_dm_is_opened_by_the_bot(sim: Remote) -> None:
    await sim.do("person", user=ANN, name="ann")
    async with bot(sim) as client:
        person = await client.fetch_user(int(ANN))
        sent = await person.send("hello")
        again = await client.create_dm(discord.Object(int(ANN)))

    assert (await sim.messages())[0]["chat"] == str(sent.channel.id) == str(again.id)


async def test_more_than_2000_characters_are_refused(sim: Remote) -> None:
    async with bot(sim) as client:
        await client.get_channel(CHANNEL).send("x" * 2000)
        with pytest.raises(discord.HTTPException, match="2000 or fewer") as refused:
            await client.get_channel(CHANNEL).send("x" * 2001)

    assert (refused.value.status, refused.value.code) == (400, 50035)


async def test_a_message_of_nothing_is_refused(sim: Remote) -> None:
    async with bot(sim) as client:
        with pytest.raises(discord.HTTPException) as refused:
            await client.get_channel(CHANNEL).send("  \n ")

    assert refused.value.code == 50006


async def test_the_same_nonce_gives_the_first_message_again(sim: Remote) -> None:
    async with bot(sim) as client:
        first = await client.get_channel(CHANNEL).send("once", nonce="n1")
        second = await client.get_channel(CHANNEL).send("once", nonce="n1")

    assert first.id == second.id
    assert await sim.texts() == ["once"]


async def test_a_lost_answer_is_found_again_by_its_nonce(sim: Remote) -> None:
    async with bot(sim) as client:
        await sim.fault("lost answer", does="send")
        with pytest.raises(aiohttp.ClientError):
            await client.get_channel(CHANNEL).send("once", nonce="n1")
        again = await client.get_channel(CHANNEL).send("once", nonce="n1")

    assert [shown["id"] for shown in await sim.messages()] == [str(again.id)]


async def test_a_nonce_is_remembered_for_minutes_only(sim: Remote) -> None:
    async with bot(sim) as client:
        first = await client.get_channel(CHANNEL).send("once", nonce="n1")
        await sim.do("later", seconds=301)
        second = await client.get_channel(CHANNEL).send("once", nonce="n1")

    assert first.id != second.id


async def test_a_nonce_whose_message_was_deleted_makes_no_new_one(sim: Remote) -> None:
    async with bot(sim) as client:
        sent = await client.get_channel(CHANNEL).send("once", nonce="n1")
        await sim.do("delete", id=str(sent.id))
        with pytest.raises(discord.NotFound) as refused:
            await client.get_channel(CHANNEL).send("once", nonce="n1")

    assert refused.value.code == 10008


async def test_a_nonce_comes_back_with_the_answer_and_not_in_the_history(sim: Remote) -> None:
    async with bot(sim) as client:
        sent = await client.get_channel(CHANNEL).send("once", nonce="n1")
        (later,) = [said async for said in client.get_channel(CHANNEL).history()]

    assert (sent.nonce, later.nonce) == ("n1", None)


async def test_a_nonce_has_at_most_25_characters(sim: Remote) -> None:
    async with bot(sim) as client:
        with pytest.raises(discord.HTTPException):
            await client.get_channel(CHANNEL).send("once", nonce="n" * 26)

    assert await broken_rules(sim) == ["nonce"]


async def test_a_reply_shows_what_it_is_to_and_calls_its_author(sim: Remote) -> None:
    async with bot(sim) as client:
        await sim.say("question", chat=HERE, user=ANN)
        (question,) = await client.until("message")
        await question.reply("answer")
        await question.reply("quietly", mention_author=False)

    loud, quiet = await sim.messages()
    assert loud["reply_to"] == quiet["reply_to"] == str(question.id)
    assert (loud["calls"]["users"], quiet["calls"]["users"]) == ([ANN], [])


async def test_a_reply_to_what_was_deleted_fails_unless_it_need_not_be_there(sim: Remote) -> None:
    async with bot(sim) as client:
        id_ = await sim.say("question", chat=HERE, user=ANN)
        (question,) = await client.until("message")
        await sim.do("delete", chat=HERE, id=id_)
        with pytest.raises(discord.HTTPException, match="Unknown message") as refused:
            await question.reply("answer")
        await client.get_channel(CHANNEL).send(
            "answer", reference=question.to_reference(fail_if_not_exists=False)
        )

    assert refused.value.code == 50035
    assert [(shown["text"], shown["reply_to"]) for shown in await sim.messages()] == [
        ("answer", None)
    ]


async def test_nobody_is_called_who_is_not_allowed_to_be(sim: Remote) -> None:
    await sim.do("role", role="77", name="admins", members=[BOB])
    text = f"@everyone <@{ANN}> <@&77>"
    await sim.do("join", user=ANN)
    async with bot(sim) as client:
        await client.get_channel(CHANNEL).send(text)
        await client.get_channel(CHANNEL).send(
            text, allowed_mentions=discord.AllowedMentions.none()
        )

    loud, quiet = (shown["calls"] for shown in await sim.messages())
    assert loud == {"users": [ANN], "roles": ["77"], "everyone": True}
    assert quiet == {"users": [], "roles": [], "everyone": False}


async def test_only_the_author_edits_a_message(sim: Remote) -> None:
    id_ = await sim.say("mine", chat=HERE, user=ANN)
    async with bot(sim) as client:
        with pytest.raises(discord.Forbidden) as refused:
            await client.get_channel(CHANNEL).get_partial_message(int(id_)).edit(content="yours")

    assert refused.value.code == 50005
    assert await broken_rules(sim) == ["own messages"]


async def test_what_was_deleted_cannot_be_edited(sim: Remote) -> None:
    async with bot(sim) as client:
        sent = await client.get_channel(CHANNEL).send("hello")
        await sim.do("delete", id=str(sent.id))
        with pytest.raises(discord.NotFound) as refused:
            await sent.edit(content="too late")

    assert refused.value.code == 10008


async def test_the_history_is_read_by_marks_and_pages(sim: Remote) -> None:
    ids = [int(await sim.say(str(number), chat=HERE, user=ANN)) for number in range(150)]
    async with bot(sim) as client:
        channel = client.get_channel(CHANNEL)
        newest = [said.content async for said in channel.history(limit=3)]
        after = [
            said.content async for said in channel.history(after=discord.Object(ids[9]), limit=None)
        ]
        before = [said.content async for said in channel.history(before=discord.Object(ids[3]))]
        around = [
            said.content async for said in channel.history(around=discord.Object(ids[50]), limit=5)
        ]

    assert newest == ["149", "148", "147"]
    assert after == [str(number) for number in range(10, 150)]
    assert before == ["2", "1", "0"]
    assert sorted(around) == ["48", "49", "50", "51", "52"]


async def test_a_message_from_the_past_stands_in_the_history_where_it_belongs(sim: Remote) -> None:
    await sim.say("now", chat=HERE, user=ANN)
    await sim.say("long ago", chat=HERE, user=ANN, at=1_700_000_000.5)
    async with bot(sim) as client:
        now, then = [said async for said in client.get_channel(CHANNEL).history()]

    assert (now.content, then.content, then.created_at.timestamp()) == (
        "now",
        "long ago",
        1_700_000_000.5,
    )


async def test_typing_and_reactions_are_shown(sim: Remote) -> None:
    id_ = await sim.say("hello", chat=HERE, user=ANN)
    async with bot(sim) as client:
        await client.get_channel(CHANNEL).typing()
        await client.get_channel(CHANNEL).get_partial_message(int(id_)).add_reaction("👀")
        await sim.do("react", chat=HERE, user=BOB, message=id_, emoji="👍")
        mine, theirs = await client.until("reaction", 2)

    assert await sim.do("typing") == [HERE]
    assert (await sim.updates())[0]["reactions"] == ["👀", "👍"]
    assert (str(theirs.emoji), theirs.user_id, mine.user_id) == ("👍", int(BOB), client.user.id)


async def test_files_go_up_and_down_byte_by_byte(sim: Remote) -> None:
    content = bytes(range(256)) * 100
    async with bot(sim) as client:
        await sim.say("", chat=HERE, user=ANN, file=("ü.bin", content))
        (said,) = await client.until("message")
        got = await said.attachments[0].read()
        sent = await said.channel.send("here", file=discord.File(io.BytesIO(got), "b.bin"))
        again = await sent.attachments[0].read()

    (shown,) = await sim.messages()
    assert (said.attachments[0].filename, got, again) == ("ü.bin", content, content)
    assert (shown["text"], shown["file"]["name"]) == ("here", "b.bin")
    assert [call["does"] for call in await sim.calls(method="create_message+files")] == [
        "send_file"
    ]
    assert await sim.violations() == []


async def test_a_link_expires_and_the_message_has_a_new_one(sim: Remote) -> None:
    async with bot(sim) as client:
        await sim.say("", chat=HERE, user=ANN, file=("a.txt", b"hello"))
        (said,) = await client.until("message")
        await sim.do("later", seconds=90_000)
        with pytest.raises(discord.NotFound):
            await said.attachments[0].read()
        fresh = await said.channel.fetch_message(said.id)

        assert await fresh.attachments[0].read() == b"hello"


async def test_a_file_of_more_than_10_mib_is_refused(sim: Remote) -> None:
    async with bot(sim) as client:
        with pytest.raises(discord.HTTPException) as refused:
            await client.get_channel(CHANNEL).send(
                file=discord.File(io.BytesIO(bytes(10 * 1024 * 1024 + 1)), "big")
            )

    assert (refused.value.status, refused.value.code) == (413, 40005)


async def test_people_edit_and_delete(sim: Remote) -> None:
    async with bot(sim) as client:
        id_ = await sim.say("helo", chat=HERE, user=ANN)
        await sim.do("change", chat=HERE, id=id_, text="hello")
        await sim.do("delete", chat=HERE, id=id_)
        (edited,), (deleted,) = await client.until("edit"), await client.until("delete")

    assert (edited.content, edited.edited_at is not None, deleted.message_id) == (
        "hello",
        True,
        int(id_),
    )


async def test_people_reply_forward_and_send_stickers(sim: Remote) -> None:
    async with bot(sim) as client:
        sent = await client.get_channel(CHANNEL).send("question")
        await sim.say("answer", chat=HERE, user=ANN, reply_to=str(sent.id))
        await sim.say("quiet", chat=HERE, user=ANN, reply_to=str(sent.id), ping=False)
        await sim.say("", chat=DM, user=ANN, forward={"chat": HERE, "message": str(sent.id)})
        await sim.say("", chat=HERE, user=ANN, stickers=[{"id": 9, "name": "wave"}])
        loud, quiet, forward, sticker = await client.until("message", 4)

    assert loud.reference.resolved.content == "question"
    assert (loud.mentions, quiet.mentions) == ([client.user], [])
    assert forward.message_snapshots[0].content == "question"
    assert sticker.stickers[0].name == "wave"


async def test_people_call_users_and_roles(sim: Remote) -> None:
    await sim.do("role", role="77", name="admins")
    async with bot(sim) as client:
        await sim.say(f"<@!{client.user.id}> <@&77>", chat=HERE, user=ANN)
        (said,) = await client.until("message")

    assert (said.mentions[0].id, said.role_mentions[0].name) == (client.user.id, "admins")


async def test_other_bots_and_webhooks_are_told_apart(sim: Remote) -> None:
    async with bot(sim) as client:
        await sim.say("beep", chat=HERE, user="8001", bot=True)
        await sim.say("hook", chat=HERE, user="8002", webhook=True)
        beep, hook = await client.until("message", 2)

    assert (beep.author.bot, beep.webhook_id, hook.webhook_id) == (True, None, 8002)


async def test_the_same_message_can_be_told_again(sim: Remote) -> None:
    async with bot(sim) as client:
        await sim.say("again", chat=HERE, user=ANN, repeat=1)
        first, second = await client.until("message", 2)

    assert first.id == second.id


async def test_a_bot_is_told_of_a_guild_it_is_invited_to_and_thrown_out_of(sim: Remote) -> None:
    async with bot(sim) as client:
        await sim.do("guild", guild="9500", name="Work")
        await client.until("GUILD_CREATE", 2)
        await sim.do("open", chat="9501", guild="9500", name="jobs")
        await client.until("CHANNEL_CREATE")
        names = [
            (guild.name, [channel.name for channel in guild.channels]) for guild in client.guilds
        ]
        await sim.do("kick", guild="9500")
        await client.until("GUILD_DELETE")

        assert names == [("Home", ["general"]), ("Work", ["jobs"])]
        assert [guild.name for guild in client.guilds] == ["Home"]
        with pytest.raises(discord.NotFound):
            await client.fetch_channel(9501)


async def test_a_channel_that_was_deleted_is_gone_with_its_threads(sim: Remote) -> None:
    thread = (await sim.do("thread", chat=HERE, user=ANN, name="talk"))["id"]
    async with bot(sim) as client:
        await sim.do("close", chat=HERE)
        await client.until("CHANNEL_DELETE")

        for gone in (HERE, thread):
            with pytest.raises(discord.NotFound):
                await client.fetch_channel(int(gone))


async def test_one_more_bot_can_be_added(sim: Remote) -> None:
    await sim.do("add_bot", name="third", token="third.discord.token")  # noqa: S106 - nobody's
    async with bot(sim, token="third.discord.token") as client:  # noqa: S106 - nobody's
        await client.get_channel(CHANNEL).send("hello")

    assert await sim.texts("third") == ["hello"]


async def test_what_was_forgotten_is_in_no_history(sim: Remote) -> None:
    await sim.say("old", chat=HERE, user=ANN, at=1_700_000_000)
    await sim.say("new", chat=HERE, user=ANN)
    await sim.do("forget", before=1_700_000_001)
    async with bot(sim) as client:
        assert [said.content async for said in client.get_channel(CHANNEL).history()] == ["new"]


async def test_ids_that_are_no_numbers_are_refused(sim: Remote) -> None:
    with pytest.raises(ValueError, match="ids are numbers"):
        await sim.say("hello", chat="general", user=ANN)


async def test_a_thread_is_made_from_a_message_and_has_its_id(sim: Remote) -> None:
    async with bot(sim) as client:
        id_ = await sim.say("question", chat=HERE, user=ANN)
        (question,) = await client.until("message")
        thread = await question.create_thread(name="answers")
        await thread.send("answer")
        await sim.say("thanks", chat=str(thread.id), user=ANN)
        starter, thanks = (await client.until("message", 3))[1:]

    assert (str(thread.id), thanks.channel.parent_id, thanks.content) == (id_, CHANNEL, "thanks")
    assert (starter.id, starter.type) == (thread.id, discord.MessageType.thread_starter_message)
    assert [shown["chat"] for shown in await sim.messages()] == [id_]


async def test_a_message_has_one_thread_at_most(sim: Remote) -> None:
    async with bot(sim) as client:
        sent = await client.get_channel(CHANNEL).send("question")
        await sent.create_thread(name="one")
        with pytest.raises(discord.HTTPException) as refused:
            await client.http.start_thread_with_message(
                CHANNEL, sent.id, name="two", auto_archive_duration=60
            )

    assert refused.value.code == 160004


async def test_threads_are_listed_as_active_or_archived_and_a_message_opens_one(
    sim: Remote,
) -> None:
    id_ = (await sim.do("thread", chat=HERE, user=ANN, name="old"))["id"]
    await sim.do("archive", chat=id_)
    async with bot(sim) as client:
        guild, channel = client.guilds[0], client.get_channel(CHANNEL)
        before = [each.name for each in await guild.active_threads()]
        (archived,) = [each async for each in channel.archived_threads()]
        await archived.send("hello")
        after = [each.name for each in await guild.active_threads()]

    assert (before, archived.archived, after) == ([], True, ["old"])


async def test_a_locked_thread_takes_nothing(sim: Remote) -> None:
    id_ = (await sim.do("thread", chat=HERE, user=ANN, name="old"))["id"]
    await sim.do("archive", chat=id_, locked=True)
    async with bot(sim) as client:
        with pytest.raises(discord.HTTPException) as refused:
            await (await client.fetch_channel(int(id_))).send("hello")

    assert refused.value.code == 160005


async def test_nothing_is_edited_in_an_archived_thread(sim: Remote) -> None:
    id_ = (await sim.do("thread", chat=HERE, user=ANN, name="old"))["id"]
    async with bot(sim) as client:
        sent = await (await client.fetch_channel(int(id_))).send("hello")
        await sim.do("archive", chat=id_)
        with pytest.raises(discord.HTTPException) as refused:
            await sent.edit(content="changed")

    assert refused.value.code == 50083


async def test_a_forum_takes_only_new_posts(sim: Remote) -> None:
    await sim.do("open", chat="9100", kind="forum", name="help")
    async with bot(sim) as client:
        forum = client.get_channel(9100)
        post = await forum.create_thread(name="news", content="read this")
        with pytest.raises(discord.HTTPException) as refused:
            await client.http.request(
                Route("POST", "/channels/9100/messages"), json={"content": "hello"}
            )

    assert (refused.value.code, post.message.id) == (50008, post.thread.id)
    assert [(shown["chat"], shown["text"]) for shown in await sim.messages()] == [
        (str(post.thread.id), "read this")
    ]


async def test_people_post_in_a_forum(sim: Remote) -> None:
    await sim.do("open", chat="9100", kind="forum", name="help")
    async with bot(sim) as client:
        id_ = (await sim.do("thread", chat="9100", user=ANN, name="broken", text="it is broken"))[
            "id"
        ]
        (thread,), (said,) = await client.until("thread"), await client.until("message")

    assert (str(thread.id), thread.parent.id, said.content, str(said.id)) == (
        id_,
        9100,
        "it is broken",
        id_,
    )


@pytest.mark.parametrize(
    ("denied", "code"), [("send_messages", 50013), ("view_channel", 50001), ("attach_files", 50013)]
)
async def test_what_is_not_permitted_is_refused_by_its_code(
    sim: Remote, denied: str, code: int
) -> None:
    async with bot(sim) as client:
        await sim.do("permissions", chat=HERE, deny=[denied])
        with pytest.raises(discord.Forbidden) as refused:
            await client.get_channel(CHANNEL).send(
                "hello", file=discord.File(io.BytesIO(b"x"), "x")
            )
        await client.until("CHANNEL_UPDATE")

        assert not getattr(client.get_channel(CHANNEL).permissions_for(client.guilds[0].me), denied)
    assert refused.value.code == code


async def test_somebody_who_blocked_the_bot_gets_nothing(sim: Remote) -> None:
    await sim.do("open", chat=DM, user=ANN)
    await sim.do("block", chat=DM)
    async with bot(sim) as client:
        with pytest.raises(discord.Forbidden) as refused:
            await (await client.fetch_channel(int(DM))).send("hello")

    assert refused.value.code == 50007


async def test_a_channel_that_is_not_there_is_unknown(sim: Remote) -> None:
    async with bot(sim) as client:
        with pytest.raises(discord.NotFound) as refused:
            await client.fetch_channel(404404)

    assert refused.value.code == 10003


def _question() -> discord.ui.View:
    view = discord.ui.View(timeout=None)
    for label in ("Yes", "No"):
        view.add_item(discord.ui.Button(label=label, custom_id=label.lower()))
    return view


@asynccontextmanager
async def _pressed(sim: Remote) -> AsyncIterator[tuple[Any, Any]]:
    """A bot that has asked, and a press of Ann's."""
    async with bot(sim) as client:
        sent = await client.get_channel(CHANNEL).send("Sure?", view=_question())
        await sim.do("press", chat=HERE, user=ANN, message=str(sent.id), nonce="yes")
        yield client, (await client.until("interaction"))[0]


async def test_buttons_are_shown_and_a_press_is_told_with_its_custom_id(sim: Remote) -> None:
    async with _pressed(sim) as (_, press):
        await press.response.edit_message(content="Sure? Yes.", view=None)

    (shown,) = await sim.messages()
    assert (press.data["custom_id"], press.user.id, press.channel_id) == ("yes", int(ANN), CHANNEL)
    assert (shown["text"], shown["buttons"]) == ("Sure? Yes.", [])
    assert await sim.violations() == []


async def test_only_what_is_shown_can_be_pressed(sim: Remote) -> None:
    async with _pressed(sim) as (_, press):
        with pytest.raises(ValueError, match="no such button"):
            await sim.do(
                "press", chat=HERE, user=ANN, message=str(press.message.id), nonce="perhaps"
            )


async def test_an_answer_after_three_seconds_is_too_late(sim: Remote) -> None:
    async with _pressed(sim) as (_, press):
        await sim.do("later", seconds=4)
        with pytest.raises(discord.NotFound) as refused:
            await press.response.send_message("late")

    assert refused.value.code == 10062
    assert [each["failed"] for each in await sim.do("interactions")] == [True]


async def test_an_interaction_is_answered_once(sim: Remote) -> None:
    async with _pressed(sim) as (client, press):
        await press.response.defer()
        with pytest.raises(discord.HTTPException) as refused:
            await client.http.request(
                Route("POST", f"/interactions/{press.id}/{press.token}/callback"),
                json={"type": 4, "data": {"content": "x"}},
            )

    assert refused.value.code == 40060


async def test_an_answer_can_be_put_off_and_given_for_a_quarter_of_an_hour(sim: Remote) -> None:
    async with _pressed(sim) as (_, press):
        await press.response.defer(thinking=True)
        (thinking,) = await sim.do("interactions")
        await sim.do("later", seconds=600)
        await press.followup.send("at last")
        await press.followup.send("only for you", ephemeral=True)
        await press.edit_original_response(content="at long last")
        await sim.do("later", seconds=600)
        with pytest.raises(discord.HTTPException) as refused:
            await press.followup.send("too late")

    _, first, second = await sim.messages()
    assert (thinking["answer"], thinking["thinking"]) == ("deferred", True)
    assert (first["text"], second["text"], second["only_for"]) == (
        "at long last",
        "only for you",
        ANN,
    )
    assert refused.value.code == 50027


async def test_slash_commands_are_synced_and_used(sim: Remote) -> None:
    async with bot(sim) as client:
        tree = app_commands.CommandTree(client)
        tree.add_command(app_commands.Command(name="new", description="Begin anew", callback=_new))
        await tree.sync()
        await sim.do("command", chat=DM, user=ANN, name="new", options={"topic": "cats"})
        (used,) = await client.until("interaction")
        await sim.until(lambda: sim.messages())

    assert used.data["options"] == [{"name": "topic", "type": 3, "value": "cats"}]
    assert await sim.texts() == ["new: cats"]
    assert await sim.violations() == []


async def _new(interaction: discord.Interaction, topic: str) -> None:
    await interaction.response.send_message(f"new: {topic}")


async def test_one_command_too_many_fails_them_all(sim: Remote) -> None:
    commands = [{"name": f"c{number}", "description": "x", "type": 1} for number in range(101)]
    async with bot(sim) as client:
        with pytest.raises(discord.HTTPException) as refused:
            await client.http.bulk_upsert_global_commands(client.application_id, commands)

    assert (refused.value.code, await sim.do("commands")) == (30032, [])


@pytest.mark.parametrize(
    ("asked", "rule"),
    [
        ({"content": "x", "colour": "red"}, "parameters"),
        (
            {"content": "x", "allowed_mentions": {"parse": ["users"], "users": ["1"]}},
            "allowed mentions",
        ),
        (
            {"components": [{"type": 1, "components": [{"type": 2, "style": 1, "label": "x"}]}]},
            "components",
        ),
        ({"embeds": [{"description": "x" * 4097}]}, "embeds"),
        ({"embeds": ["x"]}, "parameters"),
        ({"content": "x", "message_reference": {"message_id": "one"}}, "snowflakes"),
        ({"content": "x", "message_reference": {"message_id": "1", "colour": "red"}}, "reference"),
    ],
)
async def test_what_no_correct_bot_asks_for_is_a_violation(
    sim: Remote, asked: dict[str, object], rule: str
) -> None:
    async with bot(sim) as client:
        with pytest.raises(discord.HTTPException, match="50035"):
            await client.http.request(Route("POST", f"/channels/{CHANNEL}/messages"), json=asked)

    assert await broken_rules(sim) == [rule]


async def test_a_custom_id_has_at_most_100_characters(sim: Remote) -> None:
    button = {"type": 2, "style": 1, "label": "x", "custom_id": "x" * 101}
    async with bot(sim) as client:
        with pytest.raises(discord.HTTPException, match="between 1 and 100"):
            await client.http.request(
                Route("POST", f"/channels/{CHANNEL}/messages"),
                json={"components": [{"type": 1, "components": [button]}]},
            )

    assert await broken_rules(sim) == ["components"]


async def test_an_address_that_there_is_not_is_a_violation(sim: Remote) -> None:
    async with bot(sim) as client:
        with pytest.raises(discord.NotFound):
            await client.http.request(Route("GET", "/moons"))

    assert await broken_rules(sim) == ["known methods"]


async def test_a_bot_that_does_not_say_what_it_is_is_a_violation(sim: Remote) -> None:
    headers = {"Authorization": f"Bot {TOKENS['main']}", "User-Agent": "curl"}
    async with (
        aiohttp.ClientSession(headers=headers) as http,
        http.get(sim.url + "/api/v10/users/@me") as answer,
    ):
        assert answer.status == 403

    assert await broken_rules(sim) == ["user agent"]


async def test_every_rule_names_its_source(sim: Remote) -> None:
    sources = {rule["name"]: rule["source"] for rule in await sim.rules()}

    assert all(sources[rule.name].startswith("https://") for rule in RULES)


@pytest.mark.parametrize("everywhere", [False, True])
async def test_discord_py_waits_for_a_429_that_came_through_discord(
    sim: Remote, everywhere: bool
) -> None:
    async with bot(sim) as client:
        await sim.fault("429", does="send", retry_after=0.02, everywhere=everywhere)
        await client.get_channel(CHANNEL).send("hello")

    assert [call["answered"].split(":")[0] for call in await sim.calls(does="send")] == [
        "refused",
        "done",
    ]


async def test_discord_py_does_not_wait_for_a_429_of_cloudflare(sim: Remote) -> None:
    async with bot(sim) as client:
        await sim.fault("cloudflare", does="send")
        with pytest.raises(discord.HTTPException) as refused:
            await client.get_channel(CHANNEL).send("hello")

    assert refused.value.status == 429
    assert await sim.texts() == []


async def test_rates_are_told_and_enforced_per_channel(sim: Remote) -> None:
    await sim.do("server", rates=True)
    url, headers = (
        f"{sim.url}/api/v10/channels/{CHANNEL}/messages",
        {"Authorization": f"Bot {TOKENS['main']}", **AGENT},
    )
    async with aiohttp.ClientSession(headers=headers) as http:
        told = []
        for number in range(6):
            async with http.post(url, json={"content": str(number)}) as answer:
                told.append((answer.status, answer.headers["X-RateLimit-Remaining"]))
                last, via = await answer.json(), answer.headers.get("Via")

    assert told == [(200, "4"), (200, "3"), (200, "2"), (200, "1"), (200, "0"), (429, "0")]
    assert (0 < last["retry_after"] <= 5, last["global"], via) == (True, False, "1.1 google")


async def test_discord_py_asks_again_after_an_error_of_the_server(sim: Remote) -> None:
    async with bot(sim) as client:
        await sim.fault("500", does="send")
        await client.get_channel(CHANNEL).send("hello")

    assert await sim.texts() == ["hello"]


async def test_it_runs_as_a_process_of_its_own() -> None:
    async with as_process("tests.simulators.discord") as sim, bot(sim) as client:
        await sim.say("hello", chat=HERE, user=ANN)
        (said,) = await client.until("message")
        await said.reply("hi")
        await sim.until_shown("hi")
