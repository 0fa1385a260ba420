"""
Words as Slack keeps them and as people see them.

`&`, `<` and `>` are kept as `&amp;`, `&lt;` and `&gt;`; what stands between real angle brackets is
a mention, a channel or a link (https://docs.slack.dev/messaging/formatting-message-text).
"""

from __future__ import annotations

import re
from collections.abc import Mapping

_CONTROL = re.compile(
    r"<(?:[@#][A-Z0-9]+(?:\|[^<>]*)?|![a-z]+[^<>]*|(?:https?://|mailto:|tel:)[^<>\s|]+(?:\|[^<>]*)?)>"
)
_BARE_AND = re.compile(r"&(?!amp;|lt;|gt;)")
_LINK = re.compile(r"https?://[^\s<>|]*[^\s<>|.,;:!?]")


def kept(text: str) -> str:
    """
    What a bot wrote, as Slack keeps it: what is no control sequence is escaped, what is escaped
    already is not.
    """
    return _apart(
        text, lambda plain: _BARE_AND.sub("&amp;", plain).replace("<", "&lt;").replace(">", "&gt;")
    )


def typed(text: str) -> str:
    """
    What a person typed, as Slack keeps it: every sign is itself, and an address becomes a link.
    """
    parts, end = [], 0
    for link in _LINK.finditer(text):
        parts += [escaped(text[end : link.start()]), f"<{escaped(link.group())}>"]
        end = link.end()
    return "".join([*parts, escaped(text[end:])])


def escaped(text: str) -> str:
    """Every sign as itself."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def seen(text: str, names: Mapping[str, str]) -> str:
    """What people see of kept text: names instead of ids, labels instead of addresses."""
    shown = _CONTROL.sub(lambda found: _label(found.group()[1:-1], names), text)
    return shown.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")


def calls_everybody(text: str) -> bool:
    """Whether a whole channel is alerted."""
    return any(each in text for each in ("<!channel", "<!here", "<!everyone"))


def _apart(text: str, change: object) -> str:
    """Changed, except where there is a control sequence."""
    parts, end = [], 0
    for control in _CONTROL.finditer(text):
        parts += [change(text[end : control.start()]), control.group()]  # type: ignore[operator]
        end = control.end()
    return "".join([*parts, change(text[end:])])  # type: ignore[operator]


def _label(inside: str, names: Mapping[str, str]) -> str:
    what, _, label = inside.partition("|")
    if what[0] == "@":
        return f"@{label or names.get(what[1:], what[1:])}"
    if what[0] == "#":
        return f"#{label or names.get(what[1:], what[1:])}"
    if what[0] == "!":
        return label or f"@{what[1:]}"
    return label or what.removeprefix("mailto:")
