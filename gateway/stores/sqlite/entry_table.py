"""
Transcripts as rows: append, read the tail, rewrite, limit the live entries. Writer thread only.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime

from turngate.gateway.domain.errors import RowDamaged, UnknownEntry
from turngate.gateway.domain.ids import EntryId, SessionId
from turngate.gateway.domain.session import Session
from turngate.gateway.domain.store_values import Transcript
from turngate.gateway.domain.transcript import (
    Block,
    Entry,
    Origin,
)
from turngate.gateway.rules.session_lifecycle import preview_of
from turngate.gateway.stores.sqlite.damaged_rows import usable
from turngate.gateway.stores.sqlite.recent_entries import RecentEntries
from turngate.gateway.stores.sqlite.rows import (
    ENTRY_COLUMNS,
    Fetched,
    checksum,
    entry_from_row,
    entry_id,
    entry_of,
    entry_to_row,
    micros,
    seq_of,
)
from turngate.gateway.stores.sqlite.search_index import SearchIndex

SELECT = f"SELECT seq, {ENTRY_COLUMNS}, checksum FROM entries"
_COUNT = ENTRY_COLUMNS.count(",") + 2
_INSERT = f"INSERT INTO entries ({ENTRY_COLUMNS}, checksum) VALUES ({', '.join('?' * _COUNT)})"
_UPDATE = (
    f"UPDATE entries SET ({ENTRY_COLUMNS}, checksum) = ({', '.join('?' * _COUNT)}) WHERE seq = ?"
)
_PREVIEW_ENTRIES = 200
LAST = 1 << 62


class EntryTable:
    """
    All changes of entries, so that the search index and the recent entries stay consistent.
    """

    def __init__(self, index: SearchIndex, recent: RecentEntries) -> None:
        self._index = index
        self._recent = recent

    def append(self, db: sqlite3.Connection, n: int, entries: Iterable[Entry]) -> tuple[Entry, ...]:
        """Append entries in order and return them as stored. An entry that has an id keeps it."""
        stored = []
        for entry in entries:
            values = entry_to_row(n, entry, entry.id or None)
            seq = db.execute(_INSERT, [*values, checksum(values)]).lastrowid or 0
            # Decoded from the row, not copied from the argument: texts were scrubbed and numbers
            # bounded, and the cache must equal what a later read returns.
            stored.append(entry_of(seq, values))

        self._recent.extend(n, stored)
        return tuple(stored)

    def history(
        self, db: sqlite3.Connection, n: int, session: Session, count: int, before: int = LAST
    ) -> tuple[Entry, ...]:
        """Return the summary, if there is one, then the newest entries after the marks."""
        count = max(count, 0)
        floor = max(session.archived_through, session.consolidated_through)
        entries = self._newest(db, n, count) if before == LAST else _read(db, n, count, before)
        newest = entries
        if entries and entries[0].seq <= floor:
            newest = [entry for entry in entries if entry.seq > floor]
        if not session.summary_seq:
            return tuple(newest)

        # A summary is appended after the entries it replaces, so it may also be among the newest;
        # it must come first, and older summaries must not be shown.
        summary = db.execute(f"{SELECT} WHERE seq = ?", (session.summary_seq,)).fetchone()
        return (
            *usable(db, entry_from_row, [summary] if summary is not None else []),
            *(entry for entry in newest if entry.origin is not Origin.SUMMARY),
        )

    def _newest(self, db: sqlite3.Connection, n: int, count: int) -> list[Entry]:
        known = self._recent.newest(n, count)
        if known is not None:
            return known
        entries = _read(db, n, count, LAST)
        self._recent.remember(n, entries, count)
        return entries

    def find(self, db: sqlite3.Connection, n: int, session: SessionId, id_: EntryId) -> Entry:
        """Return an entry by id. Raises UnknownEntry."""
        # Ids are made from sequence numbers, except those that an entry brought along.
        guess = db.execute(f"{SELECT} WHERE seq = ? AND session = ?", (seq_of(id_), n)).fetchone()
        for entry in usable(db, entry_from_row, [guess] if guess is not None else []):
            if entry.id == id_:
                return entry

        named = db.execute(
            f"{SELECT} WHERE session = ? AND body IS NOT NULL AND json_valid(body)"
            " AND json_extract(body, '$.id') = ?",
            (n, id_),
        ).fetchone()
        if named is None:
            raise UnknownEntry(f"session {session} has no message {id_}")

        return entry_from_row(named)

    def change(
        self, db: sqlite3.Connection, n: int, entry: Entry, content: tuple[Block, ...]
    ) -> Entry:
        """Replace the content of an entry; id, position and time stay."""
        own_id = None if entry.id == entry_id(entry.seq) else entry.id
        values = entry_to_row(n, replace(entry, content=content), own_id)
        # Before the UPDATE: the index holds no copy, so removing an entry needs its old words.
        self._index.forget(db, _words(db, "seq = ?", (entry.seq,)))
        db.execute(_UPDATE, [*values, checksum(values), entry.seq])
        self._index.add(db, *_words(db, "seq = ?", (entry.seq,))[0])
        self._recent.forget(n)
        return entry_of(entry.seq, values)

    def remove(
        self, db: sqlite3.Connection, n: int, first: int, last: int = LAST, *, but: int = 0
    ) -> None:
        """Delete a range of sequence numbers of one session, with one exception."""
        where = "session = ? AND seq BETWEEN ? AND ? AND seq != ?"
        values = (n, first, last, but)
        self._index.forget(db, _words(db, where, values))
        db.execute(f"DELETE FROM entries WHERE {where}", values)
        self._recent.forget(n)

    def remove_old(
        self, db: sqlite3.Connection, n: int, session: Session, before: datetime, most: int
    ) -> int:
        """
        Delete up to `most` entries older than `before`, and the summary if it covers any of them.

        Returns how many were deleted.
        """
        rows = db.execute(
            "SELECT seq, text, body FROM entries WHERE session = ? AND at < ? ORDER BY seq LIMIT ?",
            (n, micros(before), most),
        ).fetchall()
        # The summary repeats what is deleted here, however new it is itself.
        if rows and rows[0][0] <= session.consolidated_through:
            rows += _words(
                db, "session = ? AND seq = ? AND at >= ?", (n, session.summary_seq, micros(before))
            )

        self._index.forget(db, rows)
        db.executemany("DELETE FROM entries WHERE seq = ?", [row[:1] for row in rows])
        self._recent.forget(n)
        return len(rows)


def _read(db: sqlite3.Connection, n: int, count: int, before: int) -> list[Entry]:
    rows = db.execute(
        f"{SELECT} WHERE session = ? AND seq < ? ORDER BY seq DESC LIMIT ?", (n, before, count)
    ).fetchall()
    return [*usable(db, entry_from_row, reversed(rows))]


def asked_between(db: sqlite3.Connection, n: int, first: int, last: int) -> tuple[Entry, ...]:
    """Return the messages of a turn that begins again."""
    # While it ran, commands may have been recorded and a summary written in the same range.
    entries = between(db, n, first, last)
    return tuple(entry for entry in entries if entry.origin not in (Origin.COMMAND, Origin.SUMMARY))


def between(db: sqlite3.Connection, n: int, first: int, last: int) -> tuple[Entry, ...]:
    """Return all entries of a range of sequence numbers."""
    rows = db.execute(
        f"{SELECT} WHERE session = ? AND seq BETWEEN ? AND ? ORDER BY seq", (n, first, last)
    ).fetchall()
    return tuple(usable(db, entry_from_row, rows))


def readable(rows: Iterable[Fetched]) -> Transcript:
    """Decode rows; damaged ones are listed and do not hide the others."""
    entries = []
    damaged = []
    for row in rows:
        try:
            entries.append(entry_from_row(row))
        except RowDamaged:
            damaged.append(row[0])
    return Transcript(entries=tuple(entries), damaged=tuple(damaged))


def after_rewrite(db: sqlite3.Connection, n: int, session: Session) -> Session:
    """
    Return the session with count, preview and marks that match its rows; a mark or summary without
    entries is removed.
    """
    live, last = db.execute(
        "SELECT count(*), coalesce(max(seq), 0) FROM entries WHERE session = ? AND seq > ?",
        (n, session.archived_through),
    ).fetchone()
    rows = db.execute(
        f"{SELECT} WHERE session = ? ORDER BY seq LIMIT ?", (n, _PREVIEW_ENTRIES)
    ).fetchall()
    preview, preview_by = preview_of(usable(db, entry_from_row, rows))
    summary = session.summary_seq
    has_summary = bool(
        db.execute("SELECT 1 FROM entries WHERE session = ? AND seq = ?", (n, summary)).fetchone()
    )
    # A mark past the last entry would hide new ones; a mark without its summary would hide entries
    # that nothing replaces.
    keeps_mark = session.consolidated_through <= last and (has_summary or not summary)

    return replace(
        session,
        messages=live,
        preview=preview,
        preview_by=preview_by,
        summary_seq=summary if has_summary and keeps_mark else 0,
        consolidated_through=session.consolidated_through if keeps_mark else 0,
    )


def has_entries(db: sqlite3.Connection, n: int) -> bool:
    """Return whether the session has any entry, live or archived."""
    return (
        db.execute("SELECT 1 FROM entries WHERE session = ? LIMIT 1", (n,)).fetchone() is not None
    )


def seq_after(db: sqlite3.Connection, n: int, session: Session, keep: int) -> int | None:
    """Return the sequence number of the live entry after the first `keep`, or None."""
    row = db.execute(
        "SELECT seq FROM entries WHERE session = ? AND seq > ? ORDER BY seq LIMIT 1 OFFSET ?",
        (n, session.archived_through, keep),
    ).fetchone()
    return None if row is None else int(row[0])


def within_bounds(db: sqlite3.Connection, n: int, session: Session, cap: int) -> Session:
    """Archive the oldest live entries above the cap. They stay readable and searchable."""
    if session.messages <= cap:
        return session

    # A tenth more than needed, so that this happens once in many turns and not in each.
    start = _live_start(db, n, session, cap - cap // 10)
    live = db.execute(
        "SELECT count(*) FROM entries WHERE session = ? AND seq >= ?", (n, start)
    ).fetchone()[0]
    return replace(session, archived_through=start - 1, messages=live)


def _live_start(db: sqlite3.Connection, n: int, session: Session, target: int) -> int:
    """Return what `history_window.live_start` decides, by queries instead of decoded entries."""
    people = (
        "SELECT seq FROM entries WHERE session = ? AND role = 'user' AND origin NOT IN "
        "('command', 'summary')"
    )
    cut = db.execute(
        "SELECT seq FROM entries WHERE session = ? ORDER BY seq DESC LIMIT 1 OFFSET ?",
        (n, max(target, 1) - 1),
    ).fetchone()[0]
    found = db.execute(f"{people} AND seq >= ? ORDER BY seq LIMIT 1", (n, cut)).fetchone()
    if found is None:
        return _first_without_a_caller(db, n, cut)

    # A delivery just before the user's turn is what they answer: it stays with that turn.
    before = db.execute(
        "SELECT seq, role, origin FROM entries WHERE session = ? AND seq < ? AND seq > ? ORDER "
        "BY seq DESC LIMIT 1",
        (n, found[0], session.archived_through),
    ).fetchone()
    is_delivery = (
        before is not None and before[0] >= cut and before[1:] == ("assistant", "delivery")
    )
    return int(before[0] if is_delivery else found[0])


def _first_without_a_caller(db: sqlite3.Connection, n: int, cut: int) -> int:
    """Return the start if no user wrote since: not a tool result, whose call would be missing."""
    row = db.execute(
        "SELECT seq FROM entries WHERE session = ? AND seq >= ? AND role != 'tool' ORDER BY seq "
        "LIMIT 1",
        (n, cut),
    ).fetchone()
    last = db.execute("SELECT max(seq) FROM entries WHERE session = ?", (n,)).fetchone()[0]
    return int(row[0] if row is not None else last + 1)


def _words(
    db: sqlite3.Connection, where: str, values: Sequence[int]
) -> list[tuple[int, str | None, str | None]]:
    return db.execute(f"SELECT seq, text, body FROM entries WHERE {where}", values).fetchall()
