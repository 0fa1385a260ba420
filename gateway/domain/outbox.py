"""Outgoing parts, their states, and questions with buttons."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from turngate.gateway.domain.agent_events import File
from turngate.gateway.domain.ids import (
    PartId,
    SessionId,
    SessionKey,
    TurnId,
)
from turngate.gateway.domain.messages import SessionSource


class PartState(StrEnum):
    """An outgoing part: pending -> sending -> sent, or failed (to be retried) -> dead."""

    PENDING = "pending"
    SENDING = "sending"
    SENT = "sent"
    FAILED = "failed"
    DEAD = "dead"


class Says(StrEnum):
    """
    Whose words a part has: the agent's answer (or a command's), one that is incomplete, a notice of
    the gateway beside an answer, or one instead of an answer.
    """

    ANSWER = "answer"
    INCOMPLETE = "incomplete"
    NOTICE = "notice"
    NO_ANSWER = "no_answer"


class Does(StrEnum):
    """
    What a chosen option does: answers the agent that waits, is sent as a message, or runs a turn
    again.
    """

    ANSWER = "answer"
    SAY = "say"
    RERUN = "rerun"


@dataclass(frozen=True, slots=True, kw_only=True)
class Button:
    """One option of a question. A press returns only the nonce."""

    label: str
    nonce: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """
    What buttons are about: who may press one, until when, and what that does.

    It is answered once, and only in its chat. Without a user it is for everyone who may use the bot
    there. `ask` is the agent's id of it. `first_number`: there are no buttons, so the options are
    numbered from this one on, for that user in the session `key`.
    """

    does: Does
    person: str | None
    key: SessionKey
    expires_at: datetime
    ask: str = ""
    first_number: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """
    One piece of a reply, in Markdown, small enough for its platform.

    `edits` is the message that shows its preview: it is edited instead of sending a new one. With a
    `file` the text is its caption; with `buttons` it is a `question`, which stays here: the
    platform never learns what a button does.
    """

    target: SessionSource
    text: str
    ordinal: int = 0
    reply_to: str | None = None
    edits: str | None = None
    file: File | None = None
    buttons: tuple[Button, ...] = ()
    question: Question | None = None
    says: Says = Says.ANSWER
    # Set by the store. A part that keeps id 0 is a preview: it is in no table.
    id: PartId = PartId(0)
    session: SessionId | None = None
    turn: TurnId | None = None
    state: PartState = PartState.PENDING
    attempts: int = 0
    created_at: datetime | None = None
    sent_id: str | None = None
    reason: str | None = None
    not_before: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """The platform's id of a sent part."""

    message_id: str
    at: datetime
