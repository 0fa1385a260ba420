"""
Slack's rate limits: https://docs.slack.dev/apis/web-api/rate-limits.

Each method has a tier, counted for the app in one workspace. Slack calls the number of a tier a
least; it is taken as the limit here.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

from turngate.gateway.domain.ports.adapter import CallKind, MethodClass, Rate

# A message a second in one channel, with short bursts, and several hundred a minute in a workspace.
PER_CHAT = Rate(count=5, per=timedelta(seconds=5))
PER_ACCOUNT = Rate(count=20, per=timedelta(seconds=1))

_MINUTE = timedelta(minutes=1)
_TIER_2 = Rate(count=20, per=_MINUTE)
_TIER_3 = Rate(count=50, per=_MINUTE)
_TIER_4 = Rate(count=100, per=_MINUTE)
# The status has limits of its own, without a number. A class of its own, so that a pause for it
# concerns no answer.
_STATUSES = Rate(count=600, per=_MINUTE)

METHODS: Mapping[CallKind, MethodClass] = {
    CallKind.EDIT: MethodClass(name="chat.update", rate=_TIER_3),
    CallKind.BEGIN: MethodClass(name="chat.startStream", rate=_TIER_2),
    CallKind.GROW: MethodClass(name="chat.appendStream", rate=_TIER_4),
    CallKind.FILE: MethodClass(name="files.completeUploadExternal", rate=_TIER_4),
    CallKind.REACTION: MethodClass(name="reactions.add", rate=_TIER_3),
    CallKind.TYPING: MethodClass(name="assistant.threads.setStatus", rate=_STATUSES),
}
"""The method of each kind of call. chat.postMessage is counted by channel."""

END_OF_STREAM = MethodClass(name="chat.stopStream", rate=_TIER_2)
"""The method of an edit that ends a stream."""
