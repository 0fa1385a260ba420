"""
Reading for users: lists, transcripts, search. On a read-only connection, so that it delays no turn.
"""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import TypeVar

import aiosqlite

from turngate.gateway.domain.errors import (
    Refused,
    RowDamaged,
    StoreDamaged,
    StoreUnavailable,
    UnknownSession,
    UnknownWork,
)
from turngate.gateway.domain.ids import (
    InboxId,
    SessionId,
    SessionKey,
)
from turngate.gateway.domain.messages import ChatType, InboxState
from turngate.gateway.domain.outbox import PartState
from turngate.gateway.domain.session import EndReason, Session
from turngate.gateway.domain.store_values import (
    Depth,
    Hit,
    PolicyOf,
    SessionFilter,
    Step,
    Trace,
    Transcript,
)
from turngate.gateway.rules.session_lifecycle import due_before
from turngate.gateway.stores.sqlite import entry_table
from turngate.gateway.stores.sqlite.copy import text_of
from turngate.gateway.stores.sqlite.damaged_rows import DAMAGED, SET_ASIDE
from turngate.gateway.stores.sqlite.errors import FOREIGN_ERRORS, as_our_error
from turngate.gateway.stores.sqlite.rows import (
    INBOX_COLUMNS,
    PART_COLUMNS,
    SESSION_COLUMNS,
    Fetched,
    damaged,
    inbox_from_row,
    micros,
    moment,
    part_from_row,
    session_from_row,
)
from turngate.gateway.stores.sqlite.search_index import (
    SearchIndex,
    match_expression,
    words_of,
)
from turngate.gateway.stores.sqlite.step_log import read_steps
from turngate.gateway.stores.texts import (
    contains_words,
    query_words,
    scrub,
)

T = TypeVar("T")

_CHUNK = 2000
_PAGE = 100
_LONG_AGO = -(1 << 62)
# INDEXED BY: SQLite raises an error rather than scan the whole table each minute. The expressions
# must be written exactly as in the index (schema/002), or it does not apply.
_OPEN = "FROM sessions INDEXED BY sessions_open WHERE current AND end_reason IS NULL"
_PLATFORM = "json_extract(origin, '$.platform')"
_CHAT_TYPE = "coalesce(json_extract(origin, '$.chat_type'), 'dm')"
_NEXT_PLATFORM = f"SELECT {_PLATFORM} {_OPEN} AND {_PLATFORM} > ? ORDER BY {_PLATFORM} LIMIT 1"
_DUE = (
    f"SELECT n, {SESSION_COLUMNS}, checksum {_OPEN} AND {_PLATFORM} = ? AND {_CHAT_TYPE} = ?"
    " AND (last_interaction_at, n) > (?, ?) AND last_interaction_at < ? ORDER BY "
    "last_interaction_at, n LIMIT ?"
)
_LAST_INTERACTION = SESSION_COLUMNS.split(", ").index("last_interaction_at") + 1
_SETTLED = {InboxState.DONE, InboxState.REFUSED, PartState.SENT}


