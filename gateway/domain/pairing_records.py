"""Paired users and pending codes, as the store keeps them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Protocol

from turngate.gateway.domain.messages import MAIN_ACCOUNT, SessionSource
from turngate.gateway.domain.outbox import Part


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Person:
    """A user of one account of a platform, by their permanent id. Names are no identity."""

    platform: str
    account: str
    id: str

    @classmethod
    def behind(cls, source: SessionSource) -> Person | None:
        """Return who wrote from this source; None if the platform does not say."""
        id_ = source.participant_id
        return (
            None if id_ is None else cls(platform=source.platform, account=source.account, id=id_)
        )

    def __str__(self) -> str:
        # The form of an entry in access.allow.
        head = self.platform if self.account == MAIN_ACCOUNT else f"{self.platform}/{self.account}"
        return f"{head}:{self.id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Approved:
    """A paired user: when, and by whom."""

    person: Person
    at: datetime
    by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Invitation:
    """
    A code for an unknown user: the message to send, and what is stored of the code.

    `digest` is all that the store sees of the code, apart from the message on its way. At most
    `most_pending` codes of an account can be pending.
    """

    person: Person
    digest: str
    words: Part
    valid_for: timedelta
    most_pending: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Pending:
    """A code that can still be approved. Only its owner knows which one it is."""

    person: Person
    asked_at: datetime
    until: datetime


class Guess(StrEnum):
    """The result of a given code."""

    RIGHT = "right"
    WRONG = "wrong"
    EXPIRED = "expired"
    USED = "used"
    TAKEN_BACK = "taken back"
    LOCKED = "locked"


@dataclass(frozen=True, slots=True, kw_only=True)
class Approval:
    """
    A code as given by an approver: `way` is where it came in, which locks after too many wrong
    ones.
    """

    digest: str
    way: str
    by: str
    words: str
    most_wrong: int
    locked_for: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """
    The result of an approval: the paired user and their message, or until when the way is locked.
    """

    guess: Guess
    person: Person | None = None
    parts: tuple[Part, ...] = ()
    locked_until: datetime | None = None


class People(Protocol):
    """
    The part of the store for users, with the same promises: atomic, durable, callable from any
    thread.
    """

    async def invite(self, invitation: Invitation) -> tuple[Part, ...]:
        """
        Store the digest of a code for an unknown user and put the message into the outbox.

        Does nothing if they have a valid one, or if too many of the account are pending.
        """

    async def approve(self, approval: Approval) -> Judged:
        """
        Approve the user with this code, once, and put their message into the outbox. Counts wrong
        codes.
        """

    async def revoke(self, platform: str, account: str | None, person: str) -> tuple[Person, ...]:
        """
        Revoke access and pending codes; without an account on every one. Returns the users
        concerned.
        """

    async def approved(self) -> list[Approved]:
        """Return all paired users, oldest first."""

    async def pending(self) -> list[Pending]:
        """Return every code that can be approved now, oldest first."""
