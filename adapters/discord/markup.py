"""
Markdown as Discord shows it. Discord reads most of it; what it does not support is rewritten.

Tables become code or lists, deep headings bold, pictures links, and every fence three backticks,
the only kind Discord knows. No text is lost. "@everyone" stays as written: `allowed_mentions` keeps
it from mentioning, and users can copy it. Only `<@ID>`, which the gateway itself inserts, mentions
a user.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from turngate.adapters.discord.tables import read_table

LARGEST_TEXT = 2000
"""
Discord's servers count code points (https://github.com/discord/discord-api-docs/issues/1315), its
clients UTF-16 units. A text that fits by units fits both ways.
"""

_MOST_CALLS = 100
_CALL = re.compile(r"<@(\d{1,20})>")
# In front of a fence there may be quote marks and the mark of a list.
_FENCE = re.compile(
    r"(?P<before>[ \t>]*+(?:(?:[-*+]|\d{1,9}[.)])[ \t]++)?)(?P<mark>`{3,}+|~{3,}+)(?P<info>.*)"
)
_LANGUAGE = re.compile(r"[A-Za-z0-9_+.#-]+")
_HEADING = re.compile(r" {0,3}(#{1,6})[ \t]++(.*)")
_RULE = re.compile(r" {0,3}(?:-[ \t]*){3,}+| {0,3}(?:\*[ \t]*){3,}+| {0,3}(?:_[ \t]*){3,}+")
_UNDERLINE = re.compile(r" {0,3}(={2,}|-{2,})[ \t]*")
_NO_TITLE = re.compile(r"[ \t]*(?:$|[#>|]|[-*+][ \t]|\d{1,9}[.)][ \t])| {4}|\t")
_QUOTE = re.compile(r" {0,3}>(?:[ \t]?>)*[ \t]?")
_ITEM = re.compile(r"(?P<before>[ \t]*)(?P<mark>[-*+])[ \t]+(?:\[(?P<box>[ xX])\][ \t]+)?(?=\S)")
# What an agent writes can be long and ugly: every loop here is possessive (`++`), so that a text
# that does not match costs no more than one that does.
_MARK = re.compile(r"`++|\\.|(?<=\s)\|\|(?=\s)|!\[")
_PICTURE = re.compile(
    r"""
    !\[(?P<words>(?:[^\[\]]|\[[^\[\]]*+\])*+)\]
    \((?P<url><[^<>]*+>|[^\s()]*+(?:\([^\s()]*+\)[^\s()]*+)*+)(?:[ \t]++[^()]*+)?+\)
    """,
    re.VERBOSE,
)
_TICKS = re.compile(r"`++")
_LINE = "─" * 10
_BOXES = {" ": "☐ ", "x": "☑ ", "X": "☑ "}


@dataclass(frozen=True, slots=True)
class Marked:
    """Text for Discord, and the users it mentions."""

    text: str
    users: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        """Length in UTF-16 units, the stricter count."""
        return units(self.text)


def units(text: str) -> int:
    """Count the UTF-16 units of a text."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def marked(markdown: str) -> Marked:
    """Convert. A text that would be empty after conversion stays as written."""
    text = "\n".join(_converted(_scrubbed(markdown).split("\n"))).strip()
    return (
        Marked(text, tuple(dict.fromkeys(_CALL.findall(text)))[:_MOST_CALLS])
        if text
        else plain(markdown)
    )


def plain(markdown: str) -> Marked:
    """Return the text as written, without mentions."""
    return Marked(_scrubbed(markdown).strip())


def _scrubbed(text: str) -> str:
    """Replace lone surrogates and NUL, which Discord rejects, and unify line ends."""
    return (
        text.encode("utf-8", "replace")
        .decode()
        .replace("\r\n", "\n")
        .replace("\r", "\n")
        .replace("\0", "\ufffd")
    )


def _converted(lines: Sequence[str]) -> Iterator[str]:
    at = 0
    while at < len(lines):
        line = lines[at]
        if opened := _opened(line):
            code, length = _inside(lines, at, opened)
            yield from _code(opened, code)
            at += length
        elif table := read_table(lines, at):
            yield from table.shown()
            at += table.lines
        elif level := _level_below(lines, at):
            yield _heading(level, _inline(line.strip()))
            at += 2
        else:
            yield _rewritten(line)
            at += 1


def _opened(line: str) -> re.Match[str] | None:
    """Match an opening fence. With backticks later in the line it is inline code."""
    fence = _FENCE.fullmatch(line) if "```" in line or "~~~" in line else None
    return None if fence and fence["mark"][0] == "`" and "`" in fence["info"] else fence


