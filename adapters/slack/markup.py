"""
Conversion of Markdown for Slack: `markdown_text`, plain text as a fallback, and blocks for
questions.

Slack parses Markdown itself, so it is sent unchanged except for text between `<` and `>`, which
Slack would turn into a mention or link, or drop. Escaped, it is shown as written. `<!channel>` from
an agent is text: only `<@U1>` (inserted by the gateway) mentions a user, and `<#C1>` links a chat.
`@channel` has no effect because no message sets `link_names` or `parse`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from turngate.gateway.domain.outbox import Button
from turngate.gateway.domain.text import cut

LARGEST_MARKDOWN = 12_000
LARGEST_SECTION = 3_000
LARGEST_UPDATE = 4_000
"""Limit of `text` in chat.update; its `markdown_text` has the usual limit."""
LONGEST_LABEL = 75
MOST_BUTTONS_IN_A_ROW = 25

_MENTION = r"<(?:@[UW]|#[CG])[A-Z0-9]+>"
_ADDRESS = r"<(?:https?://|mailto:)[^<>\s|]+>"
# Mentions and addresses stay. In anything else that Slack would interpret, the first character is
# escaped.
_SPECIAL = re.compile(
    rf"(?P<kept>{_MENTION}|{_ADDRESS})|<(?=[A-Za-z/!?#@][^<>\n]*>|![A-Za-z])|&(?=(?:amp|lt|gt);)"
)
_BROADCAST = re.compile(r"<(?=![A-Za-z])")
_ESCAPES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
_PLAIN = re.compile(rf"(?P<kept>{_MENTION})|[&<>]")
_FENCE = re.compile(r"[\s>]*(?P<fence>`{3,}|~{3,})(?P<rest>.*)")
_MARKS = re.compile(r"[\s>]*[`~]")
_TICKS = re.compile("`+")
_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_INVALID = re.compile("[\x00\ud800-\udfff]")
# The beginning of a tag, an entity or a broadcast at the end of a growing text.
_OPEN_TAG = re.compile(r"<[^<>\n]*$|&[a-z]{0,3}$")
_OPEN_TAG_IN_CODE = re.compile(r"<!?$")


def marked(markdown: str) -> str:
    """
    Escape Markdown for `markdown_text` and Markdown blocks: everything is shown, and only intended
    mentions work.
    """
    return "".join(
        _escape_code(piece) if is_code else _escape_text(piece)
        for piece, is_code in _pieces(_without_invalid(markdown))
    )


def plain(markdown: str) -> str:
    """
    Escape text for `text` with `mrkdwn=False` and beside blocks: shown as written, with working
    mentions.
    """
    return _PLAIN.sub(lambda found: found["kept"] or _ESCAPES[found[0]], _without_invalid(markdown))


def size(markdown: str) -> int:
    """
    Return the length that counts against LARGEST_MARKDOWN, in UTF-16 units.

    Slack does not document its unit; UTF-16 is the larger count.
    """
    text = marked(markdown)
    return len(text) if text.isascii() else len(text.encode("utf-16-le")) // 2


def unfinished(markdown: str) -> int:
    """
    Return how many characters at the end of a growing text must not be sent yet.

    The text that follows decides how they are escaped; `marked` is stable for everything before
    them. At most the last line.
    """
    *_, (line, in_fence) = [("", False), *_lines(markdown)]
    if line.endswith("\n"):
        return 0
    # The line may become a fence, which decides how all of it is escaped.
    if _MARKS.match(line):
        return len(line)
    if in_fence:
        open_tag = _OPEN_TAG_IN_CODE.search(line)
        return len(line) - open_tag.start() if open_tag else 0

    return len(line) - _stable_length(line)


def question_blocks(
    markdown: str, buttons: Sequence[Button], *, as_plain: bool = False
) -> list[dict[str, Any]]:
    """
    Return blocks with the text and its buttons, whose values are their nonces. `as_plain`: without
    formatting.
    """
    rows = [
        buttons[at : at + MOST_BUTTONS_IN_A_ROW]
        for at in range(0, len(buttons), MOST_BUTTONS_IN_A_ROW)
    ]
    words = _sections(markdown) if as_plain else [{"type": "markdown", "text": marked(markdown)}]

    return [*words, *(_row(row, number) for number, row in enumerate(rows))]


def _without_invalid(text: str) -> str:
    """Replace characters that Slack rejects: NUL and lone surrogates."""
    return _INVALID.sub("\ufffd", text)


def _escape_text(text: str) -> str:
    return _SPECIAL.sub(lambda found: found["kept"] or _ESCAPES[found[0]], text)


def _escape_code(text: str) -> str:
    """Escape broadcasts in code too: whether Slack would send them is undocumented."""
    return _BROADCAST.sub("&lt;", text)


def _pieces(markdown: str) -> Iterator[tuple[str, bool]]:
    """Yield the text in order, each piece with whether it is code."""
    for line, in_fence in _lines(markdown):
        if in_fence:
            yield line, True
        else:
            yield from _spans(line)


def _spans(line: str) -> Iterator[tuple[str, bool]]:
    """
    Yield the pieces of a line. Code is text between two backtick runs of equal length. The text
    after the last code span is yielded even if empty.
    """
    runs = [found.span() for found in _TICKS.finditer(line)]
    last = {end - start: at for at, (start, end) in enumerate(runs)}
    done = at = 0

    while at < len(runs):
        start, end = runs[at]
        if last[end - start] > at:
            at = next(
                other
                for other in range(at + 1, len(runs))
                if runs[other][1] - runs[other][0] == end - start
            )
            yield line[done:start], False
            yield line[start : runs[at][1]], True
            done = runs[at][1]

        at += 1

    yield line[done:], False


def _lines(markdown: str) -> Iterator[tuple[str, bool]]:
    """Yield each line with whether it belongs to a fenced block, including its fences."""
    fence = ""

    for line in _LINE.findall(markdown):
        found = _FENCE.match(line)
        mark = found["fence"] if found else ""
        rest = found["rest"] if found else ""

        if fence:
            yield line, True
            fence = "" if mark.startswith(fence) and not rest.strip() else fence
        else:
            opens = bool(mark) and not (mark[0] == "`" and "`" in rest)
            yield line, opens
            fence = mark if opens else ""


def _stable_length(line: str) -> int:
    """
    Return the length of a growing line that later text cannot change: up to an unclosed backtick
    run or tag.
    """
    since = at = 0
    stable = len(line)

    for piece, is_code in _spans(line):
        end = at + len(piece)
        if is_code and end < len(line):
            since = end
        elif "`" in piece:
            stable = at + piece.index("`")
            break
        at = end

    open_tag = _OPEN_TAG.search(line, since, stable)
    return open_tag.start() if open_tag else stable


def _sections(markdown: str) -> list[dict[str, Any]]:
    return [
        {"type": "section", "text": {"type": "plain_text", "text": piece}}
        for piece in _split(plain(markdown))
    ]


def _split(text: str) -> Iterator[str]:
    """
    Yield pieces that fit a section, split at line ends where possible and never inside a mention.
    """
    while len(text) > LARGEST_SECTION:
        end = text.rfind("\n", 1, LARGEST_SECTION) + 1 or _before_mention(text, LARGEST_SECTION)
        yield text[:end]
        text = text[end:]
    yield text


def _before_mention(text: str, end: int) -> int:
    open_tag = re.search(r"(?:<[@#]?[A-Z0-9]*|&[a-z]{0,3})$", text[:end])
    return open_tag.start() if open_tag and open_tag.start() else end


def _row(buttons: Sequence[Button], number: int) -> dict[str, Any]:
    return {
        "type": "actions",
        "elements": [
            {
                "type": "button",
                "text": {"type": "plain_text", "text": _label(button.label)},
                "action_id": f"turngate-{number}-{at}",
                "value": button.nonce,
            }
            for at, button in enumerate(buttons)
        ],
    }


def _label(label: str) -> str:
    return cut(_without_invalid(label), LONGEST_LABEL)
