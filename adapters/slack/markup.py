"""
Markdown as Slack's `markdown_text` takes it, plain text for where it is refused, and blocks for questions.

Slack reads Markdown itself, so it goes as it was written, but for what stands between `<` and `>`: Slack would make a
mention or a link of it, or leave it out. Escaped it is shown as it is. An agent's `<!channel>` is text: only `<@U1>`,
which the gateway itself has put there, calls a person, and `<#C1>` leads to a chat. `@channel` calls nobody as long as
no message asks for `link_names` or `parse`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from turngate.gateway.domain.messages import Button

LARGEST_MARKDOWN = 12_000
LARGEST_SECTION = 3_000
LARGEST_UPDATE = 4_000
"""Of the `text` of chat.update; its `markdown_text` takes as much as any."""
LONGEST_LABEL = 75
MOST_BUTTONS_IN_A_ROW = 25

_MENTION = r"<(?:@[UW]|#[CG])[A-Z0-9]+>"
_ADDRESS = r"<(?:https?://|mailto:)[^<>\s|]+>"
# A mention and an address stay. Of anything else that would be read as more than text the first sign is escaped.
_READ_AS_MORE = re.compile(
    rf"(?P<kept>{_MENTION}|{_ADDRESS})|<(?=[A-Za-z/!?#@][^<>\n]*>|![A-Za-z])|&(?=(?:amp|lt|gt);)"
)
_CALLS_MANY = re.compile(r"<(?=![A-Za-z])")
_ESCAPES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
_PLAIN = re.compile(rf"(?P<kept>{_MENTION})|[&<>]")
_FENCE = re.compile(r"[\s>]*(?P<fence>`{3,}|~{3,})(?P<rest>.*)")
_MARKS = re.compile(r"[\s>]*[`~]")
_TICKS = re.compile("`+")
_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_NEVER = re.compile("[\x00\ud800-\udfff]")
# What the end of a text may still become: a tag, an entity, a call of everybody.
_BEGUN = re.compile(r"<[^<>\n]*$|&[a-z]{0,3}$")
_BEGUN_IN_CODE = re.compile(r"<!?$")


def marked(markdown: str) -> str:
    """For `markdown_text` and Markdown blocks: all of it is shown, and nobody is called who was not meant."""
    return "".join(
        _in_code(piece) if is_code else _outside(piece)
        for piece, is_code in _pieces(_scrubbed(markdown))
    )


def plain(markdown: str) -> str:
    """For `text` with `mrkdwn=False` and beside blocks: as it was written, every sign of it, with real mentions."""
    return _PLAIN.sub(lambda found: found["kept"] or _ESCAPES[found[0]], _scrubbed(markdown))


def size(markdown: str) -> int:
    """How much of LARGEST_MARKDOWN it takes, in UTF-16 units: Slack does not say what it counts, and these are more."""
    text = marked(markdown)
    return len(text) if text.isascii() else len(text.encode("utf-16-le")) // 2


def unfinished(markdown: str) -> int:
    """
    How many characters at the end of a text that still grows must wait: what comes next decides how they are sent.

    Of what stands before them `marked` says the same for ever. Never more than the last line.
    """
    *_, (line, in_fence) = [("", False), *_lines(markdown)]
    if line.endswith("\n"):
        return 0
    if _MARKS.match(line):
        return len(line)
    if in_fence:
        begun = _BEGUN_IN_CODE.search(line)
        return len(line) - begun.start() if begun else 0
    return len(line) - _settled(line)


def question(
    markdown: str, buttons: Sequence[Button], *, plainly: bool = False
) -> list[dict[str, Any]]:
    """Blocks with the text and its buttons, whose values are their nonces. `plainly`: without any formatting."""
    rows = [
        buttons[at : at + MOST_BUTTONS_IN_A_ROW]
        for at in range(0, len(buttons), MOST_BUTTONS_IN_A_ROW)
    ]
    words = _sections(markdown) if plainly else [{"type": "markdown", "text": marked(markdown)}]
    return [*words, *(_row(row, number) for number, row in enumerate(rows))]


def _scrubbed(text: str) -> str:
    """Half of a character is none, and nothing is nothing."""
    return _NEVER.sub("\ufffd", text)


def _outside(text: str) -> str:
    return _READ_AS_MORE.sub(lambda found: found["kept"] or _ESCAPES[found[0]], text)


def _in_code(text: str) -> str:
    """Code is shown as it is; whether everybody would be called out of it nobody knows, so nobody is."""
    return _CALLS_MANY.sub("&lt;", text)


def _pieces(markdown: str) -> Iterator[tuple[str, bool]]:
    """The text in order, each piece with whether it is code."""
    for line, in_fence in _lines(markdown):
        if in_fence:
            yield line, True
        else:
            yield from _spans(line)


def _spans(line: str) -> Iterator[tuple[str, bool]]:
    """Code is what stands between two runs of as many ticks. What follows the last code comes last, even if empty."""
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
    """Each line, and whether it belongs to a fenced block, its fences included."""
    fence = ""
    for line in _LINE.findall(markdown):
        found = _FENCE.match(line)
        mark, rest = (found["fence"], found["rest"]) if found else ("", "")
        if fence:
            yield line, True
            fence = "" if mark.startswith(fence) and not rest.strip() else fence
        else:
            opens = bool(mark) and not (mark[0] == "`" and "`" in rest)
            yield line, opens
            fence = mark if opens else ""


def _settled(line: str) -> int:
    """How much of a line that still grows is sure: up to ticks that others may follow, or something else begun."""
    since = at = 0
    sure = len(line)
    for piece, is_code in _spans(line):
        end = at + len(piece)
        if is_code and end < len(line):
            since = end
        elif "`" in piece:
            sure = at + piece.index("`")
            break
        at = end
    begun = _BEGUN.search(line, since, sure)
    return begun.start() if begun else sure


def _sections(markdown: str) -> list[dict[str, Any]]:
    return [
        {"type": "section", "text": {"type": "plain_text", "text": piece}}
        for piece in _cut(plain(markdown))
    ]


def _cut(text: str) -> Iterator[str]:
    """Pieces that a section takes, cut at the end of a line if there is one, and never inside of a mention."""
    while len(text) > LARGEST_SECTION:
        end = text.rfind("\n", 1, LARGEST_SECTION) + 1 or _before_any_mention(text, LARGEST_SECTION)
        yield text[:end]
        text = text[end:]
    yield text


def _before_any_mention(text: str, end: int) -> int:
    begun = re.search(r"(?:<[@#]?[A-Z0-9]*|&[a-z]{0,3})$", text[:end])
    return begun.start() if begun and begun.start() else end


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
    label = _scrubbed(label)
    return label if len(label) <= LONGEST_LABEL else f"{label[: LONGEST_LABEL - 1]}…"
