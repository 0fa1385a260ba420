"""
Updates of the Agent Client Protocol as our events. Those without a place in a chat are left out.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from urllib.parse import unquote, urlsplit

from acp.schema import (
    AgentMessageChunk,
    AgentThoughtChunk,
    AudioContentBlock,
    BlobResourceContents,
    ContentToolCallContent,
    EmbeddedResourceContentBlock,
    FileEditToolCallContent,
    ImageContentBlock,
    PromptResponse,
    ResourceContentBlock,
    SessionNotification,
    TerminalToolCallContent,
    TextContentBlock,
    TextResourceContents,
    ToolCallProgress,
    ToolCallStart,
    ToolCallUpdate,
    UsageUpdate,
)

from turngate.gateway.domain.agent_events import (
    AgentEvent,
    File,
    Tool,
    ToolStatus,
    Usage,
)
from turngate.gateway.domain.text import cut
from turngate.gateway.domain.transcript import Reasoning, Text

LONGEST_INPUT = 20_000
LONGEST_OUTPUT = 8_000
_LONGEST_NAME = 64

_STATUS = {"completed": ToolStatus.DONE, "failed": ToolStatus.FAILED}

Content = (
    TextContentBlock
    | ImageContentBlock
    | AudioContentBlock
    | ResourceContentBlock
    | EmbeddedResourceContentBlock
)
ToolContent = ContentToolCallContent | FileEditToolCallContent | TerminalToolCallContent


@dataclass(frozen=True, slots=True, kw_only=True)
class Enclosed:
    """A file inside a message, in base64. It must be written to disk before it can be sent."""

    data: str
    mime: str | None


Heard = AgentEvent | Enclosed


class Reading:
    """
    The updates of one turn. `cost` is the agent's total for the session, in USD: before the turn,
    then updated by it.
    """

    def __init__(self, cost: float = 0.0) -> None:
        self._cost_before = cost
        self.cost = cost
        self._tools: dict[str, Tool] = {}
        # Tools that were announced without input, and are not shown yet.
        self._held: set[str] = set()
        self._message: str | None = None

    def events(self, notification: SessionNotification) -> Iterator[Heard]:
        """Convert one update."""
        match notification.update:
            case AgentMessageChunk(content=content, message_id=message):
                yield from self._words(content, message)
            case AgentThoughtChunk(content=TextContentBlock(text=text)):
                yield Reasoning(text=text)
            case ToolCallStart() | ToolCallProgress() as tool:
                yield from self.tool(tool)
            case UsageUpdate(cost=cost) if (
                cost is not None and cost.currency == "USD" and 0 <= cost.amount < math.inf
            ):
                self.cost = cost.amount
            case _:
                pass

    def tool(self, told: ToolCallStart | ToolCallUpdate) -> Iterator[Tool]:
        """
        Convert the start, progress or end of a tool. A pending tool is held back until its input is
        known. A tool of which only the end is reported yields a start as well.
        """
        id_ = told.tool_call_id
        shown = None if id_ in self._held else self._tools.get(id_)
        tool = self._tools[id_] = _merged(self._tools.get(id_), told)
        if told.status == "pending" and tool.input is None and shown is None:
            self._held.add(id_)
            return

        self._held.discard(id_)
        if tool != shown:
            yield tool
        if told.status in _STATUS:
            yield replace(tool, status=_STATUS[told.status], output=output_of(told))
            del self._tools[id_]

    def question(self, told: ToolCallUpdate) -> str:
        """Return the text of a permission request: what the tool is about to do."""
        tool = _merged(self._tools.get(told.tool_call_id), told)
        what = tool.title or tool.name
        details = "\n".join(filter(None, map(_shown, told.content or ()))) or _listed(
            told.raw_input
        )
        # The only argument may repeat the title, as a shell command does ("command: rm -r .").
        is_repeated = details.partition(": ")[2] in ("", what)
        return f"The agent asks for permission: {what}" + (
            "" if is_repeated else f"\n\n{_cut(details)}"
        )

    def spent(self, response: PromptResponse) -> Usage | None:
        """Return the usage of the whole turn; None if the agent reports none."""
        # The protocol reports the total of the session. A total below the last one began at zero.
        cost = self.cost - self._cost_before if self.cost >= self._cost_before else self.cost
        usage = response.usage
        if usage is None:
            return Usage(cost_usd=cost) if cost else None

        return Usage(
            input=usage.input_tokens,
            output=usage.output_tokens + (usage.thought_tokens or 0),
            cache_read=usage.cached_read_tokens or 0,
            cache_write=usage.cached_write_tokens or 0,
            cost_usd=cost or None,
        )

    def _words(self, content: Content, message: str | None) -> Iterator[Heard]:
        # A new message id begins a new paragraph; chunks of one message are joined as they are.
        is_next = message is not None and self._message is not None and message != self._message
        self._message = message or self._message
        for event in _events_of(content):
            yield Text(f"\n\n{event.text}") if is_next and isinstance(event, Text) else event


def _events_of(content: Content) -> Iterator[Heard]:
    match content:
        case TextContentBlock(text=text):
            yield Text(text)
        case (
            ImageContentBlock(data=data, mime_type=mime)
            | AudioContentBlock(data=data, mime_type=mime)
        ):
            yield Enclosed(data=data, mime=mime)
        case EmbeddedResourceContentBlock(resource=TextResourceContents(text=text)):
            yield Text(text)
        case EmbeddedResourceContentBlock(resource=BlobResourceContents(blob=blob, mime_type=mime)):
            yield Enclosed(data=blob, mime=mime)
        case ResourceContentBlock(uri=uri, name=name):
            path = _path_in(uri)
            yield Text(f"[{name}]({uri})") if path is None else File(path=path, name=name)


def _path_in(uri: str) -> str | None:
    """Return the path of a local file; None for any other address."""
    try:
        parts = urlsplit(uri)
    except ValueError:
        return None
    return unquote(parts.path) if parts.scheme in ("file", "") else None


def _merged(tool: Tool | None, told: ToolCallStart | ToolCallUpdate) -> Tool:
    # An update contains only the fields that changed.
    title = told.title or (tool.title if tool else None)
    name = told.kind if told.kind and told.kind != "other" else None
    return Tool(
        id=told.tool_call_id,
        name=name or (tool.name if tool else _short(title)),
        title=title,
        status=ToolStatus.STARTED,
        input=_as_json(told.raw_input) if told.raw_input else (tool.input if tool else None),
    )


def _short(title: str | None) -> str:
    return " ".join((title or "").split())[:_LONGEST_NAME] or "tool"


def _as_json(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    # Wrapped when cut, so that the result is still valid JSON.
    return (
        text
        if len(text) <= LONGEST_INPUT
        else json.dumps({"cut": text[:LONGEST_INPUT]}, ensure_ascii=False)
    )


def output_of(told: ToolCallStart | ToolCallUpdate) -> str | None:
    """Return a tool's output as text: its content for users, else its raw output."""
    text = "\n".join(filter(None, map(_shown, told.content or ())))
    if not text and told.raw_output is not None:
        text = told.raw_output if isinstance(told.raw_output, str) else _as_json(told.raw_output)
    return _cut(text) or None


def _shown(content: ToolContent) -> str:
    match content:
        case ContentToolCallContent(content=TextContentBlock(text=text)):
            return text
        case FileEditToolCallContent(path=path, old_text=old, new_text=new):
            return f"{path}: {_lines(old)} lines before, {_lines(new)} now"
        case _:
            return ""


def _listed(value: object) -> str:
    if not isinstance(value, dict):
        return ""
    return "\n".join(
        f"{name}: {each if isinstance(each, str) else _as_json(each)}"
        for name, each in value.items()
    )


def _lines(text: str | None) -> int:
    return len((text or "").splitlines())


def _cut(text: str) -> str:
    return cut(text, LONGEST_OUTPUT)
