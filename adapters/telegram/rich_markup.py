"""
What is sent as a rich message: Markdown with headings, tables, formulas, nested lists or tasks,
which text and entities show poorly.

Telegram reads the Markdown itself, and some of it otherwise than CommonMark does. What it would
read differently, fetch from the web or make a mention of is sent as text and entities.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pyromark
from telegramify_markdown.converter import STANDARD_OPTIONS

_GAINING = ("Table", "Heading", "InlineMath", "DisplayMath", "TaskListMarker")
# Pictures are fetched by Telegram, tags mean something to it, and a link may mention a user.
_NOT_HERE = ("Image", "Html", "InlineHtml", "HtmlBlock")
# Spoilers, marked text and formulas of Telegram's own Markdown.
_READ_OTHERWISE = re.compile(r"\|\||==|\$")
_MENTION = re.compile(r"<@\d{1,19}>|tg://")
# A text may end behind the @ where something is written in another way, such as `&#64;`.
_NAME = re.compile(r"(?<![\w@])@(?=\w|$)")


@dataclass(frozen=True, slots=True)
class Rich:
    """Markdown for Telegram to read. With names, it must not look for mentions or links itself."""

    markdown: str
    has_names: bool


def rich_of(markdown: str) -> Rich | None:
    """Return the text for a rich message; None if it gains nothing by it, or would lose."""
    if _MENTION.search(markdown):
        return None

    events: Iterable[tuple[Any, Any]] = pyromark.events_with_range(
        markdown, options=STANDARD_OPTIONS
    )
    gains = has_names = False
    lists = code = 0
    for event, _ in events:
        match event:
            case {"Start": {"List": _}}:
                lists += 1
                gains = gains or lists > 1
            case {"End": {"List": _}}:
                lists -= 1
            case {"Start": {"CodeBlock": _}}:
                code += 1
            case {"End": "CodeBlock"}:
                code -= 1
            case {"Text": said} if not code:
                if _READ_OTHERWISE.search(said):
                    return None
                has_names = has_names or _NAME.search(said) is not None
            case _:
                name = _name_of(event)
                if name in _NOT_HERE:
                    return None
                gains = gains or name in _GAINING

    return Rich(markdown, has_names) if gains else None


def _name_of(event: Any) -> str:
    """Return what begins, ends or is there, by its name."""
    begun = event.get("Start", event) if isinstance(event, dict) else event
    return str(next(iter(begun)) if isinstance(begun, dict) else begun)
