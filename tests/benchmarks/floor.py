"""
The floor: the same rows as a turn of ours, by bare stdlib sqlite3 with the same pragmas.

No checks, no checksum, no search index, nothing decoded, values that were made beforehand; one
commit for each of the four steps, shared by as many turns as run at once. Whatever a store adds to
this is its own cost.
"""

from __future__ import annotations

import json
import sqlite3
import time
from itertools import count
from pathlib import Path

from tests.benchmarks.population import key_of
from turngate.gateway.domain.messages import InboundMessage
from turngate.gateway.domain.serialization import to_dict
from turngate.gateway.domain.transcript import Entry
from turngate.gateway.stores.sqlite.connection import PRAGMAS
from turngate.gateway.stores.sqlite.rows import message_json


class Floor:
    """Turns over a database that `population` filled."""

    def __init__(self, path: Path, *, driven: int, message: InboundMessage, reply: Entry) -> None:
        self._db = sqlite3.connect(path, isolation_level=None)
        for pragma in PRAGMAS:
            self._db.execute(pragma)
        self._keys = [key_of(number) for number in range(driven)]
        self._message = message_json(message)
        self._target = json.dumps(to_dict(message.source), separators=(",", ":"))
        self._text = message.text
        self._reply = reply.text
        self._events = count()
        self._turns = count()

    def run(self, concurrency: int, seconds: float, latencies: list[float]) -> None:
        """Turns in groups that share their commits, for that long."""
        deadline = time.perf_counter() + seconds
        while (started := time.perf_counter()) < deadline:
            self._group(
                [self._keys[next(self._turns) % len(self._keys)] for _ in range(concurrency)]
            )
            latencies += [time.perf_counter() - started] * concurrency

    def close(self) -> None:
        """Let go."""
        self._db.close()

    def _group(self, keys: list[str]) -> None:
        db, now = self._db, time.time_ns() // 1000
        db.execute("BEGIN IMMEDIATE")
        inbox = [self._store_inbound(key, now) for key in keys]
        db.execute("COMMIT")
        db.execute("BEGIN IMMEDIATE")
        begun = [self._begin(key, row, now) for key, row in zip(keys, inbox, strict=True)]
        db.execute("COMMIT")
        db.execute("BEGIN IMMEDIATE")
        parts = [self._finish(session, turn, now) for session, turn in begun]
        db.execute("COMMIT")
        db.execute("BEGIN IMMEDIATE")
        for part in parts:
            db.execute(
                "UPDATE outbox SET state = 'sent', sent_id = '1', settled_at = ?, text = '', "
                "steps = ? WHERE n = ?",
                (now, f"{now}\tsent\t1\n", part),
            )
        db.execute("COMMIT")

    def _store_inbound(self, key: str, now: int) -> int:
        inbox = self._db.execute(
            "INSERT INTO inbox (key, message, state, attempts, received_at, checksum)"
            " VALUES (?, ?, 'waiting', 0, ?, 0)",
            (key, self._message, now),
        ).lastrowid
        events = [(f"telegram/main:floor:{next(self._events)}", inbox, now) for _ in range(2)]
        self._db.executemany("INSERT INTO seen VALUES (?, ?, ?)", events)
        return inbox or 0

    def _begin(self, key: str, inbox: int, now: int) -> tuple[int, int]:
        db = self._db
        session = db.execute("SELECT * FROM sessions WHERE key = ? AND current", (key,)).fetchone()[
            0
        ]
        db.execute(
            "SELECT * FROM entries WHERE session = ? ORDER BY seq DESC LIMIT 50",
            (session,),
        ).fetchall()
        self._append(session, "user", self._text, now)
        db.execute(
            "UPDATE sessions SET last_interaction_at = ?, updated_at = ?, messages = messages + "
            "1 WHERE n = ?",
            (now, now, session),
        )
        turn = db.execute(
            "INSERT INTO turns (session, first_seq, last_seq, state, run, attempt, repeatable, "
            "started_at, steps,"
            " checksum) VALUES (?, 0, 0, 'running', '0123456789abcdef', 1, 1, ?, ?, 0)",
            (session, now, f"{now}\tclaimed\t\n"),
        ).lastrowid
        db.execute(
            "UPDATE inbox SET state = 'running', turn = ?, attempts = 1 WHERE n = ?", (turn, inbox)
        )
        return session, turn or 0

    def _finish(self, session: int, turn: int, now: int) -> int:
        db = self._db
        self._append(session, "assistant", self._reply, now)
        db.execute(
            "UPDATE sessions SET updated_at = ?, messages = messages + 1, input = input + 10, "
            "output = output + 10"
            " WHERE n = ?",
            (now, session),
        )
        db.execute(
            "UPDATE turns SET state = 'done', steps = steps || ? WHERE n = ?",
            (f"{now}\tfinished\t\n", turn),
        )
        db.execute(
            "UPDATE inbox SET state = 'done', settled_at = ?,"
            " message = json_remove(message, '$.text', '$.attachments', '$.reply_to',"
            " '$.source.chat_name', '$.source.user_name', '$.source.chat_topic')"
            " WHERE turn = ? AND settled_at IS NULL",
            (now, turn),
        )
        part = db.execute(
            "INSERT INTO outbox (session, turn, ordinal, target, text, state, attempts, "
            "created_at, steps, checksum)"
            " VALUES (?, ?, 0, ?, ?, 'pending', 0, ?, '', 0)",
            (session, turn, self._target, self._reply, now),
        ).lastrowid
        return part or 0

    def _append(self, session: int, role: str, text: str, now: int) -> None:
        self._db.execute(
            "INSERT INTO entries (session, role, origin, at, text, checksum) VALUES (?, ?, "
            "'chat', ?, ?, 0)",
            (session, role, now, text),
        )
