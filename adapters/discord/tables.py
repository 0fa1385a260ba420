"""
Tables, which Discord does not support: a code block if narrow, otherwise a list of rows.

Mentions and formatting do not work in code, so a table with mentions becomes a list too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from unicodedata import category, east_asian_width

WIDEST = 72
"""
Columns of a screen. A wider drawing is broken into pieces on a telephone, and on most other
screens.
"""

_RULE = re.compile(r"[ \t]*+\|?(?:[ \t]*+:?-++:?[ \t]*+\|)*+(?:[ \t]*+:?-++:?[ \t]*+)?")
_BAR = re.compile(r"(?<!\\)\|")
_LINK = re.compile(r"!?\[([^\[\]]*)\]\(<?([^\s()<>]*)>?\)")
_MARKS = re.compile(r"(?<![\w\\])(\*\*\*|\*\*|\*|___|__|_|~~|``|`)(?=\S)(.{1,300}?)(?<=\S)\1(?!\w)")
_MARK = re.compile(r"[*_~`\[]")
_BREAK = re.compile(r"<br ?/?>", re.IGNORECASE)
_NOT_FOR_CODE = re.compile(r"```|<@")
_WIDE = ("W", "F")
_NO_WIDTH = ("Mn", "Me", "Cf")


@dataclass(frozen=True, slots=True)
class Table:
    """
    The cells as written, header first, and which columns are right-aligned. Rows may have fewer or
    more cells than the header: filling them up would cost the product of rows and columns.
    """

    rows: tuple[tuple[str, ...], ...]
    right_aligned: tuple[bool, ...]
    lines: int

    def shown(self) -> Iterator[str]:
        """Yield the lines of Discord's Markdown."""
        cells = [[_bare(cell) for cell in row] for row in self.rows]
        widths = _widths(cells)
        fits = sum(widths) + 3 * (len(widths) - 1) <= WIDEST
        if fits and not any(_NOT_FOR_CODE.search(cell) for row in self.rows for cell in row):
            yield from self._as_code(cells, widths)
        else:
            yield from self._as_list(cells[0])

    def _as_code(self, cells: Sequence[Sequence[str]], widths: Sequence[int]) -> Iterator[str]:
        yield "```"
        for number, row in enumerate(cells):
            columns = zip_longest(row, widths, self.right_aligned, fillvalue="")
            yield " | ".join(
                _padded(cell, int(width), bool(align)) for cell, width, align in columns
            ).rstrip()
            if number == 0:
                yield "-+-".join("-" * width for width in widths)
        yield "```"

    def _as_list(self, names: Sequence[str]) -> Iterator[str]:
        """
        Yield each row with the names of its columns. Long names are written once, as they would
        otherwise be repeated in every row.
        """
        head, *rows = self.rows
        is_short = all(len(name) <= WIDEST for name in names)
        if not rows or not is_short:
            yield f"- {' · '.join(filter(None, head))}"
        shown = dict(enumerate(names)) if is_short else {}
        for row in rows:
            named = (
                f"**{shown[number]}:** {cell}" if shown.get(number) else cell
                for number, cell in enumerate(row)
                if cell
            )
            yield f"- {' · '.join(named)}"


def _widths(cells: Sequence[Sequence[str]]) -> list[int]:
    widths: list[int] = []
    for row in cells:
        widths += [0] * (len(row) - len(widths))
        for number, cell in enumerate(row):
            widths[number] = max(widths[number], _width(cell))
    return widths


def read_table(lines: Sequence[str], at: int) -> Table | None:
    """Parse the table that begins at line `at`; None if there is none."""
    if "|" not in lines[at] or at + 1 >= len(lines) or not _is_rule(lines[at + 1]):
        return None

    head = _cells(lines[at])
    rule = _cells(lines[at + 1])
    if len(head) != len(rule) or not any(head):
        return None

    rows = [head]
    while at + len(rows) + 1 < len(lines) and "|" in (line := lines[at + len(rows) + 1]):
        rows.append(_cells(line))

    aligned = tuple(cell.endswith(":") and not cell.startswith(":") for cell in rule)
    return Table(rows=tuple(rows), right_aligned=aligned, lines=len(rows) + 1)


def _is_rule(line: str) -> bool:
    return "-" in line and "|" in line and _RULE.fullmatch(line) is not None


def _cells(line: str) -> tuple[str, ...]:
    """Split a row without its outer bars. An escaped bar belongs to the cell."""
    inner = line.strip().removeprefix("|")
    inner = inner[:-1] if inner.endswith("|") and not inner.endswith("\\|") else inner
    return tuple(_BREAK.sub(" ", cell).strip().replace("\\|", "|") for cell in _BAR.split(inner))


def _bare(cell: str) -> str:
    """Remove Markdown, which code shows literally; a link is followed by its address."""
    return _MARKS.sub(_unmarked, _LINK.sub(_address, cell)) if _MARK.search(cell) else cell


def _unmarked(found: re.Match[str]) -> str:
    """Remove nested marks, except inside code."""
    mark, words = found.groups()
    return words if "`" in mark else _MARKS.sub(_unmarked, words)


def _address(link: re.Match[str]) -> str:
    words, url = link.groups()
    return f"{words} ({url})" if words and words != url else url


def _padded(cell: str, width: int, align_right: bool) -> str:
    room = " " * (width - _width(cell))
    return room + cell if align_right else cell + room


def _width(text: str) -> int:
    """Return the width in screen columns."""
    if text.isascii():
        return len(text)
    return sum(
        2 if east_asian_width(each) in _WIDE else category(each) not in _NO_WIDTH for each in text
    )
