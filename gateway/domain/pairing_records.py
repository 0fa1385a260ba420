"""Who was let in by a pairing code, and who asks to be: what the store keeps of people."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Protocol

from turngate.gateway.domain.messages import MAIN_ACCOUNT, Part, SessionSource


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Person:
    """Somebody as one account of a platform knows him, by the id that he keeps for life. Names are no identity."""

    platform: str
    account: str
    id: str

    @classmethod
    def behind(cls, source: SessionSource) -> Person | None:
        """Who wrote that; None if the platform does not say."""
        id_ = source.participant_id
        return (
            None if id_ is None else cls(platform=source.platform, account=source.account, id=id_)
        )

    def __str__(self) -> str:
        head = self.platform if self.account == MAIN_ACCOUNT else f"{self.platform}/{self.account}"
        return f"{head}:{self.id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Approved:
    """Somebody who was let in: when, and by whom."""

    person: Person
    at: datetime
    by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Invitation:
    """
    A code for a stranger: what to tell him, where, and what is kept of the code itself.

    `digest` is all that the store ever sees of the code but for the words on their way. At most `most_pending` codes of
    an account can be approved at any time.
    """

    person: Person
    digest: str
    words: Part
    valid_for: timedelta
    most_pending: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Pending:
    """A code that can still be approved. Which one it is only the person knows who got it."""

    person: Person
    asked_at: datetime
    until: datetime


class Guess(StrEnum):
    """What became of a code that somebody gave."""

    RIGHT = "right"
    WRONG = "wrong"
    EXPIRED = "expired"
    USED = "used"
    TAKEN_BACK = "taken back"
    LOCKED = "locked"


@dataclass(frozen=True, slots=True, kw_only=True)
class Approval:
    """A code as somebody gives it: `way` is where it comes in, which locks after too many wrong ones."""

    digest: str
    way: str
    by: str
    words: str
    most_wrong: int
    locked_for: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """What became of it: whom it let in and the words for him, or until when the way is locked."""

    guess: Guess
    person: Person | None = None
    parts: tuple[Part, ...] = ()
    locked_until: datetime | None = None


class People(Protocol):
    """The part of the store that knows people, with the promises of the whole: atomic, durable, from any thread."""

    async def invite(self, invitation: Invitation) -> tuple[Part, ...]:
        """
        Give a stranger a code: keep its digest and put the words into the outbox.

        Nothing, and no part, if he was given one within its time, or if too many of his account wait.
        """

    async def approve(self, approval: Approval) -> Judged:
        """Let in whoever was given this code, once, and put the words for him into the outbox. Counts wrong codes."""

    async def revoke(self, platform: str, account: str | None, person: str) -> tuple[Person, ...]:
        """Let him in no longer, and take back his code; without an account on every one. Returns whom it concerned."""

    async def approved(self) -> list[Approved]:
        """Everybody who was let in, the first first."""

    async def pending(self) -> list[Pending]:
        """Every code that can be approved now, the oldest first."""
