"""
The Telegram simulator keeps Telegram's rules: the real aiogram against it, one test for each of
them.
"""

from __future__ import annotations

import asyncio
import base64
import io
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiogram import Bot
from aiogram.client.session.aiohttp import AiohttpSession
from aiogram.client.telegram import TelegramAPIServer
from aiogram.exceptions import (
    ClientDecodeError,
    TelegramAPIError,
    TelegramBadRequest,
    TelegramConflictError,
    TelegramEntityTooLarge,
    TelegramForbiddenError,
    TelegramMigrateToChat,
    TelegramNotFound,
    TelegramRetryAfter,
    TelegramServerError,
    TelegramUnauthorizedError,
)
from aiogram.types import (
    BotCommand,
    BotCommandScopeChat,
    BufferedInputFile,
    InlineKeyboardButton,
    InlineKeyboardMarkup,
    InputMediaDocument,
    InputRichBlockList,
    InputRichBlockListItem,
    InputRichBlockParagraph,
    InputRichMessage,
    LinkPreviewOptions,
    Message,
    MessageEntity,
    MessageOriginChannel,
    MessageOriginHiddenUser,
    MessageOriginUser,
    ReactionTypeEmoji,
    ReplyParameters,
    RichBlockTable,
    RichMessage,
    Update,
)
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from tests.simulators import telegram
from tests.simulators.common import Refusal, Simulator
from tests.simulators.running import PATIENCE, Remote, as_process, in_process
from tests.simulators.telegram import TOKENS, Telegram
from tests.simulators.telegram.entities import formatted
from tests.simulators.telegram.parameters import check_type
from tests.simulators.telegram.rich import read_rich

ANN = 7
GROUP, SUPERGROUP, FORUM, CHANNEL = "-55", "-1001000000001", "-1001000000002", "-1001000000003"
SMILE = "😀"
NOBODYS, NEW_TOKEN, THIRD_TOKEN = "999999:AAnobody", "110001:AAnew", "110003:AAthird"
HUSH = "s3cret_-"


@asynccontextmanager
async def bot_of(
    sim: Remote, token: str = TOKENS["main"], *, is_local: bool = False
) -> AsyncIterator[Bot]:
    """The real one, pointed at the simulator."""
    session = AiohttpSession(api=TelegramAPIServer.from_base(sim.url, is_local=is_local))
    try:
        yield Bot(token, session=session)
    finally:
        await (await session.create_session()).close()


@pytest.fixture
async def sim() -> AsyncIterator[Remote]:
    """
    With one person who has begun a conversation. Whatever a test does, the simulator's replies must
    be right.
    """
    async with in_process(Simulator(Telegram())) as remote:
        await remote.do("open", chat=str(ANN))
        yield remote
        assert [each for each in await remote.violations() if each["rule"] == "replies"] == []


@pytest.fixture
async def bot(sim: Remote) -> AsyncIterator[Bot]:
    """Of the main account."""
    async with bot_of(sim) as main:
        yield main


async def say(
    sim: Remote, text: str = "hello", *, chat: object = ANN, user: object = ANN, **more: object
) -> int:
    return int(await sim.say(text, chat=str(chat), user=str(user), **more))


async def heard(bot: Bot) -> Message:
    """The newest message."""
    newest = (await bot.get_updates(offset=-1))[0]
    message = newest.message or newest.edited_message or newest.channel_post
    assert message is not None
    return message


async def ask(
    sim: Remote, method: str, *, token: str = TOKENS["main"], **request: Any
) -> tuple[int, dict[str, Any]]:
    """Without an SDK, for what aiogram would never send."""
    url = f"{sim.url}/bot{token}/{method}"
    async with aiohttp.ClientSession() as http, http.post(url, **request) as response:
        return response.status, await response.json()


def refused(text: str) -> Any:
    """Exactly these words."""
    return pytest.raises(TelegramBadRequest, match=f"Bad Request: {text}$")


def buttons(*pairs: tuple[str, str]) -> InlineKeyboardMarkup:
    row = [InlineKeyboardButton(text=label, callback_data=data) for label, data in pairs]
    return InlineKeyboardMarkup(inline_keyboard=[row])


async def test_a_bot_is_known_by_its_token(sim: Remote, bot: Bot) -> None:
    me = await bot.get_me()

    assert (me.id, me.username, me.is_bot) == (110001, "main_bot", True)
    assert me.can_read_all_group_messages is True
    async with bot_of(sim, TOKENS["support"]) as other:
        assert (await other.get_me()).username == "support_bot"


async def test_a_token_that_is_nobodys_is_unauthorized(sim: Remote) -> None:
    status, answer = await ask(sim, "getMe", token=NOBODYS)

    assert status == 401
    assert answer == {"ok": False, "error_code": 401, "description": "Unauthorized"}


async def test_a_token_that_is_revoked_ends_the_poll_and_every_call(sim: Remote, bot: Bot) -> None:
    poll = asyncio.ensure_future(bot.get_updates(timeout=30))
    await _until_polled(sim)
    await sim.do("bot", revoked=True)

    with pytest.raises(TelegramUnauthorizedError):
        await poll
    with pytest.raises(TelegramUnauthorizedError):
        await bot.get_me()


async def test_a_new_token_replaces_the_old_one(sim: Remote, bot: Bot) -> None:
    await sim.do("bot", token=NEW_TOKEN)

    with pytest.raises(TelegramUnauthorizedError):
        await bot.get_me()
    async with bot_of(sim, NEW_TOKEN) as again:
        assert (await again.get_me()).id == 110001


async def test_a_third_bot_can_be_added(sim: Remote) -> None:
    await sim.do("add_bot", name="third", token=THIRD_TOKEN)

    async with bot_of(sim, THIRD_TOKEN) as third:
        assert (await third.get_me()).username == "third_bot"


async def test_bots_hear_only_what_is_said_to_them(sim: Remote, bot: Bot) -> None:
    await say(sim, "to support", account="support")

    assert await bot.get_updates() == []
    async with bot_of(sim, TOKENS["support"]) as other:
        assert (await heard(other)).text == "to support"


async def test_who_logged_out_is_answered_no_more_for_ten_minutes(sim: Remote, bot: Bot) -> None:
    assert await bot.log_out()

    with pytest.raises(TelegramBadRequest, match=r"Logged out$"):
        await bot.get_me()
    await sim.do("later", seconds=601)
    assert await bot.get_me()


async def test_a_bot_is_not_closed_within_ten_minutes_of_its_launch(sim: Remote, bot: Bot) -> None:
    with pytest.raises(TelegramRetryAfter):
        await bot.close()
    await sim.do("later", seconds=601)
    assert await bot.close()


@pytest.mark.parametrize(
    ("what", "trouble"),
    [
        ({"chat_id": ANN, "text": "hi", "colour": "red"}, "colour is unknown"),
        ({"chat_id": ANN}, "text is missing"),
        (
            {"chat_id": ANN, "text": "hi", "message_thread_id": "seven"},
            "message_thread_id is str and not int",
        ),
        (
            {"chat_id": ANN, "text": "hi", "reply_parameters": {"message_id": "one"}},
            "reply_parameters is wrong",
        ),
        (
            {"chat_id": ANN, "text": "hi", "link_preview_options": {"colour": 1}},
            "there is no LinkPreviewOptions.colour",
        ),
    ],
)
async def test_a_parameter_that_is_missing_unknown_or_wrong_is_a_violation(
    sim: Remote, what: dict[str, object], trouble: str
) -> None:
    status, answer = await ask(sim, "sendMessage", json=what)

    assert (status, answer["ok"]) == (400, False)
    assert trouble in answer["description"]
    (violation,) = await sim.violations()
    assert "https://core.telegram.org/bots/api#sendmessage" in violation["what"]
    assert await sim.texts() == []


async def test_a_method_that_there_is_not_is_a_violation(sim: Remote) -> None:
    status, _ = await ask(sim, "sendMassage")

    assert status == 404
    assert [each["rule"] for each in await sim.violations()] == ["known methods"]


@pytest.mark.parametrize(
    "request_",
    [
        {"json": {"chat_id": ANN, "text": "hi"}},
        {"data": {"chat_id": str(ANN), "text": "hi"}},
        {"params": {"chat_id": str(ANN), "text": "hi"}},
        {"json": {"chat_id": str(ANN), "text": "hi", "disable_notification": False}},
        {
            "data": {
                "chat_id": str(ANN),
                "text": "hi",
                "disable_notification": "True",
                "link_preview_options": "{}",
            }
        },
    ],
)
async def test_parameters_come_as_json_as_a_form_or_in_the_address(
    sim: Remote, request_: dict[str, Any]
) -> None:
    status, answer = await ask(sim, "sendmessage", **request_)

    assert (status, answer["result"]["text"]) == (200, "hi")
    assert await sim.violations() == []


