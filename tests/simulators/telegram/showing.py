"""What people see, and what tests may know besides."""

from __future__ import annotations

import base64
from typing import Any

from tests.simulators.common import Call, Json
from tests.simulators.telegram.markup import units
from tests.simulators.telegram.messages import DRAFT_LASTS, said_by
from tests.simulators.telegram.queue import Update
from tests.simulators.telegram.server import Server
from tests.simulators.telegram.world import Bot, Message

_FILES = ("photo", "voice", "audio", "video", "animation", "video_note", "document")


async def messages(server: Server, bot: Bot, call: Call) -> Json:
    """What is there of the bot, oldest first."""
    return [_shown(each) for each in bot.messages.values() if each.by_bot and not each.deleted]


async def updates(server: Server, bot: Bot, call: Call) -> Json:
    """What people did, as far as the bot wants to know it, and how far it has come."""
    return [_told(bot, update) for update in bot.queue.history]


async def typing(server: Server, bot: Bot, call: Call) -> Json:
    """The chats that were shown that the bot does something, once for each time."""
    return [action["chat"] for action in bot.typing]


async def actions(server: Server, bot: Bot, call: Call) -> Json:
    """The same, with what it does and in which thread."""
    return bot.typing


async def drafts(server: Server, bot: Bot, call: Call) -> Json:
    """What is being written right now."""
    fresh = [draft for draft in bot.drafts.values() if draft.at > server.clock.now() - DRAFT_LASTS]
    return [
        {
            "chat": str(draft.chat),
            "id": draft.id,
            "text": draft.text,
            "thread": _word(draft.thread),
            "can_stop": draft.can_stop,
            "keep_on_stop": draft.keep_on_stop,
            "rich": draft.rich is not None,
            "history": draft.history,
        }
        for draft in fresh
        if not draft.stopped or draft.keep_on_stop
    ]


async def answers(server: Server, bot: Bot, call: Call) -> Json:
    """What presses of buttons were answered with."""
    return [
        {"id": query.id, **query.answer}
        for query in bot.queries.values()
        if query.answer is not None
    ]


async def commands(server: Server, bot: Bot, call: Call) -> Json:
    """The command menus, by scope and language."""
    return bot.commands


def _shown(message: Message) -> dict[str, Any]:
    raw, text = message.raw, said_by(message)
    return {
        "id": str(message.id),
        "chat": str(message.chat.id),
        "text": text,
        "size": units(text),
        "edits": message.edits,
        "entities": raw.get("entities") or raw.get("caption_entities") or [],
        "buttons": _buttons(raw),
        "reactions": message.reactions,
        "file": _file(message),
        "reply_to": _word(raw.get("reply_to_message", {}).get("message_id")),
        "quote": raw.get("quote", {}).get("text"),
        "thread": _word(raw.get("message_thread_id")),
        "rich": raw.get("rich_message"),
        "silent": message.silent,
        "only_for": _word(raw.get("receiver_user", {}).get("id")),
        "preview": message.preview,
        "at": raw["date"],
    }


def _buttons(raw: dict[str, Any]) -> list[dict[str, Any]]:
    rows = raw.get("reply_markup", {}).get("inline_keyboard", [])
    return [
        {
            "label": button["text"],
            "nonce": button.get("callback_data"),
            "url": button.get("url"),
            "row": number,
        }
        for number, row in enumerate(rows)
        for button in row
    ]


def _file(message: Message) -> dict[str, Any] | None:
    if message.file is None:
        return None
    kind = next(kind for kind in _FILES if kind in message.raw)
    content = base64.b64encode(message.file.content).decode()
    return {"name": message.file.name, "mime": message.file.mime, "kind": kind, "content": content}


def _told(bot: Bot, update: Update) -> dict[str, Any]:
    message = bot.messages.get(update.about) if update.about else None
    payload: Any = update.payload
    text = payload.get("data") or payload.get("text") or payload.get("caption") or ""
    id_ = payload.get("id") or payload.get("message_id") or update.id
    return {
        "id": str(id_),
        "n": update.id,
        "kind": update.kind,
        "chat": _word(update.about[0] if update.about else payload.get("chat", {}).get("id")),
        "text": text,
        "reactions": message.reactions if message else [],
        "acknowledged": update.state == "acknowledged",
        "state": update.state,
    }


def _word(value: object) -> str | None:
    return None if value is None else str(value)
