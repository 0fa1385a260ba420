"""What a message of Discord holds besides its words: files to be fetched, and things that can be told in words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from turngate.adapters.discord.channels import Payload
from turngate.gateway.domain.messages import Attachment, MediaType

_KINDS = {"image": MediaType.IMAGE, "audio": MediaType.AUDIO}
_TEXT_DISPLAY = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRef:
    """Where a file is. Its link expires after a day; by the three ids it is found again."""

    channel: str
    message: str
    attachment: str
    url: str

    @classmethod
    def read(cls, ref: str) -> FileRef:
        """From `Attachment.ref`. Raises ValueError if that is none of Discord's."""
        channel, message, attachment, url = ref.split(" ", 3)
        return cls(channel=channel, message=message, attachment=attachment, url=url)

    def __str__(self) -> str:
        """For `Attachment.ref`."""
        return f"{self.channel} {self.message} {self.attachment} {self.url}"


def words_of(message: Payload) -> str:
    """Its text, and in brackets what else there is to read in it. Empty: nothing was said."""
    return "\n".join(
        filter(None, (message.get("content"), *(f"[{thing}]" for thing in _things(message))))
    )


def attachments_of(message: Payload) -> tuple[Attachment, ...]:
    """Its files, and those of the messages that it forwards."""
    return tuple(_attachment(message, file) for file in _files(message))


def forwarded_in(message: Payload) -> list[Payload]:
    """The messages that it forwards, as they were; Discord does not say who wrote them."""
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
    """What a card says. Of a link that Discord has looked up the address stands in the text already."""
    author, footer = embed.get("author") or {}, embed.get("footer") or {}
    fields = (f"{field['name']}: {field['value']}" for field in embed.get("fields") or ())
    told = (
        author.get("name"),
        embed.get("title"),
        embed.get("description"),
        *fields,
        footer.get("text"),
    )
    yield from filter(None, told)


def _poll(poll: Payload) -> str:
    answers = (answer["poll_media"].get("text") or "" for answer in poll.get("answers") or ())
    return f"poll: {poll['question'].get('text') or ''} {' / '.join(answers)}"


def _displayed(components: Iterable[Payload]) -> Iterator[str]:
    """Messages that are made of components have no text of their own."""
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
