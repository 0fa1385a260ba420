"""Content of a Telegram message: its text, its files, and things described in words."""

from __future__ import annotations

from collections.abc import Iterator

from turngate.adapters.telegram import rich_text
from turngate.adapters.telegram.fields import (
    Raw,
    number,
    scrubbed,
    text,
    thing,
    things,
)
from turngate.adapters.telegram.rich_text import Note
from turngate.gateway.domain.messages import Attachment
from turngate.gateway.domain.transcript import MediaType

_KINDS = {"image": MediaType.IMAGE, "audio": MediaType.AUDIO}


def text_of(message: Raw, note: Note = lambda _: None) -> str:
    """
    Return the text or caption, and descriptions of other content in brackets. Empty if there is
    none.
    """
    said = (
        text(message, "text"),
        text(message, "caption"),
        rich_text.words_of(thing(message, "rich_message"), note),
    )
    everything = (*said, *(f"[{each}]" for each in _described(message)))
    return scrubbed("\n".join(filter(None, everything)))


def words_of(message: Raw) -> str:
    """Return the text or caption alone, to which the entities belong."""
    return text(message, "text") or text(message, "caption")


def attachments_of(message: Raw) -> tuple[Attachment, ...]:
    """List the files. Telegram offers several sizes of a picture; the largest is used."""
    shown = [message, *rich_text.media_of(thing(message, "rich_message"))]
    return tuple(attachment for each in shown for attachment in _attachments(each))


def _described(message: Raw) -> Iterator[str]:
    if sticker := thing(message, "sticker"):
        pack = text(sticker, "set_name")
        named = f"of {pack}" if pack else ""
        yield " ".join(filter(None, ("sticker", text(sticker, "emoji"), named)))

    if contact := thing(message, "contact"):
        phone = _international(text(contact, "phone_number"))
        yield f"contact: {full_name(contact)}, {phone}"

    if venue := thing(message, "venue"):
        place = _place(thing(venue, "location"))
        yield f"place: {text(venue, 'title')}, {text(venue, 'address')} ({place})"
    elif location := thing(message, "location"):
        yield f"location: {_place(location)}"

    if poll := thing(message, "poll"):
        options = " / ".join(text(option, "text") for option in things(poll, "options"))
        yield f"poll: {text(poll, 'question')} {options}"

    if checklist := thing(message, "checklist"):
        tasks = " / ".join(text(task, "text") for task in things(checklist, "tasks"))
        yield f"checklist: {text(checklist, 'title')} {tasks}"

    if dice := thing(message, "dice"):
        yield f"dice {text(dice, 'emoji')}: {dice.get('value')}"

    if game := thing(message, "game"):
        yield f"game: {text(game, 'title')}"

    if "story" in message:
        yield "a story, which bots cannot see"

    if "paid_media" in message:
        yield "paid media, which bots cannot see"


def full_name(person: Raw) -> str:
    """Return the first and the last name of a user, a contact or a private chat."""
    return " ".join(filter(None, (text(person, "first_name"), text(person, "last_name"))))


def _place(location: Raw) -> str:
    return f"{location.get('latitude')}, {location.get('longitude')}"


def _international(phone: str) -> str:
    """Add the plus that Telegram omits, so that the number is recognised as one."""
    return phone if phone.startswith("+") else f"+{phone}"


def _attachments(message: Raw) -> Iterator[Attachment]:
    if photos := [each for each in things(message, "photo") if text(each, "file_id")]:
        yield _file(max(photos, key=_area), MediaType.IMAGE, "image/jpeg")

    for name in ("voice", "voice_note"):
        if voice := _with_file(message, name):
            yield _file(voice, MediaType.AUDIO, text(voice, "mime_type") or "audio/ogg")

    if note := _with_file(message, "video_note"):
        yield _file(note, MediaType.FILE, "video/mp4")

    # An animation is also sent as a document, for clients without animations.
    animation = _with_file(message, "animation") or _with_file(message, "document")
    files = _with_file(message, "audio"), _with_file(message, "video"), animation
    for file in filter(None, files):
        mime = text(file, "mime_type") or None
        kind = _KINDS.get((mime or "").partition("/")[0], MediaType.FILE)
        yield _file(file, kind, mime, name=text(file, "file_name") or None)


def _with_file(message: Raw, name: str) -> Raw | None:
    found = thing(message, name)
    return found if text(found, "file_id") else None


def _area(photo: Raw) -> int:
    return (number(photo, "width") or 0) * (number(photo, "height") or 0)


def _file(raw: Raw, kind: MediaType, mime: str | None, name: str | None = None) -> Attachment:
    size = number(raw, "file_size")
    return Attachment(type=kind, ref=text(raw, "file_id"), mime=mime, name=name, size=size)
