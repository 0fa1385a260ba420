"""
Questions with buttons as rows, inside the caller's transaction. A question has the number of its
part.
"""

from __future__ import annotations

import json
import sqlite3
from datetime import datetime

from turngate.gateway.domain.errors import StoreDamaged
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
    micros,
)
from turngate.gateway.stores.texts import scrub

COLUMNS = (
    "part, body, state, option, answered_by, (SELECT sent_id FROM outbox WHERE n = part), checksum"
)


def put(db: sqlite3.Connection, session: int, part: Part) -> None:
    """
    As it was asked: the outbox forgets its words once they were sent, and this must outlast that.
    """
    assert part.question is not None  # noqa: S101 - narrows the type for mypy; only questions come here
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
    """Once: whoever comes second finds it answered."""
    db.execute(
        "UPDATE questions SET state = 'answered', option = ?, answered_by = ? WHERE part = ? AND "
        "state = 'open'",
        (choice.option, by, choice.question),
    )


def close_of_turn(db: sqlite3.Connection, turn: TurnId) -> None:
    """Nobody waits for these answers any more, so what has not left yet is not asked."""
    waits = "turn = ? AND does = ? AND state = 'open'"
    values = (turn, Does.ANSWER.value)
    db.execute(
        "DELETE FROM outbox WHERE state IN ('pending', 'failed') AND n IN (SELECT part FROM "
        f"questions WHERE {waits})",
        values,
    )
    db.execute(f"UPDATE questions SET state = 'closed' WHERE {waits}", values)


def forget(db: sqlite3.Connection, before: datetime) -> int:
    """Those that expired before then."""
    return db.execute("DELETE FROM questions WHERE expires_at < ?", (micros(before),)).rowcount


def asked_from_row(row: Fetched) -> Asked:
    """From COLUMNS."""
    n, body, state, option, answered_by, message_id, written = row
    if checksum([body]) != written:
        raise StoreDamaged(f"the row of question {n} is not what was written")

    return Asked(
        id=PartId(n),
        part=from_dict(Part, json.loads(body)),
        state=QuestionState(state),
        option=option,
        answered_by=None if answered_by is None else InboxId(answered_by),
        message_id=message_id,
    )
