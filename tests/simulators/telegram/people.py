"""What people do: each deed becomes the updates that Telegram makes of it. The package's docstring lists them."""

from __future__ import annotations

import base64
import secrets
from collections.abc import Mapping
from typing import Any

from aiogram import types

from tests.simulators.common import Call, Json
from tests.simulators.telegram import rules
from tests.simulators.telegram.entities import Entity, Formatted, detected, units
from tests.simulators.telegram.files import described
from tests.simulators.telegram.parameters import check_type
from tests.simulators.telegram.posting import as_fields, quoted
from tests.simulators.telegram.server import Server
from tests.simulators.telegram.world import GENERAL, Bot, Chat, Message, Query, Raw, StoredFile, Topic

ANONYMOUS = {"id": 1087968824, "is_bot": True, "first_name": "Group", "username": "GroupAnonymousBot"}
AS_CHANNEL = {"id": 136817688, "is_bot": True, "first_name": "Channel", "username": "Channel_Bot"}
TELEGRAM = {"id": 777000, "is_bot": False, "first_name": "Telegram"}


async def say(server: Server, bot: Bot, call: Call) -> Json:
    """A person writes, with a file or without; `repeat` is the same message under more update numbers."""
    said = call.parameters
    chat = _place(bot, said)
    file = _uploaded(bot, said.get("file"))
    message = _write(server, bot, chat, said, {**_content(bot, said, file), **_dict(said.get("more"))}, file)
    for _ in range(1 + int(_number(said.get("repeat", 0)))):
        _tell(bot, message)
    told = {"id": str(message.id)}
    if chat.discussion is not None:
        told["comments"] = str(_forward_to_comments(server, bot, message).id)
    return told


async def album(server: Server, bot: Bot, call: Call) -> Json:
    """Several files at once: one message each, with one media_group_id, the text on the first."""
    said = dict(call.parameters)
    files, text = said.pop("files"), said.pop("text", "")
    chat, group, ids = _place(bot, said), str(secrets.randbits(53)), []
    for number, each in enumerate(files):  # type: ignore[arg-type, var-annotated]
        file = _uploaded(bot, each)
        content = _content(bot, {**said, "text": "" if number else text}, file)
        message = _write(server, bot, chat, said, {**content, "media_group_id": group}, file)
        _tell(bot, message)
        ids.append(str(message.id))
    return {"ids": ids, "media_group_id": group}


async def change(server: Server, bot: Bot, call: Call) -> Json:
    """A person edits what he wrote."""
    message = _found(bot, call, "id")
    if message.by_bot:
        raise rules.bad("people cannot edit what the bot wrote", rules.PEOPLE)
    said = _formatted(bot, call.parameters)
    gone = {"text", "entities", "caption", "caption_entities"}
    kept = {name: value for name, value in message.raw.items() if name not in gone}
    names = ("caption", "caption_entities") if message.file else ("text", "entities")
    message.edits.append(str(message.raw.get(names[0], "")))
    message.raw = {**kept, **as_fields(said, *names), "edit_date": int(server.clock.now())}
    kind = "edited_channel_post" if message.chat.type == "channel" else "edited_message"
    bot.queue.add(kind, message.raw, (message.chat.id, message.id))
    return {"id": str(message.id)}


async def react(server: Server, bot: Bot, call: Call) -> Json:
    """A person puts a reaction on a message, or takes it away with an empty one."""
    message, done = _found(bot, call, "message"), call.parameters
    emoji = str(done["emoji"])
    fresh = [{"type": "emoji", "emoji": emoji}] if emoji else []
    payload = {
        "chat": message.raw["chat"],
        "message_id": message.id,
        "user": bot.person(int(str(done["user"]))),
        "date": int(server.clock.now()),
        "old_reaction": [],
        "new_reaction": fresh,
    }
    bot.queue.add("message_reaction", payload, (message.chat.id, message.id))
    return {"id": str(message.id)}


async def press(server: Server, bot: Bot, call: Call) -> Json:
    """A person presses a button; only what is shown can be pressed."""
    message, done = _found(bot, call, "message"), call.parameters
    rows = message.raw.get("reply_markup", {}).get("inline_keyboard", [])
    if done["nonce"] not in [button.get("callback_data") for row in rows for button in row]:
        raise rules.bad("there is no such button", rules.PEOPLE)
    query = Query(id=str(secrets.randbits(62)), at=server.clock.now())
    bot.queries[query.id] = query
    payload = {
        "id": query.id,
        "from": bot.person(int(str(done["user"]))),
        "message": message.raw,
        "chat_instance": str(message.chat.id * 31),
        "data": done["nonce"],
    }
    bot.queue.add("callback_query", payload, (message.chat.id, message.id))
    return {"id": query.id}


async def stop(server: Server, bot: Bot, call: Call) -> Json:
    """A person presses the stop button of a draft."""
    key = (int(str(call.parameters["chat"])), int(str(call.parameters["draft"])))
    draft = bot.drafts.get(key)
    if draft is None or not draft.can_stop:
        raise rules.bad("there is no draft with a stop button", rules.PEOPLE)
    draft.stopped = True
    thread = {"message_thread_id": draft.thread} if draft.thread else {}
    payload = {"chat": bot.chats[draft.chat].as_json(bot.people), "draft_id": draft.id, **thread}
    bot.queue.add("stopped_message_generation", payload)
    return {}


