"""Work on its way: the inbox, the turns, the outbox, inside the caller's transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from datetime import datetime

from gateway.errors import AlreadySettled, StoreDamaged, UnknownWork
from gateway.model import InboundMessage, InboxId, Part, PartId, Sent, SessionKey, TurnId
from gateway.ports import Accepted
from gateway.stores.sqlite.rows import (
    PART_COLUMNS,
    checksum,
    message_json,
    micros,
    new_part,
    part_from_row,
    part_to_row,
)
from gateway.stores.texts import scrub

# Neither what was said nor what people and places are called.
_WORDLESS = (
    "message = json_remove(message, '$.text', '$.attachments', '$.reply_to',"
    " '$.source.chat_name', '$.source.user_name', '$.source.chat_topic')"
)


def record_probe(db: sqlite3.Connection, now: datetime) -> None:
    """Something that means nothing, in the one row there is for it."""
    db.execute("INSERT OR REPLACE INTO probe VALUES (1, ?)", (micros(now),))


def accept(db: sqlite3.Connection, message: InboundMessage, key: SessionKey, now: datetime) -> Accepted:
    """Into the inbox, unless any of its names was seen before."""
    source = message.source
    events = [scrub(f"{source.platform}/{source.account}:{event}") for event in message.event_ids]
    first = _first_seen(db, events)
    if first is None:
        values = [scrub(key), message_json(message)]
        inbox = db.execute(
            "INSERT INTO inbox (key, message, state, attempts, received_at, checksum)"
            " VALUES (?, ?, 'waiting', 0, ?, ?)",
            [*values, micros(now), checksum(values)],
        ).lastrowid
    else:
        inbox = first
    # Under a new name a known message is remembered too: the platform may repeat it under that one.
    db.executemany("INSERT OR IGNORE INTO seen VALUES (?, ?, ?)", [(event, inbox, micros(now)) for event in events])
    return Accepted(id=InboxId(inbox or 0), duplicate=first is not None)


def _first_seen(db: sqlite3.Connection, events: list[str]) -> int | None:
    marks = ", ".join("?" * len(events))
    row = db.execute(f"SELECT min(inbox) FROM seen WHERE event IN ({marks})", events).fetchone()
    return None if row[0] is None else int(row[0])


def turn_of(db: sqlite3.Connection, inbox: tuple[InboxId, ...]) -> TurnId | None:
    """The turn these rows already belong to. What is settled, unknown, or a mixture that makes no sense is refused."""
    turns = set()
    for n in inbox:
        row = db.execute("SELECT state, turn, key, message, checksum FROM inbox WHERE n = ?", (n,)).fetchone()
        if row is None:
            raise UnknownWork(f"there is no inbound message {n}")
        state, turn, *written = row
        if state not in ("waiting", "running"):
            raise AlreadySettled(f"inbound message {n} is {state}")
        if checksum(written[:2]) != written[2]:
            raise StoreDamaged(f"inbox row {n} is not what was written")
        turns.add(turn)
    if len(turns) > 1:
        raise AlreadySettled("some of these messages already belong to a turn, others do not")
    return turns.pop() if turns else None


def start_turn(
    db: sqlite3.Connection, n: int, inbox: tuple[InboxId, ...], first_seq: int, *, run: str, now: datetime
) -> TurnId:
    """A turn that runs, and the rows that wait for it."""
    turn = db.execute(
        "INSERT INTO turns (session, first_seq, state, run, attempt, started_at, checksum)"
        " VALUES (?, ?, 'running', ?, 1, ?, ?)",
        (n, first_seq, run, micros(now), checksum([n, first_seq])),
    ).lastrowid
    for row in inbox:
        db.execute("UPDATE inbox SET state = 'running', turn = ?, attempts = 1 WHERE n = ?", (turn, row))
    return TurnId(turn or 0)


def start_again(db: sqlite3.Connection, turn: TurnId, run: str) -> tuple[int, int, int]:
    """Once more, after the daemon died during it: session number, first sequence number, attempt."""
    row = db.execute(
        "UPDATE turns SET attempt = attempt + 1, run = ? WHERE n = ? AND state = 'running' AND run != ?"
        " RETURNING session, first_seq, checksum, attempt",
        (run, turn, run),
    ).fetchone()
    if row is None:
        raise AlreadySettled(f"turn {turn} is being worked on")
    session, first_seq, written, attempt = row
    _check_turn(turn, session, first_seq, written)
    db.execute("UPDATE inbox SET attempts = ? WHERE turn = ? AND settled_at IS NULL", (attempt, turn))
    return session, first_seq, attempt


def running_session(db: sqlite3.Connection, turn: TurnId) -> int:
    """The session number of a turn that may still be finished."""
    row = db.execute("SELECT session, state, first_seq, checksum FROM turns WHERE n = ?", (turn,)).fetchone()
    if row is None:
        raise UnknownWork(f"there is no turn {turn}; its session may have been deleted")
    session, state, first_seq, written = row
    _check_turn(turn, session, first_seq, written)
    if state != "running":
        raise AlreadySettled(f"turn {turn} is {state}")
    return int(session)


def _check_turn(turn: TurnId, session: int, first_seq: int, written: int) -> None:
    if checksum([session, first_seq]) != written:
        raise StoreDamaged(f"the row of turn {turn} is not what was written")


def end_turn(db: sqlite3.Connection, turn: TurnId, failure: str | None, now: datetime) -> None:
    """The turn and its inbox rows; a message that was answered leaves its words to the transcript."""
    at = micros(now)
    state = "failed" if failure is not None else "done"
    failure = None if failure is None else scrub(failure)
    db.execute("UPDATE turns SET state = ?, ended_at = ?, reason = ? WHERE n = ?", (state, at, failure, turn))
    if failure is not None:
        db.execute(
            "UPDATE inbox SET state = 'failed', reason = ? WHERE turn = ? AND settled_at IS NULL", (failure, turn)
        )
        return
    db.execute(
        f"UPDATE inbox SET state = 'done', settled_at = ?, {_WORDLESS} WHERE turn = ? AND settled_at IS NULL",
        (at, turn),
    )


def end_without_turn(db: sqlite3.Connection, inbox: InboxId, now: datetime) -> None:
    """A message that was answered at once; its words live on in the transcript alone."""
    if turn_of(db, (inbox,)) is not None:
        raise AlreadySettled(f"inbound message {inbox} belongs to a turn")
    db.execute(f"UPDATE inbox SET state = 'done', settled_at = ?, {_WORDLESS} WHERE n = ?", (micros(now), inbox))


def put_out(
    db: sqlite3.Connection, n: int, turn: TurnId | None, parts: Sequence[Part], now: datetime
) -> tuple[Part, ...]:
    """Into the outbox, to be sent."""
    stored = []
    for part in parts:
        values = part_to_row(part)
        id_ = db.execute(
            "INSERT INTO outbox (session, turn, ordinal, target, text, reply_to, state, attempts, created_at, checksum)"
            " VALUES (?, ?, ?, ?, ?, ?, 'pending', 0, ?, ?)",
            [n, turn, *values, micros(now), checksum(values)],
        ).lastrowid
        stored.append(new_part(PartId(id_ or 0), turn, values, now))
    return tuple(stored)


def record_sending(db: sqlite3.Connection, part: PartId) -> Part:
    """Before it leaves."""
    _settle_part(db, part, "state = 'sending', attempts = attempts + 1", ())
    row = db.execute(f"SELECT n, {PART_COLUMNS}, checksum FROM outbox WHERE n = ?", (part,)).fetchone()
    return part_from_row(row)


def record_sent(db: sqlite3.Connection, part: PartId, sent: Sent) -> None:
    """It arrived; its words live on in the transcript alone."""
    _settle_part(
        db, part, "state = 'sent', sent_id = ?, settled_at = ?, text = ''", (scrub(sent.message_id), micros(sent.at))
    )


def record_unsent(db: sqlite3.Connection, part: PartId, reason: str, retry_at: datetime | None) -> None:
    """It did not: to be tried again, or a dead letter."""
    state = "dead" if retry_at is None else "failed"
    again = None if retry_at is None else micros(retry_at)
    _settle_part(db, part, "state = ?, reason = ?, not_before = ?", (state, scrub(reason), again))


def _settle_part(db: sqlite3.Connection, part: PartId, change: str, values: tuple[str | int | None, ...]) -> None:
    changed = db.execute(
        f"UPDATE outbox SET {change} WHERE n = ? AND settled_at IS NULL AND state != 'dead'", (*values, part)
    ).rowcount
    if changed:
        return
    row = db.execute("SELECT state FROM outbox WHERE n = ?", (part,)).fetchone()
    if row is None:
        raise UnknownWork(f"there is no part {part}; its session may have been deleted")
    raise AlreadySettled(f"part {part} is {row[0]}")


def drop_work(db: sqlite3.Connection, n: int, now: datetime) -> None:
    """All work of a session that is being deleted; its messages end as refused, with a reason, without words."""
    db.execute(
        f"UPDATE inbox SET state = 'refused', reason = 'its session was deleted', settled_at = ?, {_WORDLESS}"
        " WHERE settled_at IS NULL AND turn IN (SELECT n FROM turns WHERE session = ?)",
        (micros(now), n),
    )
    db.execute("DELETE FROM turns WHERE session = ?", (n,))
    db.execute("DELETE FROM outbox WHERE session = ? AND settled_at IS NULL", (n,))
