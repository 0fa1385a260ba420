"""What is known before something is normalised: who the bot is, and what was looked up about a chat and its people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from turngate.adapters.slack.json_fields import Json, dict_in, dicts_in, text_in


class Kind(StrEnum):
    """The kinds of chats at Slack."""

    IM = "im"
    MPIM = "mpim"
    CHANNEL = "channel"
    PRIVATE = "private"


@dataclass(frozen=True, slots=True, kw_only=True)
class Me:
    """
    The bot itself: what Slack and the config call it, the commands that it knows, and what the operator wishes.

    `team` is empty at a server that has only one and does not name it.
    """

    user: str
    bot: str
    team: str
    account: str
    enterprise: str | None = None
    commands: frozenset[str] = frozenset()
    dm_threads: bool = False
    follow_threads: bool = True

    def is_meant_by(self, body: Json) -> bool:
        """Whether a body is for this workspace: an app may be in several, and hears of all of them on one line."""
        teams = set(_teams_of(body)) - {""}
        return not teams or not self.team or self.team in teams or self.enterprise in teams


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A chat. Its name and topic are other people's words."""

    kind: Kind
    name: str | None = None
    topic: str | None = None

    @classmethod
    def of(cls, channel: Json) -> Place:
        """From what conversations.info and users.conversations say."""
        topic = text_in(dict_in(channel, "topic"), "value")
        return cls(
            kind=_kind_of(channel), name=text_in(channel, "name") or None, topic=topic or None
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class EventContext:
    """
    What was looked up for one event. What kind of chat it is some events say themselves.

    `takes_part`: the bot has said something in this thread, or was called. `is_assistants`: the thread is one of the
    assistant's pane. `names`: what people are called, by id.
    """

    place: Place | None = None
    takes_part: bool = False
    is_assistants: bool = False
    names: Mapping[str, str] = field(default_factory=dict)


def _teams_of(body: Json) -> Iterator[str]:
    """An event names those that hear it; where it was written counts only if it names none."""
    authorizations = dicts_in(body, "authorizations")
    for each in authorizations:
        is_whole = each.get("is_enterprise_install") or not text_in(each, "team_id")
        yield text_in(each, "enterprise_id") if is_whole else text_in(each, "team_id")
    if not authorizations:
        yield text_in(dict_in(body, "team"), "id") or text_in(body, "team_id")


def _kind_of(channel: Json) -> Kind:
    if channel.get("is_im") or text_in(channel, "id").startswith("D"):
        return Kind.IM
    if channel.get("is_mpim"):
        return Kind.MPIM
    return Kind.PRIVATE if channel.get("is_private") or channel.get("is_group") else Kind.CHANNEL
