"""What is the same whatever a bot sends: where it goes, what it answers, its buttons, its words."""

from __future__ import annotations

from typing import Any

from tests.simulators.common import Call
from tests.simulators.telegram import rules
from tests.simulators.telegram.entities import formatted
from tests.simulators.telegram.markup import Entity, Formatted
from tests.simulators.telegram.server import Server
from tests.simulators.telegram.specification import Newer
from tests.simulators.telegram.world import GENERAL, Bot, Chat, Message, Raw, StoredFile

LONGEST_TEXT = 4096
LONGEST_CAPTION = 1024
LONGEST_DATA = 64


def words(call: Call, name: str, entities: str, *, longest: int = LONGEST_TEXT) -> Formatted:
    """The text or the caption of a call. Raises for what cannot be read or is too long."""
    asked = call.parameters
    text = str(asked.get(name, ""))
    marked = asked.get("parse_mode") or asked.get(entities)
    if call.fault is not None and call.fault.kind == "unparsable" and marked:
        raise rules.bad("can't parse entities: a fault finds fault with it", rules.ENTITIES)
    listed = asked.get(entities)
    said = formatted(text, asked.get("parse_mode"), listed if isinstance(listed, list) else None)
    # The server counts characters (utf8_length), although offsets count UTF-16 units.
    if len(said.text) > longest:
        is_caption = longest == LONGEST_CAPTION
        told = "message caption is too long" if is_caption else "message is too long"
        raise rules.bad(told, rules.CAPTION if is_caption else rules.TEXT)
    return said


def text_of(call: Call) -> Formatted:
    """Words that must not be missing."""
    if not call.parameters.get("text"):
        raise rules.bad("message text is empty", rules.TEXT)
    said = words(call, "text", "entities")
    if not said.text:
        raise rules.bad("text must be non-empty", rules.TEXT)
    return said


def as_fields(said: Formatted, text: str = "text", entities: str = "entities") -> Raw:
    """As a message has them."""
    found = [_as_type(each) for each in said.entities]
    return {**({text: said.text} if said.text else {}), **({entities: found} if found else {})}


def _as_type(entity: Entity) -> Entity:
    return {name: value for name, value in entity.items() if value is not None}


def place(server: Server, bot: Bot, call: Call) -> Chat:
    """The chat that is to take it, once more than it did before."""
    chat = bot.chat(str(call.parameters["chat_id"]))
    if server.rates:
        server.calls_counted.count(bot.account, chat.id)
    return chat


def post(
    server: Server,
    bot: Bot,
    call: Call,
    content: Raw,
    *,
    file: StoredFile | None = None,
    chat: Chat | None = None,
) -> Message:
    """
    A new message of the bot. Raises for what it answers, where it belongs or what it shows, if that
    is wrong.
    """
    asked = call.parameters
    chat = chat or place(server, bot, call)
    raw: Raw = {"message_id": 0, "date": int(server.clock.now()), "chat": chat.as_json(bot.people)}
    raw |= {"sender_chat": raw["chat"]} if chat.type == "channel" else {"from": bot.user}
    raw |= topic(chat, asked.get("message_thread_id")) | _answered(bot, chat, asked) | content
    raw |= _direct_topic(bot, chat, asked.get("direct_messages_topic_id"))
    if has_fault(call, "newer"):
        raw["external_reply"] = Newer(origin={"type": "orbit"})
    raw |= keyboard(asked.get("reply_markup"))
    if asked.get("protect_content"):
        raw["has_protected_content"] = True
    raw |= _ephemeral(bot, chat, asked) or {"message_id": bot.next_number(chat)}
    preview = asked.get("link_preview_options")
    for draft in [draft for draft in bot.drafts.values() if draft.chat == chat.id]:
        del bot.drafts[draft.chat, draft.id]
    return bot.keep(
        Message(
            chat=chat,
            raw=raw,
            by_bot=True,
            file=file,
            silent=bool(asked.get("disable_notification")),
            preview=preview if isinstance(preview, dict) else None,
        )
    )


