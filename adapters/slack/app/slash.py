"""
The names of slash commands. Slack keeps some for itself, and refuses a whole manifest for one of them.

A command of ours whose name is taken is called `/turngate-NAME` there; `!NAME` works everywhere, in threads too.
"""

from __future__ import annotations

_BUILT_IN = """
    active archive away call close collapse dm dnd expand feed invite join keys kick leave me msg mute open part pref
    prefs remind remove rename search shortcuts shrug star status topic trigger unarchive who
"""
_REFUSED_AT_TIMES = "apps commands debug feedback help kill pro send todo"
TAKEN = frozenset(f"{_BUILT_IN} {_REFUSED_AT_TIMES}".split())
"""https://slack.com/help/articles/201259356, and what other apps were seen to be refused for."""

_PREFIX = "turngate-"


def slash_for(command: str) -> str:
    """What people type for a command of ours. Slack takes small letters, digits, - and _."""
    return f"/{_PREFIX}{command}" if command in TAKEN else f"/{command}"


def command_behind(slash: str) -> str:
    """The command of ours that they typed."""
    return slash.removeprefix("/").lower().removeprefix(_PREFIX)