class Reader:
    """
    One connection, used from any event loop.

    It has its own event loop and thread: aiosqlite's thread dies when it cannot deliver a result to
    a closed loop, and then all other callers would wait for ever.
    """

    def __init__(
        self,
        path: Path,
        index: SearchIndex,
        report_damage: Callable[[str], StoreDamaged],
        set_aside: Callable[[RowDamaged], None],
    ) -> None:
        self._uri = f"{path.absolute().as_uri()}?mode=ro"
        self._index = index
        self._report_damage = report_damage
        self._set_aside = set_aside
        self._db: aiosqlite.Connection | None = None
        self._gate = threading.Lock()
        self._is_closed = False
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="turngate-reader", daemon=True
        )

    async def start(self) -> None:
        """Open the connection. The writer must have created the file."""
        self._thread.start()
        try:
            await self._apart(self._open())
        except sqlite3.Error as exc:
            raise as_our_error(exc) from exc

    async def close(self) -> None:
        """Finish running queries, then close. Idempotent."""
        with self._gate:
            if self._is_closed:
                return
            self._is_closed = True

        if self._thread.is_alive():
            # `_apart` refuses new work from here on, so nothing is queued after this and left
            # waiting on a stopped loop.
            await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self._finish(), self._loop))
            self._loop.call_soon_threadsafe(self._loop.stop)
            await asyncio.to_thread(self._thread.join)

        self._loop.close()

    async def rows(self, query: str, *values: str | int) -> list[Fetched]:
        """Run one query and return all rows, as of one moment."""
        try:
            return await self._apart(self._fetch(query, values))
        except FOREIGN_ERRORS as exc:
            error = as_our_error(exc)
            raise (
                self._report_damage(str(error)) if isinstance(error, StoreDamaged) else error
            ) from exc

    async def _open(self) -> None:
        db = await aiosqlite.connect(self._uri, uri=True)
        # Raised here, invalid UTF-8 would fail the whole query and hide all other rows.
        db.text_factory = text_of
        self._db = db

    async def _finish(self) -> None:
        """Close after all running work, including that of cancelled callers."""
        await asyncio.gather(
            *asyncio.all_tasks() - {asyncio.current_task()}, return_exceptions=True
        )
        if self._db is not None:
            db = self._db
            self._db = None
            await db.close()

    async def _fetch(self, query: str, values: Sequence[str | int]) -> list[Fetched]:
        if self._db is None:
            raise StoreUnavailable("the store is not open")
        rows = await self._db.execute_fetchall(query, values)
        return list(rows)  # type: ignore[arg-type]  # tuples: no row factory is set

    async def _apart(self, work: Coroutine[None, None, T]) -> T:
        with self._gate:
            if self._is_closed:
                work.close()
                raise StoreUnavailable("the store is closed")
            answer = asyncio.run_coroutine_threadsafe(work, self._loop)
        # Shielded: a cancelled caller must not cancel a future that aiosqlite's thread will set.
        return await asyncio.shield(asyncio.wrap_future(answer))

    def usable(self, decode: Callable[[Fetched], T], rows: Iterable[Fetched]) -> Iterator[T]:
        """Yield the decoded rows; one that is damaged is set aside and left out."""
        for row in rows:
            try:
                yield decode(row)
            except RowDamaged as exc:
                self._set_aside(exc)

    async def session(self, session: SessionId) -> Session:
        """Return a session. Raises UnknownSession, for a deleted one too."""
        rows = await self.rows(
            f"SELECT {SESSION_COLUMNS}, checksum FROM sessions WHERE id = ?", scrub(session)
        )
        found = [*self.usable(session_from_row, rows)]
        if rows and not found:
            raise UnknownSession(SET_ASIDE.format(session))
        if not found or found[0].end_reason is EndReason.DELETED:
            raise UnknownSession(f"there is no session {session}; it may have been deleted")
        return found[0]

    async def current(self, key: SessionKey) -> Session | None:
        """Return the session a key points at, or None."""
        rows = await self.rows(
            f"SELECT {SESSION_COLUMNS}, checksum FROM sessions WHERE key = ? AND current",
            scrub(key),
        )
        return next(self.usable(session_from_row, rows), None)

    async def due(self, policy_of: PolicyOf, now: datetime) -> AsyncIterator[Session]:
        """Yield due sessions by platform and chat type, a page at a time, from `sessions_open`."""
        async for platform in self._platforms():
            for chat_type in ChatType:
                before = due_before(policy_of(platform, chat_type), now)
                # A position, not an offset: the caller ends sessions while it iterates, which takes
                # them out of the index.
                cursor = (_LONG_AGO, 0)
                while before is not None:
                    rows = await self.rows(
                        _DUE, platform, chat_type.value, *cursor, micros(before), _PAGE
                    )
                    for session in self.usable(session_from_row, [row[1:] for row in rows]):
                        yield session

                    if len(rows) < _PAGE:
                        break

                    cursor = (rows[-1][_LAST_INTERACTION], rows[-1][0])

    async def _platforms(self) -> AsyncIterator[str]:
        """Yield each platform that has open sessions."""
        # One index lookup per platform; SELECT DISTINCT would read every open session.
        found = await self.rows(_NEXT_PLATFORM, "")
        while found:
            yield found[0][0]
            found = await self.rows(_NEXT_PLATFORM, found[0][0])

    async def sessions(self, wanted: SessionFilter, now: datetime) -> list[Session]:
        """Return sessions, latest interaction first. A damaged row is reported and left out."""
        conditions, values = _conditions(wanted, now)
        query = (
            f"SELECT {SESSION_COLUMNS}, checksum FROM sessions WHERE {' AND '.join(conditions)}"
            " ORDER BY last_interaction_at DESC, n DESC LIMIT ?"
        )
        rows = await self.rows(query, *values, _limit(wanted.limit))
        return await asyncio.to_thread(self._readable_sessions, rows)

    def _readable_sessions(self, rows: list[Fetched]) -> list[Session]:
        """Decode rows. Runs on a worker thread: thousands of rows would block the event loop."""
        return [*self.usable(session_from_row, rows)]

    async def work(
        self,
        table: str,
        columns: str,
        states: Sequence[str],
        known: Iterable[str],
        limit: int,
        *,
        with_settled: bool = True,
    ) -> list[Fetched]:
        """
        Return rows of the inbox or outbox in these states, oldest first.

        Rows in an unknown state are included: decoding them finds the damage.
        """
        is_open = not with_settled or not set(states) & _SETTLED
        source = (
            f"{table} INDEXED BY {table}_open WHERE settled_at IS NULL AND"
            if is_open
            else f"{table} WHERE"
        )
        asked = _marks(states)
        names = list(known)
        query = (
            f"SELECT n, {columns}, checksum FROM {source} (state IN ({asked}) OR state NOT "
            f"IN ({_marks(names)}))"
        )

        return await self.rows(f"{query} ORDER BY n LIMIT ?", *states, *names, _limit(limit))

    async def depth(self) -> Depth:
        """Return counts and ages of open work, from the indexes of open rows."""
        inbox = await self._open_by_state("inbox", "received_at")
        outbox = await self._open_by_state("outbox", "created_at")
        at_work = [inbox[state] for state in ("waiting", "running") if state in inbox]
        on_its_way = [
            outbox[state] for state in ("pending", "sending", "failed") if state in outbox
        ]

        return Depth(
            inbox_waiting=sum(count for count, _ in at_work),
            inbox_dead=inbox.get("dead", (0, 0))[0],
            outbox_waiting=sum(count for count, _ in on_its_way),
            outbox_dead=outbox.get("dead", (0, 0))[0],
            inbox_oldest=_oldest(at_work),
            outbox_oldest=_oldest(on_its_way),
            damaged_rows=(await self.rows("SELECT count(*) FROM damaged"))[0][0],
        )

    async def _open_by_state(self, table: str, since: str) -> dict[str, tuple[int, int]]:
        """Return the number of open rows and the time of the oldest (microseconds), by state."""
        rows = await self.rows(
            f"SELECT state, count(*), min({since}) FROM {table} INDEXED BY {table}_open"
            " WHERE settled_at IS NULL GROUP BY state"
        )
        return {state: (count, oldest) for state, count, oldest in rows}

    async def find(self, message_id: str) -> list[InboxId]:
        """Return the inbox rows with this platform message id, newest first."""
        # A full scan: only the trace command asks, and an index would cost a write per message.
        rows = await self.rows(
            "SELECT n FROM inbox WHERE json_valid(message)"
            " AND json_extract(message, '$.id') = ? ORDER BY n DESC",
            scrub(message_id),
        )
        return [InboxId(row[0]) for row in rows]

    async def trace(self, inbox: InboxId) -> Trace:
        """Return what happened to a message, from its row, its turn and its parts."""
        found = await self.rows(
            f"SELECT n, {INBOX_COLUMNS}, checksum, settled_at,"
            " (SELECT steps FROM turns WHERE turns.n = inbox.turn),"
            " (SELECT s.id FROM turns JOIN sessions AS s ON s.n = turns.session WHERE turns.n = "
            "inbox.turn)"
            " FROM inbox WHERE n = ?",
            inbox,
        )
        if not found:
            raise UnknownWork(f"there is no inbound message {inbox}")

        *row, settled_at, turn_steps, session = found[0]
        item = next(self.usable(inbox_from_row, [tuple(row)]), None)
        if item is None:
            raise Refused(f"inbound message {inbox}: {DAMAGED}; `turngate repair` tells more")
        steps = [Step(at=item.received_at, step="stored"), *read_steps(turn_steps or "")]
        if settled_at is not None:
            steps.append(
                Step(at=moment(settled_at), step=item.state.value, detail=item.reason or "")
            )

        # An answer without a turn is stored in the transaction that settles its message, so both
        # rows have the same time.
        outgoing = await self.rows(
            f"SELECT steps, n, {PART_COLUMNS}, checksum FROM outbox"
            " WHERE turn = ? OR (turn IS NULL AND created_at = ? AND reply_to = ?) ORDER BY n",
            item.turn or 0,
            settled_at or 0,
            item.message.id,
        )
        steps += [step for part in outgoing for step in read_steps(part[0])]
        parts = tuple(self.usable(part_from_row, [part[1:] for part in outgoing]))
        return Trace(item=item, session=session, steps=tuple(steps), parts=parts)

    async def newest_entries(self, session: SessionId, floor: int, count: int | None) -> Transcript:
        """Return the last `count` entries above a sequence number, in order."""
        rows = await self.rows(
            f"{entry_table.SELECT} WHERE {_OF_SESSION} AND seq > ? ORDER BY seq DESC LIMIT ?",
            scrub(session),
            floor,
            _limit(count),
        )
        return await asyncio.to_thread(self._readable, rows[::-1])

    async def search(self, query: str, limit: int) -> list[Hit]:
        """Return hits, newest first: a scan of what is not indexed yet, then the index."""
        words = query_words(query)
        if not words or limit < 1:
            return []

        expression = match_expression(words) if self._index.available else None
        # Read once and used for both halves: the writer may move it while this search runs, and an
        # entry would be found twice or not at all.
        through = (
            (await self.rows("SELECT through FROM entry_index_progress"))[0][0] if expression else 0
        )
        hits = [hit async for hit in self._look_through(words, through, limit)]
        if expression is None:
            return hits

        rows = await self.rows(
            f"{_HITS} AND seq IN (SELECT rowid FROM entry_words WHERE entry_words MATCH ? AND "
            "rowid <= ?)"
            " ORDER BY seq DESC LIMIT ?",
            expression,
            through,
            limit - len(hits),
        )
        return hits + [hit for row in rows for hit in self._hit(row)]

    async def _look_through(self, words: list[str], floor: int, limit: int) -> AsyncIterator[Hit]:
        """Yield hits by scanning every entry above `floor`, newest first, up to `limit`."""
        below = 1 << 62
        found = 0
        while True:
            rows = await self.rows(
                "SELECT seq, text, body FROM entries WHERE seq > ? AND seq < ? ORDER BY seq DESC "
                "LIMIT ?",
                floor,
                below,
                _CHUNK,
            )
            for seq in await asyncio.to_thread(_containing, rows, words):
                for row in await self.rows(f"{_HITS} AND seq = ?", seq):
                    for hit in self._hit(row):
                        yield hit
                        found += 1
                        if found == limit:
                            return

            if len(rows) < _CHUNK:
                return

            below = rows[-1][0]

    def _hit(self, row: Fetched) -> list[Hit]:
        session, *entry = row
        return [
            Hit(session=session, entry=found) for found in self._readable([tuple(entry)]).entries
        ]

    def _readable(self, rows: list[Fetched]) -> Transcript:
        transcript = entry_table.readable(rows)
        for seq in transcript.damaged:
            self._set_aside(damaged("entries", seq))
        return transcript


