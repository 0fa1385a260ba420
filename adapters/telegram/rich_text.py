"""
Rich messages of users as Markdown: headings, lists, tables, formulas, quotations.

A block or an inline type that is not known here is searched for its texts: no words are lost
because Telegram has a new kind of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from turngate.adapters.telegram.fields import (
    Raw,
    flag,
    number,
    scrubbed,
    text,
    thing,
    things,
)

Note = Callable[[str], None]
"""Is told the name of what is not known."""

_SIMPLE = {
    "bold",
    "italic",
    "underline",
    "strikethrough",
    "spoiler",
    "date_time",
    "text_mention",
    "subscript",
    "superscript",
    "marked",
    "phone_number",
    "bank_card_number",
    "email_address",
    "mention",
    "hashtag",
    "cashtag",
    "bot_command",
    "anchor_link",
    "reference",
    "reference_link",
}
_MEDIA = {"animation", "audio", "photo", "video", "voice_note", "document"}
_CALLS = {"mention", "text_mention", "bot_command"}
# fmt: off
# Every field of the types above. What a later version adds to them is searched for texts, too.
_KNOWN_FIELDS = frozenset((
    "alternative_text", "anchor_name", "animation", "audio", "align", "bank_card_number", "blocks",
    "bot_command", "button", "buttons", "callback_data", "caption", "cashtag", "cells", "colspan",
    "copy_text", "credit", "custom_emoji_id", "date_time_format", "disabled", "document",
    "email_address", "expression", "has_checkbox", "has_spoiler", "hashtag", "height",
    "is_bordered", "is_checked", "is_compact", "is_header", "is_open", "is_rtl", "is_striped",
    "items", "label", "language", "location", "login_url", "name", "phone_number", "photo",
    "reference_name", "rowspan", "size", "style", "summary", "switch_inline_query",
    "switch_inline_query_chosen_chat", "switch_inline_query_current_chat", "text", "type",
    "unix_time", "url", "user", "username", "valign", "value", "video", "voice_note", "web_app",
    "width", "zoom",
))
# fmt: on
# What strings of an unknown object are not for reading.
_NO_WORDS = {"type", "url", "language", "align", "valign", "style", "mime_type", "callback_data"}
_LARGEST_HEADING = 6


def words_of(message: Raw, note: Note) -> str:
    """Return the text of a rich message, or an empty one."""
    return _joined(_blocks(message.get("blocks"), note), _added(message, note))


def media_of(message: Raw) -> Iterator[Raw]:
    """Yield the blocks that show a file, at any depth. Their fields are named as in a message."""
    return (each for each in _objects(message) if text(each, "type") in _MEDIA)


def calls_of(message: Raw) -> Iterator[Raw]:
    """Yield what calls somebody: mentions and commands, in order."""
    return (each for each in _objects(message) if text(each, "type") in _CALLS)


def begins_with_command(message: Raw) -> bool:
    """Return whether the first word of the message is a command."""
    first: Any = next(iter(things(message, "blocks")), {}).get("text")
    while isinstance(first, list) and first:
        first = first[0]
    return isinstance(first, Mapping) and first.get("type") == "bot_command"


def inline(written: Any, note: Note = lambda _: None) -> str:
    """Return the words of a RichText: a text, a list, or an object of many types."""
    if isinstance(written, str):
        return scrubbed(written)
    if isinstance(written, list):
        return "".join(inline(each, note) for each in written)
    if not isinstance(written, Mapping):
        return ""
    return " ".join(filter(None, (_inline(written, note), _added(written, note))))


def _inline(written: Raw, note: Note) -> str:
    kind = text(written, "type")
    said = inline(written.get("text"), note)
    match kind:
        case "code":
            return f"`{said}`"
        case "url":
            url = text(written, "url")
            return said if said == url or not url else f"[{said}]({url})"
        case "custom_emoji":
            return text(written, "alternative_text")
        case "mathematical_expression":
            return f"${text(written, 'expression')}$"
        case "button":
            return _button(thing(written, "button"), note)
        case "anchor":
            return ""
        case _ if kind in _SIMPLE:
            return said

    note(f"rich_text.{kind}")
    return " ".join(_strings(_known(written)))


def _blocks(written: Any, note: Note, between: str = "\n\n") -> str:
    if not isinstance(written, list):
        return " ".join(_strings(written))
    found = (
        _joined(_block(each, note), _added(each, note))
        if isinstance(each, Mapping)
        else " ".join(_strings(each))
        for each in written
    )
    return between.join(each for each in found if each.strip())


def _block(block: Raw, note: Note) -> str:
    kind = text(block, "type")
    said = inline(block.get("text"), note)
    match kind:
        case "paragraph" | "footer" | "thinking":
            return said
        case "heading":
            size = min(max(number(block, "size") or 1, 1), _LARGEST_HEADING)
            return f"{'#' * size} {said}"
        case "pre":
            end = "" if said.endswith("\n") else "\n"
            return f"```{text(block, 'language')}\n{said}{end}```"
        case "divider":
            return "---"
        case "mathematical_expression":
            return f"$$\n{text(block, 'expression')}\n$$"
        case "anchor":
            return ""
        case "list":
            return "\n".join(_item(each, note) for each in things(block, "items"))
        case "table":
            return _table(block, note)
        case "details":
            summary = inline(block.get("summary"), note)
            return _joined(summary, _blocks(block.get("blocks"), note))
        case "blockquote" | "expandable_blockquote" | "pullquote":
            return _quotation(block, said, note)
        case "collage" | "slideshow":
            return _joined(_blocks(block.get("blocks"), note), _caption(block, note))
        case "map":
            at = thing(block, "location")
            place = f"[map: {at.get('latitude')}, {at.get('longitude')}]"
            return _joined(place, _caption(block, note))
        case "buttons":
            return " ".join(_button(each, note) for each in things(block, "buttons"))
        case _ if kind in _MEDIA:
            return _caption(block, note)

    note(f"rich_block.{kind}")
    return " ".join(_strings(_known(block)))


def _button(button: Raw, note: Note) -> str:
    return f"[{inline(button.get('text'), note)}]{_added(button, note)}"


def _item(item: Raw, note: Note) -> str:
    """Return an item with its label; what it contains is indented below it."""
    box = ("[x] " if flag(item, "is_checked") else "[ ] ") if flag(item, "has_checkbox") else ""
    label = text(item, "label") or "-"
    inside = _blocks(item.get("blocks"), note, between="\n").replace("\n", "\n  ")
    return " ".join(filter(None, (f"{label} {box}{inside}", _added(item, note))))


def _table(block: Raw, note: Note) -> str:
    cells = block.get("cells")
    rows = [row for row in cells if isinstance(row, list)] if isinstance(cells, list) else []
    lines = [
        "| " + " | ".join(_cell(each, note) for each in row if isinstance(each, Mapping)) + " |"
        for row in rows
    ]
    if lines:
        lines.insert(1, "|" + "---|" * len(rows[0]))
    return _joined("\n".join(lines), inline(block.get("caption"), note))


def _cell(cell: Raw, note: Note) -> str:
    said = " ".join(filter(None, (inline(cell.get("text"), note), _added(cell, note))))
    return said.replace("|", "\\|").replace("\n", " ")


def _quotation(block: Raw, said: str, note: Note) -> str:
    whole = _joined(said, _blocks(block.get("blocks"), note), inline(block.get("credit"), note))
    return "\n".join(f"> {line}" for line in whole.splitlines())


def _caption(block: Raw, note: Note) -> str:
    caption = thing(block, "caption")
    said = inline(caption.get("text"), note), inline(caption.get("credit"), note)
    return _joined(*said, _added(caption, note))


def _added(written: Raw, note: Note) -> str:
    """Return the texts in fields that are not known."""
    added = sorted(set(written) - _KNOWN_FIELDS)
    for name in added:
        note(f"{text(written, 'type') or 'rich_message'}.{name}")
    return " ".join(word for name in added for word in _strings(written[name], name))


def _known(written: Raw) -> Raw:
    return {name: value for name, value in written.items() if name in _KNOWN_FIELDS}


def _joined(*pieces: str) -> str:
    return "\n\n".join(piece for piece in pieces if piece.strip())


def _strings(written: Any, name: str = "text") -> Iterator[str]:
    """Yield every text inside an object of unknown type, except names, addresses and ids."""
    match written:
        case str() if name not in _NO_WORDS and not name.endswith("_id"):
            yield scrubbed(written)
        case list():
            for each in written:
                yield from _strings(each, name)
        case Mapping():
            for inside, value in written.items():
                yield from _strings(value, str(inside))


def _objects(written: Any) -> Iterator[Raw]:
    match written:
        case list():
            for each in written:
                yield from _objects(each)
        case Mapping():
            yield written
            for value in written.values():
                yield from _objects(value)
