"""Inbound messages as rows, inside the caller's transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from turngate.gateway.domain.errors import (
    AlreadySettled,
    UnknownWork,
)
from turngate.gateway.domain.ids import (
    InboxId,
    SessionKey,
    TurnId,
)
from turngate.gateway.domain.messages import InboundMessage, MessageKind
from turngate.gateway.domain.store_values import MOST_UNREADABLE, Accepted, InboxItem
from turngate.gateway.stores.sqlite.rows import (
    INBOX_COLUMNS,
    checksum,
    damaged,
    inbox_from_row,
    message_json,
    micros,
)
from turngate.gateway.stores.texts import scrub
from turngate.gateway.stores.unreadable import refusable

# Removes the text and all names: they would survive the deletion of their session. The checksum no
# longer matches then, so only rows that are not settled are checked.
_WORDLESS = (
    "message = json_remove(message, '$.text', '$.attachments', '$.reply_to', '$.raw',"
    " '$.source.chat_name', '$.source.user_name', '$.source.chat_topic')"
)


def accept(
    db: sqlite3.Connection, message: InboundMessage, key: SessionKey, now: datetime
) -> Accepted:
    """Store a message unless one of its dedupe ids was seen."""
    events = _events_of(message)
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

    # For a duplicate too: the platform may redeliver it under an id that came only now.
    _note_seen(db, inbox, events, now)
    return Accepted(id=InboxId(inbox or 0), duplicate=first is not None)


def reject(
    db: sqlite3.Connection, message: InboundMessage, key: SessionKey, reason: str, now: datetime
) -> Accepted:
    """Record a message as refused, without its text and names."""
    # Removed before the insert: text that was once written stays in the log for a while.
    accepted = accept(db, refusable(message, now), key, now)
    if not accepted.duplicate:
        settle(db, accepted.id, "refused", reason, now)
    return accepted


def set_aside(
    db: sqlite3.Connection, message: InboundMessage, key: SessionKey, reason: str, now: datetime
) -> Accepted:
    """Store an event that could not be converted as a dead letter. The oldest make room."""
    accepted = accept(db, message, key, now)
    if accepted.duplicate:
        return accepted

    db.execute(
        "UPDATE inbox SET state = 'dead', reason = ?, aside = 'unreadable' WHERE n = ?",
        (scrub(reason), accepted.id),
    )
    db.execute(
        "DELETE FROM inbox WHERE n IN (SELECT n FROM inbox INDEXED BY inbox_aside"
        " WHERE aside = 'unreadable' ORDER BY n DESC LIMIT -1 OFFSET ?)",
        (MOST_UNREADABLE,),
    )
    return accepted


def accept_again(
    db: sqlite3.Connection, inbox: InboxId, message: InboundMessage, key: SessionKey, now: datetime
) -> Accepted:
    """Put a message in the place of the event that it could not be converted from."""
    item = given_up(db, inbox)
    if item.message.kind is not MessageKind.UNREADABLE:
        raise AlreadySettled(f"inbound message {inbox} is {item.state}")

    values = [scrub(key), message_json(message)]
    db.execute(
        "UPDATE inbox SET key = ?, message = ?, checksum = ?, state = 'waiting', reason = NULL,"
        " aside = NULL WHERE n = ?",
        (*values, checksum(values), inbox),
    )
    _note_seen(db, inbox, _events_of(message), now)
    return Accepted(id=inbox, duplicate=False)


def forget_unreadable(db: sqlite3.Connection, before: datetime) -> int:
    """Delete events that were set aside before then; return how many."""
    return db.execute(
        "DELETE FROM inbox WHERE n IN (SELECT n FROM inbox INDEXED BY inbox_aside"
        " WHERE aside = 'unreadable' AND received_at < ?)",
        (micros(before),),
    ).rowcount


def amend(db: sqlite3.Connection, inbox: InboxId, text: str) -> bool:
    """Replace the text of a message that still waits for its first turn; False if none does."""
    row = db.execute(
        f"SELECT n, {INBOX_COLUMNS}, checksum FROM inbox WHERE n = ? AND state = 'waiting'",
        (inbox,),
    ).fetchone()
    if row is None:
        return False

    item = inbox_from_row(row)
    values = [item.key, message_json(replace(item.message, text=text))]
    db.execute(
        "UPDATE inbox SET message = ?, checksum = ? WHERE n = ?",
        (values[1], checksum(values), inbox),
    )
    return True


def _events_of(message: InboundMessage) -> list[str]:
    # Event ids are unique within an account only.
    source = message.source
    return [scrub(f"{source.platform}/{source.account}:{event}") for event in message.event_ids]


def _note_seen(db: sqlite3.Connection, inbox: int | None, events: list[str], now: datetime) -> None:
    db.executemany(
        "INSERT OR IGNORE INTO seen VALUES (?, ?, ?)",
        [(event, inbox, micros(now)) for event in events],
    )


def _first_seen(db: sqlite3.Connection, events: list[str]) -> int | None:
    marks = ", ".join("?" * len(events))
    row = db.execute(f"SELECT min(inbox) FROM seen WHERE event IN ({marks})", events).fetchone()
    return None if row[0] is None else int(row[0])


def turn_of(db: sqlite3.Connection, inbox: tuple[InboxId, ...]) -> TurnId | None:
    """
    Return the turn these rows already belong to, or None.

    Raises UnknownWork, or AlreadySettled for settled rows and for rows of different turns.
    """
    turns = set()
    for n in inbox:
        row = db.execute(
            "SELECT state, turn, key, message, checksum FROM inbox WHERE n = ?", (n,)
        ).fetchone()
        if row is None:
            raise UnknownWork(f"there is no inbound message {n}")

        state, turn, *written = row
        if state not in ("waiting", "running"):
            raise AlreadySettled(f"inbound message {n} is {state}")
        # After the state: a settled row has no valid checksum.
        if checksum(written[:2]) != written[2]:
            raise damaged("inbox", n)

        turns.add(turn)

    if len(turns) > 1:
        raise AlreadySettled("some of these messages already belong to a turn, others do not")

    return turns.pop() if turns else None


def without_turn(db: sqlite3.Connection, inbox: InboxId) -> None:
    """Raise AlreadySettled unless a row still waits for its first turn."""
    if turn_of(db, (inbox,)) is not None:
        raise AlreadySettled(f"inbound message {inbox} belongs to a turn")


def was_interrupted(db: sqlite3.Connection, inbox: tuple[InboxId, ...]) -> bool:
    """Return whether a turn of these waiting rows was lost that must not run again by itself."""
    marks = ", ".join("?" * len(inbox))
    query = f"SELECT max(attempts) FROM inbox WHERE n IN ({marks})"
    return bool(db.execute(query, inbox).fetchone()[0])


def begin(db: sqlite3.Connection, inbox: tuple[InboxId, ...], turn: TurnId) -> None:
    """Mark rows as running in a turn."""
    for row in inbox:
        db.execute(
            "UPDATE inbox SET state = 'running', turn = ?, attempts = 1 WHERE n = ?", (turn, row)
        )


def count_attempt(db: sqlite3.Connection, turn: TurnId, attempt: int) -> None:
    """Record the attempt number of a turn that begins again."""
    db.execute(
        "UPDATE inbox SET attempts = ? WHERE turn = ? AND settled_at IS NULL", (attempt, turn)
    )


def settle_turn(db: sqlite3.Connection, turn: TurnId, now: datetime) -> None:
    """Mark the messages of a turn as answered and remove their text, which the transcript has."""
    db.execute(
        f"UPDATE inbox SET state = 'done', settled_at = ?, {_WORDLESS} WHERE turn = ? AND "
        "settled_at IS NULL",
        (micros(now), turn),
    )


def fail_turn(db: sqlite3.Connection, turn: TurnId, state: str, reason: str) -> None:
    """Mark the messages of a turn as failed."""
    # `settled_at` stays NULL and the text stays: the message may be requeued.
    db.execute(
        "UPDATE inbox SET state = ?, reason = ? WHERE turn = ? AND settled_at IS NULL",
        (state, scrub(reason), turn),
    )


def settle(
    db: sqlite3.Connection, inbox: InboxId, state: str, reason: str | None, now: datetime
) -> None:
    """End one row and remove its text."""
    db.execute(
        f"UPDATE inbox SET state = ?, reason = ?, settled_at = ?, {_WORDLESS} WHERE n = ?",
        (state, reason and scrub(reason), micros(now), inbox),
    )


def refuse(db: sqlite3.Connection, inbox: Sequence[InboxId], reason: str) -> int:
    """Mark waiting messages as refused, keep their text, and return how many there were."""
    rows = [(scrub(reason), row) for row in inbox]
    return db.executemany(
        "UPDATE inbox SET state = 'refused', reason = ? WHERE n = ? AND state = 'waiting' AND "
        "turn IS NULL",
        rows,
    ).rowcount


def given_up(db: sqlite3.Connection, inbox: InboxId) -> InboxItem:
    """Return a row that failed, died or was refused and still has its text."""
    row = db.execute(
        f"SELECT n, {INBOX_COLUMNS}, checksum, settled_at FROM inbox WHERE n = ?", (inbox,)
    ).fetchone()
    if row is None:
        raise UnknownWork(f"there is no inbound message {inbox}")
    item = inbox_from_row(row[:-1])
    if row[-1] is not None or item.state in ("waiting", "running"):
        raise AlreadySettled(f"inbound message {inbox} is {item.state}")
    return item


def requeue(db: sqlite3.Connection, item: InboxItem) -> None:
    """Requeue a row; one that had a turn continues it."""
    # All messages of the turn: it can only run again as a whole.
    if item.turn is None:
        db.execute(
            "UPDATE inbox SET state = 'waiting', attempts = 0, reason = NULL WHERE n = ?",
            (item.id,),
        )
    else:
        db.execute(
            "UPDATE inbox SET state = 'running', attempts = 0, reason = NULL WHERE turn = ? AND "
            "settled_at IS NULL",
            (item.turn,),
        )


def is_waiting(db: sqlite3.Connection, inbox: InboxId) -> bool:
    """Return whether a message waits for its first turn."""
    return (
        db.execute("SELECT 1 FROM inbox WHERE n = ? AND state = 'waiting'", (inbox,)).fetchone()
        is not None
    )


def refuse_all_of(db: sqlite3.Connection, session: int, now: datetime) -> None:
    """Mark the open messages of a deleted session as refused and remove their text."""
    db.execute(
        "UPDATE inbox SET state = 'refused', reason = 'its session was deleted', settled_at = "
        f"?, {_WORDLESS}"
        " WHERE settled_at IS NULL AND turn IN (SELECT n FROM turns WHERE session = ?)",
        (micros(now), session),
    )