_OF_SESSION = "session = (SELECT n FROM sessions WHERE id = ?)"
_HITS = (
    "SELECT (SELECT id FROM sessions WHERE n = session), "
    f"{entry_table.SELECT.removeprefix('SELECT ')} WHERE true"
)


def _containing(rows: list[Fetched], words: list[str]) -> list[int]:
    return [seq for seq, text, body in rows if contains_words(words_of(text, body), words)]


def _limit(count: int | None) -> int:
    """Return SQLite's LIMIT: a negative one means no limit."""
    return -1 if count is None else min(max(count, 0), 1 << 62)


def _marks(values: Sequence[str]) -> str:
    return ", ".join("?" * len(values))


def _conditions(wanted: SessionFilter, now: datetime) -> tuple[list[str], list[str | int]]:
    conditions = ["end_reason IS NOT 'deleted'"]
    values = list[str | int]()
    if wanted.key is not None:
        conditions.append("key = ?")
        values.append(scrub(wanted.key))

    if wanted.owner is not None:
        conditions.append("owner = ?")
        values.append(scrub(wanted.owner))

    if wanted.active_within is not None:
        conditions.append("last_interaction_at >= ?")
        values.append(micros(now - wanted.active_within))

    if wanted.archived is not None:
        conditions.append("archived = ?")
        values.append(int(wanted.archived))

    if wanted.current_only:
        conditions.append("current")

    return conditions, values


def _oldest(found: Sequence[tuple[int, int]]) -> datetime | None:
    return moment(min(since for _, since in found)) if found else None
