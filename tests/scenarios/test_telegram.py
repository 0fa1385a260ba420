"""The real daemon, the real aiogram, a simulated Telegram, and people who write to a bot."""

from __future__ import annotations

import asyncio
import base64
import re
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from tests.commands import turngate
from tests.ports import free_port
from tests.simulators.common import Simulator
from tests.simulators.running import Remote, in_process
from tests.simulators.telegram import Telegram
from tests.telegram_daemon import PERSON, bot, config, daemon

STRANGER = "72002"
GROUP = "-5001"
SUPERGROUP = "-1000000005001"
NOBODYS = "110009:AAH-token-of-somebody-else-entirely-0009"


@pytest.fixture
async def sim() -> AsyncIterator[Remote]:
    """With rates that are counted. No bot may ask for what Telegram forbids."""
    async with in_process(Simulator(Telegram(rates=True))) as remote:
        yield remote
        assert await remote.violations() == []


async def until_answered(
    sim: Remote, word: str, *, chat: str = PERSON, account: str = "main"
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
        id_ = await sim.say(words, chat=PERSON, user=PERSON)
        answer = await until_answered(sim, "end")
        assert await running.stop() == 0

    assert len(await sim.messages()) == 1
    assert answer["edits"]
    assert "…" not in str(answer["text"])
    assert answer["reply_to"] is None, "an answer to what was said last quotes nothing"
    assert await sim.do("typing")
    assert [update["acknowledged"] for update in await sim.updates() if update["id"] == id_] == [
        True
    ]
    assert not [call for call in await sim.calls() if call["answered"].startswith("refused: 429")]


async def test_the_command_menu_is_set_and_pending_messages_are_answered(
    sim: Remote, tmp_path: Path
) -> None:
    await sim.say("before you came", chat=PERSON, user=PERSON)
    async with daemon(config(tmp_path, bot(sim))):
        await until_answered(sim, "before you came")

        async def has_menu() -> object:
            return await sim.do("commands")

        await sim.until(has_menu)

    offered = str(await sim.do("commands"))
    assert "'new'" in offered
    assert "'start'" not in offered


async def test_after_a_kill_everything_is_answered_once(sim: Remote, tmp_path: Path) -> None:
    file = config(tmp_path, bot(sim))
    async with daemon(file) as running:
        await sim.say("alpha " + "word " * 100 + "one", chat=PERSON, user=PERSON)

        async def is_growing() -> bool:
            return any(message["edits"] for message in await sim.messages())

        await sim.until(is_growing)
        await running.kill()
    await sim.say("omega", chat=PERSON, user=PERSON)
    async with daemon(file):
        await until_answered(sim, "one")
        await until_answered(sim, "omega")

    assert len(await sim.messages()) == 2


async def test_a_stranger_is_paired_and_then_answered(sim: Remote, tmp_path: Path) -> None:
    file = config(tmp_path, bot(sim))
    async with daemon(file):
        await sim.say("let me in", chat=STRANGER, user=STRANGER)

        async def is_invited() -> object:
            return await sim.messages()

        await sim.until(is_invited)
        (invitation,) = await sim.texts()
        found = re.search(r"\b[A-Z0-9]{8}\b|\b[A-Z0-9]{4}-[A-Z0-9]{4}\b", invitation)
        assert found is not None, invitation
        approved = await asyncio.to_thread(
            turngate, tmp_path / "state", "pair", "approve", found[0]
        )
        assert approved.returncode == 0, approved.stderr
        await sim.say("thank you", chat=STRANGER, user=STRANGER)
        await until_answered(sim, "thank you", chat=STRANGER)

    assert not any("let me in" in text for text in await sim.texts())


async def test_a_button_survives_the_daemon_and_runs_a_turn_again(
    sim: Remote, tmp_path: Path
) -> None:
    file = config(tmp_path, bot(sim), more="agents: {main: {kind: echo, repeatable: false}}")
    async with daemon(file) as running:
        await sim.say("again " + "word " * 100 + "please", chat=PERSON, user=PERSON)

        async def is_being_shown() -> object:
            return await sim.messages()

        await sim.until(is_being_shown)
        await running.kill()
    async with daemon(file):

        async def asks() -> bool:
            return any(message["buttons"] for message in await sim.messages())

        await sim.until(asks)
        (asked,) = [message for message in await sim.messages() if message["buttons"]]
        pressed = {"message": asked["id"], "nonce": asked["buttons"][0]["nonce"]}
        await sim.do("press", chat=PERSON, user=PERSON, **pressed)
        await until_answered(sim, "please")

        async def is_told() -> object:
            return await sim.do("answers")

        await sim.until(is_told)


async def test_files_come_and_go(sim: Remote, tmp_path: Path) -> None:
    file = config(tmp_path, bot(sim), more="delivery: {max_parts: 1}")
    novel = "chapter " * 500 + "end"
    async with daemon(file):
        await sim.say("look", chat=PERSON, user=PERSON, file=("ü.txt", b"some bytes"))
        answer = await until_answered(sim, "look")
        await sim.say(novel, chat=PERSON, user=PERSON)
        await sim.say(novel, chat=PERSON, user=PERSON)

        async def has_file() -> bool:
            return any(message["file"] for message in await sim.messages())

        await sim.until(has_file)

    assert "ü.txt" in str(answer["text"])
    (sent,) = [message["file"] for message in await sim.messages() if message["file"]]
    assert base64.b64decode(sent["content"]).decode().endswith("end")


async def test_in_a_group_only_what_is_meant_for_the_bot_is_answered_and_in_its_topic(
    sim: Remote, tmp_path: Path
) -> None:
    await sim.do("open", chat=GROUP, type="supergroup", forum=True, title="Ops", admins=["bot"])
    await sim.say("the first word", chat=GROUP, user=PERSON)
    topic = (await sim.do("topic", chat=GROUP, name="Deploys", user=PERSON))["id"]
    async with daemon(config(tmp_path, bot(sim))):
        await sim.say("nobody in particular", chat=GROUP, user=STRANGER)
        id_ = await sim.say("@main_bot ship it", chat=GROUP, user=STRANGER, thread=topic)
        answer = await until_answered(sim, "ship it", chat=GROUP)

    assert (answer["thread"], answer["reply_to"]) == (topic, id_)
    assert len(await sim.messages()) == 1


async def test_a_topic_that_is_gone_and_a_group_that_moved_still_get_their_answers(
    sim: Remote, tmp_path: Path
) -> None:
    await sim.do("open", chat=GROUP, type="group", title="Ops")
    async with daemon(config(tmp_path, bot(sim))):
        await sim.say("@main_bot " + "word " * 60 + "late", chat=GROUP, user=STRANGER)

        async def is_being_shown() -> object:
            return await sim.messages()

        await sim.until(is_being_shown)
        moved = (await sim.do("migrate", chat=GROUP))["chat"]
        answer = await until_answered(sim, "late", chat=moved)

    assert answer["chat"] == moved


async def test_a_conversation_goes_on_in_the_supergroup_that_its_group_became(
    sim: Remote, tmp_path: Path
) -> None:
    await sim.do("open", chat=GROUP, type="group", title="Ops")
    async with daemon(config(tmp_path, bot(sim))):
        await sim.say("@main_bot first", chat=GROUP, user=STRANGER)
        await until_answered(sim, "first", chat=GROUP)
        await sim.do("migrate", chat=GROUP, to=SUPERGROUP)
        await sim.say("@main_bot second", chat=SUPERGROUP, user=STRANGER)
        answer = await until_answered(sim, "second", chat=SUPERGROUP)

    assert "Turn 2 of" in str(answer["text"])


async def test_a_message_that_is_being_answered_has_a_sign_if_the_operator_wants_one(
    sim: Remote, tmp_path: Path
) -> None:
    async with daemon(config(tmp_path, bot(sim), more="delivery: {reaction: 👀}")):
        await sim.say("hello", chat=PERSON, user=PERSON)
        await until_answered(sim, "hello")

    (update,) = await sim.do("updates")
    assert update["reactions"] == ["👀"]


async def test_as_a_draft_an_answer_can_be_stopped_where_it_grows(
    sim: Remote, tmp_path: Path
) -> None:
    async with daemon(config(tmp_path, bot(sim), more="delivery: {stream: draft}")):
        await sim.say("word " * 400 + "end", chat=PERSON, user=PERSON)

        async def is_being_shown() -> object:
            return await sim.do("drafts")

        await sim.until(is_being_shown)
        (draft,) = await sim.do("drafts")
        assert await sim.messages() == []
        await sim.do("stop", chat=PERSON, draft=draft["id"])
        await until_answered(sim, "Stopped.")

    texts = [message["text"] for message in await sim.messages()]
    assert any("(incomplete: stopped)" in str(text) for text in texts)


async def test_one_bot_with_a_wrong_token_disturbs_no_other(sim: Remote, tmp_path: Path) -> None:
    async with daemon(config(tmp_path, bot(sim), bot(sim, "support", token=NOBODYS))) as running:
        await sim.say("are you there?", chat=PERSON, user=PERSON)
        await until_answered(sim, "are you there?")
        assert await running.stop() == 0


async def test_two_bots_answer_for_themselves(sim: Remote, tmp_path: Path) -> None:
    async with daemon(config(tmp_path, bot(sim), bot(sim, "support"))):
        await sim.say("to main", chat=PERSON, user=PERSON)
        await sim.say("to support", chat=PERSON, user=PERSON, account="support")
        await until_answered(sim, "to main")
        await until_answered(sim, "to support", account="support")

    assert (len(await sim.messages()), len(await sim.messages("support"))) == (1, 1)


async def test_if_every_bot_is_refused_and_there_is_no_other_door_it_ends_with_77(
    sim: Remote, tmp_path: Path
) -> None:
    async with daemon(config(tmp_path, bot(sim, token=NOBODYS))) as running:
        assert await running.ended() == 77

    assert len(await sim.calls()) <= 5


async def test_by_webhook_a_message_is_taken_when_it_is_stored_and_only_from_telegram(
    sim: Remote, tmp_path: Path
) -> None:
    url = f"http://127.0.0.1:{free_port()}/hook"
    listen = url.removeprefix("http://").removesuffix("/hook")
    webhook = f", receive: {{webhook: {{url: '{url}', listen: '{listen}', secret: a-secret}}}}"
    await sim.say("before", chat=PERSON, user=PERSON)
    async with daemon(config(tmp_path, bot(sim, more=webhook))):
        await until_answered(sim, "before")
        await sim.say("now", chat=PERSON, user=PERSON)
        await until_answered(sim, "now")
        async with aiohttp.ClientSession() as stranger:
            answers = [
                (await stranger.post(url, data=b"{", headers=headers)).status
                for headers in ({}, {"X-Telegram-Bot-Api-Secret-Token": "a-secre"})
            ]
            known = {"X-Telegram-Bot-Api-Secret-Token": "a-secret"}
            answers.append((await stranger.post(url, data=b"{", headers=known)).status)

    assert answers == [403, 403, 400]
    assert len(await sim.messages()) == 2


async def test_a_webhook_that_is_left_over_is_removed_and_nothing_it_missed_is_lost(
    sim: Remote, tmp_path: Path
) -> None:
    async with aiohttp.ClientSession() as http:
        token = bot(sim).partition("token: '")[2].partition("'")[0]
        await http.post(f"{sim.url}/bot{token}/setWebhook", json={"url": "http://127.0.0.1:1/gone"})
    await sim.say("waiting", chat=PERSON, user=PERSON)
    async with daemon(config(tmp_path, bot(sim))):
        await until_answered(sim, "waiting")


async def test_check_online_says_who_the_bot_is_and_what_is_wrong(
    sim: Remote, tmp_path: Path
) -> None:
    await sim.do("bot", privacy=True)
    good = config(tmp_path, bot(sim), bot(sim, "support", token=NOBODYS))

    checked = await asyncio.to_thread(
        turngate, tmp_path / "state", "check", "--online", "--config", str(good)
    )

    assert checked.returncode == 1
    lines = checked.stdout.splitlines()
    assert any(
        line.startswith("telegram/main: the token is right: this is @main_bot") for line in lines
    )
    assert any("privacy mode is on" in line for line in lines)
    assert "telegram/main: updates can be received by polling" in lines
    assert any(
        line.startswith("telegram/support: error: Telegram refuses the token") for line in lines
    )


async def test_check_online_finds_the_webhook_of_somebody_else_and_another_poller(
    sim: Remote, tmp_path: Path
) -> None:
    file = config(tmp_path, bot(sim), bot(sim, "support"))
    token = bot(sim).partition("token: '")[2].partition("'")[0]
    async with aiohttp.ClientSession() as http:
        await http.post(f"{sim.url}/bot{token}/setWebhook", json={"url": "http://127.0.0.1:1/gone"})
    async with daemon(config(tmp_path, bot(sim, "support"))):
        file = config(tmp_path, bot(sim), bot(sim, "support"))
        checked = await asyncio.to_thread(
            turngate, tmp_path / "other", "check", "--online", "--config", str(file)
        )
        ours = await asyncio.to_thread(
            turngate, tmp_path / "state", "check", "--online", "--config", str(file)
        )

    assert "telegram/main: a webhook is left over from elsewhere" in checked.stdout
    assert "telegram/support: error: another program receives with this token" in checked.stdout
    assert "telegram/support: updates are received by your running gateway" in ours.stdout
