"""
How bots mark text: HTML, MarkdownV2 and the old Markdown of
https://core.telegram.org/bots/api#formatting-options
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.simulators.telegram import rules

Entity = dict[str, Any]

_HTML_TAGS = {
    "b": "bold",
    "strong": "bold",
    "i": "italic",
    "em": "italic",
    "u": "underline",
    "ins": "underline",
    "s": "strikethrough",
    "strike": "strikethrough",
    "del": "strikethrough",
    "tg-spoiler": "spoiler",
    "span": "spoiler",
    "a": "text_link",
    "tg-emoji": "custom_emoji",
    "code": "code",
    "pre": "pre",
    "blockquote": "blockquote",
}
_HTML_CHARACTERS = {"lt": "<", "gt": ">", "amp": "&", "quot": '"'}
_RESERVED = set("_*[]()~`>#+-=|{}.!")
_SPOKEN = {
    "bold": "Bold",
    "italic": "Italic",
    "underline": "Underline",
    "strikethrough": "Strikethrough",
    "spoiler": "Spoiler",
    "code": "Code",
    "pre": "PreCode",
    "text_link": "TextUrl",
    "custom_emoji": "CustomEmoji",
}


@dataclass(slots=True)
class Formatted:
    """What people see."""

    text: str
    entities: list[Entity] = field(default_factory=list)

    @property
    def size(self) -> int:
        """As limits count."""
        return units(self.text)


def units(text: str) -> int:
    """The length in UTF-16 code units."""
    return len(text) + sum(ord(character) > 0xFFFF for character in text)


def read(text: str, parse_mode: str) -> Formatted:
    """The text without its marks. Raises, in Telegram's own words, for what cannot be read."""
    match parse_mode:
        case "html":
            return _Html(text).parsed()
        case "markdownv2":
            return _MarkdownV2(text).parsed()
        case "markdown":
            return _markdown(text)
        case _:
            raise rules.bad("unsupported parse_mode", rules.ENTITIES)


def _unparsable(told: str) -> Exception:
    return rules.bad(f"can't parse entities: {told}", rules.ENTITIES)


@dataclass(slots=True)
class _Open:
    """An entity whose end has not come yet."""

    kind: str
    mark: str
    at: int
    source_at: int
    more: Entity = field(default_factory=dict)


class _Written:
    """What was read so far, and what is open."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.text = ""
        self.size = 0
        self.open: list[_Open] = []
        self.entities: list[Entity] = []

    def write(self, text: str) -> None:
        self.text += text
        self.size += units(text)

    def begin(self, kind: str, mark: str, at: int, **more: object) -> None:
        self.open.append(_Open(kind, mark, self.size, self.byte(at), more))

    def end(self, *, counts: bool = True) -> _Open:
        """Of the newest that is open; some are nothing by themselves."""
        closed = self.open.pop()
        if counts and self.size > closed.at:
            place = {"type": closed.kind, "offset": closed.at, "length": self.size - closed.at}
            self.entities.append(place | closed.more)
        return closed

    def byte(self, at: int) -> int:
        return len(self.source[:at].encode(errors="surrogatepass"))

    def done(self) -> Formatted:
        return Formatted(
            self.text, sorted(self.entities, key=lambda each: (each["offset"], -each["length"]))
        )


class _Html:
    """https://core.telegram.org/bots/api#html-style"""

    _TAG = re.compile(r"<(/?)([a-zA-Z][\w-]*)([^<>]*)>|<(/?)([\w-]*)")
    _ATTRIBUTE = re.compile(r"([\w-]+)(?:\s*=\s*(?:\"([^\"]*)\"|'([^']*)'|(\S+)))?")
    _CHARACTER = re.compile(r"&(#x?[0-9a-fA-F]+|[a-z]+);?")

    def __init__(self, source: str) -> None:
        self._written = _Written(source)

    def parsed(self) -> Formatted:
        source, at = self._written.source, 0
        while at < len(source):
            match source[at]:
                case "<":
                    at = self._tag(at)
                case "&":
                    at = self._character(at)
                case character:
                    self._written.write(character)
                    at += 1
        if self._written.open:
            last = self._written.open[-1]
            raise _unparsable(f'Can\'t find end tag corresponding to start tag "{last.mark}"')
        return self._written.done()

    def _character(self, at: int) -> int:
        found = self._CHARACTER.match(self._written.source, at)
        meant = _meant(found[1]) if found else None
        self._written.write("&" if meant is None else meant)
        return at + 1 if found is None or meant is None else found.end()

    def _tag(self, at: int) -> int:
        found = self._TAG.match(self._written.source, at)
        byte = self._written.byte(at)
        if found is None or found[2] is None:
            raise _unparsable(
                f'Unsupported start tag "{found[5] if found else ""}" at byte offset {byte}'
            )
        name = found[2].lower()
        if found[1]:
            self._close(name, byte)
        else:
            self._begin(name, found[3], at)
        return found.end()

    def _begin(self, name: str, rest: str, at: int) -> None:
        given = {
            each[1].lower(): each[2] or each[3] or each[4] or ""
            for each in self._ATTRIBUTE.finditer(rest)
        }
        byte = self._written.byte(at)
        kind = _HTML_TAGS.get(name)
        if kind is None:
            raise _unparsable(f'Unsupported start tag "{name}" at byte offset {byte}')
        if name == "span" and given.get("class") != "tg-spoiler":
            raise _unparsable(f'Tag "span" must have class "tg-spoiler" at byte offset {byte}')
        self._written.begin(kind, name, at, **_attributes(name, given))

    def _close(self, name: str, byte: int) -> None:
        if not self._written.open:
            raise _unparsable(f"Unexpected end tag at byte offset {byte}")
        expected = self._written.open[-1].mark
        if name != expected:
            told = (
                f'Unmatched end tag at byte offset {byte}, expected "</{expected}>", found '
                f'"</{name}>"'
            )
            raise _unparsable(told)
        outer = self._written.open[-2] if len(self._written.open) > 1 else None
        within_pre = name == "code" and outer is not None and outer.mark == "pre"
        language = self._written.open[-1].more.pop("language", None)
        self._written.end(counts=not within_pre)
        if outer is not None and within_pre and language:
            outer.more["language"] = language


