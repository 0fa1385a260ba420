"""
A text as a reader takes it in: without invisible characters, and with every digit and letter in its
plain form. Pure.

Ids and numbers are searched for in the folded text, and replaced in the text as it was written.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass

# Marks that are put over, under or around any character, such as the keycap. The marks of Arabic,
# Hebrew or Thai are left: there they belong to words.
_MARKS = (
    range(0x0300, 0x0370),
    range(0x1AB0, 0x1B00),
    range(0x1DC0, 0x1E00),
    range(0x20D0, 0x2100),
    range(0xFE20, 0xFE30),
)
# Characters that show nothing and are no format characters to Unicode.
_UNSEEN = frozenset(
    (0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x2800, 0x3164, 0xFFA0, *range(0x180B, 0x1810))
) | frozenset((*range(0xFE00, 0xFE10), *range(0xFFF0, 0xFFF9), *range(0xE0000, 0xE1000)))
_PLUS = frozenset("\u2795\u29fe\ua71d")
_KEPT_CONTROLS = frozenset("\t\n\v\f\r\x1c\x1d\x1e\x1f\x85")
_OPAQUE = "\0"
# As JSON in a text writes a character; one beyond the first 65,536 as two.
_ESCAPE = re.compile(
    r"\\u[dD][89abAB][0-9A-Fa-f]{2}\\u[dD][c-fC-F][0-9A-Fa-f]{2}|\\u[0-9A-Fa-f]{4}"
)
_MOST_CACHED = 20_000

# Letters and digits that are written with tag characters: models read them, and people do not.
TAGGED = re.compile("[\U000e0020-\U000e007e]+")
_FROM_TAGS = {code: code - 0xE0000 for code in range(0xE0020, 0xE007F)}


class _Folds(dict[int, str | int]):
    """What each character becomes, for `str.translate`; computed when it is first met."""

    def __missing__(self, code: int) -> str | int:
        # A text made of all characters there are must not fill the memory.
        if len(self) > _MOST_CACHED:
            self.clear()
        folded = _folded(code)
        self[code] = found = code if folded == chr(code) else folded
        return found


def _folded(code: int) -> str:
    """Return what a reader sees in a character; nothing if it is invisible."""
    char = chr(code)
    if code < 0x80:
        return "" if (code < 0x20 and char not in _KEPT_CONTROLS) or code == 0x7F else char
    if code in _UNSEEN or any(code in each for each in _MARKS):
        return ""

    digit = unicodedata.digit(char, None)
    if digit is not None:
        return str(digit)
    if char in _PLUS:
        return "+"
    if unicodedata.category(char) in ("Cc", "Cf", "Cs") and char not in _KEPT_CONTROLS:
        return ""

    # The signs that a compatibility form puts into a text are no part of a word: "½" is "1⁄2".
    return unicodedata.normalize("NFKC", char)


_FOLDS = _Folds()


@dataclass(frozen=True, slots=True)
class FoldedText:
    """A folded text, and for each of its characters where it is written."""

    text: str
    starts: tuple[int, ...]
    ends: tuple[int, ...]
    written: str

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Return where a part of the folded text is written, with the marks on its last sign."""
        last = self.ends[end - 1]
        after = self.starts[end] if end < len(self.starts) else len(self.written)
        while last < after and _is_mark(ord(self.written[last])):
            last += 1
        return self.starts[start], last


def fold(written: str, opaque: Callable[[str], Iterator[re.Match[str]]]) -> FoldedText | None:
    """
    Fold a text; None if that changes nothing. What `opaque` finds becomes one character, so that
    nothing is found in it or across it.
    """
    if "\\u" not in written:
        if written.isascii() and written.isprintable():
            return None
        if written.translate(_FOLDS) == written:
            return None

    folding = _Folding()
    at = 0
    for found in opaque(written):
        folding.add(written[at : found.start()], at)
        folding.put(_OPAQUE, found.start(), found.end())
        at = found.end()
    folding.add(written[at:], at)

    return FoldedText("".join(folding.pieces), tuple(folding.starts), tuple(folding.ends), written)


def from_tags(text: str) -> str:
    """Return the text that is written with tag characters."""
    return text.translate(_FROM_TAGS)


class _Folding:
    """A folded text that grows."""

    def __init__(self) -> None:
        self.pieces: list[str] = []
        self.starts: list[int] = []
        self.ends: list[int] = []

    def add(self, part: str, offset: int) -> None:
        """Add a part of the text as it is written."""
        at = 0
        for escape in _ESCAPE.finditer(part):
            self._add_plain(part[at : escape.start()], offset + at)
            shown = _shown(json.loads(f'"{escape[0]}"'))
            self.put(shown, offset + escape.start(), offset + escape.end())
            at = escape.end()
        self._add_plain(part[at:], offset + at)

    def put(self, shown: str, start: int, end: int) -> None:
        """Add what stands for the text between two positions."""
        self.pieces.append(shown)
        self.starts += [start] * len(shown)
        self.ends += [end] * len(shown)

    def _add_plain(self, part: str, offset: int) -> None:
        for position, char in enumerate(part, start=offset):
            self.put(_shown(char), position, position + 1)


def _shown(char: str) -> str:
    folded = _FOLDS[ord(char)]
    return folded if isinstance(folded, str) else char


def _is_mark(code: int) -> bool:
    return 0xFE00 <= code < 0xFE10 or any(code in each for each in _MARKS)
