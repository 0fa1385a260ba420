"""
Conversion of Slack's mrkdwn to Markdown. Text between `<` and `>` is a mention, a channel or a
link.

User mentions stay as `<@U1>`: redaction replaces and restores them in this form.
"""

from __future__ import annotations

import re

# Other text between brackets was not escaped by Slack and stays as it is.
_BRACKETS = re.compile(r"<([@#!][^<>]+|[A-Za-z][A-Za-z0-9+.-]*:[^<>]+)>")
_ESCAPED = re.compile(r"&(amp|lt|gt);")
_CHARACTERS = {"amp": "&", "lt": "<", "gt": ">"}
_BROADCASTS = ("!here", "!channel", "!everyone")
_SCHEMES = ("https://", "http://", "mailto:", "tel:")


def to_markdown(mrkdwn: str) -> str:
    """Convert mrkdwn: `#name` for a channel, `[label](address)` for a link, entities unescaped."""
    pieces = list[str]()
    end = 0
    for found in _BRACKETS.finditer(mrkdwn):
        pieces += [unescaped(mrkdwn[end : found.start()]), _read(found[1])]
        end = found.end()
    return "".join([*pieces, unescaped(mrkdwn[end:])])


def unescaped(text: str) -> str:
    """Unescape entities once: text typed as `&lt;` stays `&lt;`."""
    return _ESCAPED.sub(lambda found: _CHARACTERS[found[1]], text)


def user_mention(user: str) -> str:
    return f"<@{user}>"


def chat_mention(channel: str, name: str | None) -> str:
    """Return the channel's name if it is known, otherwise the mention."""
    return f"#{name}" if name else f"<#{channel}>"


def group_mention(id_: str, name: str | None) -> str:
    return f"@{name.removeprefix('@')}" if name else f"<!subteam^{id_}>"


def markdown_link(url: str, label: str) -> str:
    """Return a Markdown link, or the address alone if the label repeats it."""
    shown = url.removeprefix("mailto:").removeprefix("tel:")
    same = {url, shown, *(shown.removeprefix(scheme) for scheme in _SCHEMES)}
    if not label or label.rstrip("/") in {each.rstrip("/") for each in same}:
        return shown
    return f"[{label}]({url})"


def _read(inside: str) -> str:
    what, _, label = inside.partition("|")
    label = unescaped(label)
    if what.startswith("@"):
        return user_mention(what[1:])
    if what.startswith("#"):
        return chat_mention(what[1:], label)
    if what.startswith("!subteam^"):
        return group_mention(what.removeprefix("!subteam^"), label)
    if what.startswith("!"):
        return f"@{what[1:]}" if what in _BROADCASTS else label or f"<{what}>"

    return markdown_link(unescaped(what), label)
