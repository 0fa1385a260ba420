"""The real daemon, the real discord.py, a simulated Discord, and people who write to a bot."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.commands import turngate
from tests.discord_daemon import DM, HERE, PERSON, bot, config
from tests.simulators.common import Simulator
from tests.simulators.discord import Discord
from tests.simulators.running import Remote, in_process
from tests.telegram_daemon import daemon

ME = "<@7001>"


@pytest.fixture
async def sim() -> AsyncIterator[Remote]:
    """No bot may ask for what Discord forbids."""
    async with in_process(Simulator(Discord())) as remote:
        yield remote
        assert await remote.violations() == []


async def until_connected(sim: Remote, account: str = "main", *, times: int = 1) -> None:
    """Discord tells only those who listen."""

    async def is_connected() -> bool:
        greeted = await sim.calls(method="dispatch", event="GUILD_CREATE", account=account)
        return len(greeted) >= times and any(
            each["connected"] for each in await sim.do("sessions", account=account)
        )

    await sim.until(is_connected)


async def until_answered(
    sim: Remote, word: str, *, chat: str = DM, account: str = "main"
) -> dict[str, object]:
    """The whole answer: the echo says last what it was told."""
    found: list[dict[str, object]] = []

    async def is_answered() -> bool:
        found[:] = [
            message
            for message in await sim.messages(account)
            if message["chat"] == chat and str(message["text"]).endswith(word)
        ]
        return bool(found)

    await sim.until(is_answered)
    return found[-1]


async def test_a_person_writes_and_is_answered_once_in_one_message_that_grew(
    sim: Remote, tmp_path: Path
) -> None:
    words = "Is anybody there? " + "word " * 120 + "end"
    async with daemon(config(tmp_path, bot(sim))) as running:
        await until_connected(sim)
        await sim.say(words, chat=DM, user=PERSON)
        answer = await until_answered(sim, "end")
        assert await running.stop() == 0

    assert len(await sim.messages()) == 1
    assert answer["edits"]
    assert "…" not in str(answer["text"])
    assert answer["reply_to"] is None, "an answer to what was said last quotes nothing"
    assert await sim.do("typing")


async def test_what_was_said_while_it_was_dead_is_answered_everywhere(
    sim: Remote, tmp_path: Path
) -> None:
    """
    In a channel, in a thread that has a conversation and in one that began meanwhile, and in direct
    chats.
    """
    file = config(tmp_path, bot(sim))
    async with daemon(file) as running:
        await until_connected(sim)
        question = await sim.say(f"{ME} one", chat=HERE, user=PERSON)
        thread = (await sim.do("thread", chat=HERE, user=PERSON, name="talk", message=question))[
            "id"
        ]
        await until_answered(sim, "one", chat=HERE)
        await sim.say(f"{ME} two", chat=thread, user=PERSON)
        await until_answered(sim, "two", chat=thread)
        await sim.say("three", chat=DM, user=PERSON)
        await until_answered(sim, "three")
        await running.kill()
    await sim.say(f"{ME} four", chat=HERE, user=PERSON)
    await sim.say("five", chat=thread, user=PERSON)
    await sim.say("six", chat=DM, user=PERSON)
    new = (await sim.do("thread", chat=HERE, user=PERSON, name="new"))["id"]
    await sim.say(f"{ME} seven", chat=new, user=PERSON)
    async with daemon(file):
        await until_answered(sim, "four", chat=HERE)
        await until_answered(sim, "five", chat=thread)
        await until_answered(sim, "six")
        await until_answered(sim, "seven", chat=new)

    assert len(await sim.messages()) == 7


async def test_after_a_kill_everything_is_answered_once(sim: Remote, tmp_path: Path) -> None:
    file = config(tmp_path, bot(sim))
    async with daemon(file) as running:
        await until_connected(sim)
        await sim.say("alpha " + "word " * 100 + "one", chat=DM, user=PERSON)

        async def is_growing() -> bool:
            return any(message["edits"] for message in await sim.messages())

        await sim.until(is_growing)
        await running.kill()
    await sim.say("omega", chat=DM, user=PERSON)
    async with daemon(file):
        await until_answered(sim, "one")
        await until_answered(sim, "omega")

    assert len(await sim.messages()) == 2


async def test_what_discord_allows_is_kept_to(sim: Remote, tmp_path: Path) -> None:
    """
    Five messages in five seconds in a channel, and one new session in as many: who comes too soon
    comes again.
    """
    await sim.do("server", rates=True)
    file = config(tmp_path, bot(sim))
    async with daemon(file) as running:
        await until_connected(sim)
        await sim.say("alpha " + "word " * 300 + "one", chat=DM, user=PERSON)
        await until_answered(sim, "one")
        await running.kill()
    await sim.say("omega", chat=DM, user=PERSON)
    async with daemon(file):
        await until_answered(sim, "omega")
        await until_connected(sim, times=2)

    assert not [call for call in await sim.calls() if call["answered"].startswith("refused: 429")]
    assert len(await sim.messages()) == 2


async def test_what_a_session_that_was_lost_has_missed_is_answered(
    sim: Remote, tmp_path: Path
) -> None:
    async with daemon(config(tmp_path, bot(sim))):
        await until_connected(sim)
        await sim.say("before", chat=DM, user=PERSON)
        await until_answered(sim, "before")
        await sim.do("gateway", do="expire")
        await sim.say("meanwhile", chat=DM, user=PERSON)
        await until_answered(sim, "meanwhile")

    assert len(await sim.messages()) == 2


async def test_slash_commands_are_offered_and_answered_in_place(
    sim: Remote, tmp_path: Path
) -> None:
    async with daemon(config(tmp_path, bot(sim))):
        await until_connected(sim)

        async def are_offered() -> object:
            return await sim.do("commands")

        await sim.until(are_offered)
        await sim.do("command", chat=DM, user=PERSON, name="help")

        async def is_answered() -> bool:
            return any(
                each["messages"] and not each["thinking"] for each in await sim.do("interactions")
            )

        await sim.until(is_answered)

    (used,) = await sim.do("interactions")
    assert used["answer"] == "deferred"
    assert "/new" in used["messages"][0]["text"]
    assert len(await sim.messages()) == 1


async def test_in_a_server_an_answer_to_a_command_is_for_who_asked_alone(
    sim: Remote, tmp_path: Path
) -> None:
    """Findings A3 and E19."""
    async with daemon(config(tmp_path, bot(sim))):
        await until_connected(sim)

        async def are_offered() -> object:
            return await sim.do("commands")

        await sim.until(are_offered)
        await sim.do("command", chat=HERE, user=PERSON, name="status")

        async def is_answered() -> bool:
            return any(
                each["messages"] and not each["thinking"] for each in await sim.do("interactions")
            )

        await sim.until(is_answered)

    assert [message["only_for"] for message in await sim.messages()] == [PERSON]
    assert await sim.do("history", chat=HERE) == []


async def test_in_threads_of_its_own_a_conversation_goes_on(sim: Remote, tmp_path: Path) -> None:
    async with daemon(config(tmp_path, bot(sim, more=", threads: true"))):
        await until_connected(sim)
        question = await sim.say(f"{ME} what is new?", chat=HERE, user=PERSON)
        await until_answered(sim, "what is new?", chat=question)
        await sim.say("and since then?", chat=question, user=PERSON)
        await until_answered(sim, "and since then?", chat=question)
        found = await asyncio.to_thread(turngate, tmp_path / "state", "sessions", "list", "--json")

    (thread,) = await sim.do("threads")
    assert (thread["id"], thread["chat"], thread["name"]) == (question, HERE, "what is new?")
    (session,) = json.loads(found.stdout)["sessions"]
    assert session["key"] == f"agent:main:discord:thread:{HERE}:{question}:*"
    assert session["messages"] == 4


async def test_two_bots_answer_for_themselves(sim: Remote, tmp_path: Path) -> None:
    async with daemon(config(tmp_path, bot(sim), bot(sim, "support"))):
        await until_connected(sim)
        await until_connected(sim, "support")
        await sim.say("to main", chat=DM, user=PERSON)
        await sim.say("to support", chat=DM, user=PERSON, account="support")
        await until_answered(sim, "to main")
        await until_answered(sim, "to support", account="support")

    assert (len(await sim.messages()), len(await sim.messages("support"))) == (1, 1)


async def test_a_token_that_is_refused_ends_the_daemon_with_the_page_to_open(
    sim: Remote, tmp_path: Path
) -> None:
    async with daemon(config(tmp_path, bot(sim, token="of.nobody"))) as running:  # noqa: S106 - nobody's
        assert await running.ended() == 77

    log = (tmp_path / "log").read_text()
    assert "https://discord.com/developers/applications" in log
    assert "of.nobody" not in log
    assert len(await sim.calls(method="get_current_user")) <= 3


async def test_intents_that_are_switched_off_are_told_with_the_page_to_open(
    sim: Remote, tmp_path: Path
) -> None:
    await sim.do("bot", intents=[])
    async with daemon(config(tmp_path, bot(sim))) as running:
        assert await running.ended() == 77

    assert (
        "Message Content Intent at https://discord.com/developers/applications"
        in (tmp_path / "log").read_text()
    )
