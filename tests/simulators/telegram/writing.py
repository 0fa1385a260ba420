"""
How a message of a person comes about: its author, its thread, its words and its file; and who is
told of it.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

from aiogram import types

from tests.simulators.telegram import rules
from tests.simulators.telegram.entities import detected
from tests.simulators.telegram.files import described
from tests.simulators.telegram.markup import Entity, Formatted, units
from tests.simulators.telegram.parameters import check_type
from tests.simulators.telegram.posting import as_fields, quoted
from tests.simulators.telegram.server import Server
from tests.simulators.telegram.world import GENERAL, Bot, Chat, Message, Raw, StoredFile

ANONYMOUS = {
    "id": 1087968824,
    "is_bot": True,
    "first_name": "Group",
    "username": "GroupAnonymousBot",
}
AS_CHANNEL = {"id": 136817688, "is_bot": True, "first_name": "Channel", "username": "Channel_Bot"}
TELEGRAM = {"id": 777000, "is_bot": False, "first_name": "Telegram"}


def write(
    server: Server,
    bot: Bot,
    chat: Chat,
    done: Mapping[str, Any],
    content: Raw,
    file: StoredFile | None = None,
) -> Message:
    """One message of a person, as Telegram would tell it."""
    at = number(done.get("at", server.clock.now()))
    message_id = int(done["id"]) if done.get("id") else bot.next_number(chat)
    raw: Raw = {
        "message_id": message_id,
        "date": int(at),
        "chat": chat.as_json(bot.people),
        **_author(bot, chat, done),
    }
    raw |= _thread(bot, chat, done) | _direct_topic(bot, chat, done) | content
    check_type(types.Message, raw)
    return bot.keep(Message(chat=chat, raw=raw, by_bot=False, file=file))


def _author(bot: Bot, chat: Chat, done: Mapping[str, Any]) -> Raw:
    if chat.type == "channel":
        return {"sender_chat": chat.as_json(bot.people)}
    if done.get("anonymous"):
        return {"from": ANONYMOUS, "sender_chat": chat.as_json(bot.people)}
    if done.get("as_channel"):
        channel = bot.open(int(done["as_channel"]), type="channel")
        return {"from": AS_CHANNEL, "sender_chat": channel.as_json(bot.people)}
    user = done.get("user") or (chat.id if chat.type == "private" else None)
    return (
        {"from": bot.person(int(user))}
        if user
        else {"from": ANONYMOUS, "sender_chat": chat.as_json(bot.people)}
    )


def _thread(bot: Bot, chat: Chat, done: Mapping[str, Any]) -> Raw:
    """
    Its topic and what it answers. In a topic of a forum everything answers at least the topic's
    beginning.
    """
    found: Raw = {}
    answered = bot.message(chat, int(done["reply_to"])) if done.get("reply_to") else None
    if done.get("reply_to") and answered is None:
        raise rules.bad("there is no such message to reply to", rules.PEOPLE)
    thread = int(done.get("thread") or 0)
    if thread and not (chat.forum and thread == GENERAL):
        if thread not in chat.topics:
            raise rules.bad("there is no such topic", rules.PEOPLE)
        found |= {"message_thread_id": thread, "is_topic_message": True}
        answered = answered or (bot.message(chat, thread) if chat.forum else None)
    elif answered is not None and chat.type == "supergroup" and not chat.forum:
        found |= {"message_thread_id": answered.raw.get("message_thread_id", answered.id)}
    if answered is not None:
        found["reply_to_message"] = {
            name: value for name, value in answered.raw.items() if name != "reply_to_message"
        }
        if done.get("quote"):
            found["quote"] = quoted(answered, str(done["quote"]))
    return found


def _direct_topic(bot: Bot, chat: Chat, done: Mapping[str, Any]) -> Raw:
    """What a person writes to a channel is in a topic of their own, which has their id."""
    if not chat.direct:
        return {}
    topic = int(done.get("topic") or done.get("user") or 0)
    return {"direct_messages_topic": {"topic_id": topic, "user": bot.person(topic)}}


def content_of(bot: Bot, said: Mapping[str, Any], file: StoredFile | None) -> Raw:
    """What it says: words, or a file with a caption, and where that is from."""
    origin = _forwarded(bot, said["forward"]) if "forward" in said else {}
    words = words_of(bot, said)
    if file is None:
        return origin | as_fields(words)
    shown = described(file, str(said["file"].get("kind", "document")), said["file"])
    return origin | shown | as_fields(words, "caption", "caption_entities")


def words_of(bot: Bot, said: Mapping[str, Any]) -> Formatted:
    """
    With the entities that were given, those of mentions of people without a name, and those that
    are found.
    """
    text = str(said.get("text", ""))
    given = [
        *_list(said.get("entities")),
        *(_mention(bot, text, each) for each in _list(said.get("mentions"))),
    ]
    return detected(Formatted(text, given))


def _mention(bot: Bot, text: str, mention: Mapping[str, Any]) -> Entity:
    start = units(text[: text.index(mention["text"])])
    user = bot.person(int(mention["user"]))
    return {"type": "text_mention", "offset": start, "length": units(mention["text"]), "user": user}


def _forwarded(bot: Bot, origin: Mapping[str, Any]) -> Raw:
    date = int(number(origin.get("at", 1_700_000_000)))
    if "user" in origin:
        made: Raw = {"type": "user", "sender_user": bot.person(int(origin["user"]))}
    elif "name" in origin:
        made = {"type": "hidden_user", "sender_user_name": origin["name"]}
    else:
        chat = bot.open(int(origin["chat"]))
        if chat.type == "channel":
            made = {
                "type": "channel",
                "chat": chat.as_json(bot.people),
                "message_id": int(origin.get("message", 1)),
            }
        else:
            made = {"type": "chat", "sender_chat": chat.as_json(bot.people)}
    return {"forward_origin": {**made, "date": date}}


def forward_to_comments(server: Server, bot: Bot, post: Message) -> Message:
    """
    What a channel posts appears in its discussion group, where answers to it are its comments.
    """
    group = bot.chats[int(str(post.chat.discussion))]
    content = {
        name: value
        for name, value in post.raw.items()
        if name not in ("message_id", "chat", "date", "sender_chat", "author_signature")
    }
    channel = post.raw["chat"]
    origin = {"type": "channel", "chat": channel, "message_id": post.id, "date": post.raw["date"]}
    raw = {
        "message_id": bot.next_number(group),
        "date": int(server.clock.now()),
        "chat": group.as_json(bot.people),
        "from": TELEGRAM,
        "sender_chat": channel,
        "is_automatic_forward": True,
        "forward_origin": origin,
        **content,
    }
    check_type(types.Message, raw)
    message = bot.keep(Message(chat=group, raw=raw, by_bot=False, file=post.file))
    tell(bot, message)
    return message


def tell(bot: Bot, message: Message) -> None:
    """The bot hears of it, unless privacy mode keeps it from that."""
    if bot.privacy and message.chat.type in ("group", "supergroup") and not _is_meant(bot, message):
        return
    kind = "channel_post" if message.chat.type == "channel" else "message"
    bot.queue.add(kind, message.raw, (message.chat.id, message.id))


def _is_meant(bot: Bot, message: Message) -> bool:
    """https://core.telegram.org/bots/features#privacy-mode; an administrator hears everything."""
    raw = message.raw
    text = str(raw.get("text") or raw.get("caption") or "")
    service = not {"text", "caption"} & set(raw) and message.file is None
    answers_bot = raw.get("reply_to_message", {}).get("from", {}).get("id") == bot.id
    is_admin = message.chat.members.get(bot.id) == "administrator"
    return service or answers_bot or is_admin or text.startswith("/") or f"@{bot.username}" in text


def uploaded(bot: Bot, file: object) -> StoredFile | None:
    """`size` alone stands for that many zeros."""
    if not isinstance(file, dict):
        return None
    content = base64.b64decode(file["content"]) if "content" in file else bytes(int(file["size"]))
    name, kind = str(file.get("name", "")), str(file.get("kind", "document"))
    return bot.keep_file(
        name=name, mime=str(file.get("mime", "")), content=content, folder=f"{kind}s"
    )


def number(value: object) -> float:
    """What the check of parameters has found to be one."""
    assert isinstance(value, int | float)
    return value


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []
