"""
Fill a database before it is measured: sessions, transcripts of those that will be driven, the index
up to date.

Runs as its own process, so that what it needed of memory is not measured.

    python -m tests.benchmarks.population FILE --sessions 100000 --messages 10
"""

from __future__ import annotations

import argparse
import asyncio
import sqlite3
import subprocess
import sys
from datetime import datetime
from pathlib import Path

from turngate.gateway.daemon.system_clock import SystemClock
from turngate.gateway.domain.ids import SessionId, SessionKey
from turngate.gateway.domain.messages import ChatType, SessionSource
from turngate.gateway.domain.session import Session
from turngate.gateway.domain.transcript import (
    Entry,
    Role,
    Text,
)
from turngate.gateway.rules.session_keys import build_session_key
from turngate.gateway.rules.session_lifecycle import interacted
from turngate.gateway.stores.sqlite import SqliteStore
from turngate.gateway.stores.sqlite.entry_table import EntryTable, within_bounds
from turngate.gateway.stores.sqlite.recent_entries import RecentEntries
from turngate.gateway.stores.sqlite.search_index import SearchIndex
from turngate.gateway.stores.sqlite.session_table import SessionTable
from turngate.gateway.stores.sqlite.store import LIVE_ENTRIES

DRIVEN = 100
_AT_ONCE = 5000
_WORDS = (
    "Could you look at the build once more? It fails on the second machine, and only "
    "there, since Tuesday."
)


def source_of(number: int) -> SessionSource:
    """The chat of one driven or idle session."""
    return SessionSource(
        platform="telegram",
        chat_type=ChatType.DM,
        chat_id=str(100_000_000 + number),
        user_id=str(100_000_000 + number),
        user_name=f"Person {number}",
    )


def key_of(number: int) -> SessionKey:
    """Its key."""
    return build_session_key(source_of(number))


def said(role: Role, now: datetime) -> Entry:
    """A sentence of ordinary length."""
    return Entry(role=role, content=(Text(_WORDS),), at=now)


def populate_in_a_child(
    path: Path, *, sessions: int, messages: int, everywhere: bool = False
) -> None:
    """Fill the file from a process of its own."""
    command = [
        sys.executable,
        "-m",
        __name__,
        str(path),
        "--sessions",
        str(sessions),
        "--messages",
        str(messages),
    ]
    subprocess.run([*command, "--everywhere"] if everywhere else command, check=True)


async def populate(path: Path, sessions: int, messages: int, *, everywhere: bool) -> None:
    """Through the product's own tables, many rows to a commit."""
    store = await SqliteStore.connect(path, SystemClock())
    for first in range(0, sessions, _AT_ONCE):
        await store._writer.run(
            lambda db, first=first: _add_sessions(db, range(first, min(first + _AT_ONCE, sessions)))
        )
    talkative = sessions if everywhere else min(DRIVEN, sessions)
    at_once = max(1, _AT_ONCE // max(messages, 1))
    for first in range(0, talkative, at_once):
        await store._writer.run(
            lambda db, first=first: _add_entries(
                db, range(first, min(first + at_once, talkative)), messages
            )
        )
    while await store._writer.run(store._index.catch_up):
        pass
    await store.close()


def _add_sessions(db: sqlite3.Connection, numbers: range) -> None:
    now, sessions = SystemClock().now(), SessionTable()
    for number in numbers:
        source = source_of(number)
        sessions.insert(
            db,
            Session(
                id=SessionId(f"s_{number:016x}"),
                key=key_of(number),
                origin=source,
                owner=f"telegram:{source.user_id}",
                started_at=now,
                last_interaction_at=now,
                updated_at=now,
            ),
        )


def _add_entries(db: sqlite3.Connection, numbers: range, messages: int) -> None:
    now, sessions = SystemClock().now(), SessionTable()
    pair = (said(Role.USER, now), said(Role.ASSISTANT, now))
    for number in numbers:
        n, session = sessions.by_id(db, SessionId(f"s_{number:016x}"))
        entries = EntryTable(SearchIndex(), RecentEntries()).append(
            db, n, [pair[i % 2] for i in range(messages)]
        )
        grown = within_bounds(db, n, interacted(session, entries, now), LIVE_ENTRIES)
        sessions.update(db, n, grown)


def main() -> None:
    """From the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file", type=Path)
    parser.add_argument("--sessions", type=int, required=True)
    parser.add_argument("--messages", type=int, required=True)
    parser.add_argument(
        "--everywhere",
        action="store_true",
        help="give every session a transcript, not only the driven",
    )
    options = parser.parse_args()
    asyncio.run(
        populate(options.file, options.sessions, options.messages, everywhere=options.everywhere)
    )


if __name__ == "__main__":
    main()
