"""
The search index over transcripts: FTS5, filled behind the writes.

Kept in step it would cost a third of the writing speed, so the writer fills it in its own time, and
a search looks through what is not indexed yet by itself. It is made of what the transcripts hold,
so losing it loses nothing, and where SQLite was built without FTS5 the plain look-through does it
all.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Sequence

from turngate.gateway.domain.errors import StoreDamaged
from turngate.gateway.stores.texts import fold, is_unspaced

# Twice what can be said between two rounds of upkeep under load, so that a lag never grows.
_SLICE = 2048
_PAGES_MERGED = 64
_RARE = re.compile("[\u1900-\u1dff\ua000-\uabff\U00010000-\U0001ffff]")


class SearchIndex:
    """Which entries are indexed, and how to keep it right when they change."""

    def __init__(self) -> None:
        self.available = False

    def prepare(self, db: sqlite3.Connection) -> None:
        """Make the index if it is missing and possible."""
        self.available = _has_fts5(db)
        if not self.available:
            return

        # Words are found, never phrases, and read back from the entries themselves: so no positions
        # and no copy.
        db.execute(
            "CREATE VIRTUAL TABLE IF NOT EXISTS entry_index USING"
            " fts5(words, content='', columnsize=0, detail=none, tokenize='unicode61 "
            "remove_diacritics 2')"
        )
        db.execute("CREATE TABLE IF NOT EXISTS entry_index_progress (through INTEGER NOT NULL)")
        # Whether words that were taken out may still stand in it somewhere.
        db.execute(
            "CREATE TABLE IF NOT EXISTS entry_index_traces (only INTEGER PRIMARY KEY CHECK (only "
            "= 1))"
        )
        db.execute(
            "INSERT INTO entry_index_progress SELECT 0 WHERE NOT EXISTS (SELECT 1 FROM "
            "entry_index_progress)"
        )

    def catch_up(self, db: sqlite3.Connection) -> bool:
        """Index the next few entries; returns whether there may be more."""
        if not self.available:
            return False

        through = self.through(db)
        rows = db.execute(
            "SELECT seq, text, body FROM entries WHERE seq > ? ORDER BY seq LIMIT ?",
            (through, _SLICE),
        ).fetchall()
        if not rows:
            return False

        db.executemany(
            "INSERT INTO entry_index (rowid, words) VALUES (?, ?)",
            [(seq, words_of(text, body)) for seq, text, body in rows],
        )
        db.execute("UPDATE entry_index_progress SET through = ?", (rows[-1][0],))
        return len(rows) == _SLICE

    def forget(
        self, db: sqlite3.Connection, rows: Sequence[tuple[int, str | None, str | None]]
    ) -> None:
        """Before entries (seq, text, body) are changed or deleted: take out the words they had."""
        if not self.available or not rows:
            return

        through = self.through(db)
        db.execute("INSERT OR IGNORE INTO entry_index_traces VALUES (1)")
        db.executemany(
            "INSERT INTO entry_index (entry_index, rowid, words) VALUES ('delete', ?, ?)",
            [(seq, words_of(text, body)) for seq, text, body in rows if seq <= through],
        )

    def add(self, db: sqlite3.Connection, seq: int, text: str | None, body: str | None) -> None:
        """After an entry that was indexed before has changed."""
        if self.available and seq <= self.through(db):
            db.execute(
                "INSERT INTO entry_index (rowid, words) VALUES (?, ?)", (seq, words_of(text, body))
            )

    def remove_traces(self, db: sqlite3.Connection, step: int) -> int | None:
        """
        Words that were taken out are only marked as such until the parts of the index are merged:
        do some of that.

        Returns the next step, None when all of it is done. Begins with step 0.
        """
        if not self.available or db.execute("SELECT 1 FROM entry_index_traces").fetchone() is None:
            return None

        before = db.total_changes
        # A negative number begins the merging of everything, a positive one goes on with it.
        pages = _PAGES_MERGED if step else -_PAGES_MERGED
        db.execute("INSERT INTO entry_index (entry_index, rank) VALUES ('merge', ?)", (pages,))
        if step and db.total_changes - before < 2:
            db.execute("DELETE FROM entry_index_traces")
            return None

        return step + 1

    @staticmethod
    def through(db: sqlite3.Connection) -> int:
        """The last sequence number that is indexed."""
        value = db.execute("SELECT through FROM entry_index_progress").fetchone()[0]
        return int(value)


def match_expression(words: list[str]) -> str | None:
    """
    The query for the index, each word as the beginning of one; None if an index of words cannot
    answer it.
    """
    # Where Python and SQLite may not agree on what a letter is, the index might take a word for
    # several.
    if not words or any(is_unspaced(word) or _RARE.search(word) for word in words):
        return None
    return " AND ".join(f'"{word}" *' for word in words)


def words_of(text: str | None, body: str | None) -> str:
    """What is indexed of an entry: what it says, folded as queries are."""
    if text is None and body is not None:
        try:
            blocks = json.loads(body).get("content", [])
            text = "\n".join(block["text"] for block in blocks if block["type"] == "text")
        except (ValueError, KeyError, TypeError, AttributeError) as exc:
            raise StoreDamaged("the body of an entry is not what was written") from exc
    return fold(text or "")


def _has_fts5(db: sqlite3.Connection) -> bool:
    return db.execute("SELECT 1 FROM pragma_module_list WHERE name = 'fts5'").fetchone() is not None