async def test_calls_are_recorded_with_their_account_and_chat(sim: Remote, bot: Bot) -> None:
    await bot.send_message(ANN, "hi")

    (call,) = await sim.calls(does="send")
    assert (call["method"], call["account"], call["chat"], call["answered"]) == (
        "sendMessage",
        "main",
        "7",
        "done",
    )
    assert call["parameters"] == {"chat_id": "7", "text": "hi"}


async def test_every_rule_names_its_source(sim: Remote) -> None:
    assert all(rule["source"] for rule in await sim.rules())
    assert {"one poller", "entities", "rates"} <= {rule["name"] for rule in await sim.rules()}


def test_what_people_can_do_is_documented() -> None:
    documented = str(telegram.__doc__)

    assert [deed for deed in Telegram().deeds if f"{deed} {{" not in documented] == []


async def test_it_runs_as_a_process_of_its_own() -> None:
    async with (
        as_process("tests.simulators.telegram", "--local", "--no-rich", "--rates") as sim,
        bot_of(sim) as bot,
    ):
        await say(sim)

        assert (await heard(bot)).text == "hello"
        assert await sim.do("server") == {
            "local": True,
            "rich": False,
            "rates": True,
            "webhook_pause": 1.0,
        }


async def test_what_is_not_confirmed_is_handed_out_again(sim: Remote, bot: Bot) -> None:
    await say(sim, "one")
    await say(sim, "two")

    first, again = await bot.get_updates(), await bot.get_updates()

    assert [update.update_id for update in first] == [update.update_id for update in again]
    assert first[1].update_id == first[0].update_id + 1
    assert [update["acknowledged"] for update in await sim.updates()] == [False, False]


async def test_an_offset_confirms_everything_before_it(sim: Remote, bot: Bot) -> None:
    for text in ("one", "two", "three"):
        await say(sim, text)
    first, second, _ = await bot.get_updates()

    left = await bot.get_updates(offset=second.update_id)
    repeated = await bot.get_updates(offset=first.update_id)

    assert (
        [_text(update) for update in left]
        == [_text(update) for update in repeated]
        == ["two", "three"]
    )
    assert [update["acknowledged"] for update in await sim.updates()] == [True, False, False]


async def test_a_negative_offset_keeps_the_newest_and_forgets_the_rest(
    sim: Remote, bot: Bot
) -> None:
    for text in ("one", "two", "three"):
        await say(sim, text)

    assert [_text(update) for update in await bot.get_updates(offset=-2)] == ["two", "three"]
    assert [_text(update) for update in await bot.get_updates()] == ["two", "three"]
    assert [update["state"] for update in await sim.updates()] == ["dropped", "pending", "pending"]


async def test_an_offset_far_in_the_future_confirms_nothing(sim: Remote, bot: Bot) -> None:
    await say(sim)
    (update,) = await bot.get_updates()

    assert len(await bot.get_updates(offset=update.update_id + 1000)) == 1


async def test_a_limit_is_kept_and_at_most_a_hundred_come(sim: Remote, bot: Bot) -> None:
    for number in range(101):
        await say(sim, str(number))

    assert [_text(update) for update in await bot.get_updates(limit=2)] == ["0", "1"]
    assert len(await bot.get_updates(limit=500)) == 100


async def test_a_long_poll_ends_with_the_first_news(sim: Remote, bot: Bot) -> None:
    poll = asyncio.ensure_future(bot.get_updates(timeout=30))
    await _until_polled(sim)
    await say(sim, "news")

    assert [_text(update) for update in await poll] == ["news"]


async def test_a_long_poll_without_news_is_empty(sim: Remote, bot: Bot) -> None:
    assert await bot.get_updates(timeout=1) == []


async def test_a_second_poller_ends_the_first_one_with_a_conflict(sim: Remote, bot: Bot) -> None:
    first = asyncio.ensure_future(bot.get_updates(timeout=30))
    await _until_polled(sim)
    second = asyncio.ensure_future(bot.get_updates(timeout=30))

    told = (
        "Conflict: terminated by other getUpdates request; make sure that only one bot "
        "instance is running"
    )
    with pytest.raises(TelegramConflictError, match=told):
        await first
    await say(sim)
    assert len(await second) == 1


async def test_what_was_allowed_is_remembered_and_concerns_only_what_comes(
    sim: Remote, bot: Bot
) -> None:
    message = await say(sim, "said")
    await bot.get_updates(allowed_updates=["edited_message"])
    await say(sim, "not wanted")
    await sim.do("change", chat=str(ANN), id=str(message), text="edited")

    updates = await bot.get_updates()

    assert [(update.event_type, _text(update)) for update in updates] == [
        ("message", "said"),
        ("edited_message", "edited"),
    ]


async def test_reactions_are_told_only_to_who_asks_for_them(sim: Remote, bot: Bot) -> None:
    message = await say(sim)
    await sim.do("react", chat="7", user="7", message=str(message), emoji="👍")
    await bot.get_updates(allowed_updates=["message", "message_reaction"])
    await sim.do("react", chat="7", user="7", message=str(message), emoji="👎")

    _, reacted = await bot.get_updates()

    assert reacted.message_reaction is not None
    assert (
        reacted.message_reaction.message_id,
        reacted.message_reaction.new_reaction[0].emoji,
    ) == (message, "👎")


async def test_an_update_type_that_there_is_not_is_a_violation(sim: Remote, bot: Bot) -> None:
    with pytest.raises(TelegramBadRequest):
        await bot.get_updates(allowed_updates=["massage"])

    assert [each["rule"] for each in await sim.violations()] == ["update types"]


async def test_updates_are_kept_for_a_day(sim: Remote, bot: Bot) -> None:
    await say(sim, "old")
    await sim.do("later", seconds=timedelta(hours=23).total_seconds())
    await say(sim, "young")
    await sim.do("later", seconds=timedelta(hours=2).total_seconds())

    assert [_text(update) for update in await bot.get_updates()] == ["young"]


async def test_update_numbers_are_drawn_anew_after_a_week_of_silence(sim: Remote, bot: Bot) -> None:
    await say(sim)
    (before,) = await bot.get_updates()
    await sim.do("later", seconds=timedelta(days=8).total_seconds())
    await say(sim)
    (after,) = await bot.get_updates()

    assert after.update_id != before.update_id + 1


async def test_a_fault_hands_everything_out_twice(sim: Remote, bot: Bot) -> None:
    await say(sim)
    await sim.fault("duplicate", does="receive")

    first, second = await bot.get_updates()

    assert first.update_id != second.update_id
    assert first.message == second.message


async def test_a_fault_hands_updates_out_the_wrong_way_round(sim: Remote, bot: Bot) -> None:
    await say(sim, "one")
    await say(sim, "two")
    await sim.fault("reorder", does="receive")

    assert [_text(update) for update in await bot.get_updates()] == ["two", "one"]


async def test_the_same_message_can_come_under_another_number(sim: Remote, bot: Bot) -> None:
    await say(sim, repeat=1)

    first, second = await bot.get_updates()

    assert (first.message, first.update_id + 1) == (second.message, second.update_id)


class Hook:
    """Where a webhook leads to: it remembers what came, and answers as told."""

    def __init__(self) -> None:
        self.came: list[Update] = []
        self.secrets: list[str | None] = []
        self.statuses: list[int] = []
        self.url = ""

    async def take(self, request: web.Request) -> web.Response:
        self.came.append(Update.model_validate(await request.json()))
        self.secrets.append(request.headers.get("X-Telegram-Bot-Api-Secret-Token"))
        return web.Response(status=self.statuses.pop(0) if self.statuses else 200)

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE):
            while not holds():
                await asyncio.sleep(0.005)


@pytest.fixture
async def hook(sim: Remote) -> AsyncIterator[Hook]:
    """On loopback; the simulator does not wait long before it tries again."""
    hook, app = Hook(), web.Application()
    app.router.add_post("/hook", hook.take)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    hook.url = "http://{}:{}/hook".format(*runner.addresses[0])
    await sim.do("server", webhook_pause=0.01)
    yield hook
    await runner.cleanup()


