"""The real daemon, the real slack-bolt, a simulated Slack, and people who write to a bot."""

from __future__ import annotations

import base64
import re
import socket
import sys
from collections.abc import AsyncIterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.simulators.common import Simulator
from tests.simulators.running import Remote, in_process
from tests.simulators.slack import Settings, Slack
from tests.slack_daemon import CHANNEL, DM, PERSON, config, workspace
from tests.telegram_daemon import daemon

STRANGER = "U72002"
WORDS = "Is anybody there? " + "word " * 120 + "end"


@pytest.fixture
async def sim() -> AsyncIterator[Remote]:
    """
    With rates that are counted. What is not taken comes again soon, twice. No bot may ask for what
    is forbidden.
    """
    async with in_process(Simulator(Slack(Settings(rates=True, retries=(0.0, 1.0))))) as remote:
        await remote.do("open", chat=DM, user=PERSON)
        await remote.do("open", chat=CHANNEL, name="ops", members=[PERSON, STRANGER])
        yield remote
        assert await remote.violations() == []


async def until_listening(sim: Remote, count: int = 1, account: str = "main") -> None:
    async def is_listening() -> bool:
        return await sim.do("sockets", account=account) == count

    await sim.until(is_listening)


async def until_answered(
    sim: Remote, word: str, *, chat: str = DM, account: str = "main"
) -> dict[str, Any]:
    """The whole answer: the echo says last what it was told, and what grows is not whole."""
    found: list[dict[str, Any]] = []

    async def is_answered() -> bool:
        found[:] = [
            message
            for message in await sim.messages(account)
            if message["chat"] == chat
            and re.search(rf"{re.escape(word)}(?=\n|$)", str(message["text"]))
            and not (message["stream"] or {}).get("open")
        ]
        return bool(found)

    await sim.until(is_answered)
    return found[-1]


async def until_shown(sim: Remote) -> None:
    async def is_being_shown() -> object:
        return await sim.messages()

    await sim.until(is_being_shown)


async def test_a_person_writes_and_is_answered_once_in_one_message_that_grew(
    sim: Remote, tmp_path: Path
) -> None:
    async with daemon(config(tmp_path, workspace(sim))) as running:
        await until_listening(sim)
        id_ = await sim.say(WORDS, chat=DM, user=PERSON)
        answer = await until_answered(sim, "end")
        assert await running.stop() == 0

    assert len(await sim.messages()) == 1
    assert len(answer["stream"]["chunks"]) > 1
    assert "…" not in str(answer["text"])
    assert answer["thread"] == id_
    assert [update["acknowledged"] for update in await sim.updates() if update["id"] == id_] == [
        True
    ]
    assert not [call for call in await sim.calls() if "429" in call["answered"]]


async def test_in_a_channel_the_answer_grows_in_a_stream_below_what_it_answers(
    sim: Remote, tmp_path: Path
) -> None:
    async with daemon(config(tmp_path, workspace(sim))):
        await until_listening(sim)
        await sim.say("nobody in particular", chat=CHANNEL, user=STRANGER)
        id_ = await sim.say(WORDS, chat=CHANNEL, user=STRANGER, mention=True)
        answer = await until_answered(sim, "end", chat=CHANNEL)
        await sim.say("and without a mention", chat=CHANNEL, user=STRANGER, thread=id_)
        again = await until_answered(sim, "and without a mention", chat=CHANNEL)

        async def has_no_status() -> bool:
            return all(status["over"] for status in await sim.do("statuses"))

        await sim.until(has_no_status)

    assert len(await sim.messages()) == 2
    assert (answer["thread"], again["thread"]) == (id_, id_)
    assert len(answer["stream"]["chunks"]) > 1
    assert await sim.do("typing")
    appended = [call["at"] for call in await sim.calls(method="chat.appendStream")]
    assert all(later - earlier > 0.9 for earlier, later in pairwise(appended)), (
        "at most once a second"
    )
    assert "Turn 2 of" in again["text"]


SEARCHING = """
import json, sys, time
sys.stdin.readline()
def tell(**event):
    print(json.dumps(event), flush=True)
tell(type="tool", id="t1", name="search", title="Search the archive", status="started")
time.sleep(1.5)
tell(type="tool", id="t1", name="search", status="done", output="nobody's business")
tell(type="text", text="Found it.")
tell(type="done")
"""


