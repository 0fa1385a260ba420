"""
Pairing: an unknown user gets a code, and an operator or admin approves it.

Codes are random, short-lived and single-use; only a keyed hash is stored. Approved users are kept
in memory as well, because admission must not wait for the store.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from turngate.gateway.domain.errors import Refused
from turngate.gateway.domain.messages import MAIN_ACCOUNT, SessionSource
from turngate.gateway.domain.outbox import Part
from turngate.gateway.domain.pairing_records import (
    Approval,
    Approved,
    Guess,
    Invitation,
    Judged,
    Pending,
    People,
    Person,
)

ALPHABET = "ABCDEFGHJKLMNPQRSTUVWXYZ23456789"
"""Nothing that could be taken for something else: no I beside 1, no O beside 0."""
CODE_LENGTH = 8
VALID_FOR = timedelta(hours=1)
MOST_PENDING = 3
MOST_WRONG = 5
LOCKED_FOR = timedelta(hours=1)

BY_COMMAND = "command line"
"""The way in of whoever has the machine."""

WELCOME = "You can talk to me now."
_INVITATION = (
    "I do not know you yet, so I have not read your message. Show this code to the operator of "
    "this bot. Once it was approved, you can talk to me: `{code}`\n\nIt is good for one hour."
)
_WHO = re.compile(r"(?P<platform>[^:/\s]+)(?:/(?P<account>[a-z0-9_-]+))?:(?P<id>[^:\s]+)")
_WHY_NOT = {
    Guess.WRONG: "there is no such code; read it again from the person's screen",
    Guess.EXPIRED: "this code has expired; the person gets a new one by writing again",
    Guess.USED: "this code was used already; a code lets in one person once",
    Guess.TAKEN_BACK: "this code was taken back; the person gets a new one by writing again "
    "after an hour",
}


@dataclass(slots=True)
class Pairing:
    """
    Codes and approved users. `approved` mirrors the store after `open`.

    `send_on` delivers parts of the outbox; without it the next start of the daemon does.
    `most_pending`: codes of an account that can be open at once, because everybody can ask for one.
    """

    people: People
    key: bytes = field(repr=False)
    send_on: Callable[[Part], None] = lambda part: None
    approved: set[Person] = field(default_factory=set)
    most_pending: int = MOST_PENDING

    async def open(self) -> None:
        """Read the approved users. Called before the first message."""
        self.approved = {each.person for each in await self.people.approved()}

    async def invite(self, source: SessionSource, message_id: str) -> None:
        """Send an unknown user a code, unless they have one or too many are pending."""
        person = Person.behind(source)
        if person is None:
            return

        # From a cryptographic source: a code that can be guessed grants access to anyone.
        code = "".join(secrets.choice(ALPHABET) for _ in range(CODE_LENGTH))
        invitation = Invitation(
            person=person,
            digest=self._digest(code),
            words=Part(
                target=source.nameless, text=_INVITATION.format(code=code), reply_to=message_id
            ),
            valid_for=VALID_FOR,
            most_pending=self.most_pending,
        )
        self._send(await self.people.invite(invitation))

    async def approve(self, code: str, *, way: str, by: str) -> Person:
        """Approve the user with this code. Raises Refused; too many wrong codes lock `way`."""
        judged = await self.people.approve(
            Approval(
                digest=self._digest(_as_given(code)),
                way=way,
                by=by,
                words=WELCOME,
                most_wrong=MOST_WRONG,
                locked_for=LOCKED_FOR,
            )
        )
        # The store counts wrong codes in the same transaction, so that restarting does not reset
        # the lock.
        if judged.person is None:
            raise Refused(_refusal(judged))

        # In memory after the commit, so that the next message is admitted without waiting for the
        # store.
        self.approved.add(judged.person)
        self._send(judged.parts)
        return judged.person

    async def revoke(self, who: str) -> tuple[Person, ...]:
        """Revoke access. Raises Refused if no such user is approved or pending."""
        written = _WHO.fullmatch(who.strip())
        if written is None:
            raise Refused("write who it is as `pair list` does: PLATFORM:ID or PLATFORM/ACCOUNT:ID")

        gone = await self.people.revoke(written["platform"], written["account"], written["id"])
        if not gone:
            raise Refused(
                f"{who.strip()} was not paired; whom the config allows is taken out of "
                "access.allow and access.admins"
            )

        self.approved.difference_update(gone)
        return gone

    async def listed(self) -> tuple[list[Approved], list[Pending]]:
        """Return approved and pending users."""
        return await self.people.approved(), await self.people.pending()

    def exhausted(self, pending: Sequence[Pending]) -> dict[tuple[str, str], datetime]:
        """Return the accounts that give out no code now, and when each next has one."""
        by_account: dict[tuple[str, str], list[datetime]] = {}
        for each in pending:
            account = each.person.platform, each.person.account
            by_account.setdefault(account, []).append(each.until)

        # More than the limit are open where the operator has lowered it.
        return {
            account: sorted(until)[len(until) - self.most_pending]
            for account, until in by_account.items()
            if len(until) >= self.most_pending
        }

    def _send(self, parts: tuple[Part, ...]) -> None:
        for part in parts:
            self.send_on(part)

    def _digest(self, code: str) -> str:
        # Keyed: a code is short enough to be found from a plain hash in a copied database.
        return hmac.new(self.key, b"pairing code " + code.encode(), hashlib.sha256).hexdigest()


def way_of(source: SessionSource) -> str:
    """Return the id under which an admin's wrong codes are counted."""
    account = "" if source.account == MAIN_ACCOUNT else f"/{source.account}"
    return f"{source.platform}{account}:{source.participant_id or ''}"


def _as_given(code: str) -> str:
    """Normalise a code: users write lower case, blanks and dashes."""
    given = re.sub(r"[\s-]", "", code[:100]).upper()
    return given if given.isascii() else ""


def _refusal(judged: Judged) -> str:
    if judged.guess is Guess.LOCKED and judged.locked_until is not None:
        return (
            f"{MOST_WRONG} wrong codes were given here, so no code is taken here "
            f"until {judged.locked_until:%Y-%m-%d %H:%M} UTC"
        )
    return _WHY_NOT[judged.guess]
