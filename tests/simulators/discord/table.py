"""
The table of addresses: a verb, a path, and what answers it. Discord's own names, in small letters.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from tests.simulators.common import Call, Json
from tests.simulators.discord.world import Bot

Act = Callable[[Bot, Call], Awaitable[Json]]

_INSIDE = re.compile(r"{(\w+)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """
    One line. `known_by` says how a bot shows who it is: by its token, or by that of an interaction.
    """

    verb: str
    path: str
    name: str
    act: Act
    does: str | None = None
    required: Mapping[str, type] = field(default_factory=dict)
    optional: Mapping[str, type] = field(default_factory=dict)
    known_by: str = "token"
    status: int = 200


def entry(
    verb: str,
    path: str,
    name: str,
    act: Act,
    *,
    does: str | None = None,
    required: Mapping[str, type] | None = None,
    optional: Mapping[str, type] | None = None,
    known_by: str = "token",
    status: int = 200,
) -> Entry:
    """What is in the path is required."""
    inside = dict.fromkeys(_INSIDE.findall(path), str)
    return Entry(
        verb=verb,
        path=path,
        name=name,
        act=act,
        does=does,
        required={**inside, **(required or {})},
        optional=optional or {},
        known_by=known_by,
        status=status,
    )