async def test_a_tool_at_work_is_a_task_of_the_stream(sim: Remote, tmp_path: Path) -> None:
    script = tmp_path / "agent.py"
    script.write_text(SEARCHING)
    agent = (
        f"agents: {{main: {{kind: command, format: jsonl, argv: ['{sys.executable}', "
        f"'{script}']}}}}"
    )
    async with daemon(config(tmp_path, workspace(sim), more=agent)):
        await until_listening(sim)
        await sim.say("where is it?", chat=CHANNEL, user=PERSON, mention=True)

        async def is_at_work() -> bool:
            tasks = [
                task
                for each in await sim.messages()
                for task in (each["stream"] or {"tasks": []})["tasks"]
            ]
            return [(task["title"], task["status"]) for task in tasks] == [
                ("Search the archive", "in_progress")
            ]

        await sim.until(is_at_work)
        answer = await until_answered(sim, "Found it.", chat=CHANNEL)

    assert len(await sim.messages()) == 1
    assert [task["status"] for task in answer["stream"]["tasks"]] == ["complete"]
    assert "nobody's business" not in str(answer)


async def test_without_streams_an_answer_is_edited_in_its_thread(
    sim: Remote, tmp_path: Path
) -> None:
    await sim.do("server", streaming=False)
    async with daemon(config(tmp_path, workspace(sim))):
        await until_listening(sim)
        id_ = await sim.say(WORDS, chat=CHANNEL, user=STRANGER, mention=True)
        answer = await until_answered(sim, "end", chat=CHANNEL)

    assert len(await sim.messages()) == 1
    assert (answer["thread"], answer["stream"]) == (id_, None)
    assert answer["edits"]


@pytest.mark.parametrize(
    ("chat", "mention"), [(DM, False), (CHANNEL, True)], ids=["edited", "streamed"]
)
async def test_after_a_kill_an_answer_that_had_begun_ends_in_its_place(
    sim: Remote, tmp_path: Path, chat: str, mention: bool
) -> None:
    file = config(tmp_path, workspace(sim))
    async with daemon(file) as running:
        await until_listening(sim)
        await sim.say(WORDS, chat=chat, user=PERSON, mention=mention)
        await until_shown(sim)
        await running.kill()
    async with daemon(file):
        answer = await until_answered(sim, "end", chat=chat)

    assert len(await sim.messages()) == 1
    assert "possible repeat" not in answer["text"]


async def test_what_was_said_while_it_was_away_is_answered_wherever_it_was_said(
    sim: Remote, tmp_path: Path
) -> None:
    """Slack tries three times within minutes; after that only a history has it."""
    await sim.do("server", retries=[])
    file = config(tmp_path, workspace(sim))
    async with daemon(file):
        await until_listening(sim)
        await sim.say("hello", chat=DM, user=PERSON)
        await until_answered(sim, "hello")
        thread = await sim.say("a thread", chat=CHANNEL, user=STRANGER, mention=True)
        await until_answered(sim, "a thread", chat=CHANNEL)
    await sim.say("in private", chat=DM, user=PERSON)
    await sim.say("in the thread", chat=CHANNEL, user=STRANGER, thread=thread)
    new = await sim.say("in the channel", chat=CHANNEL, user=STRANGER, mention=True)
    await sim.say("among people", chat=CHANNEL, user=STRANGER)
    assert {update["state"] for update in await sim.updates()} > {"gone"}
    async with daemon(file):
        await until_answered(sim, "in private")
        in_thread = await until_answered(sim, "in the thread", chat=CHANNEL)
        in_channel = await until_answered(sim, "in the channel", chat=CHANNEL)

    assert (in_thread["thread"], in_channel["thread"]) == (thread, new)
    assert len(await sim.messages()) == 5


async def test_a_daemon_that_is_cut_off_misses_nothing(sim: Remote, tmp_path: Path) -> None:
    await sim.do("server", retries=[])
    async with daemon(config(tmp_path, workspace(sim))):
        await until_listening(sim)
        await sim.say("before", chat=DM, user=PERSON)
        await until_answered(sim, "before")
        await sim.do("cut")
        await sim.say("while nobody listened", chat=DM, user=PERSON)
        await until_answered(sim, "while nobody listened")
        await until_listening(sim)
        await sim.do("disconnect", reason="refresh_requested")
        await until_listening(sim)
        await sim.say("after", chat=DM, user=PERSON)
        await until_answered(sim, "after")

    assert len(await sim.messages()) == 3


