"""
Text as Telegram takes it: https://core.telegram.org/bots/api#formatting-options

Lengths and offsets count UTF-16 code units. `formatted` makes what a bot passed into what people see, or raises in
Telegram's own words; `detected` finds what Telegram finds by itself.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.simulators.telegram import rules

Entity = dict[str, Any]

LONGEST_SOURCE = 1 << 15

_DETECTED = (
    ("url", re.compile(r"\bhttps?://[^\s<>\"']+[^\s<>\"'.,;:!?)]|\b(?:[a-z0-9-]+\.)+(?:com|org|net|io|dev)\b", re.I)),
    ("email", re.compile(r"\b[\w.+-]+@[\w-]+\.[\w.-]*\w")),
    ("bot_command", re.compile(r"(?<![\w/<>])/[A-Za-z0-9_]{1,64}(?:@\w{3,32})?(?![\w/])")),
    ("mention", re.compile(r"(?<![\w@/])@[A-Za-z]\w{2,31}\b")),
    ("hashtag", re.compile(r"(?<![\w#])#\w*[^\W\d]\w*")),
    ("cashtag", re.compile(r"(?<![\w$])\$[A-Z]{1,8}(?!\w)")),
)
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


def formatted(text: str, parse_mode: object, entities: Sequence[Mapping[str, Any]] | None) -> Formatted:
    """The text without its marks, trimmed, with everything in it that is more than letters."""
    if len(text.encode(errors="surrogatepass")) > LONGEST_SOURCE:
        raise rules.bad("text is too long", rules.TEXT)
    mode = str(parse_mode or "").lower()
    if mode in ("", "none"):
        parsed = Formatted(text, [dict(entity) for entity in entities or []])
        _check_places(parsed)
    elif mode == "html":
        parsed = _Html(text).parsed()
    elif mode == "markdownv2":
        parsed = _MarkdownV2(text).parsed()
    elif mode == "markdown":
        parsed = _markdown(text)
    else:
        raise rules.bad("unsupported parse_mode", rules.ENTITIES)
    return detected(_trimmed(_cleaned(parsed)))


def detected(given: Formatted) -> Formatted:
    """With links, mentions, commands and so on, where nothing else is in their place."""
    taken = [(each["offset"], each["offset"] + each["length"]) for each in given.entities if each["type"] in _OPAQUE]
    found = []
    for kind, pattern in _DETECTED:
        for match in pattern.finditer(given.text):
            start = units(given.text[: match.start()])
            end = start + units(match.group())
            if all(end <= begin or start >= stop for begin, stop in taken):
                taken.append((start, end))
                found.append({"type": kind, "offset": start, "length": end - start})
    entities = sorted([*given.entities, *found], key=lambda each: (each["offset"], -each["length"]))
    return Formatted(given.text, entities)


_OPAQUE = {"code", "pre", "text_link", "text_mention", "custom_emoji", *(kind for kind, _ in _DETECTED)}


def _check_places(given: Formatted) -> None:
    """Entities lie within the text and cut no character in two."""
    places, at = set(), 0
    for character in given.text:
        places.add(at)
        at += units(character)
    places.add(at)
    for entity in given.entities:
        start, end = entity["offset"], entity["offset"] + entity["length"]
        if start < 0 or entity["length"] < 0:
            raise rules.bad("receive an entity with incorrect offset or length", rules.ENTITIES)
        if end > at:
            told = f"entity beginning at UTF-16 offset {start} ends after the end of the text at UTF-16 offset {end}"
            raise rules.bad(told, rules.ENTITIES)
        for place, word in ((start, "begins"), (end, "ends")):
            if place not in places:
                told = f"entity beginning at UTF-16 offset {start} {word} in a middle of a UTF-16 symbol"
                raise rules.bad(told, rules.ENTITIES)


def _cleaned(given: Formatted) -> Formatted:
    """Without what Telegram never keeps; entities shrink with it."""
    kept, shift, at = [], list[tuple[int, int]](), 0
    for character in given.text:
        size = units(character)
        new = _kept(character)
        if not new:
            shift.append((at, size))
        kept.append(new)
        at += size
    return Formatted("".join(kept), [_moved(entity, shift) for entity in given.entities])


def _kept(character: str) -> str:
    code = ord(character)
    if character == "\r" or 0x2028 <= code <= 0x202E or code in (0x333, 0x33F, 0x30A):
        return ""
    if 0xD800 <= code <= 0xDFFF:
        return "?"
    return " " if code < 32 and character != "\n" else character


def _moved(entity: Entity, removed: list[tuple[int, int]]) -> Entity:
    start, end = entity["offset"], entity["offset"] + entity["length"]
    before = sum(size for at, size in removed if at < start)
    within = sum(size for at, size in removed if start <= at < end)
    return entity | {"offset": start - before, "length": entity["length"] - within}


def _trimmed(given: Formatted) -> Formatted:
    """Without white space at either end. Entities that are empty then are gone."""
    text = given.text.strip(" \n")
    lead = units(given.text[: len(given.text) - len(given.text.lstrip(" \n"))]) if text else 0
    end, entities = units(text), []
    for entity in given.entities:
        start = max(0, entity["offset"] - lead)
        stop = min(end, entity["offset"] + entity["length"] - lead)
        if stop > start:
            entities.append(entity | {"offset": start, "length": stop - start})
    return Formatted(text, entities)


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

    def end(self) -> _Open:
        closed = self.open.pop()
        if self.size > closed.at:
            place = {"type": closed.kind, "offset": closed.at, "length": self.size - closed.at}
            self.entities.append(place | closed.more)
        return closed

    def byte(self, at: int) -> int:
        return len(self.source[:at].encode(errors="surrogatepass"))

    def done(self) -> Formatted:
        return Formatted(self.text, sorted(self.entities, key=lambda each: (each["offset"], -each["length"])))


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
            raise _unparsable(f'Unsupported start tag "{found[5] if found else ""}" at byte offset {byte}')
        name = found[2].lower()
        if found[1]:
            self._close(name, byte)
        else:
            self._begin(name, found[3], at)
        return found.end()

    def _begin(self, name: str, rest: str, at: int) -> None:
        given = {each[1].lower(): each[2] or each[3] or each[4] or "" for each in self._ATTRIBUTE.finditer(rest)}
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
            told = f'Unmatched end tag at byte offset {byte}, expected "</{expected}>", found "</{name}>"'
            raise _unparsable(told)
        closed = self._written.end()
        language = closed.more.pop("language", None)
        outer = self._written.open[-1] if self._written.open else None
        if closed.mark == "code" and language and outer is not None and outer.mark == "pre":
            outer.more["language"] = language
        if closed.mark == "code" and outer is not None and outer.mark == "pre" and self._written.entities:
            self._written.entities.pop()


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

    _MARKS = (("__", "underline"), ("||", "spoiler"), ("*", "bold"), ("_", "italic"), ("~", "strikethrough"))

    def __init__(self, source: str) -> None:
        self._written = _Written(source)
        self._quote_at: int | None = None

    def parsed(self) -> Formatted:
        source, at = self._written.source, 0
        while at < len(source):
            at = self._step(at)
        if self._written.open:
            last = self._written.open[-1]
            raise _unparsable(f"Can't find end of {_SPOKEN[last.kind]} entity at byte offset {last.source_at}")
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
            raise _unparsable(f"Character '{character}' is reserved and must be escaped with the preceding '\\'")
        written.write(character)
        return at + 1

    def _mark(self, mark: str, kind: str, at: int) -> int:
        written = self._written
        if mark == "__" and written.open and written.open[-1].mark == "_":
            mark, kind = "_", "italic"
        if mark == "||" and self._quote_at is not None and not written.open and self._ends_line(at + 2):
            self._end_quote(expandable=True)
            return at + 2
        if written.open and written.open[-1].mark == mark:
            written.end()
        elif any(each.mark == mark for each in written.open):
            last = written.open[-1]
            raise _unparsable(f"Can't find end of {_SPOKEN[last.kind]} entity at byte offset {last.source_at}")
        else:
            written.begin(kind, mark, at)
        return at + len(mark)

    def _code(self, at: int) -> int:
        source, written = self._written.source, self._written
        mark = "```" if source.startswith("```", at) else "`"
        kind, at_mark, at = ("pre" if mark == "```" else "code"), at, at + len(mark)
        language = re.compile(r"([^\s`]+)\n|\n").match(source, at) if kind == "pre" else None
        written.begin(kind, mark, at_mark, **({"language": language[1]} if language and language[1] else {}))
        at = language.end() if language else at
        while not source.startswith(mark, at):
            if at >= len(source):
                raise _unparsable(f"Can't find end of {_SPOKEN[kind]} entity at byte offset {written.byte(at_mark)}")
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
            self._written.entities.append({"type": kind, "offset": self._quote_at, "length": length})
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
            raise _unparsable(f"Can't find end of the entity starting at byte offset {written.byte(at)}")
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
