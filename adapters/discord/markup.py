"""
Markdown as Discord shows it. Discord reads most of it; what it does not support is rewritten.

Tables become code or lists, deep headings bold, pictures links, and every fence three backticks,
the only kind Discord knows. No text is lost. "@everyone" stays as written: `allowed_mentions` keeps
it from mentioning, and users can copy it. Only `<@ID>`, which the gateway itself inserts, mentions
a user.
"""

from __future__ import annotations

import re
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
_HEADING = re.compile(r" {0,3}(#{1,6})[ \t]+(.*?)(?:[ \t]+#+)?[ \t]*")
_RULE = re.compile(r" {0,3}(?:-[ \t]*){3,}+| {0,3}(?:\*[ \t]*){3,}+| {0,3}(?:_[ \t]*){3,}+")
_UNDERLINE = re.compile(r" {0,3}(={2,}|-{2,})[ \t]*")
_NO_TITLE = re.compile(r"[ \t]*(?:$|[#>|]|[-*+][ \t]|\d{1,9}[.)][ \t])| {4}|\t")
_QUOTE = re.compile(r" {0,3}>(?:[ \t]?>)*[ \t]?")
_ITEM = re.compile(r"(?P<before>[ \t]*)(?P<mark>[-*+])[ \t]+(?:\[(?P<box>[ xX])\][ \t]+)?(?=\S)")
_INLINE = re.compile(
    r"""
    (?<!`)(?P<ticks>`+)(?!`).*?(?<!`)(?P=ticks)(?!`)|\\.  # code, and escaped characters
    |(?P<bars>(?<=\s)\|\|(?=\s))
    |!\[(?P<words>(?:[^\[\]]|\[[^\[\]]*\])*)\]
    \((?P<url><[^<>]*>|[^\s()]*(?:\([^\s()]*\)[^\s()]*)*)(?:[ \t]+[^()]*)?\)
    """,
    re.VERBOSE,
)
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
    if first == "#" and (heading := _HEADING.fullmatch(line)) and heading[2]:
        return _heading(len(heading[1]), _inline(heading[2]))
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


def _inline(text: str) -> str:
    return _INLINE.sub(_other, text) if "![" in text or "||" in text else text


def _other(found: re.Match[str]) -> str:
    """
    Turn a picture into a link, and escape bars between blanks, which would hide text as a spoiler.
    """
    if found["bars"]:
        return r"\|\|"

    url = found["url"]
    if url is None:
        return found[0]

    words = found["words"].strip()
    return f"[{words}]({url})" if words else url or found[0]