async def test_a_webhook_is_told_with_its_secret(sim: Remote, bot: Bot, hook: Hook) -> None:
    await say(sim, "before")
    await bot.set_webhook(hook.url, secret_token=HUSH)
    await say(sim, "after")
    await hook.until(lambda: len(hook.came) == 2)

    assert [_text(update) for update in hook.came] == ["before", "after"]
    assert hook.secrets == [HUSH, HUSH]
    await sim.until(lambda: _all_acknowledged(sim))


async def test_what_a_webhook_does_not_take_comes_again_with_growing_pauses(
    sim: Remote, bot: Bot, hook: Hook
) -> None:
    hook.statuses = [500, 404, 302]
    await bot.set_webhook(hook.url)
    await say(sim, "first")
    await say(sim, "second")
    await hook.until(lambda: len(hook.came) == 5)

    attempts = await sim.do("deliveries")
    assert [_text(update) for update in hook.came] == ["first"] * 4 + ["second"]
    assert [(attempt["status"], attempt["pause"]) for attempt in attempts[:4]] == [
        (500, 0.01),
        (404, 0.02),
        (302, 0.04),
        (200, None),
    ]


async def test_a_webhook_that_fails_in_one_chat_holds_up_no_other(
    sim: Remote, bot: Bot, hook: Hook
) -> None:
    await sim.do("server", webhook_pause=60.0)
    hook.statuses = [500]
    await bot.set_webhook(hook.url)
    await say(sim, "fails")
    await hook.until(lambda: len(hook.came) == 1)
    await say(sim, "held up")
    await say(sim, "elsewhere", chat=8, user=8)
    await hook.until(lambda: len(hook.came) == 2)

    assert [_text(update) for update in hook.came] == ["fails", "elsewhere"]


async def test_webhook_info_tells_what_went_wrong(sim: Remote, bot: Bot, hook: Hook) -> None:
    await sim.do("server", webhook_pause=60.0)
    hook.statuses = [503]
    await bot.set_webhook(hook.url, allowed_updates=["message"], max_connections=3)
    await say(sim)

    async def has_failed() -> bool:
        return (await bot.get_webhook_info()).last_error_message is not None

    await sim.until(has_failed)
    info = await bot.get_webhook_info()

    assert (info.url, info.pending_update_count, info.max_connections) == (hook.url, 1, 3)
    assert info.last_error_message == "Wrong response from the webhook: 503 Service Unavailable"
    assert info.allowed_updates == ["message"]


async def test_there_is_no_polling_while_a_webhook_is_set(
    sim: Remote, bot: Bot, hook: Hook
) -> None:
    poll = asyncio.ensure_future(bot.get_updates(timeout=30))
    await _until_polled(sim)
    await bot.set_webhook(hook.url)

    with pytest.raises(TelegramConflictError, match="Conflict: terminated by setWebhook request"):
        await poll
    with pytest.raises(
        TelegramConflictError, match="can't use getUpdates method while webhook is active"
    ):
        await bot.get_updates()
    await bot.delete_webhook()
    assert await bot.get_updates() == []


async def test_pending_updates_are_dropped_only_when_that_is_asked_for(
    sim: Remote, bot: Bot, hook: Hook
) -> None:
    await say(sim)
    await bot.delete_webhook()
    assert len(await bot.get_updates()) == 1

    await bot.delete_webhook(drop_pending_updates=True)
    assert await bot.get_updates() == []


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("nonsense", "invalid webhook URL specified"),
        ("http://example.org/hook", "bad webhook: An HTTPS URL must be provided for webhook"),
        (
            "https://example.org:9000/hook",
            "bad webhook: Webhook can be set up only on ports 80, 88, 443 or 8443",
        ),
    ],
)
async def test_a_webhook_must_be_where_telegram_goes(bot: Bot, url: str, told: str) -> None:
    with refused(told):
        await bot.set_webhook(url)


async def test_a_secret_consists_of_letters_digits_and_two_signs(
    sim: Remote, bot: Bot, hook: Hook
) -> None:
    with refused("secret token contains unallowed characters"):
        await bot.set_webhook(hook.url, secret_token=f"{HUSH} {HUSH}")

    assert [each["rule"] for each in await sim.violations()] == ["secret token"]


@pytest.mark.parametrize(
    ("fault", "texts"),
    [
        ("duplicate", ["one", "one", "two"]),
        ("reorder", ["two", "one"]),
        ("lost answer", ["one", "one", "two"]),
        ("reset", ["one", "two"]),
    ],
)
async def test_deliveries_to_webhooks_go_wrong_by_rule(
    sim: Remote, bot: Bot, hook: Hook, fault: str, texts: list[str]
) -> None:
    await say(sim, "one")
    await say(sim, "two")
    await sim.fault(fault, method="webhook")
    await bot.set_webhook(hook.url)
    await sim.until(lambda: _all_acknowledged(sim))

    assert sorted(map(_text, hook.came)) == sorted(texts)
    assert _text(hook.came[0]) == texts[0]


async def test_a_message_is_shown_as_people_see_it(sim: Remote, bot: Bot) -> None:
    said = await say(sim)

    sent = await bot.send_message(
        ANN,
        "see <b>this</b> https://a.example",
        parse_mode="HTML",
        disable_notification=True,
        link_preview_options=LinkPreviewOptions(is_disabled=True),
        reply_parameters=ReplyParameters(message_id=said),
        reply_markup=buttons(("Yes", "y"), ("No", "n")),
    )

    (shown,) = await sim.messages()
    assert (sent.text, sent.chat.id, sent.from_user and sent.from_user.id) == (
        "see this https://a.example",
        ANN,
        bot.id,
    )
    assert sent.reply_to_message is not None
    assert (shown["id"], shown["chat"], shown["text"], shown["size"]) == (
        str(sent.message_id),
        "7",
        "see this https://a.example",
        26,
    )
    assert [(each["type"], each["offset"], each["length"]) for each in shown["entities"]] == [
        ("bold", 4, 4),
        ("url", 9, 17),
    ]
    assert [(each["label"], each["nonce"]) for each in shown["buttons"]] == [
        ("Yes", "y"),
        ("No", "n"),
    ]
    assert (shown["silent"], shown["preview"], shown["reply_to"]) == (
        True,
        {"is_disabled": True},
        str(said),
    )


@pytest.mark.parametrize("text", ["x" * 4096, SMILE * 4096, "<b>" + "x" * 4096 + "</b>"])
async def test_a_text_has_up_to_4096_characters_without_its_marks(
    sim: Remote, bot: Bot, text: str
) -> None:
    """A4: the server counts characters, not the units of its offsets."""
    await bot.send_message(ANN, text, parse_mode="HTML")

    assert [len(each["text"]) for each in await sim.messages()] == [4096]


async def test_blanks_are_trimmed_up_to_the_first_entity_only(sim: Remote, bot: Bot) -> None:
    """A4: as td does it, so that code keeps its indentation."""
    await bot.send_message(ANN, " \n <pre>  a = 1\n</pre> \n", parse_mode="HTML")

    (shown,) = await sim.messages()
    assert shown["text"] == "  a = 1"


@pytest.mark.parametrize("text", ["x" * 4097, SMILE * 4097])
async def test_one_character_more_is_too_long(bot: Bot, text: str) -> None:
    with refused("message is too long"):
        await bot.send_message(ANN, text)


@pytest.mark.parametrize("text", [" \n ", "<b></b>"])
async def test_a_text_must_say_something(bot: Bot, text: str) -> None:
    with refused("text must be non-empty"):
        await bot.send_message(ANN, text, parse_mode="HTML")


async def test_white_space_at_the_ends_is_cut_off_and_controls_become_spaces(
    sim: Remote, bot: Bot
) -> None:
    entities = [MessageEntity(type="bold", offset=2, length=3)]
    await bot.send_message(ANN, " \na\tb\r\u202e \n", entities=entities)

    (shown,) = await sim.messages()
    assert (shown["text"], shown["entities"]) == (
        "a b",
        [{"type": "bold", "offset": 0, "length": 3}],
    )


