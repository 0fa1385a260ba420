"""What bots do besides writing: reactions, and what an assistant shows in its threads."""

from __future__ import annotations

from collections.abc import Mapping

from tests.simulators.common import Call, Json
from tests.simulators.slack import rules
from tests.simulators.slack.server import Asked, Server
from tests.simulators.slack.world import TS, Bot, Chat, Message, Status

EMOJI: Mapping[str, str] = {
    "+1": "👍",
    "-1": "👎",
    "eyes": "👀",
    "white_check_mark": "✅",
    "heavy_check_mark": "✔️",
    "x": "❌",
    "warning": "⚠️",
    "hourglass": "⌛",
    "hourglass_flowing_sand": "⏳",
    "thinking_face": "🤔",
    "heart": "❤️",
    "tada": "🎉",
    "fire": "🔥",
    "rocket": "🚀",
    "robot_face": "🤖",
    "wave": "👋",
    "pray": "🙏",
    "ok_hand": "👌",
    "zzz": "💤",
    "question": "❓",
    "exclamation": "❗",
    "stop_sign": "🛑",
    "octagonal_sign": "🛑",
    "no_entry": "⛔",
    "speech_balloon": "💬",
    "writing_hand": "✍️",
}
"""The names that are known here. People see the picture."""
ALIASES = {"thumbsup": "+1", "thumbsdown": "-1"}
MOST_PROMPTS = 4
MOST_LOADING_MESSAGES = 10


async def react(server: Server, bot: Bot, call: Call) -> Json:
    """An emoji on a message, once."""
    message, name = _meant(bot, call)
    if bot.user in message.reactions.get(name, []):
        raise rules.No("already_reacted", rules.REACTION)
    message.reactions.setdefault(name, []).append(bot.user)
    return {}


async def take_back(server: Server, bot: Bot, call: Call) -> Json:
    """The emoji is gone again."""
    if not {"channel", "timestamp"} <= set(call.parameters):
        raise rules.No("no_item_specified", rules.REACTION)
    message, name = _meant(bot, call)
    if bot.user not in message.reactions.get(name, []):
        raise rules.No("no_reaction", rules.REACTION)
    message.reactions[name].remove(bot.user)
    return {}


async def set_status(server: Server, bot: Bot, call: Call) -> Json:
    """What the bot is doing, until it answers or says nothing."""
    chat, thread = _thread(bot, call)
    text = str(call.parameters["status"])
    if len(call.parameters.get("loading_messages", [])) > MOST_LOADING_MESSAGES:  # type: ignore[arg-type]
        raise rules.No("invalid_arguments", rules.ASSISTANT)
    bot.end_status(chat, thread)
    bot.statuses.append(
        Status(chat=chat.id, thread=thread, text=text, at=server.clock.now(), over=not text)
    )
    return {}


async def set_title(server: Server, bot: Bot, call: Call) -> Json:
    """What the thread is about."""
    chat, thread = _thread(bot, call)
    chat.titles[thread] = str(call.parameters["title"])
    return {}


async def set_prompts(server: Server, bot: Bot, call: Call) -> Json:
    """What people may want to ask."""
    chat = _assistants(bot, call)
    prompts = call.parameters["prompts"]
    right = [
        each for each in prompts if isinstance(each, dict) and set(each) == {"title", "message"}
    ]  # type: ignore[attr-defined]
    if not 0 < len(right) == len(prompts) <= MOST_PROMPTS:  # type: ignore[arg-type]
        raise rules.No("invalid_arguments", rules.ASSISTANT)
    # https://docs.slack.dev/reference/methods/assistant.threads.setSuggestedPrompts: of an agent
    # app a call that names a thread is answered as if it had worked.
    if bot.app.view != "agent" or "thread_ts" not in call.parameters:
        chat.prompts = right
    return {}


METHODS = {
    "reactions.add": Asked(answer=react, does="react", scopes=("reactions:write",)),
    "reactions.remove": Asked(answer=take_back, does="react", scopes=("reactions:write",)),
    "assistant.threads.setStatus": Asked(
        answer=set_status, does="type", scopes=("chat:write", "assistant:write")
    ),
    "assistant.threads.setTitle": Asked(answer=set_title, scopes=("assistant:write",)),
    "assistant.threads.setSuggestedPrompts": Asked(answer=set_prompts, scopes=("assistant:write",)),
}


def _meant(bot: Bot, call: Call) -> tuple[Message, str]:
    """The message and the emoji."""
    asked = call.parameters
    chat = bot.known(asked["channel"])
    name = ALIASES.get(str(asked["name"]), str(asked["name"]))
    if name not in EMOJI:
        raise rules.No("invalid_name", rules.REACTION)
    if not TS.fullmatch(str(asked["timestamp"])):
        raise rules.No("bad_timestamp", rules.REACTION)
    message = chat.message(asked["timestamp"])
    if message is None:
        raise rules.No("message_not_found", rules.REACTION)
    return message, name


def _assistants(bot: Bot, call: Call) -> Chat:
    try:
        return bot.known(call.parameters["channel_id"])
    except rules.No as exc:
        raise rules.No("channel_not_found", rules.ASSISTANT) from exc


def _thread(bot: Bot, call: Call) -> tuple[Chat, str]:
    chat = _assistants(bot, call)
    thread = str(call.parameters["thread_ts"])
    if chat.message(thread) is None:
        raise rules.No("invalid_thread_ts", rules.ASSISTANT)
    return chat, thread
