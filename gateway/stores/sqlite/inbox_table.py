"""Inbound messages as rows, inside the caller's transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from turngate.gateway.domain.errors import (
    AlreadySettled,
    StoreDamaged,
    UnknownWork,
)
from turngate.gateway.domain.ids import (
    InboxId,
    SessionKey,
    TurnId,
)
from turngate.gateway.domain.messages import InboundMessage
from turngate.gateway.domain.store_values import Accepted, InboxItem
from turngate.gateway.stores.sqlite.rows import (
    INBOX_COLUMNS,
    checksum,
    inbox_from_row,
    message_json,
    micros,
)
from turngate.gateway.stores.texts import scrub

# Neither what was said nor what people and places are called.
_WORDLESS = (
    "message = json_remove(message, '$.text', '$.attachments', '$.reply_to',"
    " '$.source.chat_name', '$.source.user_name', '$.source.chat_topic')"
)


def accept(
    db: sqlite3.Connection, message: InboundMessage, key: SessionKey, now: datetime
) -> Accepted:
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
    db.executemany(
        "INSERT OR IGNORE INTO seen VALUES (?, ?, ?)",
        [(event, inbox, micros(now)) for event in events],
    )
    return Accepted(id=InboxId(inbox or 0), duplicate=first is not None)


def reject(
    db: sqlite3.Connection, message: InboundMessage, key: SessionKey, reason: str, now: datetime
) -> Accepted:
    """
    Accepted only to be refused. Its words are left out before, for what was once in a file stays
    there a while.
    """
    accepted = accept(db, message.wordless, key, now)
    if not accepted.duplicate:
        settle(db, accepted.id, "refused", reason, now)
    return accepted


def amend(db: sqlite3.Connection, inbox: InboxId, text: str) -> bool:
    """Other words for a message that still waits for its first turn."""
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


def _first_seen(db: sqlite3.Connection, events: list[str]) -> int | None:
    marks = ", ".join("?" * len(events))
    row = db.execute(f"SELECT min(inbox) FROM seen WHERE event IN ({marks})", events).fetchone()
    return None if row[0] is None else int(row[0])


def turn_of(db: sqlite3.Connection, inbox: tuple[InboxId, ...]) -> TurnId | None:
    """
    The turn these rows already belong to. What is settled, unknown, or a mixture that makes no
    sense is refused.
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
        if checksum(written[:2]) != written[2]:
            raise StoreDamaged(f"inbox row {n} is not what was written")

        turns.add(turn)

    if len(turns) > 1:
        raise AlreadySettled("some of these messages already belong to a turn, others do not")

    return turns.pop() if turns else None


def without_turn(db: sqlite3.Connection, inbox: InboxId) -> None:
    """Refuse a row that is no longer waiting for its first turn."""
    if turn_of(db, (inbox,)) is not None:
        raise AlreadySettled(f"inbound message {inbox} belongs to a turn")


def begin(db: sqlite3.Connection, inbox: tuple[InboxId, ...], turn: TurnId) -> None:
    """These rows are being answered."""
    for row in inbox:
        db.execute(
            "UPDATE inbox SET state = 'running', turn = ?, attempts = 1 WHERE n = ?", (turn, row)
        )


def count_attempt(db: sqlite3.Connection, turn: TurnId, attempt: int) -> None:
    """Once more."""
    db.execute(
        "UPDATE inbox SET attempts = ? WHERE turn = ? AND settled_at IS NULL", (attempt, turn)
    )


def settle_turn(db: sqlite3.Connection, turn: TurnId, now: datetime) -> None:
    """A message that was answered leaves its words to the transcript."""
    db.execute(
        f"UPDATE inbox SET state = 'done', settled_at = ?, {_WORDLESS} WHERE turn = ? AND "
        "settled_at IS NULL",
        (micros(now), turn),
    )


def fail_turn(db: sqlite3.Connection, turn: TurnId, state: str, reason: str) -> None:
    """A message that failed keeps its words: it may be taken back to work."""
    db.execute(
        "UPDATE inbox SET state = ?, reason = ? WHERE turn = ? AND settled_at IS NULL",
        (state, scrub(reason), turn),
    )


def settle(
    db: sqlite3.Connection, inbox: InboxId, state: str, reason: str | None, now: datetime
) -> None:
    """The end of one row, and of its words."""
    db.execute(
        f"UPDATE inbox SET state = ?, reason = ?, settled_at = ?, {_WORDLESS} WHERE n = ?",
        (state, reason and scrub(reason), micros(now), inbox),
    )


def refuse(db: sqlite3.Connection, inbox: Sequence[InboxId], reason: str) -> int:
    """Refused, with their words kept: those that wait, and returns how many that were."""
    rows = [(scrub(reason), row) for row in inbox]
    return db.executemany(
        "UPDATE inbox SET state = 'refused', reason = ? WHERE n = ? AND state = 'waiting' AND "
        "turn IS NULL",
        rows,
    ).rowcount


def given_up(db: sqlite3.Connection, inbox: InboxId) -> InboxItem:
    """A row that nobody works on and that still has its words."""
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
    """Back to work; a row that had a turn goes on with it."""
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
    """Whether it waits for its first turn."""
    return (
        db.execute("SELECT 1 FROM inbox WHERE n = ? AND state = 'waiting'", (inbox,)).fetchone()
        is not None
    )


def refuse_all_of(db: sqlite3.Connection, session: int, now: datetime) -> None:
    """
    The open messages of a session that is being deleted end as refused, with a reason, without
    words.
    """
    db.execute(
        "UPDATE inbox SET state = 'refused', reason = 'its session was deleted', settled_at = "
        f"?, {_WORDLESS}"
        " WHERE settled_at IS NULL AND turn IN (SELECT n FROM turns WHERE session = ?)",
        (micros(now), session),
    )
