"""
Messages that grow: chat.startStream, chat.appendStream, chat.stopStream, and the tasks shown in
them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.simulators.common import Call, Json
from tests.simulators.slack import blocks as block_kit
from tests.simulators.slack import rules, shapes
from tests.simulators.slack.posting import LONGEST_MARKDOWN, Posting, check_metadata, own
from tests.simulators.slack.server import Asked, Server
from tests.simulators.slack.text import kept
from tests.simulators.slack.world import Bot, Chat, Message

CHUNKS: Mapping[str, tuple[set[str], set[str]]] = {
    "markdown_text": ({"text"}, set()),
    "plan_update": ({"title"}, set()),
    "task_update": ({"id", "title", "status"}, {"details", "output", "sources"}),
    "blocks": ({"blocks"}, set()),
}
"""
The fields each kind of chunk must have, and may have, as slack_sdk.models.messages.chunk has them.
"""
STATUSES = {"pending", "in_progress", "complete", "error"}
MODES = {"timeline", "plan", "dense"}


class Streams:
    """What is being written right now."""

    def __init__(self, server: Server, posting: Posting) -> None:
        self._server = server
        self._posting = posting
        self.methods = {
            "chat.startStream": Asked(answer=self._start, does="send", scopes=("chat:write",)),
            "chat.appendStream": Asked(answer=self._append, does="edit", scopes=("chat:write",)),
            "chat.stopStream": Asked(answer=self._stop, does="edit", scopes=("chat:write",)),
        }

    async def _start(self, server: Server, bot: Bot, call: Call) -> Json:
        if not server.settings.streaming:
            raise rules.No("channel_type_not_supported", rules.STREAMS)
        said = call.parameters
        chat = bot.open_to_bot(said["channel"])
        _check_recipient(bot, chat, said)
        _check(said, call)
        if said.get("task_display_mode", "timeline") not in MODES:
            raise rules.No("invalid_arguments", rules.CHUNKS)
        thread = self._posting.parent(chat, said["thread_ts"])
        message = Message(
            ts=server.clock.tick(),
            chat=chat,
            text="",
            user=bot.user,
            by_bot=True,
            thread_ts=thread,
            streaming=True,
        )
        message.format = "markdown"
        chat.add(message)
        self._add(message, said)
        bot.end_status(chat, thread)
        return {"channel": chat.id, "ts": message.ts}

    async def _append(self, server: Server, bot: Bot, call: Call) -> Json:
        message = self._open(bot, call)
        _check(call.parameters, call)
        if not call.parameters.get("markdown_text") and not call.parameters.get("chunks"):
            raise rules.No("no_text", rules.TEXT)
        self._add(message, call.parameters)
        return {"channel": message.chat.id, "ts": message.ts}

    async def _stop(self, server: Server, bot: Bot, call: Call) -> Json:
        said = call.parameters
        message = self._open(bot, call)
        _check(said, call)
        block_kit.check(said.get("blocks") or [])
        check_metadata(said.get("metadata"))
        self._add(message, said)
        message.streaming = False
        if said.get("blocks"):
            blocks = [*message.blocks, *said["blocks"]]
            message.fields["blocks"] = block_kit.with_ids(blocks)
        if said.get("metadata"):
            message.metadata = said["metadata"]
        self._posting.echo(bot, message)
        shown = shapes.message(bot, message, server.url, metadata=True)
        return {"channel": message.chat.id, "ts": message.ts, "message": shown}

    def _open(self, bot: Bot, call: Call) -> Message:
        """A stream that still takes something."""
        chat = bot.open_to_bot(call.parameters["channel"])
        message = own(bot, chat, call.parameters["ts"], "message_not_owned_by_app")
        if message.touched < self._server.clock.now() - self._server.settings.stream_lasts:
            message.streaming = message.streaming and False
        if not message.streaming:
            raise rules.No("message_not_in_streaming_state", rules.STREAMS)
        return message

    def _add(self, message: Message, said: Mapping[str, Any]) -> None:
        chunks = (
            [{"type": "markdown_text", "text": said["markdown_text"]}]
            if said.get("markdown_text")
            else []
        )
        for chunk in [*chunks, *said.get("chunks", [])]:
            message.chunks.append(chunk)
            if chunk["type"] == "markdown_text":
                message.size += len(chunk["text"])
            if chunk["type"] == "blocks":
                message.fields["blocks"] = block_kit.with_ids([*message.blocks, *chunk["blocks"]])
        # A sign may be cut in two by a chunk, so what is kept is made of the whole.
        message.text = kept(
            "".join(each["text"] for each in message.chunks if each["type"] == "markdown_text")
        )
        message.touched = self._server.clock.now()


def tasks(message: Message) -> list[dict[str, Any]]:
    """The newest state of each task, in the order in which they began."""
    newest: dict[str, dict[str, Any]] = {}
    for chunk in message.chunks:
        if chunk["type"] == "task_update":
            newest[chunk["id"]] = {**newest.get(chunk["id"], {}), **chunk}
    return list(newest.values())


def _check_recipient(bot: Bot, chat: Chat, said: Mapping[str, Any]) -> None:
    """Outside of DMs somebody must be named for whom it is."""
    if chat.kind == "im":
        return
    for name in ("recipient_team_id", "recipient_user_id"):
        if not said.get(name):
            raise rules.No(f"missing_{name}", rules.RECIPIENT)
    if said["recipient_team_id"] != bot.team:
        raise rules.No("team_not_found", rules.RECIPIENT)
    if said["recipient_user_id"] not in bot.people:
        raise rules.No("user_not_found", rules.RECIPIENT)


def _check(said: Mapping[str, Any], call: Call) -> None:
    if call.fault is not None and call.fault.kind == "unparsable":
        raise rules.No("invalid_blocks", rules.BLOCKS)
    if len(said.get("markdown_text") or "") > LONGEST_MARKDOWN:
        raise rules.No("msg_too_long", rules.MARKDOWN)
    for chunk in said.get("chunks", []):
        _check_chunk(chunk)


def _check_chunk(chunk: Any) -> None:
    kind = chunk.get("type") if isinstance(chunk, dict) else None
    must, may = CHUNKS.get(str(kind), (set(), set()))
    named = set(chunk) - {"type"} if isinstance(chunk, dict) else set()
    if kind not in CHUNKS or not must <= named <= must | may:
        raise rules.No("invalid_chunks", rules.CHUNKS)
    if kind == "task_update" and chunk["status"] not in STATUSES:
        raise rules.No("invalid_chunks", rules.CHUNKS)
    if kind == "markdown_text" and len(chunk["text"]) > LONGEST_MARKDOWN:
        raise rules.No("msg_too_long", rules.MARKDOWN)
    if kind == "blocks":
        block_kit.check(chunk["blocks"])
