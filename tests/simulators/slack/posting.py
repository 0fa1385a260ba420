"""What bots write: chat.postMessage, chat.update, chat.delete, chat.postEphemeral."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.simulators.common import Call, Json
from tests.simulators.slack import blocks as block_kit
from tests.simulators.slack import rules, shapes
from tests.simulators.slack.server import Asked, Server
from tests.simulators.slack.telling import Telling
from tests.simulators.slack.text import kept
from tests.simulators.slack.world import TS, Bot, Chat, Message

LONGEST_MARKDOWN = 12_000
LONGEST_TEXT = 40_000
LONGEST_UPDATE = 4_000
LARGEST_METADATA = 16 * 1024
MOST_IN_A_ROW = 5
_OF_THREADS = {"thread_ts", "parent_user_id"}


class Posting:
    """Checks and keeps what bots write, and tells them of it as Slack does."""

    def __init__(self, server: Server, telling: Telling) -> None:
        self._server = server
        self._telling = telling
        self.methods = {
            "chat.postMessage": Asked(answer=self._post, does="send", scopes=("chat:write",)),
            "chat.update": Asked(answer=self._update, does="edit", scopes=("chat:write",)),
            "chat.delete": Asked(answer=self._delete, does="delete", scopes=("chat:write",)),
            "chat.postEphemeral": Asked(
                answer=self._post_ephemeral, does="send", scopes=("chat:write",)
            ),
        }

    def keep(self, bot: Bot, chat: Chat, said: Mapping[str, Any], **more: Any) -> Message:
        """A new message of the bot, checked and told."""
        message = Message(
            ts=self._server.clock.tick(), chat=chat, text="", user=bot.user, by_bot=True, **more
        )
        write(message, said)
        chat.add(message)
        bot.end_status(chat, message.thread_ts)
        if message.ephemeral_to is None:
            self.echo(bot, message)
        return message

    def echo(self, bot: Bot, message: Message) -> None:
        """The bot hears of its own message, too."""
        if self._server.settings.echo:
            self._telling.said(bot, message, own=True)

    def parent(self, chat: Chat, thread_ts: object) -> str | None:
        """The thread a message goes to; raises No for one that cannot be answered."""
        if thread_ts is None:
            return None
        found = chat.message(thread_ts)
        if not TS.fullmatch(str(thread_ts)) or found is None:
            raise rules.No("thread_not_found", rules.PARENT)
        if found.is_reply:
            raise rules.No("cannot_reply_to_message", rules.NO_REPLY)
        return found.ts

    def change(self, bot: Bot, message: Message, said: Mapping[str, Any]) -> None:
        """Another text, and other blocks."""
        before, read = shapes.message(bot, message, self._server.url), bot.read(message)
        write(message, said)
        if said.get("metadata") == {}:
            message.metadata = None
        message.edits.append(read)
        message.fields["edited"] = {"user": bot.user, "ts": self._server.clock.tick()}
        if self._server.settings.echo and message.ephemeral_to is None:
            self._telling.changed(bot, message, before, own=True)

    def remove(self, bot: Bot, message: Message) -> None:
        """Nobody sees it any more."""
        if self._server.settings.echo and message.ephemeral_to is None:
            self._telling.removed(bot, message, own=True)
        else:
            message.chat.remove(message)

    async def _post(self, server: Server, bot: Bot, call: Call) -> Json:
        said = call.parameters
        chat = bot.open_to_bot(said["channel"])
        check(said, call, longest=LONGEST_TEXT)
        thread = self.parent(chat, said.get("thread_ts"))
        self._pace(bot, chat)
        broadcast = thread is not None and bool(said.get("reply_broadcast"))
        unfurl = {
            name: bool(said[name]) for name in ("unfurl_links", "unfurl_media") if name in said
        }
        message = self.keep(bot, chat, said, thread_ts=thread, broadcast=broadcast, unfurl=unfurl)
        shown = shapes.message(bot, message, server.url, metadata=True)
        return {"channel": chat.id, "ts": message.ts, "message": shown}

    async def _update(self, server: Server, bot: Bot, call: Call) -> Json:
        said = call.parameters
        chat = bot.open_to_bot(said["channel"])
        message = own(bot, chat, said["ts"], "cant_update_message")
        if message.streaming:
            raise rules.No("streaming_state_conflict", rules.STREAMS)
        check(said, call, longest=LONGEST_UPDATE)
        # Blocks that an edit does not mention stay:
        # https://github.com/slackapi/python-slack-sdk/issues/523
        left = {} if "markdown_text" in said else {"blocks": message.blocks}
        self.change(bot, message, {**left, **said})
        shown = shapes.message(bot, message, server.url, metadata=True)
        # Slack does not say in which thread the message stands.
        shown = {name: each for name, each in shown.items() if name not in _OF_THREADS}
        return {"channel": chat.id, "ts": message.ts, "text": message.text, "message": shown}

    async def _delete(self, server: Server, bot: Bot, call: Call) -> Json:
        chat = bot.known(call.parameters["channel"])
        message = own(bot, chat, call.parameters["ts"], "cant_delete_message")
        self.remove(bot, message)
        return {"channel": chat.id, "ts": message.ts}

    async def _post_ephemeral(self, server: Server, bot: Bot, call: Call) -> Json:
        said = call.parameters
        chat, user = bot.open_to_bot(said["channel"]), str(said["user"])
        if user not in chat.members:
            raise rules.No("user_not_in_channel", rules.MEMBER)
        check(said, call, longest=LONGEST_TEXT)
        thread = self.parent(chat, said.get("thread_ts"))
        message = self.keep(bot, chat, said, thread_ts=thread, ephemeral_to=user)
        return {"message_ts": message.ts}

    def _pace(self, bot: Bot, chat: Chat) -> None:
        """
        About one message a second in each channel, where that is asked for; a short burst passes.
        """
        now, lately = (
            self._server.clock.now(),
            self._server.posted.setdefault((bot.name, chat.id), []),
        )
        lately[:] = [at for at in lately if at > now - MOST_IN_A_ROW]
        if self._server.settings.rates and len(lately) >= MOST_IN_A_ROW:
            raise rules.slow_down(1)
        lately.append(now)


def own(bot: Bot, chat: Chat, ts: object, otherwise: str) -> Message:
    """A message of this bot; raises No for any other."""
    message = chat.message(ts)
    if message is None:
        raise rules.No("message_not_found", rules.EDITABLE)
    if not message.by_bot:
        raise rules.No(otherwise, rules.EDITABLE)
    return message


def check(said: Mapping[str, Any], call: Call, *, longest: int) -> None:
    """Raises No for what is too long, too little or at odds with itself."""
    markdown, text, blocks = said.get("markdown_text"), said.get("text"), said.get("blocks")
    formatted = markdown is not None or blocks
    if formatted and call.fault is not None and call.fault.kind == "unparsable":
        raise rules.No("invalid_blocks", rules.BLOCKS)
    if markdown is not None and (text is not None or blocks is not None):
        raise rules.No("markdown_text_conflict", rules.ONE_TEXT)
    if not (markdown or text or blocks or said.get("attachments")):
        raise rules.No("no_text", rules.TEXT)
    if len(markdown or "") > LONGEST_MARKDOWN:
        raise rules.No("msg_too_long", rules.MARKDOWN)
    if len(text or "") > longest:
        raise rules.No("msg_too_long", rules.TEXT)
    block_kit.check(blocks or [])
    check_metadata(said.get("metadata"))


def check_metadata(metadata: Any) -> None:
    """Raises No for what is not of the one form it has."""
    if not metadata:
        return
    if not isinstance(metadata.get("event_type"), str) or not isinstance(
        metadata.get("event_payload"), dict
    ):
        raise rules.No("invalid_metadata_format", rules.METADATA)
    if len(str(metadata)) > LARGEST_METADATA:
        raise rules.No("metadata_too_large", rules.METADATA)


def write(message: Message, said: Mapping[str, Any]) -> None:
    """What it says from now on, and nothing of what it said."""
    raw = said.get("markdown_text") if said.get("markdown_text") is not None else said.get("text")
    blocks = block_kit.with_ids(said.get("blocks") or [])
    message.format = (
        "markdown" if said.get("markdown_text") is not None else "blocks" if blocks else "mrkdwn"
    )
    message.size = len(raw or "")
    message.text = kept(raw or block_kit.words(blocks))
    message.fields.pop("blocks", None)
    if blocks:
        message.fields["blocks"] = blocks
    if said.get("metadata"):
        message.metadata = said["metadata"]