async def test_an_answer_whose_answer_got_lost_is_there_once(sim: Remote, tmp_path: Path) -> None:
    await sim.fault("lost answer", does="send")
    await sim.fault("lost answer", does="edit")
    async with daemon(config(tmp_path, workspace(sim))):
        await until_listening(sim)
        await sim.say(WORDS, chat=DM, user=PERSON)
        answer = await until_answered(sim, "end")

    assert len(await sim.messages()) == 1
    assert "possible repeat" not in answer["text"]


async def test_whatever_goes_wrong_everybody_is_answered_once(sim: Remote, tmp_path: Path) -> None:
    words = [f"tok{number}" for number in range(10)]
    faults: list[dict[str, Any]] = [
        {"kind": "lost answer", "does": "send"},
        {"kind": "502 html", "does": "edit"},
        {"kind": "429", "does": "send", "retry_after": 1},
        {"kind": "reset", "does": "acknowledge"},
        {"kind": "garbage", "does": "send", "after": True},
        {"kind": "lost answer", "does": "edit"},
        {"kind": "duplicate", "method": "socket.events_api"},
        {"kind": "truncated", "does": "find"},
        {"kind": "html", "does": "edit"},
        {"kind": "500", "method": "conversations.info"},
    ]
    async with daemon(config(tmp_path, workspace(sim))):
        await until_listening(sim)
        for word, fault in zip(words, faults, strict=True):
            await sim.fault(**fault)
            in_channel = bool(int(word[3:]) % 2)
            await sim.say(word, chat=CHANNEL if in_channel else DM, user=PERSON, mention=in_channel)
        for word in words:
            await until_answered(sim, word, chat=CHANNEL if int(word[3:]) % 2 else DM)

    told = [re.findall(r"tok\d+", text) for text in await sim.texts()]
    assert sorted(word for each in told for word in each) == words
    assert not any("possible repeat" in text for text in await sim.texts())


async def test_a_button_survives_the_daemon_and_runs_a_turn_again(
    sim: Remote, tmp_path: Path
) -> None:
    file = config(tmp_path, workspace(sim), more="agents: {main: {kind: echo, repeatable: false}}")
    async with daemon(file) as running:
        await until_listening(sim)
        await sim.say("again " + "word " * 100 + "please", chat=CHANNEL, user=PERSON, mention=True)
        await until_shown(sim)
        await running.kill()
    async with daemon(file):

        async def asks() -> bool:
            return any(message["buttons"] for message in await sim.messages())

        await sim.until(asks)
        (asked,) = [message for message in await sim.messages() if message["buttons"]]
        pressed = {"message": asked["id"], "nonce": asked["buttons"][0]["nonce"]}
        await sim.do("press", chat=CHANNEL, user=PERSON, **pressed)
        await until_answered(sim, "please", chat=CHANNEL)


async def test_commands_work_as_commands_of_slack_and_in_words(sim: Remote, tmp_path: Path) -> None:
    async with daemon(config(tmp_path, workspace(sim))):
        await until_listening(sim)
        await sim.say("first", chat=DM, user=PERSON)
        await until_answered(sim, "first")
        await sim.do("command", chat=DM, user=PERSON, command="/new")

        async def is_new() -> bool:
            return len(await sim.messages()) == 2

        await sim.until(is_new)
        await sim.say("second", chat=DM, user=PERSON)
        second = await until_answered(sim, "second")
        await sim.say("!new", chat=DM, user=PERSON)
        await sim.say("third", chat=DM, user=PERSON)
        third = await until_answered(sim, "third")

    assert "Turn 1 of" in second["text"]
    assert "Turn 1 of" in third["text"]


async def test_a_thread_of_a_direct_chat_goes_on_with_the_same_conversation(
    sim: Remote, tmp_path: Path
) -> None:
    """Finding H1."""
    async with daemon(config(tmp_path, workspace(sim))):
        await until_listening(sim)
        first = await sim.say("the first", chat=DM, user=PERSON)
        await until_answered(sim, "the first")
        await sim.say("in its thread", chat=DM, user=PERSON, thread=first)
        answer = await until_answered(sim, "in its thread")
        second = await sim.say("beside it", chat=DM, user=PERSON)
        beside = await until_answered(sim, "beside it")

    assert (answer["thread"], beside["thread"]) == (first, second)
    assert "Turn 2 of" in answer["text"]
    assert "Turn 3 of" in beside["text"]


