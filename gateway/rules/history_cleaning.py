"""
How one entry of a transcript is shown to the agent: without commands, files as short notes, answers
without artefacts.

A model imitates what it sees of its own answers, so what the gateway or another model added is
removed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from zoneinfo import ZoneInfo

from turngate.gateway.domain.transcript import (
    Block,
    Entry,
    MediaType,
    Origin,
    Role,
    Text,
)

_BREADCRUMBS = {kind: Text(f"[{kind.value}]") for kind in MediaType}
SUMMARY_MARK = "[summary of what was said before]"
"""How a summary begins for an agent: it stands among what people said, and is nobody's words."""

_STAMP = "[%Y-%m-%d %H:%M] "

# Each pattern is tried once per line, at its start, and has one way to match: linear on any text.
_STAMPS = re.compile(r"(?:\[[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}\][ \t]*)+")
# The lookahead: backticks that are closed on the same line are inline code and open no block.
_FENCE = re.compile(r"[ \t]*(`{3,}(?=[^`]*$)|~{3,})")
_ARTEFACT = re.compile(
    r"\[(?:image|audio|document|file)\]"
    r"|\[(?:image|audio|document|file): ?(?:[/~]|\.\.?/|file:|[a-z]:[\\/])[^\]]*\]"
    r"|\[(?:calling tools?|tool[_ ]calls?): ?(?:[^\[\]]*|.*[)}])\]"
    r"|<tool_call>[ \t]*[{<].*</tool_call>"
    r"|</tool_call>",
    re.IGNORECASE,
)
_CALL_OPENS = re.compile(r"<tool_call>[ \t]*(?:[{<].*)?", re.IGNORECASE)
_CALL_CLOSES = "</tool_call>"


def shown(entry: Entry, *, stamp_zone: str | None = None) -> Entry | None:
    """
    Return the entry as the agent sees it, unchanged if possible; None if nothing is left.

    With a zone, user messages begin with their time; no others do, or the model would write time
    stamps itself.
    """
    if entry.origin is Origin.COMMAND:
        return None

    if entry.origin is Origin.SUMMARY:
        return _with_content(
            replace(entry, tool_calls=()) if entry.tool_calls else entry, _visible(entry)
        )

    if entry.role is Role.ASSISTANT:
        return _with_content(entry, _visible_answer(entry))

    content = _visible(entry)
    if stamp_zone and content and entry.role is Role.USER:
        stamp = entry.at.astimezone(ZoneInfo(stamp_zone)).strftime(_STAMP)
        content = (Text(stamp + content[0].text), *content[1:])

    return _with_content(entry, content)


def _with_content(entry: Entry, content: tuple[Text, ...]) -> Entry | None:
    """
    Leave out empty messages, which models reject. An empty tool result stays: its call needs one.
    """
    if not content and entry.role is not Role.TOOL and not _calls_or_reasons(entry):
        return None
    return entry if content == entry.content else replace(entry, content=content)


def _calls_or_reasons(entry: Entry) -> bool:
    return entry.role is Role.ASSISTANT and bool(entry.tool_calls or entry.reasoning)


def _visible(entry: Entry) -> tuple[Text, ...]:
    """Show files by type beside the text: their names and paths are other people's words."""
    return tuple(_words(block) for block in entry.content if not _is_blank(block))


def _words(block: Block) -> Text:
    return block if isinstance(block, Text) else _BREADCRUMBS[block.type]


def _is_blank(block: Block) -> bool:
    return isinstance(block, Text) and not block.text.strip()


def _visible_answer(entry: Entry) -> tuple[Text, ...]:
    """
    Remove what a model would imitate. A sent file is shown only if nothing else is left of the
    answer.
    """
    texts = [_without_artefacts(block) for block in entry.content if isinstance(block, Text)]
    words = tuple(text for text in texts if not _is_blank(text))
    if words or _calls_or_reasons(entry):
        return words
    return tuple(_words(block) for block in entry.content if not isinstance(block, Text))


def _without_artefacts(block: Text) -> Text:
    """
    Remove leading time stamps, and lines that are only a file note or an echoed call; fenced code
    stays.
    """
    # Every artefact begins with one of the two, and most answers have neither.
    if "[" not in block.text and "<" not in block.text:
        return block

    kept: list[str] = []
    call_at = None
    for line, is_code in _lines(block.text):
        bare = "" if is_code else line.rstrip()
        if _ARTEFACT.fullmatch(bare):
            # An echoed call over several lines goes from its opening line on. One that is never
            # closed stays, or it would swallow the rest of the answer.
            if call_at is not None and bare.lower() == _CALL_CLOSES:
                del kept[call_at:]
                call_at = None
            continue
        if _CALL_OPENS.fullmatch(bare):
            call_at = len(kept)
        kept.append(line)

    text = "\n".join(kept)
    return block if text == block.text else Text(text.strip("\n"))


def _lines(text: str) -> Iterator[tuple[str, bool]]:
    """Yield lines without time stamps, and whether each is inside fenced code."""
    fence = ""
    for line in text.split("\n"):
        if fence:
            yield line, True
            bare = line.strip()
            # As in CommonMark: closed by the same character, at least as often, and nothing else.
            fence = "" if len(bare) >= len(fence) and bare == fence[0] * len(bare) else fence
            continue

        stamps = _STAMPS.match(line)
        prose = line[stamps.end() :] if stamps else line
        opening = _FENCE.match(prose)
        fence = opening.group(1) if opening else ""
        yield prose, opening is not None
