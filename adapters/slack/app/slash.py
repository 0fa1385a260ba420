"""
Names of slash commands. Slack reserves some names and rejects a whole manifest that uses one of
them.

A command whose name is reserved becomes `/turngate-NAME`; `!NAME` works everywhere, including
threads.
"""

from __future__ import annotations

_BUILT_IN = """
    active archive away call close collapse dm dnd expand feed invite join keys kick leave
    me msg mute open part pref prefs remind remove rename search shortcuts shrug star status
    topic trigger unarchive who
"""
_REFUSED_AT_TIMES = "apps commands debug feedback help kill pro send todo"
TAKEN = frozenset(f"{_BUILT_IN} {_REFUSED_AT_TIMES}".split())
"""
https://slack.com/help/articles/201259356, and names for which manifests of other apps were
rejected.
"""

_PREFIX = "turngate-"
_OF_NO_CONVERSATION = frozenset({"help", "start", "pair", "usage"})


def slash_for(command: str) -> str:
    """
    Return the slash command for a gateway command. Slack accepts lower-case letters, digits, - and
    _.
    """
    return f"/{_PREFIX}{command}" if command in TAKEN else f"/{command}"


def hint_for(command: str) -> str:
    """
    Return what to add to the answer of a slash command in a channel, where every conversation is a
    thread: Slack does not say in which thread the command was given. Empty if it concerns none.
    """
    if command in _OF_NO_CONVERSATION:
        return ""
    return (
        "Slack does not say in which thread a slash command was given, so this concerned no thread "
        f"of this channel. In the thread, write `!{command}`."
    )


def command_of(slash: str) -> str:
    """Return the gateway command for a slash command."""
    return slash.removeprefix("/").lower().removeprefix(_PREFIX)