@pytest.mark.parametrize(
    ("text", "plain", "kinds"),
    [
        ("<b>a<i>b</i></b>", "ab", ["bold", "italic"]),
        (
            "<u>a</u><s>b</s><tg-spoiler>c</tg-spoiler>",
            "abc",
            ["underline", "strikethrough", "spoiler"],
        ),
        ("<code>a &lt; b &amp; c</code>", "a < b & c", ["code"]),
        ('<pre><code class="language-python">x = 1</code></pre>', "x = 1", ["pre"]),
        ('<a href="http://x.y">z</a>', "z", ["text_link"]),
        ("<blockquote expandable>q</blockquote>", "q", ["expandable_blockquote"]),
        ("1 &gt; 0 &nbsp; &#65;", "1 > 0 &nbsp; A", []),
    ],
)
async def test_html_is_read(sim: Remote, bot: Bot, text: str, plain: str, kinds: list[str]) -> None:
    await bot.send_message(ANN, text, parse_mode="HTML")

    (shown,) = await sim.messages()
    assert (shown["text"], [each["type"] for each in shown["entities"]]) == (plain, kinds)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("<b>a", 'Can\'t find end tag corresponding to start tag "b"'),
        ("ü<x>a</x>", 'Unsupported start tag "x" at byte offset 2'),
        ("1 < 2", 'Unsupported start tag "" at byte offset 2'),
        ("<b>a</i>", 'Unmatched end tag at byte offset 4, expected "</b>", found "</i>"'),
        ("a</b>", "Unexpected end tag at byte offset 1"),
    ],
)
async def test_html_that_cannot_be_read_is_refused(bot: Bot, text: str, told: str) -> None:
    with refused(f"can't parse entities: {told}"):
        await bot.send_message(ANN, text, parse_mode="HTML")


@pytest.mark.parametrize(
    ("text", "plain", "kinds"),
    [
        ("*a _b_*", "a b", ["bold", "italic"]),
        ("__a__ ~b~ ||c||", "a b c", ["underline", "strikethrough", "spoiler"]),
        ("___a_ b__", "a b", ["underline", "italic"]),
        ("`a.b` 1\\.0", "a.b 1.0", ["code"]),
        ("```python\nx = 1\n```", "x = 1", ["pre"]),
        ("[z](http://x.y/a\\))", "z", ["text_link"]),
        (">a\n>b\nc", "a\nb\nc", ["blockquote"]),
        (">a||", "a", ["expandable_blockquote"]),
    ],
)
async def test_markdown_v2_is_read(
    sim: Remote, bot: Bot, text: str, plain: str, kinds: list[str]
) -> None:
    await bot.send_message(ANN, text, parse_mode="MarkdownV2")

    (shown,) = await sim.messages()
    assert (shown["text"], [each["type"] for each in shown["entities"]]) == (plain, kinds)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("1.0", r"Character '\.' is reserved and must be escaped with the preceding '\\'"),
        ("a *b", "Can't find end of Bold entity at byte offset 2"),
        ("*a _b* c_", "Can't find end of Italic entity at byte offset 3"),
        ("`a", "Can't find end of Code entity at byte offset 0"),
    ],
)
async def test_markdown_v2_that_cannot_be_read_is_refused(bot: Bot, text: str, told: str) -> None:
    with pytest.raises(TelegramBadRequest, match="Bad Request: can't parse entities: ") as caught:
        await bot.send_message(ANN, text, parse_mode="MarkdownV2")

    assert told.replace(r"\.", ".").replace(r"\\", "\\") in str(caught.value)


async def test_old_markdown_is_read_too(sim: Remote, bot: Bot) -> None:
    await bot.send_message(ANN, "*a* _b_ `c` [d](http://e.f) \\_ 1.0", parse_mode="Markdown")
    with refused("can't parse entities: Can't find end of the entity starting at byte offset 2"):
        await bot.send_message(ANN, "a _b", parse_mode="Markdown")

    (shown,) = await sim.messages()
    assert shown["text"] == "a b c d _ 1.0"


RICH_MARKS = [
    "\n\n",
    "```",
    "- ",
    "1. ",
    "> ",
    "|a|b|\n|-|-|\n",
    "<p>",
    "</p>",
    "<ul>",
    "</ul>",
    "<li>",
    "</li>",
    "<![",
]
MARKS = [
    *"ab \n\r<>/&;=\"'_*~`|[]()!\\.#1",
    "<b>",
    "</b>",
    "<pre>",
    "<code>",
    "</code>",
    "</pre>",
    "<![",
    SMILE,
]


@given(
    text=st.lists(st.sampled_from(MARKS)).map("".join),
    parse_mode=st.sampled_from(["HTML", "MarkdownV2", "Markdown"]),
)
def test_whatever_is_marked_is_read_or_refused_and_entities_lie_within(
    text: str, parse_mode: str
) -> None:
    with suppress(Refusal):
        said = formatted(text, parse_mode, None)
        plain = said.text.encode("utf-16-le")
        for entity in said.entities:
            start, end = 2 * entity["offset"], 2 * (entity["offset"] + entity["length"])
            assert 0 <= start < end <= len(plain)
            plain[start:end].decode("utf-16-le")


async def test_there_is_no_other_parse_mode(bot: Bot) -> None:
    with refused("unsupported parse_mode"):
        await bot.send_message(ANN, "hi", parse_mode="BBCode")


@pytest.mark.parametrize(
    ("offset", "length", "told"),
    [(0, 5, "ends after the end of the text"), (1, 2, "in a middle of a UTF-16 symbol")],
)
async def test_entities_lie_within_the_text_and_cut_nothing(
    bot: Bot, offset: int, length: int, told: str
) -> None:
    with pytest.raises(TelegramBadRequest, match=told):
        await bot.send_message(
            ANN, SMILE + "ab", entities=[MessageEntity(type="bold", offset=offset, length=length)]
        )


async def test_a_fault_refuses_formatting_but_no_words(sim: Remote, bot: Bot) -> None:
    await sim.fault("unparsable", does="send", times=2)

    with pytest.raises(TelegramBadRequest, match="Bad Request: can't parse entities: "):
        await bot.send_message(ANN, "<b>hi</b>", parse_mode="HTML")
    await bot.send_message(ANN, "hi")

    assert await sim.texts() == ["hi"]


async def test_a_bot_cannot_begin_a_conversation(bot: Bot) -> None:
    with refused("chat not found"):
        await bot.send_message(404, "hi")


async def test_who_blocked_the_bot_gets_nothing_until_it_is_unblocked(
    sim: Remote, bot: Bot
) -> None:
    await sim.do("block", chat="7")

    with pytest.raises(TelegramForbiddenError, match=r"Forbidden: bot was blocked by the user$"):
        await bot.send_message(ANN, "hi")
    (update,) = await bot.get_updates()
    assert update.my_chat_member is not None
    assert update.my_chat_member.new_chat_member.status == "kicked"
    await sim.do("unblock", chat="7")
    assert await bot.send_message(ANN, "hi")


@pytest.mark.parametrize(
    ("chat", "kind"), [(GROUP, "group"), (SUPERGROUP, "supergroup"), (CHANNEL, "channel")]
)
async def test_who_was_thrown_out_is_told_so(sim: Remote, bot: Bot, chat: str, kind: str) -> None:
    await sim.do("open", chat=chat, type=kind)
    await sim.do("block", chat=chat)

    with pytest.raises(
        TelegramForbiddenError, match=f"Forbidden: bot was kicked from the {kind} chat$"
    ):
        await bot.send_message(chat, "hi")


async def test_a_reply_to_what_is_gone_is_refused_unless_it_may_stand_alone(
    sim: Remote, bot: Bot
) -> None:
    with refused("message to be replied not found"):
        await bot.send_message(ANN, "hi", reply_parameters=ReplyParameters(message_id=404))
    alone = ReplyParameters(message_id=404, allow_sending_without_reply=True)
    await bot.send_message(ANN, "hi", reply_parameters=alone)

    assert [each["reply_to"] for each in await sim.messages()] == [None]


async def test_a_quote_must_be_in_what_it_quotes(sim: Remote, bot: Bot) -> None:
    said = await say(sim, f"{SMILE} some words")
    await bot.send_message(
        ANN, "hi", reply_parameters=ReplyParameters(message_id=said, quote="some")
    )
    with refused("QUOTE_TEXT_INVALID"):
        await bot.send_message(
            ANN, "hi", reply_parameters=ReplyParameters(message_id=said, quote="other")
        )

    (shown,) = await sim.messages()
    assert shown["quote"] == "some"


async def test_a_button_carries_64_bytes_at_most(bot: Bot) -> None:
    await bot.send_message(ANN, "hi", reply_markup=buttons(("ok", "ü" * 32)))
    with refused("BUTTON_DATA_INVALID"):
        await bot.send_message(ANN, "hi", reply_markup=buttons(("no", "ü" * 32 + "x")))
    with refused(
        "can't parse inline keyboard button: Text buttons are unallowed in the inline keyboard"
    ):
        bare = InlineKeyboardMarkup(inline_keyboard=[[InlineKeyboardButton(text="bare")]])
        await bot.send_message(ANN, "hi", reply_markup=bare)


