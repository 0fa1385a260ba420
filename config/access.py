"""Who may talk to the bot: one entry of the allow-list, `PLATFORM[/ACCOUNT]:[chat|guild|team:]ID`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema

from turngate.config.fields import matched
from turngate.config.problems import one_of, quoted


class Whom(StrEnum):
    """What an entry names."""

    USER = "user"
    CHAT = "chat"
    GUILD = "guild"
    TEAM = "team"


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessEntry:
    """A person, or everybody inside a chat, a guild or a team. Without an account: on every account of the platform."""

    platform: str
    id: str
    whom: Whom = Whom.USER
    account: str | None = None

    def __str__(self) -> str:
        head = f"{self.platform}/{self.account}" if self.account else self.platform
        return f"{head}:{self.id}" if self.whom is Whom.USER else f"{head}:{self.whom}:{self.id}"


_ENTRY = re.compile(
    r"(?P<platform>[^:/]+)(?:/(?P<account>[a-z0-9_-]+))?:(?:(?P<whom>chat|guild|team):)?(?P<id>[^:]+)"
)
_NUMBER = re.compile(r"[0-9]{1,30}")
_IDS = {
    ("telegram", Whom.USER): _NUMBER,
    ("telegram", Whom.CHAT): re.compile(r"-?[0-9]{1,30}"),
    ("discord", Whom.USER): _NUMBER,
    ("discord", Whom.CHAT): _NUMBER,
    ("discord", Whom.GUILD): _NUMBER,
    # A bot may have no user, and somebody of another workspace has its name behind his: U2.T9.
    ("slack", Whom.USER): re.compile(r"[UWB][A-Z0-9]+(?:\.[TE][A-Z0-9]+)?"),
    ("slack", Whom.CHAT): re.compile(r"[CDG][A-Z0-9]+"),
    ("slack", Whom.TEAM): re.compile(r"[TE][A-Z0-9]+"),
}
_PLATFORMS = ("telegram", "discord", "slack")
_LOOKS = {
    "telegram": "a number such as 12345",
    "discord": "a number such as 678 (Developer Mode on, then Copy User ID)",
    "slack": "U and more capitals and digits (in the profile: Copy member ID)",
}


def parse_entry(value: object) -> AccessEntry:
    """Raises ValueError with the cure."""
    if isinstance(value, AccessEntry):
        return value
    written = matched(_ENTRY, value)
    if written is None:
        raise ValueError(
            'this is no entry; write PLATFORM:ID or PLATFORM/ACCOUNT:ID in quotes, e.g. "telegram:12345"'
        )
    platform, whom = written["platform"], Whom(written["whom"] or Whom.USER)
    if platform not in _PLATFORMS:
        raise ValueError(_no_platform(platform))
    if (platform, whom) not in _IDS:
        raise ValueError(f"there is no {whom} on {platform}; write {platform}:chat:ID")
    entry = AccessEntry(platform=platform, id=written["id"], whom=whom, account=written["account"])
    if not _IDS[platform, whom].fullmatch(entry.id):
        raise ValueError(_no_id(entry))
    return entry


def _no_platform(platform: str) -> str:
    if platform in ("local", "web"):
        return f"{platform} needs no entry: whoever sits at this machine is its admin; remove the entry"
    return (
        f"there is no platform {quoted(platform)}; {one_of(platform, _PLATFORMS, instead='write')}"
    )


def _no_id(entry: AccessEntry) -> str:
    if entry.whom is not Whom.USER:
        return f"{quoted(entry.id)} is no id of a {entry.whom} on {entry.platform}; names can change hands, write the id"
    other = next(
        (
            kind
            for (name, kind), form in _IDS.items()
            if name == entry.platform and form.fullmatch(entry.id)
        ),
        None,
    )
    if other:
        return (
            f"{quoted(entry.id)} is the id of a {other}; write {entry.platform}:{other}:{entry.id}"
        )
    return (
        f"{quoted(entry.id)} is no id; user names can change hands, so write the id: on {entry.platform} "
        f"it is {_LOOKS[entry.platform]}"
    )


def _person(entry: AccessEntry) -> AccessEntry:
    if entry.whom is not Whom.USER:
        raise ValueError(f"a {entry.whom} cannot be an admin; write the people one by one")
    return entry


def _bot(entry: AccessEntry) -> AccessEntry:
    if entry.whom is not Whom.USER:
        raise ValueError(f"a {entry.whom} is no bot; write the ids of the bots one by one")
    return entry


def _place(entry: AccessEntry) -> AccessEntry:
    if entry.whom is Whom.USER:
        raise ValueError(
            "this is a person; a mode is for a chat, a guild or a team, such as telegram:chat:-100123"
        )
    return entry


_SHAPE = (
    PlainSerializer(str, return_type=str),
    WithJsonSchema(
        {"type": "string", "examples": ["telegram:12345", "slack/work:U2", "discord:guild:9"]}
    ),
)
Allowed = Annotated[AccessEntry, BeforeValidator(parse_entry), *_SHAPE]
Chat = Annotated[AccessEntry, BeforeValidator(lambda value: _place(parse_entry(value))), *_SHAPE]
Bot = Annotated[AccessEntry, BeforeValidator(lambda value: _bot(parse_entry(value))), *_SHAPE]
Admin = Annotated[AccessEntry, BeforeValidator(lambda value: _person(parse_entry(value))), *_SHAPE]
