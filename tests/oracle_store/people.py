"""
People and pairing codes of the store that forgets. Written apart from the SQL, and as plain as can
be.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from turngate.gateway.domain.messages import SessionSource
from turngate.gateway.domain.outbox import Part
from turngate.gateway.domain.pairing_records import (
    Approval,
    Approved,
    Guess,
    Invitation,
    Judged,
    Pending,
    Person,
)
from turngate.gateway.stores.texts import scrubbed


@dataclass(slots=True)
class _Code:
    person: Person
    target: SessionSource
    asked_at: datetime
    until: datetime
    state: Guess | None = None

    def is_pending(self, now: datetime) -> bool:
        return self.state is None and self.asked_at <= now < self.until


@dataclass(slots=True)
class _Wrong:
    count: int
    since: datetime
    locked_until: datetime | None = None


class MemoryPeople:
    """Its owner holds the lock, tells the time, and puts the words into the outbox."""

    def __init__(self) -> None:
        self._approved: dict[Person, Approved] = {}
        self._codes: dict[str, _Code] = {}
        self._wrong: dict[str, _Wrong] = {}

    def invite(self, invitation: Invitation, now: datetime) -> bool:
        """Whether he is to be told a code."""
        person, codes = scrubbed(invitation.person), self._codes.values()
        account = person.platform, person.account
        waiting = [
            code for code in codes if code.is_pending(now) and _account(code.person) == account
        ]
        if any(code.person == person and code.asked_at <= now < code.until for code in codes):
            return False
        if len(waiting) >= invitation.most_pending:
            return False
        until = now + invitation.valid_for
        self._codes[invitation.digest] = _Code(
            person, scrubbed(invitation.words.target), now, until
        )
        return True

    def approve(self, approval: Approval, now: datetime) -> tuple[Judged, Part | None]:
        """What became of the code, and what to tell the person."""
        wrong = self._wrong.get(approval.way)
        if (
            wrong is not None
            and wrong.locked_until is not None
            and wrong.since <= now < wrong.locked_until
        ):
            return Judged(guess=Guess.LOCKED, locked_until=wrong.locked_until), None
        code = self._codes.get(approval.digest)
        if code is None:
            self._count_wrong(approval, now)
            return Judged(guess=Guess.WRONG), None
        if not code.is_pending(now):
            return Judged(guess=code.state or Guess.EXPIRED), None
        code.state = Guess.USED
        self._wrong.pop(approval.way, None)
        self._approved[code.person] = scrubbed(Approved(person=code.person, at=now, by=approval.by))
        return Judged(guess=Guess.RIGHT, person=code.person), Part(
            target=code.target, text=approval.words
        )

    def revoke(
        self, platform: str, account: str | None, person: str, now: datetime
    ) -> tuple[Person, ...]:
        """Whom it concerned."""
        pending = [code for code in self._codes.values() if code.is_pending(now)]
        concerned = {
            each
            for each in (*self._approved, *(code.person for code in pending))
            if (each.platform, each.id) == (platform, person) and account in (None, each.account)
        }
        for each in concerned:
            self._approved.pop(each, None)
        for code in pending:
            if code.person in concerned:
                code.state = Guess.TAKEN_BACK
        return tuple(sorted(concerned))

    def approved(self) -> list[Approved]:
        """The first first."""
        return sorted(self._approved.values(), key=lambda each: (each.at, each.person))

    def pending(self, now: datetime) -> list[Pending]:
        """The oldest first."""
        codes = [code for code in self._codes.values() if code.is_pending(now)]
        listed = [
            Pending(person=code.person, asked_at=code.asked_at, until=code.until) for code in codes
        ]
        return sorted(listed, key=lambda each: (each.asked_at, each.person))

    def forget(self, before: datetime) -> int:
        """How much was forgotten."""
        codes = [digest for digest, code in self._codes.items() if code.until < before]
        ways = [way for way, wrong in self._wrong.items() if wrong.since < before]
        for digest in codes:
            del self._codes[digest]
        for way in ways:
            del self._wrong[way]
        return len(codes) + len(ways)

    def _count_wrong(self, approval: Approval, now: datetime) -> None:
        wrong = self._wrong.get(approval.way)
        if (
            wrong is None
            or wrong.locked_until is not None
            or not now - approval.locked_for < wrong.since <= now
        ):
            wrong = self._wrong[approval.way] = _Wrong(0, now)
        wrong.count += 1
        if wrong.count >= approval.most_wrong:
            wrong.locked_until = now + approval.locked_for


def _account(person: Person) -> tuple[str, str]:
    return person.platform, person.account
