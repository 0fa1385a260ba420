"""
Methods about chats, presses, reactions and the command menu:
https://core.telegram.org/bots/api#available-methods
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from aiogram.enums import ChatAction
from aiogram.types import ChatMemberAdministrator

from tests.simulators.common import Call, Json
from tests.simulators.telegram import rules
from tests.simulators.telegram.posting import topic
from tests.simulators.telegram.server import Asked, Server
from tests.simulators.telegram.world import GENERAL, Bot, Chat, Raw

ANSWERED_WITHIN = 15 * 60.0
"""
Seconds in which a press can be answered. Telegram names no figure; clients stop waiting long before
that.
"""

ACTIONS = frozenset(each.value for each in ChatAction)

_EMOJI = (
    "❤ 👍 👎 🔥 🥰 👏 😁 🤔 🤯 😱 🤬 😢 🎉 🤩 🤮 💩 🙏 👌 🕊 🤡 🥱 🥴 😍 🐳 ❤‍🔥 "
    "🌚 🌭 💯 🤣 ⚡ 🍌 🏆 💔 🤨 😐 🍓 🍾 💋 🖕 😈 😴 😭 🤓 👻 👨‍💻 👀 🎃 🙈 😇 😨 "
    "🤝 ✍ 🤗 🫡 🎅 🎄 ☃ 💅 🤪 🗿 🆒 💘 🙉 🦄 😘 💊 🙊 😎 👾 🤷‍♂ 🤷 🤷‍♀ 😡"
)
EMOJI = frozenset(_EMOJI.split())
"""https://core.telegram.org/bots/api#reactiontypeemoji"""

_COMMAND = re.compile(r"[a-z0-9_]{1,32}")
_MOST_COMMANDS = 100


async def send_chat_action(server: Server, bot: Bot, call: Call) -> Json:
    """https://core.telegram.org/bots/api#sendchataction; the General topic is a topic here."""
    asked = call.parameters
    chat, thread = bot.chat(str(asked["chat_id"])), asked.get("message_thread_id")
    if asked["action"] not in ACTIONS:
        raise rules.bad("wrong parameter action in request", rules.ACTIONS)
    if thread != GENERAL:
        topic(chat, thread)
    bot.typing.append(
        {"chat": str(chat.id), "thread": str(thread) if thread else None, "action": asked["action"]}
    )
    return True


async def set_message_reaction(server: Server, bot: Bot, call: Call) -> Json:
    """https://core.telegram.org/bots/api#setmessagereaction"""
    asked = call.parameters
    message = bot.message(bot.chat(str(asked["chat_id"])), asked["message_id"])
    if message is None:
        raise rules.bad("message to react not found", rules.REACTION)
    wanted = asked.get("reaction") or []
    assert isinstance(wanted, list)
    emoji = [str(each.get("emoji", "")).replace("\ufe0f", "") for each in wanted]
    if any(each not in EMOJI for each in emoji):
        raise rules.bad("REACTION_INVALID", rules.REACTION)
    if len(emoji) > 1:
        raise rules.bad("REACTIONS_TOO_MANY", rules.REACTION)
    message.reactions[:] = emoji
    return True


async def answer_callback_query(server: Server, bot: Bot, call: Call) -> Json:
    """https://core.telegram.org/bots/api#answercallbackquery"""
    asked = call.parameters
    query = bot.queries.get(str(asked["callback_query_id"]))
    if query is None or server.clock.now() - query.at > ANSWERED_WITHIN:
        told = "query is too old and response timeout expired or query ID is invalid"
        raise rules.bad(told, rules.CALLBACK)
    if len(str(asked.get("text", ""))) > 200:
        raise rules.bad("MESSAGE_TOO_LONG", rules.CALLBACK)
    query.answer = {"text": asked.get("text", ""), "alert": bool(asked.get("show_alert"))}
    return True


async def set_my_commands(server: Server, bot: Bot, call: Call) -> Json:
    """https://core.telegram.org/bots/api#setmycommands"""
    commands = call.parameters["commands"]
    assert isinstance(commands, list)
    if len(commands) > _MOST_COMMANDS:
        raise rules.bad("BOT_COMMANDS_TOO_MUCH", rules.COMMANDS)
    for command in commands:
        if not _COMMAND.fullmatch(command["command"]):
            raise rules.bad("BOT_COMMAND_INVALID", rules.COMMANDS)
        if not 1 <= len(command["description"]) <= 256:
            raise rules.bad("BOT_COMMAND_DESCRIPTION_INVALID", rules.COMMANDS)
    bot.commands[_scope(call.parameters)] = commands
    return True


async def get_my_commands(server: Server, bot: Bot, call: Call) -> Json:
    """https://core.telegram.org/bots/api#getmycommands"""
    return bot.commands.get(_scope(call.parameters), [])


async def delete_my_commands(server: Server, bot: Bot, call: Call) -> Json:
    """https://core.telegram.org/bots/api#deletemycommands"""
    bot.commands.pop(_scope(call.parameters), None)
    return True


async def get_chat(server: Server, bot: Bot, call: Call) -> Json:
    """https://core.telegram.org/bots/api#getchat"""
    chat = bot.known_chat(str(call.parameters["chat_id"]))
    gifts = (
        "unlimited_gifts",
        "limited_gifts",
        "unique_gifts",
        "premium_subscription",
        "gifts_from_channels",
    )
    full: Raw = {
        "accent_color_id": 0,
        "max_reaction_count": 11,
        "accepted_gift_types": dict.fromkeys(gifts, False),
    }
    if chat.discussion is not None:
        full["linked_chat_id"] = chat.discussion
    return {**chat.as_json(bot.people), **full}


async def get_chat_member(server: Server, bot: Bot, call: Call) -> Json:
    """https://core.telegram.org/bots/api#getchatmember"""
    chat, user_id = bot.known_chat(str(call.parameters["chat_id"])), call.parameters["user_id"]
    assert isinstance(user_id, int)
    if user_id != bot.id and user_id not in bot.people:
        raise rules.bad("PARTICIPANT_ID_INVALID", rules.MEMBERS)
    return _member(bot, chat, user_id)


def _member(bot: Bot, chat: Chat, user_id: int) -> Raw:
    user = bot.user if user_id == bot.id else bot.person(user_id)
    status = chat.members.get(user_id, "member")
    if user_id == bot.id and chat.blocked:
        return {"status": "kicked", "user": user, "until_date": 0}
    if status != "administrator":
        return {"status": status, "user": user}
    rights = [
        name for name, field in ChatMemberAdministrator.model_fields.items() if field.is_required()
    ]
    return {**dict.fromkeys(rights, False), "status": status, "user": user}


def _scope(asked: Mapping[str, object]) -> str:
    scope = json.dumps(asked.get("scope") or {"type": "default"}, sort_keys=True)
    return f"{scope} {asked.get('language_code', '')}".strip()


METHODS: Asked = {
    "sendChatAction": (send_chat_action, "type"),
    "setMessageReaction": (set_message_reaction, "react"),
    "answerCallbackQuery": (answer_callback_query, None),
    "setMyCommands": (set_my_commands, None),
    "getMyCommands": (get_my_commands, None),
    "deleteMyCommands": (delete_my_commands, None),
    "getChat": (get_chat, None),
    "getChatMember": (get_chat_member, None),
}