def _attributes(name: str, given: Mapping[str, str]) -> Entity:
    match name:
        case "a":
            return {"url": given.get("href", "")}
        case "tg-emoji":
            return {"custom_emoji_id": given.get("emoji-id", "")}
        case "code" if given.get("class", "").startswith("language-"):
            return {"language": given["class"].removeprefix("language-")}
        case "blockquote" if "expandable" in given:
            return {"type": "expandable_blockquote"}
        case _:
            return {}


def _meant(name: str) -> str | None:
    if not name.startswith("#"):
        return _HTML_CHARACTERS.get(name)
    digits = name[1:]
    code = int(digits[1:], 16) if digits[:1] == "x" else int(digits) if digits.isdecimal() else 0
    return chr(code) if 0 < code < 0x110000 else None


class _MarkdownV2:
    """https://core.telegram.org/bots/api#markdownv2-style"""

    _MARKS = (
        ("__", "underline"),
        ("||", "spoiler"),
        ("*", "bold"),
        ("_", "italic"),
        ("~", "strikethrough"),
    )

    def __init__(self, source: str) -> None:
        self._written = _Written(source)
        self._quote_at: int | None = None

    def parsed(self) -> Formatted:
        source, at = self._written.source, 0
        while at < len(source):
            at = self._step(at)
        if self._written.open:
            last = self._written.open[-1]
            raise _unparsable(
                f"Can't find end of {_SPOKEN[last.kind]} entity at byte offset {last.source_at}"
            )
        self._end_quote()
        return self._written.done()

    def _step(self, at: int) -> int:
        source, written = self._written.source, self._written
        character = source[at]
        if character == "\\" and at + 1 < len(source) and 0 < ord(source[at + 1]) < 127:
            written.write(source[at + 1])
            return at + 2
        if character == "`":
            return self._code(at)
        if self._begins_line(at) and (source.startswith((">", "**>"), at)):
            return self._begin_quote(at)
        if character == "\n":
            self._newline(at)
            return at + 1
        if source.startswith("![", at) or character == "[":
            mark = "![" if character == "!" else "["
            written.begin("custom_emoji" if mark == "![" else "text_link", mark, at)
            return at + len(mark)
        if character == "]" and written.open and written.open[-1].mark in ("[", "!["):
            return self._target(at)
        for mark, kind in self._MARKS:
            if source.startswith(mark, at):
                return self._mark(mark, kind, at)
        if character in _RESERVED:
            raise _unparsable(
                f"Character '{character}' is reserved and must be escaped with the preceding '\\'"
            )
        written.write(character)
        return at + 1

    def _mark(self, mark: str, kind: str, at: int) -> int:
        written = self._written
        if mark == "__" and written.open and written.open[-1].mark == "_":
            mark, kind = "_", "italic"
        if (
            mark == "||"
            and self._quote_at is not None
            and not written.open
            and self._ends_line(at + 2)
        ):
            self._end_quote(expandable=True)
            return at + 2
        if written.open and written.open[-1].mark == mark:
            written.end()
        elif any(each.mark == mark for each in written.open):
            last = written.open[-1]
            raise _unparsable(
                f"Can't find end of {_SPOKEN[last.kind]} entity at byte offset {last.source_at}"
            )
        else:
            written.begin(kind, mark, at)
        return at + len(mark)

    def _code(self, at: int) -> int:
        source, written = self._written.source, self._written
        mark = "```" if source.startswith("```", at) else "`"
        kind, at_mark, at = ("pre" if mark == "```" else "code"), at, at + len(mark)
        language = re.compile(r"([^\s`]+)\n|\n").match(source, at) if kind == "pre" else None
        written.begin(
            kind, mark, at_mark, **({"language": language[1]} if language and language[1] else {})
        )
        at = language.end() if language else at
        while not source.startswith(mark, at):
            if at >= len(source):
                raise _unparsable(
                    f"Can't find end of {_SPOKEN[kind]} entity at byte offset "
                    f"{written.byte(at_mark)}"
                )
            at += source[at] == "\\" and at + 1 < len(source)
            written.write(source[at])
            at += 1
        written.end()
        return at + len(mark)

    def _target(self, at: int) -> int:
        source, written = self._written.source, self._written
        opened = written.open[-1]
        if not source.startswith("](", at):
            if opened.mark == "![":
                raise _unparsable("Custom emoji entity must contain a tg://emoji URL")
            written.open.pop()
            return at + 1
        at, target = at + 2, ""
        while at < len(source) and source[at] != ")":
            at += source[at] == "\\" and at + 1 < len(source)
            target += source[at]
            at += 1
        if at >= len(source):
            raise _unparsable(f"Can't find end of a URL at byte offset {written.byte(at)}")
        if opened.mark == "![":
            opened.more["custom_emoji_id"] = target.removeprefix("tg://emoji?id=")
        else:
            opened.more["url"] = target
        written.end()
        return at + 1

    def _begins_line(self, at: int) -> bool:
        return at == 0 or self._written.source[at - 1] == "\n"

    def _ends_line(self, at: int) -> bool:
        return at >= len(self._written.source) or self._written.source[at] == "\n"

    def _begin_quote(self, at: int) -> int:
        fresh = self._written.source.startswith("**>", at)
        if fresh:
            self._end_quote()
        if self._quote_at is None:
            self._quote_at = self._written.size
        return at + (3 if fresh else 1)

    def _newline(self, at: int) -> None:
        if self._quote_at is not None and not self._written.source.startswith(">", at + 1):
            self._end_quote()
        self._written.write("\n")

    def _end_quote(self, *, expandable: bool = False) -> None:
        if self._quote_at is not None and self._written.size > self._quote_at:
            kind = "expandable_blockquote" if expandable else "blockquote"
            length = self._written.size - self._quote_at
            self._written.entities.append(
                {"type": kind, "offset": self._quote_at, "length": length}
            )
        self._quote_at = None


