"""
Discord's tokens for roles, channels, emoji and times, as readable text.

A user stays `<@ID>`: the gateway redacts and restores ids in that form.
"""

from __future__ import annotations

import re
from collections import Counter
from datetime import UTC, datetime

from turngate.adapters.discord.channels import Names

_TOKEN = re.compile(
    r"<@!?(?P<user>\d+)>|<@&(?P<role>\d+)>|<#(?P<channel>\d+)>|<a?(?P<emoji>:\w+:)\d+>"
    r"|<t:(?P<time>-?\d{1,13})(?::[a-zA-Z])?>|</(?P<command>[^:<>\n]+):\d+>"
)
_NUMBERED = re.compile(r"<(?:@[!&]?|#)\d+>")
# In code, and inside of addresses and words, a # begins no channel's name.
_CHANNEL = re.compile(
    r"```.*?(?:```|\Z)|(?P<ticks>`+).*?(?P=ticks)|(?<![\w/#&<\\])#(?P<name>[\w-]{1,100})", re.DOTALL
)


def readable(text: str, names: Names, *, bot: str, bot_name: str) -> str:
    """Replace tokens by names. Unknown ones stay."""

    def written(found: re.Match[str]) -> str:
        kind = found.lastgroup or ""
        value = found[found.lastgroup or 0]
        match kind:
            case "user":
                return f"@{bot_name}" if value == bot else f"<@{value}>"
            case "role":
                return _named("@", names.roles.get(value), found[0])
            case "channel":
                return _named("#", names.channels.get(value), found[0])
            case "time":
                return _time(int(value)) or found[0]
            case "command":
                return f"/{value}"

        return value

    return _TOKEN.sub(written, text)


def without_ids(text: str) -> str:
    """Make text for a title, where Discord shows no names: tokens with ids are dropped."""
    words = readable(text, Names(), bot="", bot_name="")
    return re.sub(r" {2,}", " ", _NUMBERED.sub("", words)).strip()


def linked(text: str, names: Names, room: int) -> str:
    """
    Turn channel names into links, which mention no one.

    Unchanged if the result exceeds `room` characters. A name of two channels is not linked.
    """
    counted = Counter(names.channels.values())
    ids = {name: id_ for id_, name in names.channels.items() if counted[name] == 1}

    def opened(found: re.Match[str]) -> str:
        id_ = ids.get(found["name"] or "")
        return found[0] if id_ is None else f"<#{id_}>"

    longer = _CHANNEL.sub(opened, text) if "#" in text and ids else text
    return longer if len(longer) <= room else text


def _named(sign: str, name: str | None, otherwise: str) -> str:
    return otherwise if name is None else f"{sign}{name.removeprefix(sign)}"


def _time(seconds: int) -> str | None:
    """Format in UTC, as users are in different time zones. None if out of range."""
    try:
        return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M} UTC"
    except (ValueError, OverflowError, OSError):
        return None
