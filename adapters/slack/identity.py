"""Values that normalisation needs beside the event: the bot's identity and what was looked up."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from turngate.adapters.slack.json_fields import (
    Json,
    dict_in,
    dicts_in,
    text_in,
)


class Kind(StrEnum):
    """Chat types of Slack."""

    IM = "im"
    MPIM = "mpim"
    CHANNEL = "channel"
    PRIVATE = "private"


@dataclass(frozen=True, slots=True, kw_only=True)
class BotIdentity:
    """
    The bot: its ids, account name, known commands and thread settings.

    `team` is empty for a server with a single, unnamed workspace.
    """

    user: str
    bot: str
    team: str
    account: str
    enterprise: str | None = None
    commands: frozenset[str] = frozenset()
    dm_threads: bool = False
    follow_threads: bool = True

    def is_addressed_by(self, body: Json) -> bool:
        """
        Whether the body is for this workspace. An app installed in several workspaces receives the
        events of all of them.
        """
        teams = set(_teams_of(body)) - {""}
        return not teams or not self.team or self.team in teams or self.enterprise in teams


@dataclass(frozen=True, slots=True, kw_only=True)
class Chat:
    """A chat. Its name and topic are untrusted text."""

    kind: Kind
    name: str | None = None
    topic: str | None = None

    @classmethod
    def of(cls, channel: Json) -> Chat:
        """Parse a channel object of conversations.info or users.conversations."""
        topic = text_in(dict_in(channel, "topic"), "value")
        return cls(
            kind=_kind_of(channel), name=text_in(channel, "name") or None, topic=topic or None
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class EventContext:
    """
    Results of the lookups for one event. `chat` is None if the event itself states the type.

    `takes_part`: the bot wrote in this thread or was mentioned there. `is_assistant`: the thread
    belongs to the assistant pane. `names`: display names by user id.
    """

    chat: Chat | None = None
    takes_part: bool = False
    is_assistant: bool = False
    names: Mapping[str, str] = field(default_factory=dict)


def _teams_of(body: Json) -> Iterator[str]:
    """
    Yield the workspaces that receive the event; without a list, the workspace it was written in.
    """
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
