"""
Methods that write, change and remove messages of words:
https://core.telegram.org/bots/api#updating-messages
"""

from __future__ import annotations

from tests.simulators.common import Call, Json, Refusal
from tests.simulators.telegram import rules
from tests.simulators.telegram.posting import (
    LONGEST_CAPTION,
    as_fields,
    has_fault,
    keyboard,
    place,
    post,
    text_of,
    topic,
    words,
)
from tests.simulators.telegram.rich import Rich, read_rich
from tests.simulators.telegram.server import Asked, Server
from tests.simulators.telegram.specification import Newer
from tests.simulators.telegram.world import Bot, Draft, Message, Raw

DRAFT_LASTS = 30.0
DELETABLE_FOR = 48 * 3600.0

_NOT_MODIFIED = (
    "message is not modified: specified new message content and reply markup are exactly the "
    "same as a current content "
    "and reply markup of the message"
)


async def send_message(server: Server, bot: Bot, call: Call) -> Json:
    """https://core.telegram.org/bots/api#sendmessage"""
    return post(server, bot, call, as_fields(text_of(call))).raw


async def send_rich_message(server: Server, bot: Bot, call: Call) -> Json:
    """https://core.telegram.org/bots/api#sendrichmessage"""
    return post(server, bot, call, {"rich_message": _rich(server, call).raw}).raw


async def send_message_draft(server: Server, bot: Bot, call: Call) -> Json:
    """https://core.telegram.org/bots/api#sendmessagedraft"""
    return _draft(server, bot, call, words(call, "text", "entities").text)


async def send_rich_message_draft(server: Server, bot: Bot, call: Call) -> Json:
    """https://core.telegram.org/bots/api#sendrichmessagedraft"""
    rich = _rich(server, call)
    return _draft(server, bot, call, rich.text, rich.raw)


async def edit_message_text(server: Server, bot: Bot, call: Call) -> Json:
    """https://core.telegram.org/bots/api#editmessagetext"""
    if "rich_message" in call.parameters and server.rich:
        content: Raw = {"rich_message": _rich(server, call).raw}
    else:
        content = as_fields(text_of(call))
    message = _editable(server, bot, call)
    if message.file is not None:
        raise rules.bad("there is no text in the message to edit", rules.EDITABLE)
    return _edited(server, call, message, content, replaced=("text", "entities", "rich_message"))


async def edit_ephemeral_message_text(server: Server, bot: Bot, call: Call) -> Json:
    """https://core.telegram.org/bots/api#editephemeralmessagetext"""
    asked = call.parameters
    is_rich = "rich_message" in asked
    content: Raw = (
        {"rich_message": _rich(server, call).raw} if is_rich else as_fields(text_of(call))
    )
    message = bot.message(place(server, bot, call), -int(str(asked["ephemeral_message_id"])))
    if message is None or message.raw["receiver_user"]["id"] != asked["receiver_user_id"]:
        raise rules.bad("message to edit not found", rules.EPHEMERAL)
    _edited(server, call, message, content, replaced=("text", "entities", "rich_message"))
    return True


async def edit_message_caption(server: Server, bot: Bot, call: Call) -> Json:
    """https://core.telegram.org/bots/api#editmessagecaption"""
    said = words(call, "caption", "caption_entities", longest=LONGEST_CAPTION)
    message = _editable(server, bot, call)
    if message.file is None:
        raise rules.bad("there is no caption in the message to edit", rules.EDITABLE)
    content = as_fields(said, "caption", "caption_entities")
    return _edited(server, call, message, content, replaced=("caption", "caption_entities"))


async def edit_message_reply_markup(server: Server, bot: Bot, call: Call) -> Json:
    """https://core.telegram.org/bots/api#editmessagereplymarkup"""
    return _edited(server, call, _editable(server, bot, call), {}, replaced=())


async def delete_message(server: Server, bot: Bot, call: Call) -> Json:
    """https://core.telegram.org/bots/api#deletemessage"""
    _delete(
        server, bot, bot.chat(str(call.parameters["chat_id"])).id, call.parameters["message_id"]
    )
    return True


async def delete_messages(server: Server, bot: Bot, call: Call) -> Json:
    """https://core.telegram.org/bots/api#deletemessages: what is not found is passed over."""
    chat, ids = bot.chat(str(call.parameters["chat_id"])), call.parameters["message_ids"]
    assert isinstance(ids, list)
    for message_id in ids:
        if bot.message(chat, message_id) is not None:
            _delete(server, bot, chat.id, message_id)
    return True