async def open_(server: Server, bot: Bot, call: Call) -> Json:
    """This chat exists and has the bot in it, though nobody has said anything there."""
    what = {name: value for name, value in call.parameters.items() if name not in ("account", "chat")}
    if "discussion" in what:
        what["discussion"] = bot.open(int(str(what["discussion"])), type="supergroup").id
    admins = what.pop("admins", [])
    chat = bot.open(int(str(call.parameters["chat"])), **what)
    assert isinstance(admins, list)
    for admin in admins:
        chat.members[bot.id if admin == "bot" else int(admin)] = "administrator"
    return {}


async def person(server: Server, bot: Bot, call: Call) -> Json:
    """How somebody is called."""
    what = {name: value for name, value in call.parameters.items() if name not in ("account", "user")}
    known = bot.person(int(str(call.parameters["user"])))
    bot.people[known["id"]] = {**known, **what}  # what was said before was said under the old name
    return {}


async def join(server: Server, bot: Bot, call: Call) -> Json:
    """Somebody comes into a group."""
    chat, user = _place(bot, call.parameters), bot.person(int(str(call.parameters["user"])))
    chat.members[user["id"]] = "member"
    message = _write(server, bot, chat, call.parameters, {"new_chat_members": [user]})
    _tell(bot, message)
    return {"id": str(message.id)}


async def leave(server: Server, bot: Bot, call: Call) -> Json:
    """Somebody leaves a group."""
    chat, user = _place(bot, call.parameters), bot.person(int(str(call.parameters["user"])))
    chat.members[user["id"]] = "left"
    message = _write(server, bot, chat, call.parameters, {"left_chat_member": user})
    _tell(bot, message)
    return {"id": str(message.id)}


async def topic(server: Server, bot: Bot, call: Call) -> Json:
    """A new topic of a forum, or of a private chat of a bot that has topics there."""
    done, name = call.parameters, str(call.parameters["name"])
    chat = _place(bot, done)
    if not chat.forum and not (chat.type == "private" and bot.topics_in_private):
        raise rules.bad("this chat has no topics", rules.PEOPLE)
    created = {"forum_topic_created": {"name": name, "icon_color": 7322096}, "is_topic_message": True}
    message = _write(server, bot, chat, {**done, "thread": None}, created)
    message.raw["message_thread_id"] = message.id
    chat.topics[message.id] = Topic(id=message.id, name=name)
    _tell(bot, message)
    return {"id": str(message.id)}


async def close_topic(server: Server, bot: Bot, call: Call) -> Json:
    """Nobody but admins can write there any more."""
    chat = _place(bot, call.parameters)
    chat.topics[int(str(call.parameters["thread"]))].closed = True
    message = _write(server, bot, chat, call.parameters, {"forum_topic_closed": {}})
    _tell(bot, message)
    return {"id": str(message.id)}


async def delete_topic(server: Server, bot: Bot, call: Call) -> Json:
    """It is gone, and bots are not told."""
    del bot.chats[int(str(call.parameters["chat"]))].topics[int(str(call.parameters["thread"]))]
    return {}


async def migrate(server: Server, bot: Bot, call: Call) -> Json:
    """A group becomes a supergroup, which has another id."""
    old = bot.chats[int(str(call.parameters["chat"]))]
    new_id = int(str(call.parameters.get("to") or -1_000_000_000_000 + old.id))
    new = bot.open(new_id, type="supergroup", title=old.title, members=dict(old.members))
    to = _write(server, bot, old, call.parameters, {"migrate_to_chat_id": new.id})
    old.migrated_to = new.id
    _tell(bot, to)
    _tell(bot, _write(server, bot, new, {**call.parameters, "anonymous": True}, {"migrate_from_chat_id": old.id}))
    return {"chat": str(new.id)}


async def block(server: Server, bot: Bot, call: Call) -> Json:
    """The person blocks the bot, or the group throws it out."""
    return _membership(server, bot, call, blocked=True)


async def unblock(server: Server, bot: Bot, call: Call) -> Json:
    """And takes it back."""
    return _membership(server, bot, call, blocked=False)


async def delete(server: Server, bot: Bot, call: Call) -> Json:
    """Somebody removes a message, and bots are not told. Without `chat` it is one of the bot's own."""
    done = call.parameters
    if "chat" in done:
        _found(bot, call, "id").deleted = True
        return {}
    own = [each for each in bot.messages.values() if each.by_bot and not each.deleted and str(each.id) == done["id"]]
    if not own:
        raise rules.bad("there is no such message", rules.PEOPLE)
    own[-1].deleted = True
    return {}


async def forget(server: Server, bot: Bot, call: Call) -> Json:
    """Whatever is pending since before then is not handed out any more."""
    for update in [each for each in bot.queue.pending if each.at < _number(call.parameters["before"])]:
        bot.queue.settle(update, "expired")
    return {}


