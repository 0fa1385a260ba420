"""
How often an app may call a method in one workspace, in a minute
(https://docs.slack.dev/apis/web-api/rate-limits).

Slack calls these numbers a least; here they are a most, so that whoever keeps to them is safe.
"""

from __future__ import annotations

from collections import defaultdict

from tests.simulators.slack import rules

PER_MINUTE = {2: 20, 3: 50, 4: 100}

TIERS = {
    "assistant.threads.setSuggestedPrompts": 3,
    "assistant.threads.setTitle": 3,
    "bots.info": 3,
    "chat.appendStream": 4,
    "chat.delete": 3,
    "chat.postEphemeral": 4,
    "chat.startStream": 2,
    "chat.stopStream": 2,
    "chat.update": 3,
    "conversations.history": 3,
    "conversations.info": 3,
    "conversations.join": 3,
    "conversations.list": 2,
    "conversations.members": 4,
    "conversations.open": 3,
    "conversations.replies": 3,
    "files.completeUploadExternal": 4,
    "files.getUploadURLExternal": 4,
    "files.info": 4,
    "reactions.add": 3,
    "reactions.remove": 2,
    "team.info": 3,
    "users.conversations": 2,
    "users.info": 4,
}
"""
Methods that are not here have rules of their own, such as a message a second per channel. That of
apps.connections.open (one a minute) is not enforced: scenarios connect again and again.
"""


class Tiers:
    """The calls of the last minute, by workspace and method."""

    def __init__(self) -> None:
        self._calls: dict[tuple[str, str], list[float]] = defaultdict(list)

    def count(self, team: str, method: str, now: float, minute: float) -> None:
        """Count a call; raises No with the seconds to wait if it is too much."""
        tier = TIERS.get(method)
        if tier is None:
            return
        calls = self._calls[team, method]
        calls[:] = [at for at in calls if at > now - minute]
        most = PER_MINUTE[tier]
        if len(calls) >= most:
            raise rules.slow_down(max(1, round(calls[-most] + minute - now)), rules.TIERS)
        calls.append(now)
