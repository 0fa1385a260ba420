"""Outgoing parts as rows, inside the caller's transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from turngate.gateway.domain.errors import AlreadySettled, Refused, UnknownWork
from turngate.gateway.domain.ids import (
    PartId,
    SessionId,
    TurnId,
)
from turngate.gateway.domain.outbox import (
    Part,
    PartState,
    Sent,
)
from turngate.gateway.stores.sqlite import question_table
from turngate.gateway.stores.sqlite.damaged_rows import DAMAGED
from turngate.gateway.stores.sqlite.rows import (
    PART_COLUMNS,
    checksum,
    micros,
    new_part,
    part_from_row,
    part_to_row,
)
from turngate.gateway.stores.sqlite.step_log import ADD_STEP, step_line
from turngate.gateway.stores.texts import scrub


def put_out(
    db: sqlite3.Connection,
    n: int | None,
    session: SessionId | None,
    turn: TurnId | None,
    parts: Sequence[Part],
    now: datetime,
) -> tuple[Part, ...]:
    """Store parts to be sent. Parts for unpaired users belong to no session."""
    stored = []
    for part in parts:
        values = part_to_row(part)
        id_ = db.execute(
            "INSERT INTO outbox (session, turn, ordinal, target, text, reply_to, edits, more, "
            "state, attempts,"
            " created_at, steps, checksum) VALUES (?, ?, ?, ?, ?, ?, ?, ?, 'pending', 0, ?, '', ?)",
            [n, turn, *values, micros(now), checksum(values)],
        ).lastrowid
        new = replace(
            new_part(PartId(id_ or 0), session, turn, values, now), question=part.question
        )
        if new.question is not None and n is not None:
            question_table.put(db, n, new)

        stored.append(new)

    return tuple(stored)


def record_sending(db: sqlite3.Connection, part: PartId, now: datetime) -> Part:
    """Record that a part is about to be sent, and count the attempt."""
    # Committed before the send: after a crash the part is found in doubt and is not repeated
    # without a check.
    _change(db, part, "state = 'sending', attempts = attempts + 1", (), step_line(now, "sending"))
    return read(db, part)


def record_sent(db: sqlite3.Connection, part: PartId, sent: Sent) -> None:
    """Record that a part was sent, and remove its text, which the transcript has."""
    values = (scrub(sent.message_id), micros(sent.at))
    step = step_line(sent.at, "sent", sent.message_id)
    _change(
        db,
        part,
        "state = 'sent', sent_id = ?, settled_at = ?, text = '', more = NULL",
        values,
        step,
    )


def record_unsent(
    db: sqlite3.Connection,
    part: PartId,
    reason: str,
    retry_at: datetime | None,
    now: datetime,
    *,
    in_doubt: bool,
) -> None:
    """Record a failed or uncertain send: to be retried, or a dead letter."""
    # In doubt it stays "sending", so that the next attempt first looks for it on the platform.
    state = (
        PartState.DEAD if retry_at is None else PartState.SENDING if in_doubt else PartState.FAILED
    )
    again = None if retry_at is None else micros(retry_at)
    word = "in doubt" if state is PartState.SENDING else state.value
    values = (state.value, scrub(reason), again)
    _change(db, part, "state = ?, reason = ?, not_before = ?", values, step_line(now, word, reason))


def requeue(db: sqlite3.Connection, part: PartId, now: datetime) -> Part:
    """Requeue a part that failed or is a dead letter."""
    _given_up(db, part)
    if db.execute("SELECT aside FROM outbox WHERE n = ?", (part,)).fetchone()[0] is not None:
        raise Refused(f"part {part} cannot be sent: {DAMAGED}; drop it")
    db.execute(
        f"UPDATE outbox SET state = 'pending', not_before = NULL, {ADD_STEP} WHERE n = ?",
        (step_line(now, "requeued"), part),
    )
    return read(db, part)


def drop(db: sqlite3.Connection, part: PartId) -> None:
    """Delete a part, unless it is being sent or was sent."""
    if (
        db.execute("SELECT 1 FROM outbox WHERE n = ? AND state = 'pending'", (part,)).fetchone()
        is None
    ):
        _given_up(db, part)
    db.execute("DELETE FROM outbox WHERE n = ?", (part,))


def drop_all_of(db: sqlite3.Connection, session: int) -> None:
    """Delete the unsent parts of a session."""
    db.execute("DELETE FROM outbox WHERE session = ? AND settled_at IS NULL", (session,))


def read(db: sqlite3.Connection, part: PartId) -> Part:
    """Return one part."""
    return part_from_row(
        db.execute(
            f"SELECT n, {PART_COLUMNS}, checksum FROM outbox WHERE n = ?", (part,)
        ).fetchone()
    )


def _change(
    db: sqlite3.Connection,
    part: PartId,
    change: str,
    values: tuple[str | int | None, ...],
    step: str,
) -> None:
    # The condition is part of the UPDATE: a late result must not change a part that was dropped,
    # sent or given up since.
    changed = db.execute(
        f"UPDATE outbox SET {change}, {ADD_STEP} WHERE n = ? AND settled_at IS NULL AND state != "
        "'dead'",
        (*values, step, part),
    ).rowcount
    if not changed:
        raise AlreadySettled(f"part {part} is {_state(db, part)}")


def _given_up(db: sqlite3.Connection, part: PartId) -> None:
    state = _state(db, part)
    if state not in ("failed", "dead"):
        raise AlreadySettled(f"part {part} is {state}")


def _state(db: sqlite3.Connection, part: PartId) -> str:
    row = db.execute("SELECT state FROM outbox WHERE n = ?", (part,)).fetchone()
    if row is None:
        raise UnknownWork(f"there is no part {part}; its session may have been deleted")
    return str(row[0])
