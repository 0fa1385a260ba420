"""Contents of a Slack message: its own text, forwarded text, and files to download."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from turngate.adapters.slack.json_fields import (
    Json,
    dict_in,
    dicts_in,
    number_in,
    text_in,
)
from turngate.adapters.slack.mrkdwn import chat_mention, to_markdown
from turngate.adapters.slack.rich_text import are_known, markdown_of
from turngate.gateway.domain.messages import Attachment
from turngate.gateway.domain.transcript import MediaType

_KINDS = {"image": MediaType.IMAGE, "audio": MediaType.AUDIO}
_CHAT = re.compile(r"<#([A-Z0-9]+)>")
_NAMED_CHAT = re.compile(r"<#([A-Z0-9]+)\|([^<>]+)>")
_GONE = {
    "tombstone": "a file that was deleted",
    "hidden_by_limit": "a file that this workspace no longer shows",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRef:
    """
    Reference with which a file can be downloaded later.

    In a channel shared by two workspaces the event has only the id, without a URL.
    """

    id: str
    url: str | None = None

    @classmethod
    def read(cls, ref: str) -> FileRef:
        """Parse the `ref` of an attachment."""
        id_, _, url = ref.partition(" ")
        return cls(id=id_, url=url or None)

    def __str__(self) -> str:
        return f"{self.id} {self.url}" if self.url else self.id


def own_text_of(message: Json) -> str:
    """
    Return the author's own text as Markdown. Blocks are complete except for channel names, which
    only `text` has, and for types that are newer than this.
    """
    text = text_in(message, "text")
    blocks = dicts_in(message, "blocks")
    markdown = markdown_of(blocks)
    if markdown is None:
        return to_markdown(text).strip()

    names = dict(_NAMED_CHAT.findall(text))
    own = _CHAT.sub(lambda found: chat_mention(found[1], names.get(found[1])), markdown).strip()
    summary = "" if are_known(blocks) else to_markdown(text).strip()
    return own if summary in own else f"{summary}\n\n{own}"


def forwarded_text_in(message: Json) -> str:
    """Return the text of attachments: shared messages and legacy bot attachments."""
    return "\n\n".join(filter(None, map(_attachment_text, dicts_in(message, "attachments"))))


def unavailable_files_in(message: Json) -> str:
    """Return a line in brackets for each file that cannot be downloaded."""
    return "\n".join(
        f"[{note}]" for file in dicts_in(message, "files") if (note := _unavailable(file))
    )


def attachments_of(message: Json) -> tuple[Attachment, ...]:
    """Return the files of the message and of the messages shared with it."""
    shared = (
        file
        for each in dicts_in(message, "attachments")
        if is_share(each)
        for file in dicts_in(each, "files")
    )
    return tuple(_attachments([*dicts_in(message, "files"), *shared]))


def is_forward(message: Json) -> bool:
    """Whether the message consists of shared messages only."""
    return not own_text_of(message) and any(map(is_share, dicts_in(message, "attachments")))


def is_share(attachment: Json) -> bool:
    """Whether the attachment is a shared message. The preview of a web page is not."""
    return bool(attachment.get("is_share") or attachment.get("is_msg_unfurl"))


def _attachment_text(attachment: Json) -> str:
    if is_share(attachment):
        return _shared(attachment)
    # The preview of a link repeats a web page, not the message.
    if text_in(attachment, "from_url", "original_url"):
        return ""
    written = [to_markdown(text_in(attachment, name)) for name in ("pretext", "title", "text")]
    fields = [
        ": ".join(filter(None, (text_in(field, "title"), to_markdown(text_in(field, "value")))))
        for field in dicts_in(attachment, "fields")
    ]
    blocks = markdown_of(dicts_in(attachment, "blocks"))
    return "\n".join(filter(None, [*written, *fields, blocks])) or text_in(attachment, "fallback")


def _shared(attachment: Json) -> str:
    """Return a shared message as a quotation with the author's name."""
    messages = (dict_in(each, "message") for each in dicts_in(attachment, "message_blocks"))
    blocks = [block for message in messages for block in dicts_in(message, "blocks")]
    words = (markdown_of(blocks) or to_markdown(text_in(attachment, "text"))).strip()
    if not words:
        return ""
    author = text_in(attachment, "author_name").strip()
    quoted = "\n".join(f"> {line}" for line in words.split("\n"))
    return f"{author}:\n{quoted}" if author else quoted


def _unavailable(file: Json) -> str | None:
    if (gone := _GONE.get(text_in(file, "mode"))) is not None:
        return gone
    if file.get("is_external") or file.get("mode") == "external":
        return (
            f"file elsewhere: {text_in(file, 'title', 'name')} {text_in(file, 'url_private')}"
        ).strip()
    return None


def _attachments(files: Sequence[Json]) -> Iterator[Attachment]:
    for file in files:
        id_ = text_in(file, "id")
        mime = text_in(file, "mimetype")
        if not id_ or _unavailable(file) is not None:
            continue

        yield Attachment(
            type=_KINDS.get(mime.partition("/")[0], MediaType.FILE),
            ref=str(
                FileRef(id=id_, url=text_in(file, "url_private", "url_private_download") or None)
            ),
            mime=mime or None,
            name=text_in(file, "name", "title") or None,
            size=number_in(file, "size"),
        )
