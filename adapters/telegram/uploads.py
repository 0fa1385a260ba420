"""The kind of message that a file is sent as: pictures and voice are shown, not downloaded."""

from __future__ import annotations

import mimetypes
from collections.abc import Callable
from pathlib import Path
from typing import Any

from aiogram.methods import SendAnimation, SendAudio, SendDocument, SendPhoto, SendVideo, SendVoice
from aiogram.types import FSInputFile

from turngate.adapters.telegram.api import Method
from turngate.adapters.telegram.outgoing import Outgoing

MakeRequest = Callable[[Outgoing], Method]

_LARGEST_PHOTO = 10_000_000
_PHOTOS = {"image/jpeg", "image/png", "image/webp"}
_VOICES = {"audio/ogg", "audio/opus"}
_LONGEST_NAME = 128


def requests_for(path: Path, name: str | None, size: int) -> list[MakeRequest]:
    """List the requests to try, best first; the last one, a document, always exists."""
    shown = _clean(name or path.name)
    kind = mimetypes.guess_type(shown)[0] or ""
    file = FSInputFile(path, filename=shown)
    return [*_closer(file, kind, size), lambda out: SendDocument(document=file, **_common(out))]


def _closer(file: FSInputFile, kind: str, size: int) -> list[MakeRequest]:
    if kind in _PHOTOS and size <= _LARGEST_PHOTO:
        return [lambda out: SendPhoto(photo=file, **_common(out))]
    if kind == "image/gif":
        return [lambda out: SendAnimation(animation=file, **_common(out))]
    if kind in _VOICES:
        return [lambda out: SendVoice(voice=file, **_common(out))]
    if kind in ("audio/mpeg", "audio/mp4"):
        return [lambda out: SendAudio(audio=file, **_common(out))]
    if kind == "video/mp4":
        return [lambda out: SendVideo(video=file, **_common(out))]

    return []


def _common(out: Outgoing) -> dict[str, Any]:
    return {
        "caption": out.words.text or None,
        "caption_entities": out.entities,
        **out.place,
    }


def _clean(name: str) -> str:
    """Make a name safe for a request header: one line, no path."""
    printable = "".join(character for character in name if character.isprintable())
    return printable.rpartition("/")[2][-_LONGEST_NAME:] or "file"
