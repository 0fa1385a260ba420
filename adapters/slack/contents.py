"""What a message of Slack holds: its own words, the words that were passed on with it, and files to be fetched."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from turngate.adapters.slack.json_fields import Json, dict_in, dicts_in, number_in, text_in
from turngate.adapters.slack.mrkdwn import chat, readable
from turngate.adapters.slack.rich_text import markdown_of
from turngate.gateway.domain.messages import Attachment, MediaType

_KINDS = {"image": MediaType.IMAGE, "audio": MediaType.AUDIO}
_CHAT = re.compile(r"<#([A-Z0-9]+)>")
_NAMED_CHAT = re.compile(r"<#([A-Z0-9]+)\|([^<>]+)>")
_GONE = {
    "tombstone": "a file that was deleted",
    "hidden_by_limit": "a file that this workspace no longer shows",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRef:
    """Enough to fetch a file later. In a channel that two workspaces share Slack tells the id alone at first."""

    id: str
    url: str | None = None

    @classmethod
    def read(cls, ref: str) -> FileRef:
        """From what an attachment keeps."""
        id_, _, url = ref.partition(" ")
        return cls(id=id_, url=url or None)

    def __str__(self) -> str:
        return f"{self.id} {self.url}" if self.url else self.id


def own_words_of(message: Json) -> str:
    """What whoever wrote it says himself. The blocks have all of it, but for the names of chats, which the text has."""
    text = text_in(message, "text")
    markdown = markdown_of(dicts_in(message, "blocks"))
    if markdown is None:
        return readable(text).strip()
    names = dict(_NAMED_CHAT.findall(text))
    return _CHAT.sub(lambda found: chat(found[1], names.get(found[1])), markdown).strip()


def passed_on_in(message: Json) -> str:
    """The words of others that hang on it: messages that were shared, and what the old ways of bots put there."""
    return "\n\n".join(filter(None, map(_passed_on, dicts_in(message, "attachments"))))


def things_in(message: Json) -> str:
    """In brackets, files that there is nothing to fetch of."""
    return "\n".join(f"[{thing}]" for file in dicts_in(message, "files") if (thing := _thing(file)))


def attachments_of(message: Json) -> tuple[Attachment, ...]:
    """Its files, and those of the messages that were shared with it."""
    shared = (
        file
        for each in dicts_in(message, "attachments")
        if is_share(each)
        for file in dicts_in(each, "files")
    )
    return tuple(_attachments([*dicts_in(message, "files"), *shared]))


def is_forward(message: Json) -> bool:
    """Whether all that is in it was said by somebody else before."""
    return not own_words_of(message) and any(map(is_share, dicts_in(message, "attachments")))


def is_share(attachment: Json) -> bool:
    """Whether somebody else's message hangs there. The picture of a web page is none."""
    return bool(attachment.get("is_share") or attachment.get("is_msg_unfurl"))


def _passed_on(attachment: Json) -> str:
    if is_share(attachment):
        return _shared(attachment)
    if text_in(attachment, "from_url", "original_url"):
        return ""
    written = [readable(text_in(attachment, name)) for name in ("pretext", "title", "text")]
    return "\n".join(filter(None, written)) or text_in(attachment, "fallback")


def _shared(attachment: Json) -> str:
    """Somebody's message as a quotation, with the name that Slack says he has."""
    messages = (dict_in(each, "message") for each in dicts_in(attachment, "message_blocks"))
    blocks = [block for message in messages for block in dicts_in(message, "blocks")]
    words = (markdown_of(blocks) or readable(text_in(attachment, "text"))).strip()
    if not words:
        return ""
    author = text_in(attachment, "author_name").strip()
    quoted = "\n".join(f"> {line}" for line in words.split("\n"))
    return f"{author}:\n{quoted}" if author else quoted


def _thing(file: Json) -> str | None:
    if (gone := _GONE.get(text_in(file, "mode"))) is not None:
        return gone
    if file.get("is_external") or file.get("mode") == "external":
        return f"file elsewhere: {text_in(file, 'title', 'name')} {text_in(file, 'url_private')}".strip()
    return None


def _attachments(files: Sequence[Json]) -> Iterator[Attachment]:
    for file in files:
        id_, mime = text_in(file, "id"), text_in(file, "mimetype")
        if not id_ or _thing(file) is not None:
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
