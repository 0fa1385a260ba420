"""
What stands in Discord's texts for people, roles, channels, pictures and times, in words.

A person stays `<@ID>`: that is the form in which the gateway hides ids from agents and brings them back.
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
    """The same in words. What has no name that we know stays as it is."""

    def said(found: re.Match[str]) -> str:
        kind, value = found.lastgroup or "", found[found.lastgroup or 0]
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

    return _TOKEN.sub(said, text)


def without_ids(text: str) -> str:
    """For a title, in which Discord shows no names: whoever and whatever is called by a number is left out."""
    words = readable(text, Names(), bot="", bot_name="")
    return re.sub(r" {2,}", " ", _NUMBERED.sub("", words)).strip()


def linked(text: str, names: Names, room: int) -> str:
    """
    The way back: a channel that is called by its name can be opened by whoever reads it. It calls nobody.

    Stays as it is if it would need more than `room` characters. What two channels are called leads to neither.
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
    """In UTC: whoever reads it need not be where the writer is. None for what is no time of this calendar."""
    try:
        return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M} UTC"
    except (ValueError, OverflowError, OSError):
        return None
