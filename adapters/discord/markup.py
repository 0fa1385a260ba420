"""
Markdown as Discord shows it. Discord reads most of it by itself: what it does not know is written in another way.

Tables become code or lists, deep headings become bold, pictures become links, and every fence is one of three
backticks, the only kind that Discord knows. No word gets lost. "@everyone" stays as it was written: that it calls no
one is said beside the text (`allowed_mentions`), and people can copy what they read. Only `<@ID>`, which the gateway
itself has put there, calls a person.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from turngate.adapters.discord.tables import read_table

LARGEST_TEXT = 2000
"""
Discord's servers count code points (https://github.com/discord/discord-api-docs/issues/1315), its clients UTF-16 units.
A text that fits by units fits both ways.
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
    (?<!`)(?P<ticks>`+)(?!`).*?(?<!`)(?P=ticks)(?!`)|\\.  # code, and what stands behind a backslash, stays
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
    """Words as Discord takes them, and the people who are to be called by them: all others are only named."""

    text: str
    users: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        """As the most careful counts."""
        return units(self.text)


def units(text: str) -> int:
    """How many UTF-16 units a text has."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def marked(markdown: str) -> Marked:
    """Convert. What would be nothing after that stays as it was written."""
    text = "\n".join(_converted(_scrubbed(markdown).split("\n"))).strip()
    return (
        Marked(text, tuple(dict.fromkeys(_CALL.findall(text)))[:_MOST_CALLS])
        if text
        else plain(markdown)
    )


def plain(markdown: str) -> Marked:
    """As it was written, every character of it, calling nobody."""
    return Marked(_scrubbed(markdown).strip())


def _scrubbed(text: str) -> str:
    """Half of a character is none, nor is NUL: Discord takes valid text only. It trims what is blank at both ends."""
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
    """A fence. What has more backticks further on is a piece of code inside a line."""
    fence = _FENCE.fullmatch(line) if "```" in line or "~~~" in line else None
    return None if fence and fence["mark"][0] == "`" and "`" in fence["info"] else fence


def _inside(lines: Sequence[str], at: int, opened: re.Match[str]) -> tuple[Sequence[str], int]:
    """The code, and how many lines it takes with its fences. It need not be closed: a quote that ends ends it too."""
    mark, is_quoted = opened["mark"], ">" in opened["before"]
    for number in range(at + 1, len(lines)):
        inner = lines[number].strip(" \t>")
        if inner.startswith(mark) and not inner.strip(mark[0]):
            return lines[at + 1 : number], number - at + 1
        if is_quoted and not lines[number].lstrip().startswith(">"):
            return lines[at + 1 : number], number - at
    return lines[at + 1 :], len(lines) - at


def _code(opened: re.Match[str], lines: Iterable[str]) -> Iterator[str]:
    """Three backticks inside would end it, so that nothing that is seen parts them there."""
    language = _LANGUAGE.match(opened["info"].strip())
    yield f"{opened['before']}```{language[0] if language else ''}"
    for line in lines:
        yield line.replace("```", "`\u200b`\u200b`")
    continued = "".join(each if each in " \t>" else " " for each in opened["before"])
    yield f"{continued}```"


def _level_below(lines: Sequence[str], at: int) -> int:
    """Of a heading of one line that is underlined; 0 if it is none."""
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
    """One line that is no part of anything larger."""
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
        return f"{item['before']}{mark} {_BOXES.get(item['box'] or '', '')}{_inline(line[item.end() :])}"
    return _inline(line)


def _heading(level: int, words: str) -> str:
    if level <= 3:
        return f"{'#' * level} {words}"
    bare = words if "`" in words else words.replace("**", "")
    return words if "**" in bare else f"**{bare}**"


def _inline(text: str) -> str:
    """What stands inside a line."""
    return _INLINE.sub(_other, text) if "![" in text or "||" in text else text


def _other(found: re.Match[str]) -> str:
    """
    Discord shows no picture behind such a mark; a link it opens, and shows what it leads to. Two bars between blanks
    mean "or"; Discord would hide what stands between two pairs of them.
    """
    if found["bars"]:
        return r"\|\|"
    url = found["url"]
    if url is None:
        return found[0]
    words = found["words"].strip()
    return f"[{words}]({url})" if words else url or found[0]