def _markdown(source: str) -> Formatted:
    """https://core.telegram.org/bots/api#markdown-style: no nesting, no escaping within."""
    written, at = _Written(source), 0
    ends = {
        "```": ("pre", "```"),
        "`": ("code", "`"),
        "*": ("bold", "*"),
        "_": ("italic", "_"),
        "[": ("text_link", "]"),
    }
    while at < len(source):
        if source[at] == "\\" and source[at + 1 : at + 2] in ("_", "*", "`", "["):
            written.write(source[at + 1])
            at += 2
            continue
        mark = next((mark for mark in ends if source.startswith(mark, at)), None)
        if mark is None:
            written.write(source[at])
            at += 1
            continue
        kind, end_mark = ends[mark]
        end = source.find(end_mark, at + len(mark))
        if end < 0:
            raise _unparsable(
                f"Can't find end of the entity starting at byte offset {written.byte(at)}"
            )
        written.begin(kind, mark, at)
        written.write(source[at + len(mark) : end])
        at = end + len(end_mark)
        target = re.compile(r"\(([^)]*)\)").match(source, at) if kind == "text_link" else None
        if kind == "text_link" and target is None:
            written.open.pop()
            continue
        if target is not None:
            written.open[-1].more["url"] = target[1]
            at = target.end()
        written.end()
    return written.done()