async def test_a_topic_takes_what_is_sent_to_it(sim: Remote, bot: Bot) -> None:
    topic = await _topic(sim)
    sent = await bot.send_message(FORUM, "hi", message_thread_id=topic)

    (shown,) = await sim.messages()
    assert (sent.message_thread_id, sent.is_topic_message, shown["thread"]) == (
        topic,
        True,
        str(topic),
    )


async def test_an_unknown_topic_and_general_by_number_are_not_found(sim: Remote, bot: Bot) -> None:
    topic = await _topic(sim)
    await sim.do("delete_topic", chat=FORUM, thread=str(topic))

    for thread in (topic, 404, 1):
        with refused("message thread not found"):
            await bot.send_message(FORUM, "hi", message_thread_id=thread)
    assert (await bot.send_message(FORUM, "hi")).message_thread_id is None
    assert await bot.send_chat_action(FORUM, "typing", message_thread_id=1)


async def test_a_closed_topic_takes_nothing(sim: Remote, bot: Bot) -> None:
    topic = await _topic(sim)
    await sim.do("close_topic", chat=FORUM, thread=str(topic))

    with refused("TOPIC_CLOSED"):
        await bot.send_message(FORUM, "hi", message_thread_id=topic)


async def test_a_thread_does_not_count_where_there_are_no_topics(sim: Remote, bot: Bot) -> None:
    await sim.do("open", chat=SUPERGROUP)

    assert (
        await bot.send_message(SUPERGROUP, "hi", message_thread_id=404)
    ).message_thread_id is None


async def test_what_is_said_in_a_topic_answers_its_beginning_and_general_is_no_thread(
    sim: Remote, bot: Bot
) -> None:
    topic = await _topic(sim)
    await say(sim, "in the topic", chat=FORUM, thread=str(topic))
    inside = await heard(bot)
    await say(sim, "in general", chat=FORUM, thread="1")
    general = await heard(bot)

    assert (inside.message_thread_id, inside.is_topic_message) == (topic, True)
    assert inside.reply_to_message is not None
    assert inside.reply_to_message.forum_topic_created is not None
    assert (general.message_thread_id, general.is_topic_message, general.chat.is_forum) == (
        None,
        None,
        True,
    )


async def test_private_chats_have_topics_if_the_bot_has_them(sim: Remote, bot: Bot) -> None:
    with pytest.raises(ValueError, match="this chat has no topics"):
        await sim.do("topic", chat="7", name="Work")
    await sim.do("bot", topics=True)
    topic = int((await sim.do("topic", chat="7", name="Work"))["id"])
    await say(sim, "hi", thread=str(topic))

    assert (await bot.get_me()).has_topics_enabled
    assert (await heard(bot)).message_thread_id == topic
    assert (await bot.send_message(ANN, "hi", message_thread_id=topic)).is_topic_message


async def test_a_group_that_became_a_supergroup_names_its_new_id(sim: Remote, bot: Bot) -> None:
    await say(sim, chat=GROUP)
    new = int((await sim.do("migrate", chat=GROUP))["chat"])

    with pytest.raises(TelegramMigrateToChat) as caught:
        await bot.send_message(GROUP, "hi")
    _, to, from_ = await bot.get_updates()
    assert caught.value.migrate_to_chat_id == new
    assert to.message is not None
    assert from_.message is not None
    assert (to.message.chat.id, to.message.migrate_to_chat_id) == (int(GROUP), new)
    assert (from_.message.chat.id, from_.message.migrate_from_chat_id) == (new, int(GROUP))
    assert await bot.send_message(new, "hi")


async def test_a_channels_post_can_be_commented_on(sim: Remote, bot: Bot) -> None:
    await sim.do("open", chat=CHANNEL, type="channel", title="News", discussion=SUPERGROUP)
    post = await sim.do("say", chat=CHANNEL, text="a post")
    await say(sim, "a comment", chat=SUPERGROUP, reply_to=post["comments"])

    posted, forwarded, comment = await bot.get_updates()

    assert posted.channel_post is not None
    assert posted.channel_post.text == "a post"
    assert forwarded.message is not None
    assert forwarded.message.is_automatic_forward
    assert isinstance(forwarded.message.forward_origin, MessageOriginChannel)
    assert comment.message is not None
    assert comment.message.message_thread_id == forwarded.message.message_id
    assert (await bot.get_chat(CHANNEL)).linked_chat_id == int(SUPERGROUP)


async def test_anonymous_admins_and_channels_write_under_other_names(sim: Remote, bot: Bot) -> None:
    await say(sim, "as admin", chat=SUPERGROUP, anonymous=True)
    admin = await heard(bot)
    await say(sim, "as channel", chat=SUPERGROUP, as_channel=CHANNEL)
    channel = await heard(bot)

    assert admin.sender_chat is not None
    assert channel.sender_chat is not None
    assert (admin.from_user and admin.from_user.username, admin.sender_chat.id) == (
        "GroupAnonymousBot",
        int(SUPERGROUP),
    )
    assert (channel.from_user and channel.from_user.username, channel.sender_chat.id) == (
        "Channel_Bot",
        int(CHANNEL),
    )


async def test_privacy_mode_keeps_from_the_bot_what_is_not_meant_for_it(
    sim: Remote, bot: Bot
) -> None:
    await sim.do("bot", privacy=True)
    mine = await bot.send_message((await _opened(sim, GROUP)), "hi")
    for text in ("chatter", "/start", "hey @main_bot"):
        await say(sim, text, chat=GROUP)
    await say(sim, "an answer", chat=GROUP, reply_to=str(mine.message_id))
    await say(sim, "in private")

    assert [_text(update) for update in await bot.get_updates()] == [
        "/start",
        "hey @main_bot",
        "an answer",
        "in private",
    ]
    assert (await bot.get_me()).can_read_all_group_messages is False


async def test_supergroups_count_their_own_messages(sim: Remote) -> None:
    ids = [
        await say(sim),
        await say(sim, chat=GROUP),
        await say(sim, chat=SUPERGROUP),
        await say(sim),
    ]

    assert ids == [1, 2, 2, 3]


async def test_an_edit_is_shown_with_what_was_there_before(sim: Remote, bot: Bot) -> None:
    sent = await bot.send_message(ANN, "Hel", reply_markup=buttons(("Stop", "s")))
    edited = await bot.edit_message_text("Hello", chat_id=ANN, message_id=sent.message_id)

    (shown,) = await sim.messages()
    assert isinstance(edited, Message)
    assert edited.edit_date is not None
    assert (shown["text"], shown["edits"], shown["buttons"]) == ("Hello", ["Hel"], [])


async def test_an_edit_that_changes_nothing_is_refused(bot: Bot) -> None:
    sent = await bot.send_message(ANN, "<b>Hello</b>", parse_mode="HTML")

    with refused(
        "message is not modified: specified new message content and reply markup are exactly the "
        "same as a current "
        "content and reply markup of the message"
    ):
        await bot.edit_message_text(
            "*Hello*", parse_mode="MarkdownV2", chat_id=ANN, message_id=sent.message_id
        )


async def test_an_edit_that_changes_nothing_twice_is_refused_too(bot: Bot) -> None:
    sent = await bot.send_message(ANN, "Hel")
    await bot.edit_message_text("Hello", chat_id=ANN, message_id=sent.message_id)

    with pytest.raises(TelegramBadRequest, match="message is not modified"):
        await bot.edit_message_text("Hello", chat_id=ANN, message_id=sent.message_id)


async def test_only_what_is_there_and_the_bots_own_can_be_edited(sim: Remote, bot: Bot) -> None:
    said, sent = await say(sim), await bot.send_message(ANN, "Hel")
    await sim.do("delete", id=str(sent.message_id))

    with refused("message to edit not found"):
        await bot.edit_message_text("Hello", chat_id=ANN, message_id=sent.message_id)
    with refused("message can't be edited"):
        await bot.edit_message_text("Hello", chat_id=ANN, message_id=said)


async def test_a_file_has_a_caption_to_edit_and_no_text(sim: Remote, bot: Bot) -> None:
    sent = await bot.send_document(ANN, BufferedInputFile(b"x", "a.txt"), caption="old")

    with refused("there is no text in the message to edit"):
        await bot.edit_message_text("new", chat_id=ANN, message_id=sent.message_id)
    await bot.edit_message_caption(chat_id=ANN, message_id=sent.message_id, caption="new")
    assert await sim.texts() == ["new"]