def said_by(message: Message) -> str:
    """Its words, wherever it has them."""
    raw = message.raw
    if "rich_message" in raw:
        return Rich.of(raw["rich_message"]).text
    return str(raw.get("text") or raw.get("caption") or "")


def _rich(server: Server, call: Call) -> Rich:
    if not server.rich:
        raise Refusal(404, "Not Found: method not found", rule=rules.RICH)
    given = call.parameters["rich_message"]
    assert isinstance(given, dict)
    if has_fault(call, "unparsable"):
        raise rules.bad("can't parse entities: a fault finds fault with it", rules.ENTITIES)
    return read_rich(given)


def _draft(server: Server, bot: Bot, call: Call, text: str, rich: Raw | None = None) -> bool:
    """
    Seen until it is half a minute old or a message comes. One that was stopped shows nothing more.
    """
    asked = call.parameters
    chat = bot.chat(str(asked["chat_id"]))
    draft_id = asked["draft_id"]
    assert isinstance(draft_id, int)
    if chat.type != "private":
        raise rules.bad("PEER_ID_INVALID", rules.DRAFT)
    if not draft_id:
        raise rules.bad("RANDOM_ID_INVALID", rules.DRAFT)
    thread = topic(chat, asked.get("message_thread_id")).get("message_thread_id")
    now, old = server.clock.now(), bot.drafts.get((chat.id, draft_id))
    if old is not None and old.stopped:
        return True
    shown = [*old.history, text] if old is not None else [text]
    bot.drafts[chat.id, draft_id] = Draft(
        chat=chat.id,
        id=draft_id,
        text=text,
        thread=thread,
        at=now,
        can_stop=bool(asked.get("can_stop")),
        keep_on_stop=bool(asked.get("keep_on_stop")),
        rich=rich,
        history=shown,
    )
    return True


def _editable(server: Server, bot: Bot, call: Call) -> Message:
    asked = call.parameters
    if "chat_id" not in asked or "message_id" not in asked:
        raise rules.bad("message identifier is not specified", rules.EDITABLE)
    message = bot.message(place(server, bot, call), asked["message_id"])
    if message is None:
        raise rules.bad("message to edit not found", rules.EDITABLE)
    if not message.by_bot:
        raise rules.bad("message can't be edited", rules.EDITABLE)
    return message


def _edited(
    server: Server, call: Call, message: Message, content: Raw, *, replaced: tuple[str, ...]
) -> Json:
    """A keyboard that is not named again is gone."""
    gone = {*replaced, "reply_markup"}
    kept = {name: value for name, value in message.raw.items() if name not in gone}
    changed = {**kept, **content, **keyboard(call.parameters.get("reply_markup"))}
    if changed == message.raw:
        raise rules.bad(_NOT_MODIFIED, rules.EDITABLE)
    if replaced:
        message.edits.append(said_by(message))
    message.raw = {**changed, "edit_date": int(server.clock.now())}
    if has_fault(call, "newer"):
        message.raw["external_reply"] = Newer(origin={"type": "orbit"})
    return message.raw


def _delete(server: Server, bot: Bot, chat_id: int, message_id: object) -> None:
    chat = bot.chats[chat_id]
    message = bot.message(chat, message_id)
    if message is None:
        raise rules.bad("message to delete not found", rules.DELETABLE)
    may = message.by_bot or chat.type == "private" or chat.members.get(bot.id) == "administrator"
    if not may or message.raw["date"] < server.clock.now() - DELETABLE_FOR:
        raise rules.bad("message can't be deleted", rules.DELETABLE)
    message.deleted = True


METHODS: Asked = {
    "sendMessage": (send_message, "send"),
    "sendRichMessage": (send_rich_message, "send"),
    "sendMessageDraft": (send_message_draft, "draft"),
    "sendRichMessageDraft": (send_rich_message_draft, "draft"),
    "editMessageText": (edit_message_text, "edit"),
    "editEphemeralMessageText": (edit_ephemeral_message_text, "edit"),
    "editMessageCaption": (edit_message_caption, "edit"),
    "editMessageReplyMarkup": (edit_message_reply_markup, "edit"),
    "deleteMessage": (delete_message, None),
    "deleteMessages": (delete_messages, None),
}