async def test_direct_chats_may_have_threads_too(sim: Remote, tmp_path: Path) -> None:
    async with daemon(config(tmp_path, workspace(sim, more=", dm_threads: true"))):
        await until_listening(sim)
        one = await sim.say(WORDS, chat=DM, user=PERSON)
        first = await until_answered(sim, "end")
        two = await sim.say("another thing", chat=DM, user=PERSON)
        second = await until_answered(sim, "another thing")

    assert (first["thread"], second["thread"]) == (one, two)
    assert first["stream"] is not None
    assert all("Turn 1 of" in message["text"] for message in await sim.messages())


async def test_files_come_and_go(sim: Remote, tmp_path: Path) -> None:
    file = config(tmp_path, workspace(sim), more="delivery: {max_parts: 1}")
    novel = "chapter " * 1600 + "end"
    async with daemon(file):
        await until_listening(sim)
        await sim.say("look", chat=DM, user=PERSON, file=("ü.txt", b"some bytes"))
        answer = await until_answered(sim, "look")
        id_ = await sim.say(novel, chat=CHANNEL, user=PERSON, mention=True)

        async def has_file() -> bool:
            return any(message["file"] for message in await sim.messages())

        await sim.until(has_file)

    assert "ü.txt" in str(answer["text"])
    (sent,) = [message for message in await sim.messages() if message["file"]]
    assert base64.b64decode(sent["file"]["content"]).decode().endswith("end")
    assert sent["thread"] == id_


async def test_a_message_that_is_being_answered_has_a_sign_if_the_operator_wants_one(
    sim: Remote, tmp_path: Path
) -> None:
    async with daemon(config(tmp_path, workspace(sim), more="delivery: {reaction: 👀}")):
        await until_listening(sim)
        await sim.say("hello", chat=DM, user=PERSON)
        await until_answered(sim, "hello")

    assert (await sim.updates())[0]["reactions"] == ["👀"]


async def test_two_workspaces_answer_for_themselves_though_their_ids_repeat(
    sim: Remote, tmp_path: Path
) -> None:
    await sim.do("open", chat=DM, user=PERSON, account="support")
    async with daemon(config(tmp_path, workspace(sim), workspace(sim, "support"))):
        await until_listening(sim)
        await until_listening(sim, account="support")
        await sim.say("to main", chat=DM, user=PERSON)
        await sim.say("to support", chat=DM, user=PERSON, account="support")
        main = await until_answered(sim, "to main")
        support = await until_answered(sim, "to support", account="support")

    assert (len(await sim.messages()), len(await sim.messages("support"))) == (1, 1)
    assert ("Turn 1 of" in main["text"], "Turn 1 of" in support["text"]) == (True, True)


async def test_one_workspace_with_a_wrong_token_disturbs_no_other(
    sim: Remote, tmp_path: Path
) -> None:
    wrong = workspace(sim, "support", token="xoxb-nobody")  # noqa: S106 - nobody's
    async with daemon(config(tmp_path, workspace(sim), wrong)) as running:
        await until_listening(sim)
        await sim.say("are you there?", chat=DM, user=PERSON)
        await until_answered(sim, "are you there?")
        assert await running.stop() == 0


async def test_if_every_workspace_is_refused_and_there_is_no_other_door_it_ends_with_77(
    sim: Remote, tmp_path: Path
) -> None:
    wrong = workspace(sim, token="xoxb-nobody")  # noqa: S106 - nobody's
    async with daemon(config(tmp_path, wrong)) as running:
        assert await running.ended() == 77

    assert len(await sim.calls()) <= 5


async def test_by_http_a_message_is_answered_too(sim: Remote, tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        listen = f"127.0.0.1:{taken.getsockname()[1]}"
    http = f", receive: {{http: {{listen: '{listen}', signing_secret: main-signing-secret}}}}"
    async with daemon(config(tmp_path, workspace(sim, more=http))):

        async def is_taken() -> bool:
            try:
                await sim.do("app", url=f"http://{listen}/slack/events")
            except ValueError:
                return False
            return True

        await sim.until(is_taken)
        await sim.say("hello", chat=DM, user=PERSON)
        await until_answered(sim, "hello")
        await sim.do("app", url="")
