"""
What the Telegram adapter does beyond what every adapter must: the traps that others have found.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import aiohttp
import pytest

from tests.contracts.adapter_scene import Ear, Scene, listening, part
from tests.contracts.platforms.telegram import TelegramUnderTest
from tests.ports import free_port
from tests.simulators.telegram import TOKENS
from turngate.adapters.telegram import plugin as telegram
from turngate.adapters.telegram.normalise import HANDLED
from turngate.adapters.telegram.server_files import read_inside
from turngate.gateway.daemon.system_clock import SystemClock
from turngate.gateway.domain.agent_events import File
from turngate.gateway.domain.errors import (
    Refused,
    Retryable,
    StoreUnavailable,
    Unauthorized,
    Undeliverable,
)
from turngate.gateway.domain.ids import TurnId
from turngate.gateway.domain.messages import (
    Attachment,
    ChatType,
    MessageKind,
    SessionSource,
)
from turngate.gateway.domain.outbox import Button
from turngate.gateway.domain.transcript import MediaType, Text
from turngate.gateway.outbound.preview_text import PreviewLabels

GROUP = SessionSource(
    platform="telegram", chat_id="-5001", user_id="71001", chat_type=ChatType.GROUP
)
FORUM = SessionSource(
    platform="telegram", chat_id="-1000000005002", user_id="71001", chat_type=ChatType.GROUP
)


@pytest.fixture
async def at() -> AsyncIterator[Scene]:
    """
    A fresh Telegram, a bot, two people, a group and a forum. No bot may ask for what Telegram
    forbids.
    """
    tested = TelegramUnderTest()
    async with tested.simulator() as sim:
        await sim.do("open", chat=GROUP.chat_id, type="group", title="Ops")
        await sim.do(
            "open", chat=FORUM.chat_id, type="supergroup", forum=True, title="Dev", admins=["bot"]
        )
        async with tested.adapter(sim) as adapter:
            yield Scene(tested=tested, sim=sim, adapter=adapter)
        assert await sim.violations() == []


async def polls(at: Scene) -> list[dict[str, object]]:
    return [call["parameters"] for call in await at.sim.calls(method="getUpdates")]


async def test_the_first_poll_does_not_wait_and_asks_for_what_is_handled(at: Scene) -> None:
    async with at.listening(Ear()):

        async def has_polled_twice() -> bool:
            return len(await polls(at)) > 1

        await at.sim.until(has_polled_twice)

    first, second, *_ = await polls(at)
    assert (first["timeout"], second["timeout"]) == (0, 1)
    assert first["allowed_updates"] == list(HANDLED)
    assert "offset" not in first


async def test_what_is_confirmed_is_confirmed_once(at: Scene) -> None:
    """Numbers begin anew after a week of silence: an old one would confirm what nobody has read."""
    ear = Ear()
    async with at.listening(ear):
        await at.say("before a quiet week")
        await ear.until_heard()
        await at.sim.until(at.all_is_acknowledged)
        count = len(await polls(at))

        async def has_polled_again() -> bool:
            return len(await polls(at)) > count + 1

        await at.sim.until(has_polled_again)
        assert "offset" not in (await polls(at))[-1]
        await at.sim.do("later", seconds=8 * 24 * 3600.0)
        await at.say("after it")
        await ear.until_heard(2)

    assert ear.texts == ["before a quiet week", "after it"]


async def test_another_poller_is_told_of_in_plain_words_and_outlived(at: Scene) -> None:
    await at.sim.fault("409", does="receive")

    with pytest.raises(Retryable, match="another program receives with this token"):
        await at.adapter.run(Ear().receive)

    ear = Ear()
    async with at.listening(ear):
        await at.say("still here")
        await ear.until_heard()


async def test_a_token_that_is_none_is_refused_without_a_call(at: Scene) -> None:
    adapter = telegram.TelegramAdapter(
        telegram.Account(token="none", api_url=at.sim.url),  # noqa: S106
        SystemClock(),  # noqa: RUF100, S106
    )

    with pytest.raises(Unauthorized, match="BotFather"):
        await adapter.run(Ear().receive)

    assert await at.sim.calls() == []


async def test_a_group_is_answered_where_it_was_asked(at: Scene) -> None:
    id_ = await at.say("@main_bot hello", to=GROUP)

    await at.adapter.send(replace(part(GROUP), reply_to=id_))
    await at.adapter.send(replace(part(GROUP), reply_to="404"))

    assert [message["reply_to"] for message in await at.sim.messages()] == [id_, None]


async def test_a_topic_that_is_gone_gets_its_answer_outside_of_it(at: Scene) -> None:
    await at.say("a first word", to=FORUM)
    topic = (await at.sim.do("topic", chat=FORUM.chat_id, name="Deploys", user="71001"))["id"]
    in_topic = replace(FORUM, thread_id=topic)

    await at.adapter.send(part(in_topic, "in the topic"))
    await at.sim.do("delete_topic", chat=FORUM.chat_id, thread=topic)
    await at.adapter.send(part(in_topic, "outside"))
    await at.adapter.send(part(replace(FORUM, thread_id="1"), "in General"))

    assert [message["thread"] for message in await at.sim.messages()] == [topic, None, None]


async def test_a_group_that_moved_is_written_to_where_it_is(at: Scene) -> None:
    moved = (await at.sim.do("migrate", chat=GROUP.chat_id, user="71001"))["chat"]

    await at.adapter.send(part(GROUP, "one"))
    await at.adapter.send(part(GROUP, "two"))

    assert [(message["chat"], message["text"]) for message in await at.sim.messages()] == [
        (moved, "one"),
        (moved, "two"),
    ]
    assert len(await at.sim.calls(method="sendMessage")) == 3


async def test_an_answer_to_what_was_said_last_quotes_nothing_in_a_direct_chat(at: Scene) -> None:
    ear = Ear()
    async with at.listening(ear):
        first = await at.say("first")
        last = await at.say("last")
        await ear.until_heard(2)
    await at.adapter.send(replace(part(at.here), reply_to=first))
    await at.adapter.send(replace(part(at.here), reply_to=last))

    assert [message["reply_to"] for message in await at.sim.messages()] == [first, None]


async def test_formatting_arrives_and_links_are_not_previewed(at: Scene) -> None:
    await at.adapter.send(part(at.here, "**bold** [x](https://a.b) <b>html</b>"))

    (shown,) = await at.sim.messages()
    assert shown["text"] == "bold x <b>html</b>"
    assert [entity["type"] for entity in shown["entities"]] == ["bold", "text_link"]
    assert shown["preview"]["is_disabled"]


TABLE = "Look:\n\n| a | b |\n|---|---|\n| 1 | 2 |"


async def test_a_table_is_a_table_where_the_server_knows_them(at: Scene) -> None:
    sent = await at.adapter.send(part(at.here, "Look …"))
    await at.adapter.edit(part(at.here, TABLE), sent.message_id)
    await at.adapter.send(part(at.here, TABLE))

    first, second = await at.sim.messages()
    assert [block["type"] for block in first["rich"]["blocks"]] == ["paragraph", "table"]
    assert first["rich"] == second["rich"]


async def test_a_table_is_text_where_the_server_does_not_know_them(at: Scene) -> None:
    await at.sim.do("server", rich=False)
    sent = await at.adapter.send(part(at.here, TABLE))
    await at.adapter.edit(part(at.here, f"{TABLE}\n| 3 | 4 |"), sent.message_id)

    (shown,) = await at.sim.messages()
    assert (shown["rich"], shown["text"]) == (None, "Look:\n\na | b\n--+--\n1 | 2\n3 | 4")


FORMULA = "Energy is $E = mc^2$."
NESTED = "- one\n  - two"
TASKS = "- [x] done\n- [ ] open"


@pytest.mark.parametrize("words", ["## Plan\n\nFirst this.", FORMULA, NESTED, TASKS])
async def test_what_text_shows_poorly_is_rich_also_while_it_grows(at: Scene, words: str) -> None:
    """Finding H3: only tables were."""
    await at.adapter.show_draft(replace(part(at.here, words), turn=TurnId(7)))
    drafts = await at.sim.do("drafts")
    await at.adapter.send(part(at.here, words))

    (shown,) = await at.sim.messages()
    assert shown["rich"] is not None
    assert [(draft["rich"], draft["can_stop"]) for draft in drafts] == [(True, True)]


@pytest.mark.parametrize(
    "words",
    [
        "# Look\n\n![a picture](https://a.example/?what=was-said)",
        "# Look\n\n<b>here</b>",
        "# Look\n\na || b || c",
        "# Look\n\nfrom $5 to $6",
        "# Look\n\n[you](tg://user?id=71002)",
        "just **bold** and a\n- list",
    ],
)
async def test_what_telegram_would_read_otherwise_is_text(at: Scene, words: str) -> None:
    """Telegram would fetch the picture, hide what is between bars, make formulas of prices."""
    await at.adapter.send(part(at.here, words))

    (shown,) = await at.sim.messages()
    assert shown["rich"] is None


async def test_in_a_rich_message_an_agent_calls_nobody_by_name(at: Scene) -> None:
    for words in ("# For @bob", "# For &#64;bob", "# See https://a.example/"):
        await at.adapter.send(part(at.here, words))

    calls = await at.sim.calls(method="sendRichMessage")
    skips = [call["parameters"]["rich_message"].get("skip_entity_detection") for call in calls]
    assert skips == [True, True, None]


async def test_a_server_that_does_not_know_rich_messages_is_asked_once(at: Scene) -> None:
    """Finding H3: it falls back, and not for every preview anew."""
    await at.sim.do("server", rich=False)
    draft = replace(part(at.here, "# One"), turn=TurnId(7))
    await at.adapter.show_draft(draft)
    await at.adapter.show_draft(replace(draft, text="# One\n\nTwo"))
    sent = await at.adapter.send(part(at.here, "# One"))
    await at.adapter.edit(part(at.here, "# One\n\nTwo"), sent.message_id)

    assert await at.sim.texts() == ["One\n\nTwo"]
    assert len(await at.sim.calls(method="sendRichMessageDraft")) == 1
    assert await at.sim.calls(method="sendRichMessage") == []


async def test_a_table_with_somebody_to_be_called_is_text(at: Scene) -> None:
    await at.adapter.send(part(at.here, f"<@71002> {TABLE}"))

    (shown,) = await at.sim.messages()
    assert shown["rich"] is None


async def test_an_update_that_nobody_understands_keeps_no_other_from_being_heard(at: Scene) -> None:
    understood, ear = (
        {
            "update_id": 2,
            "message": {"message_id": 1, "date": 1, "chat": {"id": 1, "type": "private"}},
        },
        Ear(),
    )
    understood["message"] |= {"from": {"id": 1, "is_bot": False, "first_name": "Ann"}, "text": "hi"}
    account = telegram.Account(token=TOKENS["main"], api_url=at.sim.url)
    webhook = _webhook()
    adapter = telegram.TelegramAdapter(replace(account, webhook=webhook), SystemClock())
    known = {"X-Telegram-Bot-Api-Secret-Token": "s"}
    async with listening(adapter, ear.receive), aiohttp.ClientSession() as http:
        await _until_set(at)
        for update in ({"update_id": 1, "message": {"strange": []}}, understood):
            async with http.post(webhook.url, json=update, headers=known) as response:
                assert response.status == 200
    await adapter.close()

    assert [message.kind for message in ear.heard] == [MessageKind.UNREADABLE, MessageKind.NEW]
    assert ear.texts[1:] == ["hi"]


async def test_a_webhook_refuses_what_is_no_update_without_a_complaint(
    at: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    """Finding R23: deeply nested JSON was an error of ours."""
    webhook = _webhook()
    account = telegram.Account(token=TOKENS["main"], api_url=at.sim.url, webhook=webhook)
    adapter = telegram.TelegramAdapter(account, SystemClock())
    deep, known = b"[" * 100_000, {"X-Telegram-Bot-Api-Secret-Token": "s"}
    async with listening(adapter, Ear().receive), aiohttp.ClientSession() as http:
        await _until_set(at)
        for headers, status in ((known, 400), ({}, 403)):
            async with http.post(webhook.url, data=deep, headers=headers) as response:
                assert response.status == status
    await adapter.close()

    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


def _webhook() -> telegram.Webhook:
    port = free_port()
    return telegram.Webhook(
        url=f"http://127.0.0.1:{port}/hook",
        host="127.0.0.1",
        port=port,
        secret="s",  # noqa: S106
    )


async def _until_set(at: Scene) -> None:
    async def is_set() -> object:
        return await at.sim.calls(method="setWebhook")

    await at.sim.until(is_set)


async def test_a_webhook_says_no_while_nothing_can_be_stored(at: Scene) -> None:
    ear = Ear(StoreUnavailable("the disk is full"))
    webhook = _webhook()
    account = telegram.Account(token=TOKENS["main"], api_url=at.sim.url, webhook=webhook)
    adapter = telegram.TelegramAdapter(account, SystemClock())
    async with listening(adapter, ear.receive):
        await _until_set(at)
        await at.say("keep me")
        await ear.until_heard()
        await at.sim.until(at.all_is_acknowledged)
    await adapter.close()

    assert [attempt["status"] for attempt in await at.sim.do("deliveries")] == [503, 200]


async def test_a_press_is_answered_after_it_was_stored(at: Scene) -> None:
    ear = Ear()
    ear.may_go_on.clear()
    button = Button(label="Yes", nonce="0f" * 16)
    sent = await at.adapter.ask(replace(part(at.here, "Sure?"), buttons=(button,)))
    async with at.listening(ear):
        await at.sim.do(
            "press", chat=at.here.chat_id, user="71001", message=sent.message_id, nonce=button.nonce
        )
        await ear.until(lambda: len(ear.tried) == 1)
        assert await at.sim.do("answers") == []
        ear.may_go_on.set()

        async def is_answered() -> object:
            return await at.sim.do("answers")

        await at.sim.until(is_answered)


@pytest.mark.parametrize(
    ("name", "size", "kind"),
    [
        ("sea.png", 100, "photo"),
        ("sea.jpg", 10_000_001, "document"),
        ("word.ogg", 100, "voice"),
        ("song.mp3", 100, "audio"),
        ("cat.gif", 100, "animation"),
        ("sea.mp4", 100, "video"),
        ("a.pdf", 100, "document"),
    ],
)
async def test_a_file_is_sent_as_what_it_is(
    at: Scene, tmp_path: Path, name: str, size: int, kind: str
) -> None:
    path = tmp_path / "random-name"
    path.write_bytes(b"x" * size)

    await at.adapter.send_file(
        replace(part(at.here, "**Here.**"), file=File(path=str(path), name=name))
    )

    (shown,) = await at.sim.messages()
    assert (shown["file"]["kind"], shown["file"]["name"], shown["text"]) == (kind, name, "Here.")


async def test_a_name_that_would_break_the_request_is_cleaned(at: Scene, tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"x")

    await at.adapter.send_file(
        replace(part(at.here, ""), file=File(path=str(path), name='../a"\r\nX: y.bin'))
    )

    (shown,) = await at.sim.messages()
    assert "\n" not in shown["file"]["name"]
    assert shown["file"]["name"].endswith("X: y.bin")


async def test_a_file_that_is_too_large_for_bots_is_refused_in_words(at: Scene) -> None:
    adapter = telegram.TelegramAdapter(telegram.Account(token=TOKENS["main"]), SystemClock())

    with pytest.raises(Refused, match="20 MB"):
        [
            piece
            async for piece in adapter.fetch(
                Attachment(type=MediaType.FILE, ref="x", size=(20 << 20) + 1)
            )
        ]


async def test_a_server_of_ones_own_gives_larger_files_from_its_disk(
    at: Scene, tmp_path: Path
) -> None:
    await at.sim.do("server", local=True, folder=str(tmp_path))
    content = bytes(21_000_000)
    file = await _file_of_a_person(at, "big.bin", size=len(content))

    assert await _fetched(at, file, tmp_path) == content


async def test_no_other_file_of_this_machine_is_opened(at: Scene, tmp_path: Path) -> None:
    """Finding R15: every absolute path was believed, /proc/self/environ for one."""
    inside = tmp_path / "inside"
    inside.mkdir()
    await at.sim.do("server", local=True, folder=str(tmp_path))
    file = await _file_of_a_person(at, "a.bin", size=3)

    with pytest.raises(Refused, match="files_dir"):
        await _fetched(at, file, None)
    with pytest.raises(Refused, match="files_dir"):
        await _fetched(at, file, inside)


@pytest.mark.parametrize("name", ["link", "pipe", "folder", "folder/../../secret", "linked/secret"])
async def test_only_plain_files_in_the_folder_are_read(tmp_path: Path, name: str) -> None:
    """Finding R15: no link, no pipe, no way out."""
    folder = tmp_path / "files"
    (folder / "folder").mkdir(parents=True)
    (tmp_path / "secret").write_text("what only this machine knows")
    (folder / "link").symlink_to(tmp_path / "secret")
    (folder / "linked").symlink_to(tmp_path)
    os.mkfifo(folder / "pipe")
    (folder / "plain").write_bytes(b"given")

    with pytest.raises(Refused, match="files_dir"):
        [piece async for piece in read_inside(folder, f"{folder}/{name}")]
    assert [piece async for piece in read_inside(folder, f"{folder}/plain")] == [b"given"]


async def _file_of_a_person(at: Scene, name: str, size: int) -> Attachment:
    ear = Ear()
    async with at.listening(ear):
        file = {"name": name, "mime": "", "size": size}
        await at.sim.do("say", chat="71001", user="71001", text="", file=file)
        (message,) = await ear.until_heard()
    return message.attachments[0]


async def _fetched(at: Scene, file: Attachment, folder: Path | None) -> bytes:
    account = telegram.Account(token=TOKENS["main"], api_url=at.sim.url, files_dir=folder)
    adapter = telegram.TelegramAdapter(account, SystemClock())
    try:
        return b"".join([piece async for piece in adapter.fetch(file)])
    finally:
        await adapter.close()


async def test_a_preview_of_list_marks_holds_up_nobody(at: Scene) -> None:
    """Finding R1: 18 kB of them held up the event loop for seven seconds."""
    shown = PreviewLabels(at.adapter.limits)
    took = []
    for count in (9_000, 60_000):
        shown.add(Text(text="* " * count + "x"))
        began = time.process_time()
        assert at.adapter.limits.measure(shown.so_far()) <= 4096
        took.append(time.process_time() - began)

    assert took[1] < 5 * took[0] + 0.2


async def test_a_chat_without_a_name_and_a_message_without_a_number_take_nothing(at: Scene) -> None:
    with pytest.raises(Undeliverable):
        await at.adapter.send(part(replace(at.here, chat_id=None)))
    with pytest.raises(Undeliverable):
        await at.adapter.edit(part(at.here), "")


async def test_one_slow_chat_holds_up_no_other_and_keeps_its_order(at: Scene) -> None:
    begun, stored, may_go_on = list[str](), list[str](), asyncio.Event()

    async def receive(message: object) -> None:
        text = message.text  # type: ignore[attr-defined]
        begun.append(text)
        if text == "slow":
            await may_go_on.wait()
        stored.append(text)

    await at.say("slow")
    await at.say("after slow")
    await at.say("quick", to=at.there)
    async with listening(at.adapter, receive):

        async def is_stored() -> bool:
            return sorted(stored) == ["after slow", "quick"]

        await at.sim.until(is_stored)
        assert not await at.all_is_acknowledged()
        may_go_on.set()
        await at.sim.until(at.all_is_acknowledged)

    assert [text for text in begun if text != "quick"] == ["slow", "after slow"]


async def test_what_is_done_to_a_message_finds_it_stored(at: Scene) -> None:
    seen, may_go_on = list[str](), asyncio.Event()

    async def receive(message: object) -> None:
        if message.kind is MessageKind.NEW:  # type: ignore[attr-defined]
            await may_go_on.wait()
        seen.append(message.text)  # type: ignore[attr-defined]

    said = await at.say("befroe")
    await at.sim.do("change", id=said, chat=at.here.chat_id, text="before")
    async with listening(at.adapter, receive):
        await asyncio.sleep(0.2)
        assert seen == []
        may_go_on.set()
        await at.sim.until(at.all_is_acknowledged)

    assert seen == ["befroe", "before"]
