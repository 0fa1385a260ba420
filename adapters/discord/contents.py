"""Content of a Discord message besides its text: files, and things described in words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from turngate.adapters.discord.json_fields import (
    Payload,
    id_in,
    needed_id,
    number_in,
    object_in,
    objects_in,
    text_in,
)
from turngate.gateway.domain.messages import Attachment
from turngate.gateway.domain.transcript import MediaType

_KINDS = {"image": MediaType.IMAGE, "audio": MediaType.AUDIO}
# What a component says to people. Of components that are not known yet these are read too.
_SAID = ("content", "label", "title", "description", "placeholder")
_INTERACTIVE = frozenset({2, 3, 5, 6, 7, 8})
_INSIDE = ("components", "items", "options")
_ONE_INSIDE = ("accessory", "component")
_DEEPEST = 8


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
    things = (f"[{thing}]" for thing in _things(message))
    return "\n".join(filter(None, (text_in(message, "content"), *things)))


def attachments_of(message: Payload) -> tuple[Attachment, ...]:
    """List its files and those of forwarded messages."""
    return tuple(_attachment(message, file) for file in _files(message))


def forwarded_in(message: Payload) -> list[Payload]:
    """List the forwarded messages; Discord does not name their authors."""
    snapshots = objects_in(message, "message_snapshots")
    return [said for each in snapshots if (said := object_in(each, "message"))]


def _things(message: Payload) -> Iterator[str]:
    for file in objects_in(message, "attachments"):
        if description := text_in(file, "description"):
            yield f"{text_in(file, 'filename') or 'file'}: {description}"

    for sticker in objects_in(message, "sticker_items"):
        if name := text_in(sticker, "name"):
            yield f"sticker {name}"

    for embed in objects_in(message, "embeds"):
        if words := "\n".join(_embedded(embed)):
            yield f"embed: {words}"

    if poll := object_in(message, "poll"):
        yield _poll(poll)

    for words in _displayed(objects_in(message, "components")):
        yield f"shown: {words}"


def _embedded(embed: Payload) -> Iterator[str]:
    """Yield the texts of an embed; a link's address is already in the message."""
    fields = (
        ": ".join(filter(None, (text_in(field, "name"), text_in(field, "value"))))
        for field in objects_in(embed, "fields")
    )
    answer = (
        text_in(object_in(embed, "author"), "name"),
        text_in(embed, "title"),
        text_in(embed, "description"),
        *fields,
        *_displayed(objects_in(embed, "components")),
        text_in(object_in(embed, "footer"), "text"),
    )

    yield from filter(None, answer)


def _poll(poll: Payload) -> str:
    question = text_in(object_in(poll, "question"), "text") or ""
    answers = (
        text_in(object_in(answer, "poll_media"), "text") or ""
        for answer in objects_in(poll, "answers")
    )
    return f"poll: {question} {' / '.join(answers)}"


def _displayed(components: Iterable[Payload], depth: int = 0) -> Iterator[str]:
    """
    Yield texts of components: messages built from them have no content. What people press or
    choose from is no text of the message.
    """
    for component in components if depth < _DEEPEST else ():
        if number_in(component, "type") in _INTERACTIVE:
            continue
        yield from filter(None, (text_in(component, name) for name in _SAID))
        for name in _INSIDE:
            yield from _displayed(objects_in(component, name), depth + 1)
        for name in _ONE_INSIDE:
            yield from _displayed((object_in(component, name),), depth + 1)


def _files(message: Payload) -> Iterator[Payload]:
    for each in (message, *forwarded_in(message)):
        yield from objects_in(each, "attachments")


def _attachment(message: Payload, file: Payload) -> Attachment:
    """
    Describe a file. One without a link can still be found by its ids.
    """
    mime = (text_in(file, "content_type") or "").partition(";")[0] or None
    size = number_in(file, "size")
    where = FileRef(
        channel=id_in(message, "channel_id") or "",
        message=needed_id(message, "id"),
        attachment=id_in(file, "id") or "",
        url=text_in(file, "url") or "",
    )
    return Attachment(
        type=_KINDS.get((mime or "").partition("/")[0], MediaType.FILE),
        ref=str(where),
        mime=mime,
        name=text_in(file, "filename"),
        size=size if size is not None and size >= 0 else None,
    )