async def test_buttons_can_be_changed_alone(sim: Remote, bot: Bot) -> None:
    sent = await bot.send_message(ANN, "Sure?", reply_markup=buttons(("Yes", "y")))
    await bot.edit_message_reply_markup(
        chat_id=ANN, message_id=sent.message_id, reply_markup=buttons(("No", "n"))
    )

    (shown,) = await sim.messages()
    assert [each["label"] for each in shown["buttons"]] == ["No"]
    assert shown["edits"] == []


async def test_a_message_can_be_deleted_for_two_days(sim: Remote, bot: Bot) -> None:
    young, old = await bot.send_message(ANN, "young"), await bot.send_message(ANN, "old")
    assert await bot.delete_message(ANN, young.message_id)
    with refused("message to delete not found"):
        await bot.delete_message(ANN, young.message_id)
    await sim.do("later", seconds=timedelta(hours=49).total_seconds())
    with refused("message can't be deleted"):
        await bot.delete_message(ANN, old.message_id)

    assert await sim.texts() == ["old"]


async def test_a_draft_is_seen_until_the_message_comes(sim: Remote, bot: Bot) -> None:
    await bot.send_message_draft(ANN, 5, text="Hel")
    await bot.send_message_draft(ANN, 5, text="Hello")
    (draft,) = await sim.do("drafts")
    await bot.send_message(ANN, "Hello.")

    assert (draft["text"], draft["history"]) == ("Hello", ["Hel", "Hello"])
    assert await sim.do("drafts") == []
    assert await sim.texts() == ["Hello."]


async def test_a_draft_lasts_half_a_minute(sim: Remote, bot: Bot) -> None:
    await bot.send_message_draft(ANN, 5, text="Hel")
    await sim.do("later", seconds=31)

    assert await sim.do("drafts") == []


async def test_a_draft_is_for_private_chats_and_has_a_number(sim: Remote, bot: Bot) -> None:
    await sim.do("open", chat=GROUP)

    with pytest.raises(TelegramBadRequest):
        await bot.send_message_draft(int(GROUP), 5, text="Hel")
    with pytest.raises(TelegramBadRequest):
        await bot.send_message_draft(ANN, 0, text="Hel")


async def test_a_stopped_draft_is_told_to_the_bot(sim: Remote, bot: Bot) -> None:
    await bot.send_message_draft(ANN, 5, text="Hel")
    with pytest.raises(ValueError, match="there is no draft with a stop button"):
        await sim.do("stop", chat="7", draft=5)
    await bot.send_message_draft(ANN, 5, text="Hello", can_stop=True)
    await sim.do("stop", chat="7", draft=5)

    (update,) = await bot.get_updates()
    assert update.stopped_message_generation is not None
    assert (
        update.stopped_message_generation.draft_id,
        update.stopped_message_generation.chat.id,
    ) == (5, ANN)
    assert await sim.do("drafts") == []


@pytest.mark.parametrize(("kept", "left"), [(True, ["Hello"]), (False, [])])
async def test_a_stopped_draft_shows_nothing_more(
    sim: Remote, bot: Bot, kept: bool, left: list[str]
) -> None:
    await bot.send_message_draft(ANN, 5, text="Hello", can_stop=True, keep_on_stop=kept)
    await sim.do("stop", chat="7", draft=5)
    await bot.send_message_draft(ANN, 5, text="Hello again", can_stop=True)

    assert [draft["text"] for draft in await sim.do("drafts")] == left


async def test_a_rich_message_is_shown_as_its_blocks(sim: Remote, bot: Bot) -> None:
    source = (
        "# Title\n\nSome **bold** `code`.\n\n1. one\n2. two\n\n| a | b |\n|---|--:|\n| 1 | "
        "2 |\n\n```python\nx = 1\n```"
    )
    sent = await bot.send_rich_message(ANN, InputRichMessage(markdown=source))

    (shown,) = await sim.messages()
    assert sent.rich_message is not None
    assert [block.type for block in sent.rich_message.blocks] == [
        "heading",
        "paragraph",
        "list",
        "table",
        "pre",
    ]
    assert isinstance(sent.rich_message.blocks[3], RichBlockTable)
    assert shown["text"] == "Title\n\nSome bold code.\n\n1. one\n2. two\n\na | b\n1 | 2\n\nx = 1"


async def test_a_rich_message_is_html_or_blocks_too(sim: Remote, bot: Bot) -> None:
    await bot.send_rich_message(
        ANN, InputRichMessage(html="<h2>T</h2><p>a <b>b</b></p><ul><li>x</li><li>y</li></ul>")
    )
    items = [InputRichBlockListItem(blocks=[InputRichBlockParagraph(text="x")])]
    await bot.send_rich_message(ANN, InputRichMessage(blocks=[InputRichBlockList(items=items)]))

    assert await sim.texts() == ["T\n\na b\n\n• x\n• y", "• x"]


@given(
    text=st.lists(st.sampled_from([*RICH_MARKS, *MARKS])).map("".join),
    written=st.sampled_from(["markdown", "html"]),
)
def test_whatever_is_rich_becomes_blocks_that_aiogram_knows_or_is_refused(
    text: str, written: str
) -> None:
    with suppress(Refusal):
        check_type(RichMessage, read_rich({written: text}).raw)


async def test_a_rich_message_has_limits_of_its_own(bot: Bot) -> None:
    await bot.send_rich_message(ANN, InputRichMessage(markdown="x" * 32768))
    with refused("message is too long"):
        await bot.send_rich_message(ANN, InputRichMessage(markdown="x" * 32769))
    with refused("RICH_MESSAGE_BLOCKS_TOO_MUCH"):
        await bot.send_rich_message(ANN, InputRichMessage(markdown="x\n\n" * 501))
    with refused("RICH_MESSAGE_TABLE_COLUMNS_TOO_MUCH"):
        await bot.send_rich_message(
            ANN, InputRichMessage(markdown="|a" * 21 + "|\n" + "|-" * 21 + "|")
        )
    with refused("exactly one of the fields html, markdown, or blocks must be used"):
        await bot.send_rich_message(ANN, InputRichMessage(markdown="x", html="x"))


async def test_a_rich_message_can_be_edited_and_drafted(sim: Remote, bot: Bot) -> None:
    await bot.send_rich_message_draft(ANN, 5, InputRichMessage(markdown="**Hel**"))
    (draft,) = await sim.do("drafts")
    sent = await bot.send_rich_message(ANN, InputRichMessage(markdown="**Hel**"))
    await bot.edit_message_text(
        chat_id=ANN, message_id=sent.message_id, rich_message=InputRichMessage(markdown="**Hi**")
    )

    (shown,) = await sim.messages()
    assert (draft["text"], draft["rich"]) == ("Hel", True)
    assert (shown["text"], shown["edits"]) == ("Hi", ["Hel"])


async def test_an_older_server_knows_no_rich_messages(sim: Remote, bot: Bot) -> None:
    await sim.do("server", rich=False)

    with pytest.raises(TelegramNotFound):
        await bot.send_rich_message(ANN, InputRichMessage(markdown="hi"))


async def test_what_a_person_sends_is_fetched_byte_by_byte(sim: Remote, bot: Bot) -> None:
    content = bytes(range(256)) * 100
    await say(sim, "look", file=("../ü.bin", content))
    message = await heard(bot)

    assert message.document is not None
    file = await bot.get_file(message.document.file_id)
    fetched = await bot.download_file(str(file.file_path))
    assert (message.caption, message.document.file_name, message.document.file_size) == (
        "look",
        "../ü.bin",
        25600,
    )
    assert isinstance(fetched, io.BytesIO)
    assert fetched.read() == content
    assert [call["does"] for call in await sim.calls(method="download")] == ["fetch"]


@pytest.mark.parametrize(
    "kind", ["photo", "voice", "audio", "video", "video_note", "animation", "document"]
)
async def test_people_send_files_of_every_kind(sim: Remote, bot: Bot, kind: str) -> None:
    content = base64.b64encode(b"bytes").decode()
    await say(
        sim, "", file={"name": "a.bin", "mime": "application/x-a", "content": content, "kind": kind}
    )

    assert (await heard(bot)).content_type == kind