def topic(chat: Chat, thread: object) -> Raw:
    """
    The thread of a new message. Only forums and private chats have topics; elsewhere it does not
    count.
    """
    if not isinstance(thread, int) or not thread:
        return {}
    if not chat.forum and chat.type != "private":
        return {}
    if (chat.forum and thread == GENERAL) or thread not in chat.topics:
        raise rules.bad("message thread not found", rules.THREAD)
    if chat.topics[thread].closed:
        raise rules.bad("TOPIC_CLOSED", rules.THREAD)
    return {"message_thread_id": thread, "is_topic_message": True}


def _ephemeral(bot: Bot, chat: Chat, asked: Any) -> Raw:
    """Seen by one person only; where that is and is not possible is said nowhere, so: in groups."""
    wanted = asked.get("ephemeral_message_parameters")
    if not wanted:
        return {}
    if chat.type not in ("group", "supergroup"):
        raise rules.bad("EPHEMERAL_PEER_INVALID", rules.EPHEMERAL)
    person = bot.person(wanted["receiver_user_id"])
    there = [number for id_, number in bot.messages if id_ == chat.id]
    number = 1 - min([0, *there])
    return {"message_id": 0, "ephemeral_message_id": number, "receiver_user": person}


def _direct_topic(bot: Bot, chat: Chat, topic_id: object) -> Raw:
    """In the direct messages of a channel it must be said whom it is for."""
    if not chat.direct:
        return {}
    if not isinstance(topic_id, int):
        raise rules.bad("direct messages topic must be specified", rules.THREAD)
    return {"direct_messages_topic": {"topic_id": topic_id, "user": bot.person(topic_id)}}


def _answered(bot: Bot, chat: Chat, asked: Any) -> Raw:
    """The message that it answers, shown as it is now, without what that one answers."""
    wanted = asked.get("reply_parameters") or {}
    if "reply_to_message_id" in asked:
        wanted = {"message_id": asked["reply_to_message_id"], **wanted}
        wanted.setdefault("allow_sending_without_reply", asked.get("allow_sending_without_reply"))
    if not wanted:
        return {}
    there = bot.known_chat(str(wanted["chat_id"])) if wanted.get("chat_id") else chat
    message = bot.message(there, wanted["message_id"])
    if message is None:
        if wanted.get("allow_sending_without_reply"):
            return {}
        raise rules.bad("message to be replied not found", rules.REPLY)
    answered = {name: value for name, value in message.raw.items() if name != "reply_to_message"}
    found: Raw = {"reply_to_message": answered}
    if "quote" in wanted:
        found["quote"] = quoted(
            message, formatted(wanted["quote"], wanted.get("quote_parse_mode"), None).text
        )
    return found


def quoted(message: Message, words_: str) -> Raw:
    """Part of what a message says."""
    said = str(message.raw.get("text") or message.raw.get("caption") or "")
    if words_ not in said:
        raise rules.bad("QUOTE_TEXT_INVALID", rules.REPLY)
    before = said[: said.index(words_)]
    return {"text": words_, "position": len(before.encode("utf-16-le")) // 2, "is_manual": True}


def keyboard(markup: object) -> Raw:
    """Buttons below a message; what is not inline is no part of the message."""
    if not isinstance(markup, dict) or "inline_keyboard" not in markup:
        return {}
    for button in (button for row in markup["inline_keyboard"] for button in row):
        data = button.get("callback_data")
        if not button.get("text"):
            raise rules.bad(
                'can\'t parse inline keyboard button: Field "text" must be non-empty', rules.MARKUP
            )
        if data is not None and not 1 <= len(data.encode()) <= LONGEST_DATA:
            raise rules.bad("BUTTON_DATA_INVALID", rules.MARKUP)
        if not set(button) - {"text", "style", "icon_custom_emoji_id"}:
            told = (
                "can't parse inline keyboard button: Text buttons are unallowed in the "
                "inline keyboard"
            )
            raise rules.bad(told, rules.MARKUP)
    rows = [row for row in markup["inline_keyboard"] if row]
    return {"reply_markup": {"inline_keyboard": rows}} if rows else {}


def has_fault(call: Call, kind: str) -> bool:
    """Whether this goes wrong with it."""
    return call.fault is not None and call.fault.kind == kind
