"""Turns as rows, inside the caller's transaction."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from datetime import datetime

from turngate.gateway.domain.errors import (
    AlreadySettled,
    UnknownWork,
)
from turngate.gateway.domain.ids import TurnId
from turngate.gateway.stores.sqlite.rows import checksum, damaged, micros
from turngate.gateway.stores.sqlite.step_log import ADD_STEP, step_line
from turngate.gateway.stores.texts import scrub


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnRow:
    """A turn that begins again: its session's row number, the range of its messages, its state."""

    session: int
    first_seq: int
    last_seq: int
    attempt: int
    repeatable: bool
    preview: str | None
    alone_crashes: int


def start(
    db: sqlite3.Connection,
    session: int,
    seqs: tuple[int, int],
    *,
    repeatable: bool,
    run: str,
    now: datetime,
) -> TurnId:
    """Insert a running turn."""
    turn = db.execute(
        "INSERT INTO turns (session, first_seq, last_seq, state, run, attempt, repeatable, "
        "started_at, steps, checksum)"
        " VALUES (?, ?, ?, 'running', ?, 1, ?, ?, ?, ?)",
        (
            session,
            *seqs,
            run,
            repeatable,
            micros(now),
            step_line(now, "claimed"),
            checksum([session, *seqs]),
        ),
    ).lastrowid
    return TurnId(turn or 0)


def start_again(
    db: sqlite3.Connection, turn: TurnId, run: str, now: datetime, *, alone: bool
) -> TurnRow:
    """Claim a turn whose daemon died. Raises AlreadySettled."""
    # `run != ?`: a turn of this run is still being worked on, however often it is claimed.
    row = db.execute(
        f"UPDATE turns SET attempt = attempt + 1, run = ?, alone = ?, {ADD_STEP} WHERE n = ? AND "
        "state = 'running' AND run != ?"
        " RETURNING session, first_seq, last_seq, attempt, repeatable, preview, alone_crashes, "
        "checksum",
        (run, alone, step_line(now, "claimed again"), turn, run),
    ).fetchone()
    if row is None:
        raise AlreadySettled(f"turn {turn} is being worked on")

    session, first_seq, last_seq, attempt, repeatable, preview, alone_crashes, written = row
    _check(turn, (session, first_seq, last_seq), written)
    return TurnRow(
        session=session,
        first_seq=first_seq,
        last_seq=last_seq,
        attempt=attempt,
        repeatable=bool(repeatable),
        preview=preview,
        alone_crashes=alone_crashes,
    )


def count_crash(db: sqlite3.Connection, run: str | None) -> None:
    """
    Count the crash of that run against the turn that ran alone in it. None: no crash.

    A crash while no turn ran shows that another cause is at work: all are cleared.
    """
    # By way of the inbox, whose index finds open work: turns are kept, and there are many.
    suspects = "n IN (SELECT turn FROM inbox WHERE settled_at IS NULL) AND state = 'running'"
    if run is not None:
        db.execute(
            f"UPDATE turns SET alone_crashes = alone_crashes + 1 WHERE {suspects} AND alone = 1"
            " AND run = ?",
            (run,),
        )
        db.execute(
            f"UPDATE turns SET alone_crashes = 0 WHERE {suspects} AND NOT EXISTS"
            f" (SELECT 1 FROM turns WHERE {suspects} AND run = ?)",
            (run,),
        )
    db.execute(f"UPDATE turns SET alone = 0 WHERE {suspects} AND alone = 1")


def end_alone(db: sqlite3.Connection, turn: TurnId) -> None:
    """Record that other turns may run beside it from now on."""
    db.execute("UPDATE turns SET alone = 0 WHERE n = ?", (turn,))


def extend(db: sqlite3.Connection, turn: TurnId, last_seq: int, now: datetime) -> None:
    """It answers one message more, up to that entry."""
    session, first_seq = db.execute(
        "SELECT session, first_seq FROM turns WHERE n = ?", (turn,)
    ).fetchone()
    first_seq = min(first_seq, last_seq)
    db.execute(
        f"UPDATE turns SET first_seq = ?, last_seq = ?, checksum = ?, {ADD_STEP} WHERE n = ?",
        (
            first_seq,
            last_seq,
            checksum([session, first_seq, last_seq]),
            step_line(now, "joined"),
            turn,
        ),
    )


def running_session(db: sqlite3.Connection, turn: TurnId) -> int:
    """Return the session's row number of a running turn. Raises UnknownWork, AlreadySettled."""
    row = db.execute(
        "SELECT session, first_seq, last_seq, state, checksum FROM turns WHERE n = ?", (turn,)
    ).fetchone()
    if row is None:
        raise UnknownWork(f"there is no turn {turn}; its session may have been deleted")

    *numbers, state, written = row
    if state != "running":
        raise AlreadySettled(f"turn {turn} is {state}")
    # A damaged session number would put the answer into another conversation.
    _check(turn, tuple(numbers), written)

    return int(numbers[0])


def end(
    db: sqlite3.Connection, turn: TurnId, state: str, step: str, detail: str, now: datetime
) -> None:
    """Record the end of a turn."""
    db.execute(
        f"UPDATE turns SET state = ?, {ADD_STEP} WHERE n = ?",
        (state, step_line(now, step, detail), turn),
    )


def record_tool(db: sqlite3.Connection, turn: TurnId) -> None:
    """Record that the agent used a tool: the turn must not run again."""
    running_session(db, turn)
    db.execute("UPDATE turns SET repeatable = 0 WHERE n = ?", (turn,))


def record_preview(db: sqlite3.Connection, turn: TurnId, message_id: str) -> None:
    """Record the message that shows a turn."""
    running_session(db, turn)
    db.execute("UPDATE turns SET preview = ? WHERE n = ?", (scrub(message_id), turn))


def requeue(db: sqlite3.Connection, turn: TurnId, now: datetime) -> None:
    """Requeue a turn."""
    # The state of a turn whose daemon died before the first attempt: an empty run is never ours,
    # so `start_again` takes it.
    db.execute(
        "UPDATE turns SET state = 'running', run = '', attempt = 0, alone_crashes = 0, "
        f"{ADD_STEP} WHERE n = ?",
        (step_line(now, "requeued"), turn),
    )


def _check(turn: TurnId, numbers: tuple[int, ...], written: int) -> None:
    if checksum(numbers) != written:
        raise damaged("turns", turn)