async def test_an_album_is_several_messages_with_one_id(sim: Remote, bot: Bot) -> None:
    files = [
        {"name": f"{name}.jpg", "mime": "image/jpeg", "size": 10, "kind": "photo"} for name in "ab"
    ]
    await sim.do("album", chat="7", user="7", files=files, text="both")

    first, second = [update.message for update in await bot.get_updates()]
    assert first is not None
    assert second is not None
    assert (first.caption, second.caption) == ("both", None)
    assert (first.content_type, second.content_type) == ("photo", "photo")
    assert first.media_group_id == second.media_group_id is not None


async def test_the_cloud_hands_out_20_megabytes_and_a_server_of_ones_own_any_number(
    sim: Remote, bot: Bot
) -> None:
    await sim.do("say", chat="7", text="", file={"name": "big", "size": 20 * 1024 * 1024 + 1})
    document = (await heard(bot)).document

    assert document is not None
    with refused("file is too big"):
        await bot.get_file(document.file_id)
    await sim.do("server", local=True)
    async with bot_of(sim, is_local=True) as local:
        file = await local.get_file(document.file_id)
        assert Path(str(file.file_path)).stat().st_size == document.file_size


async def test_a_link_to_a_file_works_for_an_hour(sim: Remote, bot: Bot) -> None:
    await say(sim, file=("a.txt", b"a"))
    document = (await heard(bot)).document
    assert document is not None
    path = str((await bot.get_file(document.file_id)).file_path)
    await sim.do("later", seconds=3601)

    with pytest.raises(aiohttp.ClientResponseError, match="404"):
        await bot.download_file(path)


async def test_a_file_that_there_is_not_is_refused(bot: Bot) -> None:
    with refused("wrong file_id or the file is temporarily unavailable"):
        await bot.get_file("f404")
    with refused("wrong file identifier/HTTP URL specified"):
        await bot.send_document(ANN, "f404")


@pytest.mark.parametrize("kind", ["document", "photo", "voice", "audio", "video"])
async def test_a_bot_sends_files_of_every_kind(sim: Remote, bot: Bot, kind: str) -> None:
    send: Callable[..., Any] = getattr(bot, f"send_{kind}")
    sent = await send(
        ANN, BufferedInputFile(b"bytes", "ü.bin"), caption="<b>look</b>", parse_mode="HTML"
    )

    (shown,) = await sim.messages()
    assert sent.content_type == kind
    assert (shown["text"], shown["file"]["name"], shown["file"]["kind"]) == ("look", "ü.bin", kind)
    assert base64.b64decode(shown["file"]["content"]) == b"bytes"
    assert [each["type"] for each in shown["entities"]] == ["bold"]


async def test_a_file_can_be_attached_under_its_own_name(sim: Remote) -> None:
    form = aiohttp.FormData({"chat_id": str(ANN)})
    form.add_field("document", b"bytes", filename="a.txt")
    status, _ = await ask(sim, "sendDocument", data=form)

    (shown,) = await sim.messages()
    assert (status, shown["file"]["name"], shown["file"]["mime"]) == (200, "a.txt", "text/plain")


async def test_a_file_that_was_sent_before_needs_no_upload(sim: Remote, bot: Bot) -> None:
    sent = await bot.send_document(ANN, BufferedInputFile(b"bytes", "a.txt"))
    assert sent.document is not None
    await bot.send_document(ANN, sent.document.file_id)

    first, second = await sim.messages()
    assert first["file"] == second["file"]


async def test_a_server_of_ones_own_reads_files_from_its_disk(
    sim: Remote, bot: Bot, tmp_path: Path
) -> None:
    path = tmp_path / "ü b.txt"
    path.write_bytes(b"bytes")
    with refused("wrong file identifier/HTTP URL specified"):
        await bot.send_document(ANN, path.as_uri())
    await sim.do("server", local=True)
    await bot.send_document(ANN, path.as_uri())

    (shown,) = await sim.messages()
    assert (shown["file"]["name"], base64.b64decode(shown["file"]["content"])) == (
        "ü b.txt",
        b"bytes",
    )


async def test_several_files_are_sent_as_an_album(sim: Remote, bot: Bot) -> None:
    media = [
        InputMediaDocument(media=BufferedInputFile(name.encode(), name), caption=name)
        for name in "ab"
    ]
    sent = await bot.send_media_group(ANN, media)

    assert sent[0].media_group_id == sent[1].media_group_id is not None
    assert [(each["text"], each["file"]["name"]) for each in await sim.messages()] == [
        ("a", "a"),
        ("b", "b"),
    ]


async def test_a_caption_has_up_to_1024_characters(bot: Bot) -> None:
    await bot.send_document(ANN, BufferedInputFile(b"x", "a"), caption=SMILE * 1024)
    with refused("message caption is too long"):
        await bot.send_document(ANN, BufferedInputFile(b"x", "a"), caption=SMILE * 1024 + "x")


async def test_the_cloud_takes_50_megabytes(bot: Bot) -> None:
    with pytest.raises(TelegramEntityTooLarge):
        await bot.send_document(ANN, BufferedInputFile(bytes(50 * 1024 * 1024 + 1), "big"))
    with refused("file must be non-empty"):
        await bot.send_document(ANN, BufferedInputFile(b"", "empty"))


async def test_mentions_commands_and_links_are_found_in_what_people_say(
    sim: Remote, bot: Bot
) -> None:
    text = f"/start@main_bot {SMILE} hi @ann_b, Bob: see https://a.example/x. #tag a@b.example"
    await say(sim, text, mentions=[{"text": "Bob", "user": "42"}])
    message = await heard(bot)

    found = {(each.type, each.extract_from(text)) for each in message.entities or []}
    assert found == {
        ("bot_command", "/start@main_bot"),
        ("mention", "@ann_b"),
        ("text_mention", "Bob"),
        ("url", "https://a.example/x"),
        ("hashtag", "#tag"),
        ("email", "a@b.example"),
    }


async def test_a_reply_comes_with_what_it_answers_and_quotes(sim: Remote, bot: Bot) -> None:
    sent = await bot.send_message(ANN, "some words")
    await say(sim, "this?", reply_to=str(sent.message_id), quote="words")
    message = await heard(bot)

    assert message.reply_to_message is not None
    assert message.quote is not None
    assert (message.reply_to_message.text, message.quote.text, message.quote.position) == (
        "some words",
        "words",
        5,
    )


async def test_forwards_say_where_they_come_from(sim: Remote, bot: Bot) -> None:
    await sim.do("open", chat=CHANNEL, type="channel")
    origins = []
    for forward in ({"user": "42"}, {"name": "Hidden"}, {"chat": CHANNEL, "message": 5}):
        await say(sim, forward=forward)
        origins.append((await heard(bot)).forward_origin)

    assert [type(origin) for origin in origins] == [
        MessageOriginUser,
        MessageOriginHiddenUser,
        MessageOriginChannel,
    ]


async def test_people_have_names(sim: Remote, bot: Bot) -> None:
    await sim.do(
        "person", user="7", first_name="Ann", last_name="B", username="ann_b", language_code="de"
    )
    await say(sim)
    message = await heard(bot)

    assert message.from_user is not None
    assert (message.from_user.full_name, message.from_user.language_code) == ("Ann B", "de")
    assert (message.chat.username, (await bot.get_chat(ANN)).first_name) == ("ann_b", "Ann")


async def test_service_messages_and_anything_else_can_be_said(sim: Remote, bot: Bot) -> None:
    await sim.do("join", chat=GROUP, user="8")
    joined = await heard(bot)
    await sim.do("leave", chat=GROUP, user="8")
    left = await heard(bot)
    await say(sim, "", more={"location": {"latitude": 1.0, "longitude": 2.0}})
    located = await heard(bot)
    with pytest.raises(ValueError, match=r"there is no Message\.colour"):
        await say(sim, "", more={"colour": "red"})

    assert [joined.content_type, left.content_type, located.content_type] == [
        "new_chat_members",
        "left_chat_member",
        "location",
    ]


async def test_a_press_brings_its_data_and_can_be_answered_for_a_while(
    sim: Remote, bot: Bot
) -> None:
    sent = await bot.send_message(ANN, "Sure?", reply_markup=buttons(("Yes", "y")))
    await sim.do("press", chat="7", user="42", message=str(sent.message_id), nonce="y")
    (update,) = await bot.get_updates()
    query = update.callback_query

    assert query is not None
    assert (query.data, query.from_user.id, query.message and query.message.message_id) == (
        "y",
        42,
        sent.message_id,
    )
    assert await bot.answer_callback_query(query.id, text="Done", show_alert=True)
    assert await sim.do("answers") == [{"id": query.id, "text": "Done", "alert": True}]
    await sim.do("later", seconds=3600)
    with refused("query is too old and response timeout expired or query ID is invalid"):
        await bot.answer_callback_query(query.id)


