"""
Slack's own way of writing, read: what stands between `<` and `>` is a mention, a chat or a link, the rest is text.

Mentions of people stay as they are, `<@U1>`: that is the form in which the gateway hides and restores them.
"""

from __future__ import annotations

import re

# Anything else between brackets was never escaped: then it is text, as it stands.
_BRACKETS = re.compile(r"<([@#!][^<>]+|[A-Za-z][A-Za-z0-9+.-]*:[^<>]+)>")
_ESCAPED = re.compile(r"&(amp|lt|gt);")
_SIGNS = {"amp": "&", "lt": "<", "gt": ">"}
_CROWDS = ("!here", "!channel", "!everyone")
_SCHEMES = ("https://", "http://", "mailto:", "tel:")


def readable(mrkdwn: str) -> str:
    """As people see it: `#name` for a chat, `[label](address)` for a link, and each sign as itself."""
    pieces, end = list[str](), 0
    for found in _BRACKETS.finditer(mrkdwn):
        pieces += [unescaped(mrkdwn[end : found.start()]), _read(found[1])]
        end = found.end()
    return "".join([*pieces, unescaped(mrkdwn[end:])])


def unescaped(text: str) -> str:
    """Each sign as itself, once: what was typed as `&lt;` stays that."""
    return _ESCAPED.sub(lambda found: _SIGNS[found[1]], text)


def person(user: str) -> str:
    """A mention of somebody."""
    return f"<@{user}>"


def chat(channel: str, name: str | None) -> str:
    """A mention of a chat: its name, if that is known."""
    return f"#{name}" if name else f"<#{channel}>"


def group(id_: str, name: str | None) -> str:
    """A mention of a group of people."""
    return f"@{name.removeprefix('@')}" if name else f"<!subteam^{id_}>"


def link(url: str, label: str) -> str:
    """In Markdown; the address alone where the label says nothing more."""
    shown = url.removeprefix("mailto:").removeprefix("tel:")
    same = {url, shown, *(shown.removeprefix(scheme) for scheme in _SCHEMES)}
    if not label or label.rstrip("/") in {each.rstrip("/") for each in same}:
        return shown
    return f"[{label}]({url})"


def _read(inside: str) -> str:
    what, _, label = inside.partition("|")
    label = unescaped(label)
    if what.startswith("@"):
        return person(what[1:])
    if what.startswith("#"):
        return chat(what[1:], label)
    if what.startswith("!subteam^"):
        return group(what.removeprefix("!subteam^"), label)
    if what.startswith("!"):
        return f"@{what[1:]}" if what in _CROWDS else label or f"<{what}>"
    return link(unescaped(what), label)
