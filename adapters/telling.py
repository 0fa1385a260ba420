"""What every platform is told of the commands, and what it tells of an account that is looked at."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class MenuEntry:
    """A command as it is offered to people, or another name of one that is understood and not offered."""

    name: str
    summary: str
    argument: str = ""
    offered: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing to know of an account, with its cure where it needs one."""

    words: str
    is_error: bool = False