@pytest.mark.parametrize(
    ("deed", "what", "told"),
    [
        ("change", {"chat": "404", "id": "1", "text": "x"}, "there is no such chat"),
        ("change", {"chat": "7", "id": "404", "text": "x"}, "there is no such message"),
        (
            "say",
            {"chat": "7", "text": "x", "reply_to": "404"},
            "there is no such message to reply to",
        ),
        ("say", {"chat": "7", "text": "x", "thread": "404"}, "there is no such topic"),
        ("delete_topic", {"chat": "7", "thread": "404"}, "there is no such topic"),
        ("delete", {"id": "404"}, "there is no such message"),
        (
            "say",
            {"chat": "7", "account": "nobody"},
            "there is no account nobody; there are main, support",
        ),
        (
            "say",
            {"chat": "7", "file": {"size": 1, "kind": "scroll"}},
            "there is no kind of file scroll",
        ),
    ],
)
async def test_what_people_cannot_do_is_said(
    sim: Remote, deed: str, what: dict[str, object], told: str
) -> None:
    with pytest.raises(ValueError, match=told):
        await sim.do(deed, **what)


async def test_only_buttons_that_are_shown_can_be_pressed(sim: Remote, bot: Bot) -> None:
    sent = await bot.send_message(ANN, "Sure?", reply_markup=buttons(("Yes", "y")))
    await bot.edit_message_text("Sure.", chat_id=ANN, message_id=sent.message_id)

    with pytest.raises(ValueError, match="there is no such button"):
        await sim.do("press", chat="7", user="7", message=str(sent.message_id), nonce="y")


async def test_a_bot_reacts_with_one_of_the_emoji_that_there_are(sim: Remote, bot: Bot) -> None:
    said = await say(sim)
    await bot.set_message_reaction(ANN, said, [ReactionTypeEmoji(emoji="👀")])
    with refused("REACTION_INVALID"):
        await bot.set_message_reaction(ANN, said, [ReactionTypeEmoji(emoji="🦖")])
    with refused("message to react not found"):
        await bot.set_message_reaction(ANN, 404, [ReactionTypeEmoji(emoji="👀")])

    assert [update["reactions"] for update in await sim.updates()] == [["👀"]]
    await bot.set_message_reaction(ANN, said, [])
    assert [update["reactions"] for update in await sim.updates()] == [[]]


async def test_typing_is_shown_where_it_is_meant(sim: Remote, bot: Bot) -> None:
    await bot.send_chat_action(ANN, "typing")

    assert await sim.do("typing") == ["7"]
    with pytest.raises(TelegramBadRequest):
        await bot.send_chat_action(ANN, "dancing")
    assert [each["rule"] for each in await sim.violations()] == ["chat actions"]


async def test_the_command_menu_is_kept_by_scope(sim: Remote, bot: Bot) -> None:
    await bot.set_my_commands([BotCommand(command="new", description="Begin again")])
    with pytest.raises(TelegramBadRequest, match="BOT_COMMAND_INVALID"):
        await bot.set_my_commands([BotCommand(command="New!", description="Begin again")])

    assert [each.command for each in await bot.get_my_commands()] == ["new"]
    assert await bot.get_my_commands(language_code="de") == []
    assert await bot.get_my_commands(scope=BotCommandScopeChat(chat_id=ANN)) == []


async def test_members_are_members_unless_something_else_is_known(sim: Remote, bot: Bot) -> None:
    await sim.do("open", chat=SUPERGROUP, admins=["bot"])
    await sim.do("join", chat=SUPERGROUP, user="8")

    assert (await bot.get_chat_member(SUPERGROUP, bot.id)).status == "administrator"
    assert (await bot.get_chat_member(SUPERGROUP, 8)).status == "member"
    with refused("PARTICIPANT_ID_INVALID"):
        await bot.get_chat_member(SUPERGROUP, 404)


async def test_rates_do_not_count_unless_they_are_switched_on(sim: Remote, bot: Bot) -> None:
    for number in range(40):
        await bot.send_message(ANN, str(number))

    assert len(await sim.texts()) == 40


@pytest.fixture
async def counting(sim: Remote) -> Remote:
    """Rates count, and time stands still."""
    await sim.do("server", rates=True)
    await sim.do("later", seconds=0, stop=True)
    return sim


async def test_a_chat_takes_a_burst_and_then_about_one_message_a_second(
    counting: Remote, bot: Bot
) -> None:
    for number in range(5):
        await bot.send_message(ANN, str(number))

    with pytest.raises(TelegramRetryAfter) as caught:
        await bot.send_message(ANN, "too much")
    await counting.do("later", seconds=caught.value.retry_after)
    assert await bot.send_message(ANN, "again") is not None


async def test_edits_count_as_messages_do(counting: Remote, bot: Bot) -> None:
    sent = await bot.send_message(ANN, "0")
    for number in range(1, 5):
        await bot.edit_message_text(str(number), chat_id=ANN, message_id=sent.message_id)

    with pytest.raises(TelegramRetryAfter):
        await bot.edit_message_text("5", chat_id=ANN, message_id=sent.message_id)
    assert await counting.texts() == ["4"]


async def test_a_group_takes_twenty_messages_a_minute(counting: Remote, bot: Bot) -> None:
    await counting.do("open", chat=GROUP)
    for number in range(20):
        await bot.send_message(GROUP, str(number))
        await counting.do("later", seconds=1)

    with pytest.raises(TelegramRetryAfter) as caught:
        await bot.send_message(GROUP, "too much")
    assert caught.value.retry_after == 40


async def test_a_bot_sends_thirty_messages_a_second(counting: Remote, bot: Bot) -> None:
    for chat in range(1000, 1031):
        await counting.do("open", chat=str(chat))
    for chat in range(1000, 1030):
        await bot.send_message(chat, "hi")

    with pytest.raises(TelegramRetryAfter) as caught:
        await bot.send_message(1030, "hi")
    assert caught.value.retry_after == 1


@pytest.mark.parametrize(
    ("kind", "error", "told"),
    [
        ("401", TelegramUnauthorizedError, "Unauthorized"),
        ("403", TelegramForbiddenError, "Forbidden: bot was blocked by the user"),
        ("404", TelegramNotFound, "Not Found"),
        ("409", TelegramConflictError, "Conflict: terminated by other getUpdates request"),
        ("429", TelegramRetryAfter, "Too Many Requests: retry after 7"),
        ("500", TelegramServerError, "Internal Server Error"),
        ("502 html", ClientDecodeError, "502 Bad Gateway"),
    ],
)
async def test_faults_are_worded_as_telegram_words_them(
    sim: Remote, bot: Bot, kind: str, error: type[Exception], told: str
) -> None:
    await sim.fault(kind, does="send", retry_after=7)

    with pytest.raises(error, match=told):
        await bot.send_message(ANN, "hi")
    assert await sim.texts() == []


async def test_a_pause_is_told_in_whole_seconds(sim: Remote, bot: Bot) -> None:
    await sim.fault("429", does="send", retry_after=0.01)

    with pytest.raises(TelegramRetryAfter) as caught:
        await bot.send_message(ANN, "hi")
    assert caught.value.retry_after == 1


async def test_what_a_correct_bot_may_run_into_is_no_violation(sim: Remote, bot: Bot) -> None:
    for call in (
        bot.send_message(ANN, "x" * 4097),
        bot.send_message(404, "hi"),
        bot.send_message(ANN, "<b>", parse_mode="HTML"),
        bot.edit_message_text("hi", chat_id=ANN, message_id=404),
    ):
        with pytest.raises(TelegramAPIError):
            await call

    assert await sim.violations() == []


async def _until_polled(sim: Remote) -> None:
    async def is_polled() -> bool:
        return bool(await sim.calls(does="receive"))

    await sim.until(is_polled)


async def _all_acknowledged(sim: Remote) -> bool:
    return all(update["acknowledged"] for update in await sim.updates())


async def _topic(sim: Remote) -> int:
    """A forum and a topic in it."""
    await sim.do("open", chat=FORUM, forum=True)
    return int((await sim.do("topic", chat=FORUM, name="Work"))["id"])


async def _opened(sim: Remote, chat: str) -> str:
    await sim.do("open", chat=chat)
    return chat


def _text(update: Update) -> str | None:
    event = update.event
    assert isinstance(event, Message)
    return event.text
