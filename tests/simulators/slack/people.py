"""
What people do: each deed becomes the events that Slack makes of it. The package's docstring lists
them.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

from tests.simulators.common import Call, Json
from tests.simulators.slack import blocks as block_kit
from tests.simulators.slack import rules, shapes
from tests.simulators.slack.files import Files
from tests.simulators.slack.gestures import ALIASES, EMOJI
from tests.simulators.slack.server import Deed, Server
from tests.simulators.slack.telling import Telling
from tests.simulators.slack.text import escaped, typed
from tests.simulators.slack.world import TS, Bot, Chat, Message, StoredFile, stamp

_WHO = {"chat": str, "user": str}
_WRITES = {
    "user": str,
    "text": str,
    "raw": str,
    "mention": bool,
    "thread": str,
    "broadcast": bool,
    "file": dict,
    "files": list,
    "quote": str,
    "forward": dict,
    "blocks": list,
    "bot": str,
    "more": dict,
    "at": float,
    "id": str,
    "repeat": int,
}
_PLACE = {"type": str, "name": str, "user": str, "members": list}


class People:
    """Everybody but the bots."""

    def __init__(self, server: Server, telling: Telling, files: Files) -> None:
        self._server = server
        self._telling = telling
        self._files = files
        self.deeds = {
            "say": Deed(act=self._say, required={"chat": str}, optional=_WRITES),
            "change": Deed(act=self._change, required={"chat": str, "id": str, "text": str}),
            "delete": Deed(act=self._delete, required={"id": str}, optional={"chat": str}),
            "react": Deed(act=self._react, required={**_WHO, "message": str, "emoji": str}),
            "press": Deed(act=self._press, required={**_WHO, "message": str, "nonce": str}),
            "command": Deed(
                act=self._command, required={**_WHO, "command": str}, optional={"text": str}
            ),
            "home": Deed(act=self._home, required=_WHO, optional={"tab": str}),
            "assistant": Deed(act=self._assistant, required=_WHO, optional={"context": dict}),
            "tell": Deed(act=self._tell, required={"event": dict}),
            "tell_raw": Deed(act=self._tell_raw, optional={"payload": object}),
            "open": Deed(act=self._open, required={"chat": str}, optional=_PLACE),
            "person": Deed(
                act=self._person,
                required={"user": str},
                optional={"name": str, "real_name": str, "bot": bool, "deleted": bool},
            ),
            "block": Deed(act=self._block, required={"chat": str}),
            "unblock": Deed(act=self._unblock, required={"chat": str}),
            "archive": Deed(act=self._archive, required={"chat": str}),
            "remove_bot": Deed(act=self._remove_bot, required={"chat": str}),
            "invite_bot": Deed(act=self._invite_bot, required={"chat": str}),
            "delete_file": Deed(act=self._delete_file, required={"file": str}),
            "forget": Deed(act=self._forget, required={"before": float}),
        }

    async def _say(self, server: Server, bot: Bot, call: Call) -> Json:
        """
        A person writes, or a bot of somebody else; `repeat` is the same message as more events.
        """
        said = call.parameters
        chat = self._chat(bot, said)
        files = [
            self._stored(bot, each, said)
            for each in [*_list(said.get("files")), *_one(said.get("file"))]
        ]
        message = Message(
            ts=self._time(chat, said),
            chat=chat,
            text=self._words(bot, said),
            user=_word(said.get("user")),
            files=files,
            fields=self._fields(bot, said, bool(files)),
            thread_ts=self._thread(chat, said),
            broadcast=bool(said.get("broadcast")),
        )
        chat.add(message)
        for each in files:
            each.shares.append((chat.id, message.ts))
        self._telling.said(bot, message)
        for _ in range(int(str(said.get("repeat", 0)))):
            self._telling.again(bot, message)
        return {"id": message.ts, "files": [each.id for each in files]}

    async def _change(self, server: Server, bot: Bot, call: Call) -> Json:
        """A person edits what he wrote."""
        message = self._found(bot, call, "id")
        if message.by_bot:
            raise rules.No("people cannot edit what the bot wrote", rules.PEOPLE)
        before, text = shapes.message(bot, message, server.url), str(call.parameters["text"])
        message.edits.append(bot.read(message))
        message.text = typed(text)
        message.fields["blocks"] = block_kit.with_ids(
            [block_kit.rich_text(block_kit.section_of_text(text))]
        )
        message.fields["edited"] = {"user": message.user, "ts": server.clock.tick()}
        self._telling.changed(bot, message, before)
        return {"id": message.ts}

    async def _delete(self, server: Server, bot: Bot, call: Call) -> Json:
        """Somebody removes a message: of the bot, if no chat is named."""
        message = self._found(bot, call, "id")
        self._telling.removed(bot, message, own=message.by_bot)
        return {}

    async def _react(self, server: Server, bot: Bot, call: Call) -> Json:
        """By the name of the emoji, or by the emoji itself."""
        message, user = self._found(bot, call, "message"), str(call.parameters["user"])
        word = str(call.parameters["emoji"])
        name = next(
            (each for each, picture in EMOJI.items() if picture == word), ALIASES.get(word, word)
        )
        message.reactions.setdefault(name, []).append(user)
        self._telling.reacted(bot, message, user, name)
        return {}

    async def _press(self, server: Server, bot: Bot, call: Call) -> Json:
        """Only what is shown can be pressed. The nonce is the button's value, or its action_id."""
        asked, nonce = call.parameters, call.parameters["nonce"]
        chat = self._chat(bot, asked)
        message = chat.messages.get(str(asked["message"]))
        shown = (
            [*block_kit.buttons(message.blocks)]
            if message is not None and not message.deleted
            else []
        )
        pressed = next(
            (each for each in shown if nonce in (each.get("value"), each.get("action_id"))), None
        )
        if message is None or pressed is None:
            raise rules.No("no such button", rules.PEOPLE)
        event = self._telling.pressed(bot, message, str(asked["user"]), pressed)
        return {"id": event.id}

    async def _command(self, server: Server, bot: Bot, call: Call) -> Json:
        """A slash command, in a chat and never in a thread."""
        asked = call.parameters
        chat, text = self._chat(bot, asked), str(asked.get("text", ""))
        if not str(asked["command"]).startswith("/"):
            raise rules.No("a command begins with /", rules.PEOPLE)
        event = self._telling.commanded(bot, chat, str(asked["user"]), str(asked["command"]), text)
        return {"id": event.id}

    async def _home(self, server: Server, bot: Bot, call: Call) -> Json:
        """A person opens the DM with the app, or its home tab."""
        chat, user = self._chat(bot, call.parameters), str(call.parameters["user"])
        self._telling.home_opened(bot, chat, user, str(call.parameters.get("tab", "messages")))
        return {}

    async def _assistant(self, server: Server, bot: Bot, call: Call) -> Json:
        """A person opens the assistant's pane: a new thread in his DM, begun by Slack."""
        if bot.app.view != "assistant":
            raise rules.No("an app without assistant_view has no such pane", rules.PEOPLE)
        chat, user = self._chat(bot, call.parameters), str(call.parameters["user"])
        root = Message(
            ts=server.clock.tick(), chat=chat, text="New Assistant Thread", user=bot.user
        )
        root.fields |= {"subtype": "assistant_app_thread", "bot_id": bot.bot_id}
        root.thread_ts = root.ts
        chat.add(root)
        self._telling.assistant_opened(bot, root, user, _dict(call.parameters.get("context")))
        return {"id": root.ts}

    async def _tell(self, server: Server, bot: Bot, call: Call) -> Json:
        """Whatever else can happen at Slack."""
        event = _dict(call.parameters["event"])
        if not isinstance(event.get("type"), str):
            raise rules.No("an event has a type", rules.PEOPLE)
        return {"id": self._telling.anything(bot, event).id}

    async def _tell_raw(self, server: Server, bot: Bot, call: Call) -> Json:
        """What Slack never sends, at least today."""
        return {"id": self._telling.raw(bot, call.parameters.get("payload")).id}

    async def _open(self, server: Server, bot: Bot, call: Call) -> Json:
        """The chat exists, though nobody has said anything there."""
        asked = call.parameters
        kind = _word(asked.get("type"))
        if kind not in (None, "im", "mpim", "channel", "private"):
            raise rules.No("a chat is an im, an mpim, a channel or private", rules.PEOPLE)
        chat = bot.chat(str(asked["chat"]), user=_word(asked.get("user")), kind=kind)
        chat.name = str(asked.get("name", chat.name))
        for member in _list(asked.get("members")):
            chat.members.add(bot.person(str(member)).id)
        return {}

    async def _person(self, server: Server, bot: Bot, call: Call) -> Json:
        """What is known of somebody."""
        asked = call.parameters
        somebody = bot.person(str(asked["user"]))
        somebody.name = str(asked.get("name", somebody.name))
        somebody.real_name = str(asked.get("real_name", somebody.real_name))
        somebody.is_bot = bool(asked.get("bot", somebody.is_bot))
        somebody.deleted = bool(asked.get("deleted", somebody.deleted))
        return {}

    async def _block(self, server: Server, bot: Bot, call: Call) -> Json:
        bot.chat(str(call.parameters["chat"])).blocked = True
        return {}

    async def _unblock(self, server: Server, bot: Bot, call: Call) -> Json:
        bot.chat(str(call.parameters["chat"])).blocked = False
        return {}

    async def _archive(self, server: Server, bot: Bot, call: Call) -> Json:
        bot.chat(str(call.parameters["chat"])).archived = True
        return {}

    async def _remove_bot(self, server: Server, bot: Bot, call: Call) -> Json:
        bot.chat(str(call.parameters["chat"])).bot_is_in = False
        return {}

    async def _invite_bot(self, server: Server, bot: Bot, call: Call) -> Json:
        bot.chat(str(call.parameters["chat"])).bot_is_in = True
        return {}

    async def _delete_file(self, server: Server, bot: Bot, call: Call) -> Json:
        stored = bot.files.get(str(call.parameters["file"]))
        if stored is None:
            raise rules.No("no such file", rules.PEOPLE)
        stored.deleted = True
        return {}

    async def _forget(self, server: Server, bot: Bot, call: Call) -> Json:
        bot.forgotten_before = float(str(call.parameters["before"]))
        return {}

    def _chat(self, bot: Bot, asked: Mapping[str, Any]) -> Chat:
        return bot.chat(str(asked["chat"]), user=_word(asked.get("user")))

    def _time(self, chat: Chat, said: Mapping[str, Any]) -> str:
        """The message's name: as asked for, or one that nobody has."""
        wanted = said.get("id")
        if wanted is not None and not TS.fullmatch(wanted):
            raise rules.No(f"{wanted} is no time stamp", rules.PEOPLE)
        if wanted is not None or said.get("at") is None:
            return str(wanted or self._server.clock.tick())
        micros = round(float(said["at"]) * 1_000_000)
        while stamp(micros) in chat.messages:
            micros += 1
        return stamp(micros)

    def _thread(self, chat: Chat, said: Mapping[str, Any]) -> str | None:
        thread = _word(said.get("thread"))
        if thread is not None and chat.message(thread) is None:
            raise rules.No("no such thread", rules.PEOPLE)
        return thread

    def _words(self, bot: Bot, said: Mapping[str, Any]) -> str:
        words = str(said["raw"]) if "raw" in said else typed(str(said.get("text", "")))
        return f"<@{bot.user}> {words}" if said.get("mention") else words

    def _fields(self, bot: Bot, said: Mapping[str, Any], with_files: bool) -> dict[str, Any]:
        """What a message has besides its text. A quote is in the blocks only."""
        fields: dict[str, Any] = {}
        elements = [block_kit.quote_of(str(said["quote"]))] if "quote" in said else []
        mention = (
            [{"type": "user", "user_id": bot.user}, {"type": "text", "text": " "}]
            if said.get("mention")
            else []
        )
        words = [{"type": "text", "text": str(said["text"])}] if said.get("text") else []
        if mention or words:
            elements.append({"type": "rich_text_section", "elements": [*mention, *words]})
        if "blocks" in said or elements:
            fields["blocks"] = block_kit.with_ids(
                said.get("blocks") or [block_kit.rich_text(*elements)]
            )
        if "bot" in said:
            fields |= self._other_bot(bot, str(said["bot"]), "user" in said)
        else:
            fields["client_msg_id"] = f"client-{self._server.clock.tick()}"
        if with_files:
            fields |= {"subtype": "file_share", "upload": False}
        if "forward" in said:
            fields["attachments"] = [_forwarded(bot, said["forward"])]
        return fields | _dict(said.get("more"))

    def _other_bot(self, bot: Bot, id_: str, has_user: bool) -> dict[str, Any]:
        """An app of today writes as a user; an old one has a name only, and a subtype."""
        other = bot.person(id_)
        other.is_bot = True
        if not has_user:
            return {"subtype": "bot_message", "bot_id": id_, "username": other.name}
        return {
            "bot_id": id_,
            "app_id": "A0OTHER",
            "bot_profile": {"id": id_, "name": other.name, "app_id": "A0OTHER"},
        }

    def _stored(self, bot: Bot, file: Any, said: Mapping[str, Any]) -> StoredFile:
        content = base64.b64decode(file["content"])
        return self._files.store(
            bot,
            name=file["name"],
            mime=file["mime"],
            content=content,
            user=str(said.get("user", "")),
        )

    def _found(self, bot: Bot, call: Call, name: str) -> Message:
        """What can be seen. Only a message of the bot is found without its chat."""
        ts, place = str(call.parameters[name]), call.parameters.get("chat")
        for chat in bot.chats.values():
            message = chat.message(ts)
            if message is not None and (chat.id == place or (place is None and message.by_bot)):
                return message
        raise rules.No("nobody said that", rules.PEOPLE)


def _forwarded(bot: Bot, forward: Mapping[str, Any]) -> dict[str, Any]:
    """What somebody passes on is no text of his own: it hangs on the message."""
    text = str(forward.get("text", ""))
    return {
        "is_msg_unfurl": True,
        "author_id": forward.get("user"),
        "author_name": bot.person(str(forward.get("user", "U0"))).real_name,
        "channel_id": forward.get("chat"),
        "ts": forward.get("message"),
        "text": escaped(text),
        "fallback": text,
        "message_blocks": [
            {
                "message": {"blocks": [block_kit.rich_text(block_kit.section_of_text(text))]},
                "team": bot.team,
            }
        ],
    }


def _word(value: object) -> str | None:
    return None if value is None else str(value)


def _dict(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _one(value: object) -> list[Any]:
    return [] if value is None else [value]
