"""Rebuild what can be rebuilt of a damaged row, inside the caller's transaction."""

from __future__ import annotations

import sqlite3
from datetime import datetime
from itertools import product

from turngate.gateway.domain.errors import MalformedRecord, Refused, RowDamaged
from turngate.gateway.domain.ids import SessionId, SessionKey
from turngate.gateway.domain.messages import SessionSource
from turngate.gateway.domain.session import EndReason, Session
from turngate.gateway.domain.usage import Tokens
from turngate.gateway.rules.session_keys import build_session_key, owner_of
from turngate.gateway.stores.sqlite import damaged_rows
from turngate.gateway.stores.sqlite.entry_table import after_rewrite
from turngate.gateway.stores.sqlite.rows import (
    SESSION_COLUMNS,
    checksum,
    moment,
    session_to_row,
    source_from_json,
)

ADVICE = {
    "sessions": "only a backup has the rest of it: `turngate restore`",
    "entries": "this message is left out of its conversation; only a backup has it",
    "inbox": "it is a dead letter: see `turngate queue list`",
    "outbox": "it is a dead letter and is not sent: see `turngate queue list`",
    "turns": "its messages got a turn of their own",
    "questions": "the question is closed",
    "people": "this person has to be paired again",
    "pairings": "this code is void; a new message brings a new one",
}

_NAMES = [name.strip() for name in SESSION_COLUMNS.split(",")]


def rebuild(db: sqlite3.Connection, found: RowDamaged, now: datetime) -> None:
    """Rebuild a row and take it off the list. Raises Refused with the reason if it cannot be."""
    if found.place != "sessions":
        raise Refused(ADVICE[found.place])

    n, row = _written(db, found.key)
    session = _rebuilt(db, n, row, now)
    values = session_to_row(session)
    columns = ", ".join(_NAMES)
    marks = ", ".join("?" * (len(_NAMES) + 1))
    db.execute(
        f"UPDATE sessions SET ({columns}, checksum) = ({marks}) WHERE n = ?",
        [*values, checksum(values), n],
    )
    damaged_rows.forget(db, found.place, found.key)


def _written(db: sqlite3.Connection, key: str) -> tuple[int, dict[str, object]]:
    row = db.execute(f"SELECT n, {SESSION_COLUMNS} FROM sessions WHERE id = ?", (key,)).fetchone()
    if row is None:
        raise Refused(f"there is no session {key} any more")
    return row[0], dict(zip(_NAMES, row[1:], strict=True))


def _rebuilt(db: sqlite3.Connection, n: int, row: dict[str, object], now: datetime) -> Session:
    """
    Return the session of a damaged row: who it belongs to from its key and its origin, which must
    agree, times and counts from its entries, and the rest as far as it has the right form.
    """
    origin = _origin(row["origin"])
    key = str(row["key"])
    if not _belongs(key, origin):
        raise Refused("its key and its origin do not agree, so nobody knows whose it is")

    first, last, newest = db.execute(
        "SELECT min(at), max(CASE WHEN role = 'user' THEN at END), max(at) FROM entries"
        " WHERE session = ?",
        (n,),
    ).fetchone()
    if first is None:
        raise Refused("it has no messages, so there is nothing to rebuild")

    is_deleted = row["end_reason"] == EndReason.DELETED
    current = db.execute("SELECT 1 FROM sessions WHERE key = ? AND current", (key,)).fetchone()
    is_current = current is None and not is_deleted
    session = Session(
        id=SessionId(str(row["id"])),
        key=SessionKey(key),
        current=is_current,
        origin=origin,
        owner=_owner(row["owner"], origin),
        started_at=moment(first),
        last_interaction_at=moment(last or newest),
        updated_at=max(now, moment(newest)),
        title=_text(row["title"]),
        preview="",
        goal=_text(row["goal"]),
        agent=_text(row["agent"]),
        archived=row["archived"] == 1,
        important=row["important"] == 1,
        ended_at=None if is_current else now,
        end_reason=None if is_current else EndReason.SWITCH,
        archived_through=_number(row["archived_through"]),
        consolidated_through=_number(row["consolidated_through"]),
        summary_seq=_number(row["summary_seq"]),
        tokens=Tokens(
            input=_number(row["input"]),
            output=_number(row["output"]),
            cache_read=_number(row["cache_read"]),
            cache_write=_number(row["cache_write"]),
        ),
        tokens_estimated=True,
    )
    return after_rewrite(db, n, session)


def _origin(written: object) -> SessionSource:
    try:
        return source_from_json(str(written))
    except (MalformedRecord, ValueError) as exc:
        raise Refused("its origin cannot be read, so nobody knows whose it is") from exc


def _belongs(key: str, origin: SessionSource) -> bool:
    """Return whether a key is that of this origin, under any settings."""
    # One damaged byte in either makes them disagree; the agent is in the key only.
    agent = key.split(":")[1] if key.count(":") > 1 else ""
    return any(
        build_session_key(
            origin, agent=agent, per_user_in_groups=groups, per_user_in_threads=threads
        )
        == key
        for groups, threads in product((True, False), repeat=2)
    )


def _owner(written: object, origin: SessionSource) -> str | None:
    """Return the owner if it is the one of the origin; what is shared belongs to nobody."""
    person = owner_of(origin, per_user_in_groups=True, per_user_in_threads=True)
    return person if written is not None else None


def _text(written: object) -> str | None:
    return written if isinstance(written, str) else None


def _number(written: object) -> int:
    # A flipped high bit makes a huge number of a small one.
    return written if isinstance(written, int) and 0 <= written < 1 << 48 else 0
