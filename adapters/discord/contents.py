"""Content of a Discord message besides its text: files, and things described in words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from turngate.adapters.discord.channels import Payload
from turngate.gateway.domain.messages import Attachment
from turngate.gateway.domain.transcript import MediaType

_KINDS = {"image": MediaType.IMAGE, "audio": MediaType.AUDIO}
_TEXT_DISPLAY = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRef:
    """A reference to a file. Its URL expires after a day; the three ids find it again."""

    channel: str
    message: str
    attachment: str
    url: str

    @classmethod
    def read(cls, ref: str) -> FileRef:
        """Parse `Attachment.ref`. Raises ValueError if it is malformed."""
        channel, message, attachment, url = ref.split(" ", 3)
        return cls(channel=channel, message=message, attachment=attachment, url=url)

    def __str__(self) -> str:
        """Format for `Attachment.ref`."""
        return f"{self.channel} {self.message} {self.attachment} {self.url}"


def text_of(message: Payload) -> str:
    """Return the text, and descriptions of other content in brackets. Empty if there is none."""
    return "\n".join(
        filter(None, (message.get("content"), *(f"[{thing}]" for thing in _things(message))))
    )


def attachments_of(message: Payload) -> tuple[Attachment, ...]:
    """List its files and those of forwarded messages."""
    return tuple(_attachment(message, file) for file in _files(message))


def forwarded_in(message: Payload) -> list[Payload]:
    """List the forwarded messages; Discord does not name their authors."""
    return [snapshot["message"] for snapshot in message.get("message_snapshots") or ()]


def _things(message: Payload) -> Iterator[str]:
    for file in message.get("attachments") or ():
        if file.get("description"):
            yield f"{file['filename']}: {file['description']}"

    for sticker in message.get("sticker_items") or ():
        yield f"sticker {sticker['name']}"

    for embed in message.get("embeds") or ():
        if words := "\n".join(_embedded(embed)):
            yield f"embed: {words}"

    if message.get("poll"):
        yield _poll(message["poll"])

    for words in _displayed(message.get("components") or ()):
        yield f"shown: {words}"


def _embedded(embed: Payload) -> Iterator[str]:
    """Yield the texts of an embed; a link's address is already in the message."""
    author = embed.get("author") or {}
    footer = embed.get("footer") or {}
    fields = (f"{field['name']}: {field['value']}" for field in embed.get("fields") or ())
    answer = (
        author.get("name"),
        embed.get("title"),
        embed.get("description"),
        *fields,
        footer.get("text"),
    )

    yield from filter(None, answer)


def _poll(poll: Payload) -> str:
    answers = (answer["poll_media"].get("text") or "" for answer in poll.get("answers") or ())
    return f"poll: {poll['question'].get('text') or ''} {' / '.join(answers)}"


def _displayed(components: Iterable[Payload]) -> Iterator[str]:
    """Yield texts of components: messages built from them have no content."""
    for component in components:
        if component.get("type") == _TEXT_DISPLAY:
            yield component["content"]
        yield from _displayed(component.get("components") or ())


def _files(message: Payload) -> Iterator[Payload]:
    for each in (message, *forwarded_in(message)):
        yield from each.get("attachments") or ()


def _attachment(message: Payload, file: Payload) -> Attachment:
    mime = (file.get("content_type") or "").partition(";")[0] or None
    where = FileRef(
        channel=str(message["channel_id"]),
        message=str(message["id"]),
        attachment=str(file.get("id")),
        url=file["url"],
    )
    return Attachment(
        type=_KINDS.get((mime or "").partition("/")[0], MediaType.FILE),
        ref=str(where),
        mime=mime,
        name=file.get("filename"),
        size=file.get("size"),
    )
