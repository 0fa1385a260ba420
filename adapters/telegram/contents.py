"""Content of a Telegram message besides its text: files, and things described in words."""

from __future__ import annotations

from collections.abc import Iterator

from aiogram.types import Message

from turngate.gateway.domain.messages import Attachment
from turngate.gateway.domain.transcript import MediaType

_KINDS = {"image": MediaType.IMAGE, "audio": MediaType.AUDIO}


def text_of(message: Message) -> str:
    """
    Return the text or caption, and descriptions of other content in brackets. Empty if there is
    none.
    """
    return "\n".join(
        filter(
            None, (message.text or message.caption, *(f"[{thing}]" for thing in _things(message)))
        )
    )


def attachments_of(message: Message) -> tuple[Attachment, ...]:
    """List the files. Telegram offers several sizes of a picture; the largest is used."""
    return tuple(_attachments(message))


def _things(message: Message) -> Iterator[str]:
    if message.sticker is not None:
        yield " ".join(
            filter(None, ("sticker", message.sticker.emoji, _named(message.sticker.set_name)))
        )

    if message.contact is not None:
        contact = message.contact
        name = " ".join(filter(None, (contact.first_name, contact.last_name)))
        yield f"contact: {name}, {_international(contact.phone_number)}"

    if message.venue is not None:
        location = message.venue.location
        yield (
            f"place: {message.venue.title}, {message.venue.address} ({location.latitude}, "
            f"{location.longitude})"
        )
    elif message.location is not None:
        yield f"location: {message.location.latitude}, {message.location.longitude}"

    if message.poll is not None:
        yield (
            f"poll: {message.poll.question} "
            f"{' / '.join(option.text for option in message.poll.options)}"
        )

    if message.checklist is not None:
        tasks = " / ".join(task.text for task in message.checklist.tasks)
        yield f"checklist: {message.checklist.title} {tasks}"

    if message.dice is not None:
        yield f"dice {message.dice.emoji}: {message.dice.value}"

    if message.game is not None:
        yield f"game: {message.game.title}"

    if message.story is not None:
        yield "a story, which bots cannot see"

    if message.paid_media is not None:
        yield "paid media, which bots cannot see"


def _named(name: str | None) -> str | None:
    return f"of {name}" if name else None


def _international(number: str) -> str:
    """Add the plus that Telegram omits, so that the number is recognised as one."""
    return number if number.startswith("+") else f"+{number}"


def _attachments(message: Message) -> Iterator[Attachment]:
    if message.photo:
        photo = max(message.photo, key=lambda size: size.width * size.height)
        yield Attachment(
            type=MediaType.IMAGE, ref=photo.file_id, mime="image/jpeg", size=photo.file_size
        )

    if message.voice is not None:
        voice = message.voice
        yield Attachment(
            type=MediaType.AUDIO,
            ref=voice.file_id,
            mime=voice.mime_type or "audio/ogg",
            size=voice.file_size,
        )

    if message.video_note is not None:
        note = message.video_note
        yield Attachment(
            type=MediaType.FILE, ref=note.file_id, mime="video/mp4", size=note.file_size
        )

    # An animation is also sent as a document, for clients without animations.
    files = (message.audio, message.video, message.animation or message.document)
    for file in (each for each in files if each is not None):
        kind = _KINDS.get((file.mime_type or "").partition("/")[0], MediaType.FILE)
        yield Attachment(
            type=kind,
            ref=file.file_id,
            mime=file.mime_type,
            name=file.file_name,
            size=file.file_size,
        )
