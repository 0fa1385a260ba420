"""
Conversion of blocks to Markdown. Blocks hold the complete message, while `text` loses quotations
and lists.

Slack: https://docs.slack.dev/reference/block-kit/blocks/rich-text-block.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from turngate.adapters.slack.json_fields import (
    Json,
    dict_in,
    dicts_in,
    number_in,
    text_in,
)
from turngate.adapters.slack.mrkdwn import (
    chat_mention,
    group_mention,
    markdown_link,
    to_markdown,
    user_mention,
)

_STYLES = (("code", "`"), ("strike", "~~"), ("italic", "_"), ("bold", "**"))
_DEEPEST_LIST = 8
_WITHOUT_TEXT = frozenset({"divider", "actions", "context_actions"})
_KNOWN = frozenset({"rich_text", "section", "header", "context", "markdown", "image", "table"})
# Fields that hold no words, in blocks and elements of any type.
_NO_WORDS = frozenset(
    [
        "type",
        "style",
        "verbatim",
        "emoji",
        "format",
        "unicode",
        "hash",
        "language",
        "color",
        "indent",
        "border",
        "offset",
        "id",
        "url",
        "ts",
        "icon",
        "alignment",
        "size",
        "width",
        "height",
        "mode",
        "status",
        "range",
    ]
)
_NO_WORDS_ENDINGS = ("_id", "_url", "_ts", "_type", "_format")
_DEEPEST = 20


def markdown_of(blocks: Sequence[Json]) -> str | None:
    """Return the text of the blocks; None if there is none."""
    written = (block for block in blocks if text_in(block, "type") not in _WITHOUT_TEXT)
    return "\n\n".join(filter(None, map(_block, written))) or None


def are_known(blocks: Sequence[Json]) -> bool:
    """Whether the text of the blocks is complete: none is of a type that is newer than this."""
    return all(text_in(block, "type") in _KNOWN | _WITHOUT_TEXT for block in blocks)


def mentioned_in(blocks: Sequence[Json]) -> Iterator[str]:
    """Yield the ids of users mentioned in rich text, at any depth."""
    for block in blocks:
        if block.get("type") == "user":
            yield text_in(block, "user_id")
        yield from mentioned_in(dicts_in(block, "elements"))


def _block(block: Json) -> str:
    match block.get("type"):
        case "rich_text":
            return "\n".join(map(_paragraph, dicts_in(block, "elements"))).strip("\n")
        case "section":
            return "\n".join(
                filter(None, map(_text, [dict_in(block, "text"), *dicts_in(block, "fields")]))
            )
        case "context":
            return " ".join(filter(None, map(_text, dicts_in(block, "elements"))))
        case "header":
            return f"# {_text(dict_in(block, 'text'))}"
        case "image":
            return "\n".join(filter(None, [_text(dict_in(block, "title")), _text(block)]))
        case "table":
            return "\n".join(_rows(block))

    return _words_of(block)


def _words_of(value: object, depth: int = _DEEPEST) -> str:
    """Return all words in a block or an element of an unknown type, each on a line."""
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        if value.get("type") == "mrkdwn":
            return _text(value)
        inner = [each for name, each in value.items() if _may_have_words(name)]
    else:
        inner = list(value) if isinstance(value, list | tuple) else []
    found = (_words_of(each, depth - 1) for each in inner) if depth else ()
    return "\n".join(filter(None, found))


def _may_have_words(field: object) -> bool:
    return (
        isinstance(field, str) and field not in _NO_WORDS and not field.endswith(_NO_WORDS_ENDINGS)
    )


def _rows(table: Json) -> Iterator[str]:
    """Yield table rows. The first row becomes the header, which Markdown requires."""
    rows = table.get("rows")
    for number, row in enumerate(rows if isinstance(rows, list) else ()):
        cells = [
            " ".join(_block(cell).split()).replace("|", "\\|")
            for cell in dicts_in({"row": row}, "row")
        ]
        yield f"| {' | '.join(cells)} |"
        if number == 0:
            yield f"|{' --- |' * len(cells)}"


def _text(text: Json) -> str:
    if text.get("type") == "image":
        return f"[{text_in(text, 'alt_text')}]" if text_in(text, "alt_text") else ""
    written = text_in(text, "text")
    return to_markdown(written) if text.get("type") == "mrkdwn" else written


def _paragraph(element: Json) -> str:
    match element.get("type"):
        case "rich_text_quote":
            return "\n".join(f"> {line}" for line in _inline(element).split("\n"))
        case "rich_text_preformatted":
            return _fenced(_inline(element, marked=False))
        case "rich_text_list":
            return "\n".join(_listed(element))
    return _inline(element)


def _fenced(code: str) -> str:
    fence = "```"
    # The fence must be longer than any backtick run in the code.
    while fence in code:
        fence += "`"
    return f"{fence}\n{code}\n{fence}"


def _listed(element: Json) -> Iterator[str]:
    level = min(max(number_in(element, "indent") or 0, 0), _DEEPEST_LIST)
    first = (number_in(element, "offset") or 0) + 1
    for number, item in enumerate(dicts_in(element, "elements"), first):
        mark = f"{number}." if element.get("style") == "ordered" else "-"
        lines = _paragraph(item).split("\n")
        indent = "    " * level
        yield f"{indent}{mark} {lines[0]}"
        yield from (f"{indent}{' ' * len(mark)} {line}" for line in lines[1:])


def _inline(element: Json, *, marked: bool = True) -> str:
    return "".join(_piece(each, marked=marked) for each in dicts_in(element, "elements"))


def _piece(piece: Json, *, marked: bool) -> str:
    match piece.get("type"):
        case "text":
            written = text_in(piece, "text")
            return _styled(written, dict_in(piece, "style")) if marked else written
        case "link":
            url = text_in(piece, "url")
            label = text_in(piece, "text")
            return markdown_link(url, label) if marked else label or url
        case "user":
            return user_mention(text_in(piece, "user_id"))
        case "channel":
            return chat_mention(text_in(piece, "channel_id"), None)
        case "usergroup":
            return group_mention(text_in(piece, "usergroup_id"), None)
        case "broadcast":
            return f"@{text_in(piece, 'range')}"
        case "emoji":
            return _emoji(piece)

    return text_in(piece, "text", "fallback", "value") or _words_of(piece)


def _styled(text: str, style: Json) -> str:
    """Add Markdown marks around each line, leaving surrounding blanks outside of the marks."""
    marks = [mark for name, mark in _STYLES if style.get(name)]
    return "\n".join(_line(line, marks) for line in text.split("\n")) if marks else text


def _line(text: str, marks: Sequence[str]) -> str:
    words = text.strip()
    if not words:
        return text
    start = text.index(words)
    end = start + len(words)
    return f"{text[:start]}{''.join(reversed(marks))}{words}{''.join(marks)}{text[end:]}"


def _emoji(piece: Json) -> str:
    """Return the character if Slack reports it; a custom emoji has only a name."""
    codes = text_in(piece, "unicode").split("-")
    try:
        picture = "".join(chr(int(code, 16)) for code in codes)
    except (ValueError, OverflowError):
        return f":{text_in(piece, 'name')}:"
    return picture
