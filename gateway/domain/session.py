"""A session: when it is reset, why it ended, what its notice says."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, time, timedelta
from enum import StrEnum

from turngate.gateway.domain.ids import SessionId, SessionKey
from turngate.gateway.domain.messages import SessionSource
from turngate.gateway.domain.transcript import Entry, Role
from turngate.gateway.domain.usage import (
    Cost,
    Model,
    Tokens,
)


class EndReason(StrEnum):
    """Why a session ended."""

    RESET = "reset"
    IDLE = "idle"
    DAILY = "daily"
    SWITCH = "switch"
    DELETED = "deleted"
    DAMAGED = "damaged"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetPolicy:
    """When a session is reset automatically: never, if neither field is set."""

    idle_after: timedelta | None = None
    daily_at: time | None = None
    zone: str = "UTC"

    @property
    def is_never(self) -> bool:
        return self.idle_after is None and self.daily_at is None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetNotice:
    """
    What the first turn of a new session must know about the previous one. A session with only
    commands is not worth resuming.
    """

    reason: EndReason
    had_activity: bool
    previous: SessionId
    commands_only: bool = False

    @property
    def is_way_back(self) -> bool:
        """Whether /resume leads anywhere."""
        return self.had_activity and not self.commands_only


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """
    A session. The id changes with each reset, the key is permanent.

    Three times: `started_at`; `last_interaction_at`, moved only by a user; `updated_at`, moved by
    any change. `messages` counts the live entries; those up to `archived_through` are kept and
    searchable but no longer live, those up to `consolidated_through` are summarised and not
    replayed; the summary itself is the entry `summary_seq`. `tokens_estimated`: some were not
    reported but estimated.
    """

    id: SessionId
    key: SessionKey
    origin: SessionSource
    started_at: datetime
    last_interaction_at: datetime
    updated_at: datetime
    owner: str | None = None
    title: str | None = None
    preview: str = ""
    preview_by: Role | None = None
    goal: str | None = None
    agent: str | None = None
    archived: bool = False
    important: bool = False
    ended_at: datetime | None = None
    end_reason: EndReason | None = None
    notice: ResetNotice | None = None
    messages: int = 0
    archived_through: int = 0
    consolidated_through: int = 0
    summary_seq: int = 0
    tokens: Tokens = Tokens()
    tokens_estimated: bool = False
    last_prompt_tokens: int = 0
    cost: Cost | None = None
    model: Model | None = None
    current: bool = True

    @property
    def had_activity(self) -> bool:
        """Whether anything was said or any token used."""
        # Archived entries are no longer counted in `messages`.
        return self.messages > 0 or self.archived_through > 0 or self.tokens.total > 0

    @property
    def has_talk(self) -> bool:
        """Whether there is anything to resume: commands alone are not."""
        # Commands leave no preview, and an answer without text still used tokens.
        return bool(self.preview) or self.tokens.total > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """
    The session a message belongs to. `notice` stays until a turn was finished with it, so a crash
    cannot lose it.
    """

    session: Session
    is_new: bool

    @property
    def notice(self) -> ResetNotice | None:
        """Why the previous session was reset, until an answer has shown it to the user."""
        return self.session.notice


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionEnded:
    """
    An ended session as its agent may see it: what the last turn would have been shown.

    `id` and `title` are the session's, `history` ends with the last message.
    """

    id: SessionId
    reason: EndReason
    source: SessionSource
    started_at: datetime
    ended_at: datetime
    title: str | None = None
    goal: str | None = None
    history: tuple[Entry, ...] = ()
    workdir: str | None = None
    shared: bool = False