def _inside(lines: Sequence[str], at: int, opened: re.Match[str]) -> tuple[Sequence[str], int]:
    """
    Return the code and its line count with fences. An unclosed fence ends with its quote or the
    text.
    """
    mark = opened["mark"]
    is_quoted = ">" in opened["before"]
    for number in range(at + 1, len(lines)):
        inner = lines[number].strip(" \t>")
        if inner.startswith(mark) and not inner.strip(mark[0]):
            return lines[at + 1 : number], number - at + 1
        if is_quoted and not lines[number].lstrip().startswith(">"):
            return lines[at + 1 : number], number - at

    return lines[at + 1 :], len(lines) - at


def _code(opened: re.Match[str], lines: Iterable[str]) -> Iterator[str]:
    """Yield a code block; zero-width spaces part three backticks inside it."""
    language = _LANGUAGE.match(opened["info"].strip())
    yield f"{opened['before']}```{language[0] if language else ''}"
    for line in lines:
        yield line.replace("```", "`\u200b`\u200b`")
    continued = "".join(each if each in " \t>" else " " for each in opened["before"])
    yield f"{continued}```"


def _level_below(lines: Sequence[str], at: int) -> int:
    """Return the level of an underlined heading; 0 if it is none."""
    if (
        at + 1 >= len(lines)
        or lines[at + 1].lstrip(" ")[:1] not in ("=", "-")
        or _NO_TITLE.match(lines[at])
    ):
        return 0
    is_first = at == 0 or not lines[at - 1].strip()
    underline = _UNDERLINE.fullmatch(lines[at + 1]) if is_first else None
    return 0 if underline is None else 1 if underline[1][0] == "=" else 2


def _rewritten(line: str) -> str:
    """Rewrite a single line."""
    first = line.lstrip(" \t")[:1]
    if first == "#" and (heading := _HEADING.fullmatch(line)) and (title := _title(heading[2])):
        return _heading(len(heading[1]), _inline(title))
    if first in ("-", "*", "_") and _RULE.fullmatch(line):
        return _LINE
    if first == ">":
        quote = _QUOTE.match(line)
        return line if quote is None else f"> {_inline(line[quote.end() :])}"

    if first in ("-", "*", "+") and (item := _ITEM.match(line)):
        mark = "-" if item["mark"] == "+" else item["mark"]
        return (
            f"{item['before']}{mark} "
            f"{_BOXES.get(item['box'] or '', '')}{_inline(line[item.end() :])}"
        )

    return _inline(line)


def _heading(level: int, words: str) -> str:
    if level <= 3:
        return f"{'#' * level} {words}"
    bare = words if "`" in words else words.replace("**", "")
    return words if "**" in bare else f"**{bare}**"


def _title(words: str) -> str:
    """Return the text of a heading without the marks that may close it."""
    bare = words.rstrip(" \t")
    without = bare.rstrip("#")
    return without.rstrip(" \t") if without != bare and without[-1:] in (" ", "\t") else bare


def _inline(text: str) -> str:
    """
    Turn pictures into links, and escape bars between blanks, which would hide text as a spoiler.
    Code and escaped characters stay.
    """
    if "![" not in text and "||" not in text:
        return text

    ends = _CodeEnds(text)
    written: list[str] = []
    at = 0
    while found := _MARK.search(text, at):
        written.append(text[at : found.start()])
        at = ends.after(found) if found[0][0] == "`" else found.end()
        picture = _PICTURE.match(text, found.start()) if found[0] == "![" else None
        if picture is not None:
            at = picture.end()
            written.append(_linked(picture))
        else:
            written.append(r"\|\|" if found[0] == "||" else text[found.start() : at])

    return "".join((*written, text[at:]))


class _CodeEnds:
    """Where inline code ends: at the next run of as many backticks. Each run is looked at once."""

    def __init__(self, text: str) -> None:
        self._runs: dict[int, deque[int]] = {}
        for run in _TICKS.finditer(text):
            self._runs.setdefault(len(run[0]), deque()).append(run.start())

    def after(self, opened: re.Match[str]) -> int:
        """Return where the code that begins here ends, or the backticks, if it is none."""
        length = len(opened[0])
        runs = self._runs.get(length, deque())
        while runs and runs[0] < opened.end():
            runs.popleft()
        return runs[0] + length if runs else opened.end()


def _linked(picture: re.Match[str]) -> str:
    url = picture["url"]
    words = picture["words"].strip()
    return f"[{words}]({url})" if words else url or picture[0]
