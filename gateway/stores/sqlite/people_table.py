"""Paired users and pairing codes as rows, inside the caller's transaction."""

from __future__ import annotations

import sqlite3
from datetime import datetime

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
from turngate.gateway.stores.sqlite import outbox_table
from turngate.gateway.stores.sqlite.rows import (
    Fetched,
    Value,
    checksum,
    damaged,
    micros,
    moment,
    source_from_json,
    source_json,
)
from turngate.gateway.stores.texts import scrub

APPROVED = (
    "SELECT platform, account, id, at, by, checksum FROM people ORDER BY at, platform, account, id"
)
PENDING = (
    "SELECT platform, account, person, asked_at, until FROM pairings"
    " WHERE state = 'pending' AND asked_at <= ?1 AND ?1 < until ORDER BY asked_at, platform, "
    "account, person"
)
# A code from the future was issued before the clock was set back: it would stay valid too long.
_IN_TIME = "asked_at <= ? AND until > ?"
_AFTERWARDS = {"used": Guess.USED, "taken back": Guess.TAKEN_BACK}


def invite(db: sqlite3.Connection, invitation: Invitation, now: datetime) -> tuple[Part, ...]:
    """Store a code and its message, unless they have one or too many are pending."""
    who = _who(invitation.person)
    in_time = (micros(now), micros(now))
    # In any state: a code that was revoked must not be replaced by a new one before it expires.
    asked = db.execute(
        f"SELECT 1 FROM pairings WHERE platform = ? AND account = ? AND person = ? AND {_IN_TIME}",
        (*who, *in_time),
    ).fetchone()
    waiting = db.execute(
        "SELECT count(*) FROM pairings WHERE platform = ? AND account = ? AND state = 'pending' "
        f"AND {_IN_TIME}",
        (*who[:2], *in_time),
    ).fetchone()[0]
    if asked is not None or waiting >= invitation.most_pending:
        return ()

    values: list[Value] = [invitation.digest, *who, source_json(invitation.words.target)]
    db.execute(
        "INSERT INTO pairings VALUES (?, ?, ?, ?, ?, ?, ?, 'pending', ?)",
        [*values, micros(now), micros(now + invitation.valid_for), checksum(values)],
    )
    return outbox_table.put_out(db, None, None, None, (invitation.words,), now)


def approve(db: sqlite3.Connection, approval: Approval, now: datetime) -> Judged:
    """Approve the user who has this code; a wrong code counts against the way it came in."""
    # First: while a way is locked even the right code must not be confirmed.
    locked_until = _locked_until(db, approval.way, now)
    if locked_until is not None:
        return Judged(guess=Guess.LOCKED, locked_until=locked_until)

    row = db.execute(
        "SELECT digest, platform, account, person, target, checksum, state, asked_at, until FROM "
        "pairings"
        " WHERE digest = ?",
        (approval.digest,),
    ).fetchone()
    if row is None:
        return _count_wrong(db, approval, now)

    *values, written, state, asked_at, until = row
    if checksum(values) != written:
        raise damaged("pairings", values[0])
    # Not counted as wrong: it was a right code once, so it is no guess.
    if state != "pending":
        return Judged(guess=_AFTERWARDS[state])
    if not asked_at <= micros(now) < until:
        return Judged(guess=Guess.EXPIRED)

    person = Person(platform=values[1], account=values[2], id=values[3])
    _let_in(db, person, approval, now)
    words = Part(target=source_from_json(values[4]), text=approval.words)
    return Judged(
        guess=Guess.RIGHT,
        person=person,
        parts=outbox_table.put_out(db, None, None, None, (words,), now),
    )


def revoke(
    db: sqlite3.Connection, platform: str, account: str | None, person: str, now: datetime
) -> tuple[Person, ...]:
    """Revoke a user's access and pending codes; return the users concerned."""
    where = "platform = ? AND account = coalesce(?, account)"
    who = (scrub(platform), account and scrub(account), scrub(person))
    gone = db.execute(
        f"DELETE FROM people WHERE {where} AND id = ? RETURNING platform, account, id", who
    ).fetchall()
    gone += db.execute(
        f"UPDATE pairings SET state = 'taken back' WHERE {where} AND person = ? AND state = "
        "'pending'"
        f" AND {_IN_TIME} RETURNING platform, account, person",
        (*who, micros(now), micros(now)),
    ).fetchall()

    return tuple(sorted({Person(platform=row[0], account=row[1], id=row[2]) for row in gone}))


def forget(db: sqlite3.Connection, before: datetime) -> int:
    """Delete old codes and old counts of wrong ones; return how many."""
    forgotten = db.execute("DELETE FROM pairings WHERE until < ?", (micros(before),)).rowcount
    return forgotten + db.execute("DELETE FROM guesses WHERE since < ?", (micros(before),)).rowcount


def approved_from_row(row: Fetched) -> Approved:
    """Return the paired user of a row of APPROVED."""
    *values, written = row
    if checksum(values) != written:
        raise damaged("people", "/".join(map(str, values[:3])))
    platform, account, id_, at, by = values
    return Approved(person=Person(platform=platform, account=account, id=id_), at=moment(at), by=by)


def pending_from_row(row: Fetched) -> Pending:
    """Return the pending code of a row of PENDING."""
    platform, account, person, asked_at, until = row
    who = Person(platform=platform, account=account, id=person)
    return Pending(person=who, asked_at=moment(asked_at), until=moment(until))


def _let_in(db: sqlite3.Connection, person: Person, approval: Approval, now: datetime) -> None:
    values: list[Value] = [*_who(person), micros(now), scrub(approval.by)]
    db.execute(
        "INSERT OR REPLACE INTO people VALUES (?, ?, ?, ?, ?, ?)", [*values, checksum(values)]
    )
    db.execute("UPDATE pairings SET state = 'used' WHERE digest = ?", (approval.digest,))
    db.execute("DELETE FROM guesses WHERE way = ?", (scrub(approval.way),))


def _locked_until(db: sqlite3.Connection, way: str, now: datetime) -> datetime | None:
    row = db.execute(
        "SELECT locked_until FROM guesses WHERE way = ? AND since <= ? AND locked_until > ?",
        (scrub(way), micros(now), micros(now)),
    ).fetchone()
    return None if row is None else moment(row[0])


def _count_wrong(db: sqlite3.Connection, approval: Approval, now: datetime) -> Judged:
    """Count a wrong code and lock the way at the limit; earlier ones than `locked_for` expire."""
    row = db.execute(
        "SELECT wrong, since FROM guesses WHERE way = ? AND since > ? AND since <= ? AND "
        "locked_until IS NULL",
        (scrub(approval.way), micros(now - approval.locked_for), micros(now)),
    ).fetchone()
    wrong, since = (row[0] + 1, row[1]) if row is not None else (1, micros(now))
    locked = micros(now + approval.locked_for) if wrong >= approval.most_wrong else None
    db.execute(
        "INSERT OR REPLACE INTO guesses VALUES (?, ?, ?, ?)",
        (scrub(approval.way), wrong, since, locked),
    )

    return Judged(guess=Guess.WRONG)


def _who(person: Person) -> tuple[str, str, str]:
    return scrub(person.platform), scrub(person.account), scrub(person.id)
