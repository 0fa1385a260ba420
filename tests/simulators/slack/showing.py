"""What people see, and what tests may know besides."""

from __future__ import annotations

import base64
from typing import Any

from tests.simulators.common import Call, Json
from tests.simulators.slack import blocks as block_kit
from tests.simulators.slack.delivery import Courier, Event
from tests.simulators.slack.gestures import EMOJI
from tests.simulators.slack.server import Deed, Server
from tests.simulators.slack.sockets import Sockets
from tests.simulators.slack.streams import tasks
from tests.simulators.slack.text import calls_everybody, seen
from tests.simulators.slack.world import Bot, Message, StoredFile

STATUS_LASTS = 120.0


class Showing:
    """Looks, and changes nothing."""

    def __init__(self, courier: Courier, sockets: Sockets) -> None:
        self._courier = courier
        self._sockets = sockets
        self.deeds = {
            "messages": Deed(act=self._messages),
            "updates": Deed(act=self._updates),
            "events": Deed(act=self._events),
            "typing": Deed(act=self._typing),
            "statuses": Deed(act=self._statuses),
            "titles": Deed(act=self._titles),
            "sockets": Deed(act=self._open_sockets),
        }

    async def _messages(self, server: Server, bot: Bot, call: Call) -> Json:
        """What is there of the bot, oldest first."""
        mine = [
            each for chat in bot.chats.values() for each in chat.messages.values() if each.by_bot
        ]
        return [
            _shown(bot, each) for each in sorted(mine, key=lambda each: each.ts) if not each.deleted
        ]

    async def _updates(self, server: Server, bot: Bot, call: Call) -> Json:
        """What people did, and how far it has come."""
        return [_told(each) for each in self._courier.events if each.bot is bot and not each.own]

    async def _events(self, server: Server, bot: Bot, call: Call) -> Json:
        """Everything that the bot is told, with what it is told of itself."""
        return [
            {**_told(each), "own": each.own, "payload": each.payload, "answer": each.answer}
            for each in self._courier.events
            if each.bot is bot
        ]

    async def _typing(self, server: Server, bot: Bot, call: Call) -> Json:
        """The chats that were shown that the bot is at it, once for each time."""
        return [each.chat for each in bot.statuses if each.text]

    async def _statuses(self, server: Server, bot: Bot, call: Call) -> Json:
        """
        What the bot said it is doing; over once it said something there, or two minutes later.
        """
        fresh = server.clock.now() - STATUS_LASTS
        return [
            {
                "chat": each.chat,
                "thread": each.thread,
                "status": each.text,
                "over": each.over or each.at < fresh,
            }
            for each in bot.statuses
        ]

    async def _titles(self, server: Server, bot: Bot, call: Call) -> Json:
        """What threads are about, and what people are offered to ask."""
        return [
            {"chat": chat.id, "titles": chat.titles, "prompts": chat.prompts}
            for chat in bot.chats.values()
            if chat.titles or chat.prompts
        ]

    async def _open_sockets(self, server: Server, bot: Bot, call: Call) -> Json:
        """How many connections of Socket Mode the app has."""
        return self._sockets.count(bot.app)


def _shown(bot: Bot, message: Message) -> dict[str, Any]:
    files = [_file(each) for each in message.files]
    return {
        "id": message.ts,
        "chat": message.chat.id,
        "text": bot.read(message),
        "fallback": seen(message.text, bot.names()),
        "size": message.size,
        "format": message.format,
        "edits": message.edits,
        "buttons": [_button(each) for each in block_kit.buttons(message.blocks)],
        "blocks": message.blocks,
        "reactions": _pictures(message),
        "file": files[0] if files else None,
        "files": files,
        "reply_to": message.thread_ts if message.is_reply else None,
        "thread": message.thread_ts,
        "broadcast": message.broadcast,
        "ephemeral_to": message.ephemeral_to,
        "metadata": message.metadata,
        "stream": _stream(message),
        "unfurl": message.unfurl,
        "calls_everybody": calls_everybody(message.text),
        "at": float(message.ts),
    }


def _button(button: dict[str, Any]) -> dict[str, Any]:
    return {
        "label": button["text"]["text"],
        "nonce": button.get("value") or button.get("action_id"),
        "action_id": button.get("action_id"),
        "style": button.get("style"),
        "url": button.get("url"),
    }


def _stream(message: Message) -> dict[str, Any] | None:
    if message.streaming is None:
        return None
    return {"open": message.streaming, "chunks": message.chunks, "tasks": tasks(message)}


def _file(stored: StoredFile) -> dict[str, Any]:
    content = base64.b64encode(stored.content or b"").decode()
    return {
        "id": stored.id,
        "name": stored.name,
        "title": stored.title,
        "mime": stored.mime,
        "content": content,
    }


def _pictures(message: Message) -> list[str]:
    return [EMOJI.get(name, name) for name, users in message.reactions.items() for _ in users]


def _told(event: Event) -> dict[str, Any]:
    chat = event.bot.chats.get(event.chat)
    message = chat.messages.get(event.id) if chat else None
    return {
        "id": event.id,
        "n": event.n,
        "event_id": event.event_id,
        "kind": event.kind,
        "chat": event.chat,
        "text": event.text,
        "reactions": _pictures(message) if message else [],
        "acknowledged": event.state == "acknowledged",
        "state": event.state,
        "attempts": event.attempts,
    }
