"""
Files as blocks for a model: images inline, short texts as text, anything else as a line that names
it.

Reads files, so it is called in a thread. The type of an image is read from its first bytes: names
and types come from users, and a server refuses a whole request for one image of another type.
"""

from __future__ import annotations

import base64
import os
import stat
from dataclasses import dataclass, replace

from turngate.gateway.agents.plain_text import Marks, described_file, stand_in
from turngate.gateway.domain.messages import Attachment
from turngate.gateway.domain.text import written_size
from turngate.gateway.domain.transcript import MediaType

LARGEST_PICTURE = 3_750_000
"""In bytes: five million of base64, the least that is taken by those whose limits are known."""

LARGEST_TEXT = 64_000
LARGEST_IN_ALL = 15_000_000
"""Of one turn: requests have a largest size, too."""

_TEXT_TYPES = (
    "application/json",
    "application/xml",
    "application/yaml",
    "application/toml",
    "application/x-yaml",
)
_SIGNATURES = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)
# Agents can write to the folder: no link is followed, and a FIFO does not block the thread.
_OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class TextBlock:
    """Text, never blank."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """An image; `content` is base64."""

    mime: str
    content: str


Content = TextBlock | Picture


class Opener:
    """The files of one turn, within a common size limit."""

    def __init__(self, marks: Marks, *, images: bool) -> None:
        self._marks = marks
        self._images = images
        self._left = LARGEST_IN_ALL

    def block(self, file: Attachment) -> Content:
        """Return the block for a file; a line of text if it cannot be read or shown."""
        if file.path is None:
            return TextBlock(stand_in(file, "it is not here"))
        if file.type is MediaType.AUDIO:
            return TextBlock(stand_in(file, "this model is not given sound"))
        try:
            # One byte more than the limit, so that a file that grew after fstat is found too large.
            start, size = read_start(file.path, min(LARGEST_PICTURE, self._left) + 1)
        except OSError:
            return TextBlock(stand_in(file, "it is no longer here"))
        return self._shown(file, start, size)

    def _shown(self, file: Attachment, start: bytes, size: int) -> Content:
        mime = picture_type(start)
        if mime is not None:
            return self._picture(replace(file, mime=mime), start, size)
        text = as_text(start, file.mime) if size <= min(LARGEST_TEXT, self._left) else None
        if text is not None:
            self._left -= size
            return TextBlock(self._marks.enclosed(described_file(file), text))
        return TextBlock(
            stand_in(file, f"{written_size(size)}, not shown: this model cannot open it")
        )

    def _picture(self, file: Attachment, start: bytes, size: int) -> Content:
        if not self._images:
            return TextBlock(stand_in(file, "not shown: this model is not given pictures"))

        most = min(LARGEST_PICTURE, self._left)
        if size > most:
            return TextBlock(
                stand_in(
                    file,
                    f"not shown: {written_size(size)}, and {written_size(most)} is the most here",
                )
            )

        self._left -= size

        return Picture(mime=file.mime or "", content=base64.b64encode(start).decode("ascii"))


def read_start(path: str, most: int) -> tuple[bytes, int]:
    """
    Return up to `most` bytes from the start of a regular file, and its size. Raises OSError.
    """
    descriptor = os.open(path, _OPEN)
    with os.fdopen(descriptor, "rb") as source:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise OSError("not a plain file")
        start = source.read(most)
        return start, max(found.st_size, len(start))


def picture_type(start: bytes) -> str | None:
    """Return the type of an image by its first bytes; None if it is none of the known types."""
    if start[:4] == b"RIFF" and start[8:12] == b"WEBP":
        return "image/webp"
    return next((mime for signature, mime in _SIGNATURES if start.startswith(signature)), None)


def as_text(content: bytes, mime: str | None) -> str | None:
    """Return the content as text; None if its type or its bytes are not those of a text."""
    if mime is not None and not mime.startswith("text/") and mime not in _TEXT_TYPES:
        return None
    if b"\0" in content:
        return None
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return None