def _place(bot: Bot, done: Mapping[str, object]) -> Chat:
    chat = bot.open(int(str(done["chat"])))
    if chat.blocked or chat.migrated_to is not None:
        raise rules.bad("nobody can write to the bot there any more", rules.PEOPLE)
    return chat


def _found(bot: Bot, call: Call, name: str) -> Message:
    chat = bot.chats.get(int(str(call.parameters["chat"])))
    message = bot.message(chat, int(str(call.parameters[name]))) if chat else None
    if message is None:
        raise rules.bad("there is no such message", rules.PEOPLE)
    return message


def _write(
    server: Server,
    bot: Bot,
    chat: Chat,
    done: Mapping[str, Any],
    content: Raw,
    file: StoredFile | None = None,
) -> Message:
    """One message of a person, as Telegram would tell it."""
    at = _number(done.get("at", server.clock.now()))
    number = int(done["id"]) if done.get("id") else bot.next_number(chat)
    raw: Raw = {"message_id": number, "date": int(at), "chat": chat.as_json(bot.people), **_author(bot, chat, done)}
    raw |= _thread(bot, chat, done) | content
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
    return {"from": bot.person(int(user))} if user else {"from": ANONYMOUS, "sender_chat": chat.as_json(bot.people)}


def _thread(bot: Bot, chat: Chat, done: Mapping[str, Any]) -> Raw:
    """Its topic and what it answers. In a topic of a forum everything answers at least the topic's beginning."""
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
        found["reply_to_message"] = {name: value for name, value in answered.raw.items() if name != "reply_to_message"}
        if done.get("quote"):
            found["quote"] = quoted(answered, str(done["quote"]))
    return found


def _content(bot: Bot, said: Mapping[str, Any], file: StoredFile | None) -> Raw:
    content = _forwarded(bot, said["forward"]) if "forward" in said else {}
    words = _formatted(bot, said)
    if file is None:
        return content | as_fields(words)
    return (
        content
        | described(file, str(_dict(said.get("file")).get("kind", "document")), said.get("file"))
        | as_fields(words, "caption", "caption_entities")
    )


def _formatted(bot: Bot, said: Mapping[str, Any]) -> Formatted:
    """With the entities that were given, those of mentions of people without a name, and those that are found."""
    text = str(said.get("text", ""))
    given = [*_list(said.get("entities")), *(_mention(bot, text, each) for each in _list(said.get("mentions")))]
    return detected(Formatted(text, given))


def _mention(bot: Bot, text: str, mention: Mapping[str, Any]) -> Entity:
    start = units(text[: text.index(mention["text"])])
    user = bot.person(int(mention["user"]))
    return {"type": "text_mention", "offset": start, "length": units(mention["text"]), "user": user}


def _forwarded(bot: Bot, origin: Mapping[str, Any]) -> Raw:
    date = int(_number(origin.get("at", 1_700_000_000)))
    if "user" in origin:
        made: Raw = {"type": "user", "sender_user": bot.person(int(origin["user"]))}
    elif "name" in origin:
        made = {"type": "hidden_user", "sender_user_name": origin["name"]}
    else:
        chat = bot.open(int(origin["chat"]))
        if chat.type == "channel":
            made = {"type": "channel", "chat": chat.as_json(bot.people), "message_id": int(origin.get("message", 1))}
        else:
            made = {"type": "chat", "sender_chat": chat.as_json(bot.people)}
    return {"forward_origin": {**made, "date": date}}


def _forward_to_comments(server: Server, bot: Bot, post: Message) -> Message:
    """What a channel posts appears in its discussion group, where answers to it are its comments."""
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
    _tell(bot, message)
    return message


def _tell(bot: Bot, message: Message) -> None:
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


def _membership(server: Server, bot: Bot, call: Call, *, blocked: bool) -> Json:
    chat = bot.open(int(str(call.parameters["chat"])))
    was, chat.blocked = chat.blocked, blocked
    user = bot.person(int(str(call.parameters.get("user") or (chat.id if chat.id > 0 else 1))))
    payload = {
        "chat": chat.as_json(bot.people),
        "from": user,
        "date": int(server.clock.now()),
        "old_chat_member": _member(bot, was),
        "new_chat_member": _member(bot, blocked),
    }
    check_type(types.ChatMemberUpdated, payload)
    bot.queue.add("my_chat_member", payload)
    return {}


def _member(bot: Bot, gone: bool) -> Raw:
    return {"user": bot.user, "status": "kicked", "until_date": 0} if gone else {"user": bot.user, "status": "member"}


def _uploaded(bot: Bot, file: object) -> StoredFile | None:
    """`size` alone stands for that many zeros."""
    if not isinstance(file, dict):
        return None
    content = base64.b64decode(file["content"]) if "content" in file else bytes(int(file["size"]))
    name, kind = str(file.get("name", "")), str(file.get("kind", "document"))
    return bot.keep_file(name=name, mime=str(file.get("mime", "")), content=content, folder=f"{kind}s")


def _number(value: object) -> float:
    assert isinstance(value, int | float)
    return value


def _dict(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []
