"""
Rich messages: https://core.telegram.org/bots/api#rich-message-formatting-options

Markdown and HTML become the blocks that people see. What this simulator does not read (media,
formulas, maps) stays the text that it is written in; blocks that a bot names itself are taken as
they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from html.parser import HTMLParser
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.tree import SyntaxTreeNode

from tests.simulators.telegram import rules

Block = dict[str, Any]
RichText = Any
"""A word, a list of such, or an object with a type and its own text."""

LONGEST = 32768
MOST_BLOCKS = 500
DEEPEST = 16
MOST_COLUMNS = 20

_INLINE = {"strong": "bold", "em": "italic", "s": "strikethrough"}
_HTML_INLINE = {
    "b": "bold",
    "strong": "bold",
    "i": "italic",
    "em": "italic",
    "u": "underline",
    "ins": "underline",
    "s": "strikethrough",
    "del": "strikethrough",
    "strike": "strikethrough",
    "code": "code",
    "mark": "marked",
    "tg-spoiler": "spoiler",
    "sub": "subscript",
    "sup": "superscript",
}
_HTML_BLOCKS = {
    "p": "paragraph",
    "pre": "pre",
    "footer": "footer",
    **{f"h{size}": "heading" for size in range(1, 7)},
}


@dataclass(frozen=True, slots=True)
class Rich:
    """What people see, and the same in plain words."""

    raw: dict[str, Any]
    text: str

    @classmethod
    def of(cls, raw: dict[str, Any]) -> Rich:
        """Of what was read already."""
        return cls(raw, "\n\n".join(_plain(block) for block in raw["blocks"]))


def read_rich(given: dict[str, Any]) -> Rich:
    """Of an InputRichMessage. Raises for what is too much or not clear."""
    named = [name for name in ("html", "markdown", "blocks") if given.get(name)]
    if len(named) != 1:
        raise rules.bad(
            "exactly one of the fields html, markdown, or blocks must be used", rules.RICH
        )
    match named[0]:
        case "markdown":
            blocks = _of_markdown(given["markdown"])
        case "html":
            blocks = _of_html(given["html"])
        case _:
            blocks = [_labelled(block) for block in given["blocks"]]
    if not blocks:
        raise rules.bad("message text is empty", rules.TEXT)
    rich = Rich.of({"blocks": blocks, **({"is_rtl": True} if given.get("is_rtl") else {})})
    _check(blocks)
    return rich


def _check(blocks: list[Block]) -> None:
    texts = [words for block in blocks for words in _words(block)]
    if sum(map(len, texts)) > LONGEST:
        raise rules.bad("message is too long", rules.RICH)
    if sum(1 for block in blocks for _ in _all(block)) > MOST_BLOCKS:
        raise rules.bad("RICH_MESSAGE_BLOCKS_TOO_MUCH", rules.RICH)
    if max(map(_depth, blocks)) > DEEPEST:
        raise rules.bad("RICH_MESSAGE_DEPTH_TOO_MUCH", rules.RICH)
    rows = [row for block in blocks for each in _all(block) for row in each.get("cells", ())]
    if any(len(row) > MOST_COLUMNS for row in rows):
        raise rules.bad("RICH_MESSAGE_TABLE_COLUMNS_TOO_MUCH", rules.RICH)


def _of_markdown(source: str) -> list[Block]:
    tree = SyntaxTreeNode(MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(source))
    return [block for node in tree.children for block in _block(node)]


def _block(node: SyntaxTreeNode) -> Iterator[Block]:
    match node.type:
        case "paragraph":
            yield {"type": "paragraph", "text": _inline(node)}
        case "heading":
            yield {"type": "heading", "size": int(node.tag[1:]), "text": _inline(node)}
        case "fence" | "code_block":
            language = node.info.split()[0] if node.info.strip() else None
            more = {"language": language} if language else {}
            yield {"type": "pre", "text": node.content.removesuffix("\n"), **more}
        case "blockquote":
            yield {
                "type": "blockquote",
                "blocks": [block for child in node.children for block in _block(child)],
            }
        case "hr":
            yield {"type": "divider"}
        case "bullet_list" | "ordered_list":
            yield {"type": "list", "items": list(_items(node))}
        case "table":
            rows = [row for part in node.children for row in part.children]
            yield {
                "type": "table",
                "cells": [[_cell(cell) for cell in row.children] for row in rows],
            }
        case _:
            yield {"type": "paragraph", "text": node.content.strip()}


def _items(node: SyntaxTreeNode) -> Iterator[Block]:
    first = int(node.attrs.get("start", 1))
    for number, item in enumerate(node.children, first):
        blocks = [block for child in item.children for block in _block(child)]
        ordered = node.type == "ordered_list"
        yield {
            "label": f"{number}." if ordered else "•",
            "blocks": blocks,
            **({"value": number} if ordered else {}),
        }


def _cell(node: SyntaxTreeNode) -> Block:
    style = str(node.attrs.get("style", ""))
    align = style.removeprefix("text-align:") or "left"
    header = {"is_header": True} if node.type == "th" else {}
    return {"align": align, "valign": "top", "text": _inline(node), **header}


def _inline(node: SyntaxTreeNode) -> RichText:
    return _joined([_run(each) for child in node.children for each in (child.children or [child])])


def _run(node: SyntaxTreeNode) -> RichText:
    match node.type:
        case "strong" | "em" | "s":
            return {
                "type": _INLINE[node.type],
                "text": _joined([_run(child) for child in node.children]),
            }
        case "link":
            text = _joined([_run(child) for child in node.children])
            return {"type": "url", "text": text, "url": str(node.attrs["href"])}
        case "code_inline":
            return {"type": "code", "text": node.content}
        case "softbreak" | "hardbreak":
            return "\n"
        case _:
            return node.content


def _joined(parts: list[RichText]) -> RichText:
    """Neighbouring words are one; one part alone needs no list."""
    joined: list[RichText] = []
    for part in parts:
        if isinstance(part, str) and joined and isinstance(joined[-1], str):
            joined[-1] += part
        elif part != "":
            joined.append(part)
    return joined[0] if len(joined) == 1 else joined or ""


class _Html(HTMLParser):
    """The part of rich HTML that consists of paragraphs, headings, code and lists."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks: list[Block] = []
        self._open: list[tuple[str, Block, list[RichText]]] = []
        self._loose: list[RichText] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag == "br":
            self._into("\n")
        elif tag == "hr":
            self._flush()
            self.blocks.append({"type": "divider"})
        elif tag in ("ul", "ol"):
            self._flush()
            self._open.append((tag, {"type": "list", "items": []}, []))
        elif tag == "blockquote" or (
            tag == "li" and self._open and self._open[-1][0] in ("ul", "ol")
        ):
            self._open.append((tag, {"type": tag}, []))
        elif tag in _HTML_BLOCKS:
            self._flush()
            size = {"size": int(tag[1:])} if tag[1:].isdecimal() else {}
            self._open.append((tag, {"type": _HTML_BLOCKS[tag], **size}, []))
        elif tag in _HTML_INLINE:
            self._open.append((tag, {"type": _HTML_INLINE[tag]}, []))
        elif tag == "a":
            self._open.append((tag, {"type": "url", "url": given.get("href") or ""}, []))
        else:
            raise rules.bad(f'can\'t parse entities: Unsupported start tag "{tag}"', rules.ENTITIES)

    def handle_endtag(self, tag: str) -> None:
        if not self._open or self._open[-1][0] != tag:
            raise rules.bad(f'can\'t parse entities: Unexpected end tag "{tag}"', rules.ENTITIES)
        _, made, parts = self._open.pop()
        if tag == "li":
            items = self._open[-1][1]["items"]
            ordered = self._open[-1][0] == "ol"
            label = f"{len(items) + 1}." if ordered else "•"
            items.append(
                {"label": label, "blocks": [{"type": "paragraph", "text": _joined(parts)}]}
            )
        elif tag in ("ul", "ol"):
            self.blocks.append(made)
        elif tag == "blockquote":
            self.blocks.append(made | {"blocks": [{"type": "paragraph", "text": _joined(parts)}]})
        elif tag in _HTML_BLOCKS:
            self.blocks.append(made | {"text": _joined(parts)})
        else:
            self._into(made | {"text": _joined(parts)})

    def handle_data(self, data: str) -> None:
        if self._open and self._open[-1][0] in ("ul", "ol"):
            return
        self._into(data)

    def close(self) -> None:
        super().close()
        if self._open:
            tag = self._open[-1][0]
            told = f"can't parse entities: Can't find end tag corresponding to start tag \"{tag}\""
            raise rules.bad(told, rules.ENTITIES)
        self._flush()

    def _into(self, part: RichText) -> None:
        (self._open[-1][2] if self._open else self._loose).append(part)

    def _flush(self) -> None:
        text = _joined(self._loose)
        if text and text != "\n" and not (isinstance(text, str) and not text.strip()):
            self.blocks.append(
                {"type": "paragraph", "text": text.strip() if isinstance(text, str) else text}
            )
        self._loose = []


def _of_html(source: str) -> list[Block]:
    parser = _Html()
    try:
        parser.feed(source)
    except AssertionError as exc:  # what the library says to <![
        raise rules.bad("can't parse entities: Unsupported start tag", rules.ENTITIES) from exc
    parser.close()
    return parser.blocks


def _labelled(block: Block) -> Block:
    """A block of a bot, with the labels that Telegram gives to the items of a list."""
    made = dict(block)
    if "blocks" in made:
        made["blocks"] = [_labelled(each) for each in made["blocks"]]
    if made.get("type") == "list":
        made["items"] = [
            {"label": f"{item['value']}." if "value" in item else "•", **_labelled(item)}
            for item in made["items"]
        ]
    return made


def _all(block: Block) -> Iterator[Block]:
    """It, and all blocks, items and rows within."""
    yield block
    for inner in (*block.get("blocks", ()), *block.get("items", ())):
        yield from _all(inner)
    yield from ({} for _ in block.get("cells", ()))


def _depth(block: Block) -> int:
    return 1 + max(
        (_depth(inner) for inner in (*block.get("blocks", ()), *block.get("items", ()))), default=0
    )


def _words(block: Block) -> Iterator[str]:
    for each in _all(block):
        yield _letters(each.get("text", ""))
        yield from (_letters(cell.get("text", "")) for row in each.get("cells", ()) for cell in row)


def _letters(text: RichText) -> str:
    match text:
        case str():
            return text
        case list():
            return "".join(map(_letters, text))
        case dict():
            return _letters(text.get("text", ""))
        case _:
            return ""


def _plain(block: Block) -> str:
    """As one would read it out."""
    match block.get("type"):
        case "list":
            return "\n".join(f"{item['label']} {_inner(item)}" for item in block["items"])
        case "table":
            return "\n".join(
                " | ".join(_letters(cell.get("text", "")) for cell in row) for row in block["cells"]
            )
        case "divider":
            return "———"
        case _ if "blocks" in block:
            return _inner(block)
        case _:
            return _letters(block.get("text", ""))


def _inner(block: Block) -> str:
    return "\n\n".join(_plain(each) for each in block["blocks"])
