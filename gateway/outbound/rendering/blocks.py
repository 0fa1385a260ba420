"""
Find the fences and tables in a piece of Markdown.

Of the parser only block rules run, over pieces of about a part's size: it is quadratic in some
inline constructs, and its tokens give the lines of a block, but not where in a line a link is. It
takes some 7 µs a line, so it is used only where fences are in lists, quotes or the like.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

from markdown_it import MarkdownIt
from markdown_it.token import Token

_LINE_END = re.compile(r"\r\n?|\n")
_FENCE_LINE = re.compile(r"(?P<mark>`{3,}|~{3,})(?P<info>.*)\n?")
# A lone \r ends a line for the parser, and what looks like a fence in an HTML block is none.
_NOT_FLAT = re.compile(r"\r|^ {0,3}<", re.MULTILINE)
_TABLE = re.compile(
    r"""
    ^[^\n|]*+\|[^\n]*+\n                                         # the head
    [ \t>]*+\|?[ \t]*+:?-++:?[ \t]*+\|[ \t:|-]*+(?:\n|\Z)       # the rule below it
    (?:[^\n|]*+\|[^\n]*+(?:\n|\Z))*+
    """,
    re.MULTILINE | re.VERBOSE,
)
_BLANK = " \t\r\n>"  # in a quote, an empty line has its mark
# Neither can hold or end a fence.
_PARSER = MarkdownIt("commonmark", {"maxNesting": 20}).disable(
    ["inline", "text_join", "reference", "lheading"]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fence:
    """
    A block of code between two fences, `start` to `end`.

    The code may be cut after `first_visible` and up to `last_visible`, so that both pieces show
    something. A cut needs the lines `closing` and `opening`: they hold the fence's own characters,
    indentation and quote marks.
    """

    start: int
    end: int
    first_visible: int
    last_visible: int
    is_closed: bool
    closing: str
    opening: str
    plain_opening: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocks:
    """The parts of a text that must not be cut like plain lines. Tables are (start, end)."""

    fences: Sequence[Fence] = ()
    tables: Sequence[tuple[int, int]] = ()

    def fence_around(self, position: int) -> Fence | None:
        """Return the fence that a cut here would leave open, or whose lines it would cut."""
        index = bisect_left(self.fences, position, key=lambda fence: fence.start) - 1
        if index < 0:
            return None
        fence = self.fences[index]
        return (
            fence
            if position < fence.end or (position == fence.end and not fence.is_closed)
            else None
        )

    def table_around(self, position: int) -> tuple[int, int] | None:
        """Return the table whose rows a cut here would separate."""
        index = bisect_left(self.tables, position, key=lambda table: table[0]) - 1
        return self.tables[index] if index >= 0 and position < self.tables[index][1] else None


def find_blocks(text: str, shift: int = 0) -> Blocks:
    """Return the fences and tables of a text, with positions moved by `shift`."""
    fences: Sequence[Fence] = ()
    if "```" in text or "~~~" in text:
        flat = flat_fences(text, shift)
        fences = parsed_fences(text, shift) if flat is None else flat
    tables = _TABLE.finditer(text) if "|" in text else ()
    return Blocks(
        fences=fences, tables=[(table.start() + shift, table.end() + shift) for table in tables]
    )


def parsed_fences(text: str, shift: int = 0) -> list[Fence]:
    """Return the fences of any text, also in lists and quotes."""
    lines = [0, *(found.end() for found in _LINE_END.finditer(text))]
    if lines[-1] != len(text):
        lines.append(len(text))
    return [
        _parsed_fence(text, lines, shift, token)
        for token in _PARSER.parse(text)
        if token.type == "fence"
    ]


def flat_fences(text: str, shift: int = 0) -> list[Fence] | None:
    """
    Return the fences of a text that has them only at the beginning of lines; otherwise None.

    Nearly all answers are like that, and the parser would find the same, many times slower.
    """
    if _NOT_FLAT.search(text):
        return None

    fences: list[Fence] = []
    opened: re.Match[str] | None = None
    for line in _FENCE_LINE.finditer(text):
        start = text.rfind("\n", 0, line.start()) + 1
        if opened is not None:
            if _closes(text[start : line.start()], line, opened):
                positions = opened.start(), opened.end(), start, line.end()
                fences.append(_fence(text, shift, positions, opened["mark"]))
                opened = None
        elif start != line.start():
            return None
        # With a backtick behind the opening ones it is inline code (CommonMark).
        elif line["mark"][0] == "~" or "`" not in line["info"]:
            opened = line

    if opened is not None:
        fences.append(
            _fence(
                text, shift, (opened.start(), opened.end(), len(text), len(text)), opened["mark"]
            )
        )

    return fences


def _closes(before: str, line: re.Match[str], opened: re.Match[str]) -> bool:
    is_alone = before in ("", " ", "  ", "   ") and not line["info"].strip(" \t")
    return is_alone and line["mark"].startswith(opened["mark"])


def _parsed_fence(text: str, lines: Sequence[int], shift: int, token: Token) -> Fence:
    first, after = token.map or (0, 0)
    after = min(after, len(lines) - 1)
    code_lines = token.content.count("\n") + (
        not token.content.endswith("\n") and token.content != ""
    )
    is_closed = after - first - 1 > code_lines
    # A fence that is never closed ends with its list or quote; outside of those, with the text.
    end = lines[after] if is_closed or token.level else len(text)
    code_end = lines[after - 1] if is_closed else end

    return _fence(
        text, shift, (lines[first], lines[min(first + 1, after)], code_end, end), token.markup
    )


def _fence(text: str, shift: int, positions: tuple[int, int, int, int], mark: str) -> Fence:
    start, code_start, code_end, end = positions
    code = text[code_start:code_end]
    line = text[start:code_start].rstrip("\r\n")
    before = line[: line.index(mark)]

    return Fence(
        start=start + shift,
        end=end + shift,
        first_visible=code_start + shift + len(code) - len(code.lstrip(_BLANK)),
        last_visible=code_start + shift + len(code.rstrip(_BLANK)) - 1,
        is_closed=code_end < end,
        closing=_continued(before) + mark,
        opening=_reopened(before) + line[len(before) :],
        plain_opening=_reopened(before) + mark,
    )


def _continued(before: str) -> str:
    """Return the prefix for further lines: quote marks stay, list marks become blanks."""
    return re.sub(r"[^>\t]", " ", before)


def _reopened(before: str) -> str:
    """Return the prefix for the first line of a part."""
    # Four blanks there would begin an indented code block, so deep lists get their marks again.
    quotes, mark, indent = _continued(before).expandtabs(4).rpartition(">")
    if mark:
        mark, indent = (mark + " ", indent[1:]) if indent else (mark, "")
    if len(indent) < 4:
        return quotes + mark + indent

    items = "".join("-   " for _ in range(len(indent) // 4))
    return quotes + mark + items + ("", " ", "- ", "-  ")[len(indent) % 4]
