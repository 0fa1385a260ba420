"""
The prompt of a turn, as blocks of the protocol.

An agent that holds the conversation gets only what is new. Any other gets the system prompt, the
context and the history as well. Reads files, so it is called in a thread.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from acp import (
    audio_block,
    embedded_text_resource,
    image_block,
    resource_block,
    resource_link_block,
    text_block,
)
from acp.schema import (
    AudioContentBlock,
    EmbeddedResourceContentBlock,
    ImageContentBlock,
    ResourceContentBlock,
    TextContentBlock,
)

from turngate.gateway.agents.blocks import (
    LARGEST_IN_ALL,
    LARGEST_PICTURE,
    LARGEST_TEXT,
    TextBlock,
    as_text,
    picture_type,
    read_start,
)
from turngate.gateway.agents.dialogue import Utterance, dialogue
from turngate.gateway.agents.plain_text import Marks, stand_in
from turngate.gateway.domain.agent_events import Turn
from turngate.gateway.domain.messages import Attachment, InboundMessage
from turngate.gateway.domain.text import cut
from turngate.gateway.domain.transcript import Entry

_BEFORE = (
    "What was said before in this conversation, oldest first. It is over; answer only "
    "what comes after it."
)
_MEANWHILE = "What was said in this conversation while you were not there, oldest first:"
_OVER = "[end of what was said before]"
_LONGEST_RESULT = 1000

Block = (
    TextContentBlock
    | ImageContentBlock
    | AudioContentBlock
    | ResourceContentBlock
    | EmbeddedResourceContentBlock
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Takes:
    """What an agent accepts inline, beside text and links to files."""

    images: bool = False
    sound: bool = False
    texts: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """
    What is sent beside the new messages. `is_first`: the agent knows nothing of the conversation.
    """

    is_first: bool
    system: bool = True
    context: bool = True
    entries: tuple[Entry, ...] = ()


def blocks(turn: Turn, told: Told, takes: Takes) -> list[Block]:
    """Build the prompt of one turn, never empty."""
    files = _Files(takes, turn.redact)
    marks = Marks.of(turn)
    before = _preface(turn, told)
    preface: list[Block] = [text_block(before)] if before else []
    return preface + [block for message in turn.messages for block in _heard(message, files, marks)]


def _preface(turn: Turn, told: Told) -> str:
    paragraphs = [
        turn.system if told.system else "",
        turn.context if told.context else "",
        _transcript(turn, told.entries, _BEFORE if told.is_first else _MEANWHILE),
    ]
    return "\n\n".join(filter(None, paragraphs))


def _transcript(turn: Turn, entries: tuple[Entry, ...], heading: str) -> str:
    lines = [
        _line(each) for each in dialogue(replace(turn, history=entries, messages=()), images=False)
    ]
    return "\n\n".join((heading, *lines, _OVER)) if lines else ""


def _line(utterance: Utterance) -> str:
    words = [each.text for each in utterance.content if isinstance(each, TextBlock)]
    used = [
        f"[used {call.name}, which gave: {cut(call.result, _LONGEST_RESULT)}]"
        for call in utterance.calls
    ]
    return f"{'They' if utterance.by_person else 'You'}: {' '.join((*words, *used))}"


def _heard(message: InboundMessage, files: _Files, marks: Marks) -> Iterator[Block]:
    # In a shared chat also for a file without text: the mark before it names the sender.
    if message.text.strip() or not message.attachments or marks.shared:
        yield text_block(files.redact(marks.spoken(message)))
    for attachment in message.attachments:
        yield files.block(attachment)


class _Files:
    """The files of one turn, within a common size limit for those sent inline."""

    def __init__(self, takes: Takes, redact: Callable[[str], str]) -> None:
        self._takes = takes
        self.redact = redact
        self._left = LARGEST_IN_ALL

    def block(self, file: Attachment) -> Block:
        """Return a file inline if the agent accepts that, else a link; text if it is unreadable."""
        if file.path is None:
            return text_block(self.redact(stand_in(file, "it is not here")))

        try:
            content, size = read_start(file.path, min(LARGEST_PICTURE, self._left))
        except OSError:
            return text_block(self.redact(stand_in(file, "it is no longer here")))

        # Shorter than the file: it exceeds the limit.
        inline = self._inline(file, file.path, content) if len(content) == size else None
        if inline is None:
            return _link(file, file.path, size)

        self._left -= size

        return inline

    def _inline(self, file: Attachment, path: str, content: bytes) -> Block | None:
        picture = picture_type(content)
        if picture is not None:
            return image_block(_base64(content), picture) if self._takes.images else None
        if file.mime is not None and file.mime.startswith("audio/"):
            return audio_block(_base64(content), file.mime) if self._takes.sound else None

        is_short = self._takes.texts and len(content) <= LARGEST_TEXT
        text = as_text(content, file.mime) if is_short else None
        if text is None:
            return None

        return resource_block(
            embedded_text_resource(
                _uri(path), self.redact(text), mime_type=file.mime or "text/plain"
            )
        )


def _link(file: Attachment, path: str, size: int) -> Block:
    return resource_link_block(
        file.name or Path(path).name, _uri(path), mime_type=file.mime, size=size
    )


def _uri(path: str) -> str:
    return Path(path).as_uri()


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode("ascii")
