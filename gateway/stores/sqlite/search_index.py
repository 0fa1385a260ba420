"""
The search index over transcripts: FTS5, filled after the writes.

Updating it with each write would cost a third of the writing speed, so the writer fills it when
idle, and a search scans what is not indexed yet. It is derived from the transcripts, so losing it
loses nothing. Where SQLite was built without FTS5, a search scans everything.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Sequence

from turngate.gateway.stores.texts import fold, is_unspaced, set_apart

# Entries per step: twice the operations between two rounds of upkeep under load, so that the lag
# does not grow.
_SLICE = 2048
_PAGES_MERGED = 64
# Where Python and SQLite may disagree on what a letter is: the index might split a word in two.
_RARE = re.compile("[\u1900-\u1dff\ua000-\uabff\U00010000-\U0001ffff]")


class SearchIndex:
    """Fills the index and updates it when entries change. Writer thread only."""

    def __init__(self) -> None:
        self.available = False

    def prepare(self, db: sqlite3.Connection) -> None:
        """Create the index if it is missing and FTS5 is available."""
        self.available = _has_fts5(db)
        if not self.available:
            return

        _drop_older(db)
        # Searches are for words, not phrases, and entries are read from their own table: so no
        # positions (detail=none) and no copy (content='').
        db.execute(
            "CREATE VIRTUAL TABLE IF NOT EXISTS entry_words USING"
            " fts5(words, content='', columnsize=0, detail=none, tokenize='unicode61 "
            "remove_diacritics 2')"
        )
        db.execute("CREATE TABLE IF NOT EXISTS entry_index_progress (through INTEGER NOT NULL)")
        # Has a row if removed words may still be in the files of the index.
        db.execute(
            "CREATE TABLE IF NOT EXISTS entry_index_traces (only INTEGER PRIMARY KEY CHECK (only "
            "= 1))"
        )
        db.execute(
            "INSERT INTO entry_index_progress SELECT 0 WHERE NOT EXISTS (SELECT 1 FROM "
            "entry_index_progress)"
        )

    def catch_up(self, db: sqlite3.Connection) -> bool:
        """Index the next entries; return whether there may be more."""
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
            "INSERT INTO entry_words (rowid, words) VALUES (?, ?)",
            [(seq, _indexed(text, body)) for seq, text, body in rows],
        )
        db.execute("UPDATE entry_index_progress SET through = ?", (rows[-1][0],))
        return len(rows) == _SLICE

    def forget(
        self, db: sqlite3.Connection, rows: Sequence[tuple[int, str | None, str | None]]
    ) -> None:
        """Remove entries (seq, text, body) from the index, before they are changed or deleted."""
        if not self.available or not rows:
            return

        through = self.through(db)
        db.execute("INSERT OR IGNORE INTO entry_index_traces VALUES (1)")
        # The index has no copy to look up: 'delete' must get exactly the words that were inserted,
        # and only for rows that were, or later results are unpredictable.
        db.executemany(
            "INSERT INTO entry_words (entry_words, rowid, words) VALUES ('delete', ?, ?)",
            [(seq, _indexed(text, body)) for seq, text, body in rows if seq <= through],
        )

    def add(self, db: sqlite3.Connection, seq: int, text: str | None, body: str | None) -> None:
        """Index a changed entry again. One that was not indexed yet is left to `catch_up`."""
        if self.available and seq <= self.through(db):
            db.execute(
                "INSERT INTO entry_words (rowid, words) VALUES (?, ?)", (seq, _indexed(text, body))
            )

    def remove_traces(self, db: sqlite3.Connection, step: int) -> int | None:
        """
        Merge parts of the index, because removed words are only marked as such until then.

        Begins with step 0; returns the next step, None after the last.
        """
        if not self.available or db.execute("SELECT 1 FROM entry_index_traces").fetchone() is None:
            return None

        before = db.total_changes
        # FTS5: a negative number starts a merge of everything, a positive one continues it.
        pages = _PAGES_MERGED if step else -_PAGES_MERGED
        db.execute("INSERT INTO entry_words (entry_words, rank) VALUES ('merge', ?)", (pages,))
        # FTS5 documents fewer than 2 changes as the sign that nothing was left to merge.
        if step and db.total_changes - before < 2:
            db.execute("DELETE FROM entry_index_traces")
            return None

        return step + 1

    @staticmethod
    def through(db: sqlite3.Connection) -> int:
        """Return the last sequence number that is indexed."""
        value = db.execute("SELECT through FROM entry_index_progress").fetchone()[0]
        return int(value)


def _drop_older(db: sqlite3.Connection) -> None:
    """Delete the index of an older version, which split words in another way."""
    older = db.execute("SELECT 1 FROM sqlite_schema WHERE name = 'entry_index'").fetchone()
    if older is not None:
        # In this order: after a crash in between, all of it is done again.
        db.execute("DELETE FROM entry_index_progress")
        db.execute("DROP TABLE entry_index")


def match_expression(words: list[str]) -> str | None:
    """Return the FTS5 query for words with these prefixes; None if the index cannot answer it."""
    if not words or any(is_unspaced(word) or _RARE.search(word) for word in words):
        return None
    return " AND ".join(f'"{word}" *' for word in words)


def words_of(text: str | None, body: str | None) -> str:
    """Return the text of an entry folded, as queries are."""
    if text is None and body is not None:
        try:
            blocks = json.loads(body).get("content", [])
            text = "\n".join(block["text"] for block in blocks if block["type"] == "text")
        except (ValueError, KeyError, TypeError, AttributeError):
            # Not what was written: reading the entry itself finds that out by its checksum.
            return ""
    return fold(text or "")


def _indexed(text: str | None, body: str | None) -> str:
    """Return the words of an entry as the index has them. It must be the same at each call."""
    return set_apart(words_of(text, body))


def _has_fts5(db: sqlite3.Connection) -> bool:
    return db.execute("SELECT 1 FROM pragma_module_list WHERE name = 'fts5'").fetchone() is not None
