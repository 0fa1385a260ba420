"""Questions with buttons as rows, inside the caller's transaction, by the number of their part."""

from __future__ import annotations

import json
import sqlite3
from datetime import datetime

from turngate.gateway.domain.ids import (
    InboxId,
    PartId,
    TurnId,
)
from turngate.gateway.domain.outbox import Does, Part
from turngate.gateway.domain.serialization import from_dict, to_dict
from turngate.gateway.domain.store_values import (
    Asked,
    Choice,
    QuestionState,
)
from turngate.gateway.stores.sqlite.rows import (
    Fetched,
    checksum,
    damaged,
    damaged_if_unreadable,
    micros,
)
from turngate.gateway.stores.texts import scrub

COLUMNS = (
    "part, body, state, option, answered_by, (SELECT sent_id FROM outbox WHERE n = part), checksum"
)


def put(db: sqlite3.Connection, session: int, part: Part) -> None:
    """Store a question with its whole part."""
    # A copy, because the outbox row loses its text once it is sent and the question is still open.
    # Narrows the type for mypy; only questions come here.
    assert part.question is not None  # noqa: S101
    body = scrub(json.dumps(to_dict(part), ensure_ascii=False))
    db.execute(
        "INSERT INTO questions (part, session, turn, does, body, state, expires_at, checksum)"
        " VALUES (?, ?, ?, ?, ?, 'open', ?, ?)",
        (
            part.id,
            session,
            part.turn,
            part.question.does.value,
            body,
            micros(part.question.expires_at),
            checksum([body]),
        ),
    )


def choose(db: sqlite3.Connection, choice: Choice, by: InboxId) -> None:
    """Record the answer, if the question is still open."""
    db.execute(
        "UPDATE questions SET state = 'answered', option = ?, answered_by = ? WHERE part = ? AND "
        "state = 'open'",
        (choice.option, by, choice.question),
    )


def close_of_turn(db: sqlite3.Connection, turn: TurnId) -> None:
    """Close the open questions of a turn, whose agent no longer waits; unsent ones are deleted."""
    # Only Does.ANSWER: the other kinds send a message or start a turn, after this one too.
    waits = "turn = ? AND does = ? AND state = 'open'"
    values = (turn, Does.ANSWER.value)
    db.execute(
        "DELETE FROM outbox WHERE state IN ('pending', 'failed') AND n IN (SELECT part FROM "
        f"questions WHERE {waits})",
        values,
    )
    db.execute(f"UPDATE questions SET state = 'closed' WHERE {waits}", values)


def close(db: sqlite3.Connection, question: PartId) -> bool:
    """Close one question; False if it is not open."""
    changed = db.execute(
        "UPDATE questions SET state = 'closed' WHERE part = ? AND state = 'open'", (question,)
    )
    return changed.rowcount > 0


def forget(db: sqlite3.Connection, before: datetime) -> int:
    """Delete questions that expired before then; return how many."""
    return db.execute("DELETE FROM questions WHERE expires_at < ?", (micros(before),)).rowcount


@damaged_if_unreadable("questions")
def asked_from_row(row: Fetched) -> Asked:
    """Return the question of a row of COLUMNS."""
    n, body, state, option, answered_by, message_id, written = row
    if checksum([body]) != written:
        raise damaged("questions", n)

    return Asked(
        id=PartId(n),
        part=from_dict(Part, json.loads(body)),
        state=QuestionState(state),
        option=option,
        answered_by=None if answered_by is None else InboxId(answered_by),
        message_id=message_id,
    )
