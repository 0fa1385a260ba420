"""
What happened, as the payloads that Slack makes of it (https://docs.slack.dev/reference/events).
"""

from __future__ import annotations

from typing import Any

from tests.simulators.slack import shapes
from tests.simulators.slack.delivery import Courier, Event, event_id
from tests.simulators.slack.server import Server
from tests.simulators.slack.world import CHANNEL_TYPES, SCOPE_WORDS, Bot, Chat, Message

Json = dict[str, Any]


class Telling:
    """Tells bots of what they are subscribed to."""

    def __init__(self, server: Server, courier: Courier) -> None:
        self._server = server
        self._courier = courier

    def said(self, bot: Bot, message: Message, *, own: bool = False) -> list[Event]:
        """A new message: where the bot is mentioned that is one more event, of its own id."""
        told = []
        shape = self._shape(bot, message)
        if message.broadcast and (root := message.chat.message(message.thread_ts)) is not None:
            shape["root"] = self._shape(bot, root)
        if self._hears(bot, message.chat):
            told.append(
                self._tell(bot, message.chat, self._in(message.chat, shape), message, own=own)
            )
        mentioned = f"<@{bot.user}>" in message.text and message.chat.kind != "im"
        if mentioned and not own and "app_mention" in bot.app.events and message.chat.bot_is_in:
            mention = {
                **shape,
                "type": "app_mention",
                "channel": message.chat.id,
                "event_ts": message.ts,
            }
            told.append(self._tell(bot, message.chat, mention, message))
        return told

    def changed(self, bot: Bot, message: Message, before: Json, *, own: bool = False) -> None:
        """An edit, which names what was there before."""
        event = {
            "subtype": "message_changed",
            "message": self._shape(bot, message),
            "previous_message": before,
        }
        self._hidden(bot, message, event, own=own)

    def removed(self, bot: Bot, message: Message, *, own: bool = False) -> None:
        """
        A message is taken away; what it was is told once more. A tombstone is told as a change.
        """
        before = self._shape(bot, message)
        if not message.chat.remove(message):
            self.changed(bot, message, before, own=own)
            return
        event = {"subtype": "message_deleted", "deleted_ts": message.ts, "previous_message": before}
        self._hidden(bot, message, event, own=own)

    def reacted(self, bot: Bot, message: Message, user: str, name: str) -> None:
        """Somebody put an emoji on a message."""
        at = self._server.clock.tick()
        item = {"type": "message", "channel": message.chat.id, "ts": message.ts}
        event = {
            "type": "reaction_added",
            "user": user,
            "reaction": name,
            "item": item,
            "event_ts": at,
        }
        if message.user:
            event["item_user"] = message.user
        if "reaction_added" in bot.app.events and message.chat.bot_is_in:
            self._tell(bot, message.chat, event, message, own=user == bot.user)

    def home_opened(self, bot: Bot, chat: Chat, user: str, tab: str) -> None:
        """Somebody opened the DM, or the home tab."""
        if "app_home_opened" not in bot.app.events:
            return
        at = self._server.clock.tick()
        event = {
            "type": "app_home_opened",
            "user": user,
            "channel": chat.id,
            "tab": tab,
            "event_ts": at,
        }
        self._courier.hand_out(
            bot, self._wrapped(bot, event), kind="app_home_opened", chat=chat.id, id=at
        )

    def assistant_opened(self, bot: Bot, message: Message, user: str, context: Json) -> None:
        """Somebody opened the assistant's pane: a new thread in his DM."""
        thread = {
            "user_id": user,
            "context": context,
            "channel_id": message.chat.id,
            "thread_ts": message.ts,
        }
        event = {
            "type": "assistant_thread_started",
            "assistant_thread": thread,
            "event_ts": message.ts,
        }
        if "assistant_thread_started" in bot.app.events:
            self._tell(bot, message.chat, event, message)

    def commanded(self, bot: Bot, chat: Chat, user: str, command: str, text: str) -> Event:
        """A slash command. There is none inside of a thread."""
        trigger = self._server.clock.tick()
        payload = {
            "token": "verification",
            "team_id": bot.team,
            "team_domain": bot.domain,
            "channel_id": chat.id,
            "channel_name": "directmessage" if chat.kind == "im" else chat.name,
            "user_id": user,
            "user_name": bot.person(user).name,
            "command": command,
            "text": text,
            "api_app_id": bot.app.id,
            "is_enterprise_install": "false",
            "response_url": self._server.response_url(
                bot, chat=chat.id, user=user, message=None, thread=None
            ),
            "trigger_id": trigger,
        }
        said = f"{command} {text}".strip()
        return self._courier.hand_out(
            bot, payload, kind="command", chat=chat.id, id=trigger, text=said, type="slash_commands"
        )

    def pressed(self, bot: Bot, message: Message, user: str, button: Json) -> Event:
        """A button of the bot's message."""
        at, chat = self._server.clock.tick(), message.chat
        container = {"type": "message", "message_ts": message.ts, "channel_id": chat.id}
        container |= {"is_ephemeral": message.ephemeral_to is not None}
        if message.thread_ts:
            container["thread_ts"] = message.thread_ts
        action = {
            name: button[name]
            for name in ("action_id", "block_id", "text", "value")
            if name in button
        }
        thread = message.thread_ts
        payload = {
            "type": "block_actions",
            "user": {
                "id": user,
                "username": bot.person(user).name,
                "name": user,
                "team_id": bot.team,
            },
            "api_app_id": bot.app.id,
            "token": "verification",
            "container": container,
            "trigger_id": at,
            "team": {"id": bot.team, "domain": bot.domain},
            "enterprise": None,
            "is_enterprise_install": False,
            "channel": {"id": chat.id, "name": chat.name},
            "message": self._shape(bot, message),
            "state": {"values": {}},
            "response_url": self._server.response_url(
                bot, chat=chat.id, user=user, message=message.ts, thread=thread
            ),
            "actions": [{**action, "type": "button", "action_ts": at}],
        }
        nonce = str(button.get("value") or button.get("action_id"))
        return self._courier.hand_out(
            bot, payload, kind="button", chat=chat.id, id=at, text=nonce, type="interactive"
        )

    def again(self, bot: Bot, message: Message) -> None:
        """The same message as another event."""
        self._tell(bot, message.chat, self._in(message.chat, self._shape(bot, message)), message)

    def anything(self, bot: Bot, event: Json) -> Event:
        """Any other event, as it is."""
        at = self._server.clock.tick()
        told = {"event_ts": at, **event}
        chat = str(event.get("channel", ""))
        return self._courier.hand_out(
            bot, self._wrapped(bot, told), kind=event["type"], chat=chat, id=at, invented=True
        )

    def raw(self, bot: Bot, payload: Any) -> Event:
        """An envelope with anything in it."""
        at = self._server.clock.tick()
        return self._courier.hand_out(bot, payload, kind="raw", chat="", id=at, invented=True)

    def _hidden(self, bot: Bot, message: Message, event: Json, *, own: bool) -> None:
        at = self._server.clock.tick()
        told = {"type": "message", "hidden": True, "ts": at, **event}
        if self._hears(bot, message.chat):
            self._tell(bot, message.chat, self._in(message.chat, told), message, own=own)

    def _tell(
        self, bot: Bot, chat: Chat, event: Json, about: Message, *, own: bool = False
    ) -> Event:
        kind = event.get("subtype") or event["type"]
        payload = self._wrapped(bot, event)
        return self._courier.hand_out(
            bot, payload, kind=kind, chat=chat.id, id=about.ts, text=bot.read(about), own=own
        )

    def _wrapped(self, bot: Bot, event: Json) -> Json:
        authorization = {"enterprise_id": None, "team_id": bot.team, "user_id": bot.user}
        return {
            "token": "verification",
            "team_id": bot.team,
            "api_app_id": bot.app.id,
            "event": event,
            "type": "event_callback",
            "event_id": event_id(),
            "event_time": int(self._server.clock.now()),
            "authorizations": [{**authorization, "is_bot": True, "is_enterprise_install": False}],
            "is_ext_shared_channel": False,
            "event_context": f"4-{bot.app.id}",
        }

    def _hears(self, bot: Bot, chat: Chat) -> bool:
        return f"message.{SCOPE_WORDS[chat.kind]}" in bot.app.events and chat.bot_is_in

    def _in(self, chat: Chat, event: Json) -> Json:
        return {
            **event,
            "channel": chat.id,
            "channel_type": CHANNEL_TYPES[chat.kind],
            "event_ts": event["ts"],
        }

    def _shape(self, bot: Bot, message: Message) -> Json:
        return shapes.message(bot, message, self._server.url)
