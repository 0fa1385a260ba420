"""
What people do: each deed becomes the updates that Telegram makes of it. The package's docstring
lists them.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping

from aiogram import types

from tests.simulators.common import Call, Json
from tests.simulators.telegram import rules
from tests.simulators.telegram.parameters import check_type
from tests.simulators.telegram.posting import as_fields
from tests.simulators.telegram.server import Server
from tests.simulators.telegram.specification import Newer
from tests.simulators.telegram.world import Bot, Chat, Message, Query, Raw, Topic
from tests.simulators.telegram.writing import (
    content_of,
    forward_to_comments,
    number,
    tell,
    uploaded,
    words_of,
    write,
)


async def say(server: Server, bot: Bot, call: Call) -> Json:
    """
    A person writes, with a file or without; `repeat` is the same message under more update numbers.
    """
    said, more = call.parameters, call.parameters.get("more", {})
    assert isinstance(more, dict)
    chat = _place(bot, said)
    file = uploaded(bot, said.get("file"))
    newer = {name: Newer(value) for name, value in _dict(said.get("newer")).items()}
    content = {**content_of(bot, said, file), **more, **newer}
    message = write(server, bot, chat, said, content, file)
    for _ in range(1 + int(number(said.get("repeat", 0)))):
        tell(bot, message)
    told = {"id": str(message.id)}
    if chat.discussion is not None:
        told["comments"] = str(forward_to_comments(server, bot, message).id)
    return told


async def update(server: Server, bot: Bot, call: Call) -> Json:
    """Anything at all, as it is given."""
    payload = _dict(call.parameters["payload"])
    is_newer = bool(call.parameters.get("newer"))
    queued = bot.queue.add(str(call.parameters["kind"]), Newer(payload) if is_newer else payload)
    return {"n": None if queued is None else queued.id}


async def album(server: Server, bot: Bot, call: Call) -> Json:
    """Several files at once: one message each, with one media_group_id, the text on the first."""
    said = dict(call.parameters)
    files, text = said.pop("files"), said.pop("text", "")
    chat, group, ids = _place(bot, said), str(secrets.randbits(53)), []
    assert isinstance(files, list)
    for nth, each in enumerate(files):
        file = uploaded(bot, each)
        content = content_of(bot, {**said, "file": each, "text": "" if nth else text}, file)
        message = write(server, bot, chat, said, {**content, "media_group_id": group}, file)
        tell(bot, message)
        ids.append(str(message.id))
    return {"ids": ids, "media_group_id": group}


async def change(server: Server, bot: Bot, call: Call) -> Json:
    """A person edits what he wrote."""
    message = _found(bot, call, "id")
    if message.by_bot:
        raise rules.bad("people cannot edit what the bot wrote", rules.PEOPLE)
    said = words_of(bot, call.parameters)
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
    what = {
        name: value for name, value in call.parameters.items() if name not in ("account", "chat")
    }
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
    what = {
        name: value for name, value in call.parameters.items() if name not in ("account", "user")
    }
    known = bot.person(int(str(call.parameters["user"])))
    bot.people[known["id"]] = {**known, **what}  # what was said before was said under the old name
    return {}


async def join(server: Server, bot: Bot, call: Call) -> Json:
    """Somebody comes into a group."""
    chat, user = _place(bot, call.parameters), bot.person(int(str(call.parameters["user"])))
    chat.members[user["id"]] = "member"
    message = write(server, bot, chat, call.parameters, {"new_chat_members": [user]})
    tell(bot, message)
    return {"id": str(message.id)}


async def leave(server: Server, bot: Bot, call: Call) -> Json:
    """Somebody leaves a group."""
    chat, user = _place(bot, call.parameters), bot.person(int(str(call.parameters["user"])))
    chat.members[user["id"]] = "left"
    message = write(server, bot, chat, call.parameters, {"left_chat_member": user})
    tell(bot, message)
    return {"id": str(message.id)}


async def topic(server: Server, bot: Bot, call: Call) -> Json:
    """A new topic of a forum, or of a private chat of a bot that has topics there."""
    done, name = call.parameters, str(call.parameters["name"])
    chat = _place(bot, done)
    if not chat.forum and not (chat.type == "private" and bot.topics_in_private):
        raise rules.bad("this chat has no topics", rules.PEOPLE)
    created = {
        "forum_topic_created": {"name": name, "icon_color": 7322096},
        "is_topic_message": True,
    }
    message = write(server, bot, chat, {**done, "thread": None}, created)
    message.raw["message_thread_id"] = message.id
    chat.topics[message.id] = Topic(id=message.id, name=name)
    tell(bot, message)
    return {"id": str(message.id)}


async def close_topic(server: Server, bot: Bot, call: Call) -> Json:
    """Nobody but admins can write there any more."""
    chat = _place(bot, call.parameters)
    _topic(chat, call).closed = True
    message = write(server, bot, chat, call.parameters, {"forum_topic_closed": {}})
    tell(bot, message)
    return {"id": str(message.id)}


async def delete_topic(server: Server, bot: Bot, call: Call) -> Json:
    """It is gone, and bots are not told."""
    chat = _known(bot, call)
    del chat.topics[_topic(chat, call).id]
    return {}


async def migrate(server: Server, bot: Bot, call: Call) -> Json:
    """A group becomes a supergroup, which has another id."""
    old = _known(bot, call)
    new_id = int(str(call.parameters.get("to") or -1_000_000_000_000 + old.id))
    new = bot.open(new_id, type="supergroup", title=old.title, members=dict(old.members))
    to = write(server, bot, old, call.parameters, {"migrate_to_chat_id": new.id})
    old.migrated_to = new.id
    tell(bot, to)
    tell(
        bot,
        write(
            server,
            bot,
            new,
            {**call.parameters, "anonymous": True},
            {"migrate_from_chat_id": old.id},
        ),
    )
    return {"chat": str(new.id)}


async def block(server: Server, bot: Bot, call: Call) -> Json:
    """The person blocks the bot, or the group throws it out."""
    return _membership(server, bot, call, blocked=True)


async def unblock(server: Server, bot: Bot, call: Call) -> Json:
    """And takes it back."""
    return _membership(server, bot, call, blocked=False)


async def delete(server: Server, bot: Bot, call: Call) -> Json:
    """
    Somebody removes a message, and bots are not told. Without `chat` it is one of the bot's own.
    """
    done = call.parameters
    if "chat" in done:
        _found(bot, call, "id").deleted = True
        return {}
    own = [
        each
        for each in bot.messages.values()
        if each.by_bot and not each.deleted and str(each.id) == done["id"]
    ]
    if not own:
        raise rules.bad("there is no such message", rules.PEOPLE)
    own[-1].deleted = True
    return {}


async def forget(server: Server, bot: Bot, call: Call) -> Json:
    """Whatever is pending since before then is not handed out any more."""
    for update in [
        each for each in bot.queue.pending if each.at < number(call.parameters["before"])
    ]:
        bot.queue.settle(update, "expired")
    return {}


def _dict(value: object) -> dict[str, object]:
    return value if isinstance(value, dict) else {}


def _place(bot: Bot, done: Mapping[str, object]) -> Chat:
    chat = bot.open(int(str(done["chat"])))
    if chat.blocked or chat.migrated_to is not None:
        raise rules.bad("nobody can write to the bot there any more", rules.PEOPLE)
    return chat


def _known(bot: Bot, call: Call) -> Chat:
    chat = bot.chats.get(int(str(call.parameters["chat"])))
    if chat is None:
        raise rules.bad("there is no such chat", rules.PEOPLE)
    return chat


def _topic(chat: Chat, call: Call) -> Topic:
    topic = chat.topics.get(int(str(call.parameters["thread"])))
    if topic is None:
        raise rules.bad("there is no such topic", rules.PEOPLE)
    return topic


def _found(bot: Bot, call: Call, name: str) -> Message:
    message = bot.message(_known(bot, call), int(str(call.parameters[name])))
    if message is None:
        raise rules.bad("there is no such message", rules.PEOPLE)
    return message


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
    return (
        {"user": bot.user, "status": "kicked", "until_date": 0}
        if gone
        else {"user": bot.user, "status": "member"}
    )
