"""
One entry of the lists in `access`: `PLATFORM[/ACCOUNT]:[chat|guild|team:]ID`.

The forms of ids come from the platforms.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema

from turngate.config.fields import matched
from turngate.config.platforms import PLATFORMS
from turngate.config.problems import one_of, quoted


class Whom(StrEnum):
    """What an entry names: a user, or the place whose users it allows."""

    USER = "user"
    CHAT = "chat"
    GUILD = "guild"
    TEAM = "team"


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessEntry:
    """
    A user, or all users inside a chat, a guild or a team.

    An entry without an account holds for every account of the platform.
    """

    platform: str
    id: str
    whom: Whom = Whom.USER
    account: str | None = None

    def __str__(self) -> str:
        head = f"{self.platform}/{self.account}" if self.account else self.platform
        return f"{head}:{self.id}" if self.whom is Whom.USER else f"{head}:{self.whom}:{self.id}"


_ENTRY = re.compile(
    r"(?P<platform>[^:/]+)(?:/(?P<account>[a-z0-9_-]+))?:"
    r"(?:(?P<whom>chat|guild|team):)?(?P<id>[^:]+)"
)
_FORMS = {
    (platform.name, Whom(whom)): form
    for platform in PLATFORMS.values()
    for whom, form in platform.ids.items()
}


def _examples(*whom: Whom) -> list[str]:
    return [
        str(AccessEntry(platform=platform, id=form.example, whom=named))
        for (platform, named), form in _FORMS.items()
        if named in whom
    ]


def parse_entry(value: object) -> AccessEntry:
    """Read one entry. Raises ValueError with the remedy."""
    if isinstance(value, AccessEntry):
        return value

    written = matched(_ENTRY, value)
    if written is None:
        raise ValueError(
            "this is not an entry; write PLATFORM:ID or PLATFORM/ACCOUNT:ID in quotes, e.g. "
            f'"{_examples(Whom.USER)[0]}"'
        )

    platform = written["platform"]
    whom = Whom(written["whom"] or Whom.USER)
    if platform not in PLATFORMS:
        raise ValueError(_no_platform(platform))
    if (platform, whom) not in _FORMS:
        raise ValueError(f"there is no {whom} on {platform}; write {platform}:chat:ID")

    entry = AccessEntry(platform=platform, id=written["id"], whom=whom, account=written["account"])
    if not _has_form_of(entry, whom):
        raise ValueError(_no_id(entry))
    return entry


def _has_form_of(entry: AccessEntry, whom: Whom) -> bool:
    form = _FORMS.get((entry.platform, whom))
    return form is not None and re.fullmatch(form.pattern, entry.id) is not None


def _no_platform(platform: str) -> str:
    if platform in ("local", "web"):
        return (
            f"{platform} needs no entry: its users are this machine's own, and admins; remove "
            "the entry"
        )
    return (
        f"there is no platform {quoted(platform)}; {one_of(platform, PLATFORMS, instead='write')}"
    )


def _no_id(entry: AccessEntry) -> str:
    if entry.whom is not Whom.USER:
        return (
            f"{quoted(entry.id)} is not an id of a {entry.whom} on {entry.platform}; names can "
            "change hands, write the id"
        )

    # An id of a chat where one of a user belongs is the usual mistake.
    other = next((whom for whom in Whom if _has_form_of(entry, whom)), None)
    if other:
        return (
            f"{quoted(entry.id)} is the id of a {other}; write {entry.platform}:{other}:{entry.id}"
        )

    return (
        f"{quoted(entry.id)} is not an id; user names can change hands, so write the id: on "
        f"{entry.platform} it is {PLATFORMS[entry.platform].id_hint}"
    )


def _person(entry: AccessEntry) -> AccessEntry:
    if entry.whom is not Whom.USER:
        raise ValueError(f"a {entry.whom} cannot be an admin; write the people one by one")
    return entry


def _bot(entry: AccessEntry) -> AccessEntry:
    if entry.whom is not Whom.USER:
        raise ValueError(f"a {entry.whom} is not a bot; write the ids of the bots one by one")
    return entry


def _chat(entry: AccessEntry) -> AccessEntry:
    if entry.whom is Whom.USER:
        raise ValueError(
            "this is a person; a mode is for a chat, a guild or a team, such as "
            f"{_examples(Whom.CHAT)[0]}"
        )
    return entry


_SHAPE = (
    PlainSerializer(str, return_type=str),
    WithJsonSchema({"type": "string", "examples": _examples(*Whom)}),
)
Allowed = Annotated[AccessEntry, BeforeValidator(parse_entry), *_SHAPE]
Chat = Annotated[AccessEntry, BeforeValidator(lambda value: _chat(parse_entry(value))), *_SHAPE]
Bot = Annotated[AccessEntry, BeforeValidator(lambda value: _bot(parse_entry(value))), *_SHAPE]
Admin = Annotated[AccessEntry, BeforeValidator(lambda value: _person(parse_entry(value))), *_SHAPE]
