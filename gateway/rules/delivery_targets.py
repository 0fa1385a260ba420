"""
The grammar of delivery targets. Pure.

`origin` · `local` · `telegram` (that platform's home) · `telegram:CHAT` · `telegram:CHAT:THREAD` ·
`telegram/ACCOUNT:CHAT`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from turngate.gateway.domain.errors import Refused
from turngate.gateway.domain.messages import (
    LOCAL_PLATFORM,
    MAIN_ACCOUNT,
    SessionSource,
)
from turngate.gateway.rules.context_prompt import HomeChannel

ORIGIN = "origin"

_FORM = re.compile(
    r"(?P<platform>[a-z]+)(?:/(?P<account>[a-z0-9_-]+))?"
    r"(?::(?P<chat>[^:\s]+)(?::(?P<thread>[^:\s]+))?)?",
    re.ASCII,
)
_GRAMMAR = (
    "write origin, local, a platform, PLATFORM:CHAT, PLATFORM:CHAT:THREAD or PLATFORM/ACCOUNT:CHAT"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A chat, with or without a thread. `is_home`: the operator configured it as the default."""

    platform: str
    account: str
    chat: str
    thread: str | None = None
    is_home: bool = False


def read_target(
    written: str, origin: SessionSource, homes: Iterable[HomeChannel]
) -> Target | SessionSource:
    """
    Parse a target; a known source is returned unchanged. Raises Refused with what to write instead.
    """
    if written == ORIGIN:
        return origin
    if written == LOCAL_PLATFORM:
        return SessionSource.terminal()

    form = _FORM.fullmatch(written)
    if form is None:
        raise Refused(f"this is no target; {_GRAMMAR}")

    platform = form["platform"]
    account = form["account"] or MAIN_ACCOUNT
    of_account = [home for home in homes if (home.platform, home.account) == (platform, account)]
    if form["chat"] is None:
        if not of_account:
            raise Refused(f"{written} has no home; set home: for that account, or {_GRAMMAR}")
        return Target(platform=platform, account=account, chat=of_account[0].chat_id, is_home=True)

    # A home that is written out is still the home: agents may send there without the user's rights.
    is_home = any(home.chat_id == form["chat"] for home in of_account)
    return Target(
        platform=platform,
        account=account,
        chat=form["chat"],
        thread=form["thread"],
        is_home=is_home,
    )
