"""
The verbs of the Store port over SQLite.

Each verb that writes passes one function to the writer thread; the table modules contain what it
does. Reading for users (lists, transcripts, search) has its own read-only connection, so that it
delays no turn.
"""

from __future__ import annotations

import asyncio
import secrets
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TypeVar

from turngate.gateway.domain.errors import (
    Refused,
    RowDamaged,
    StoreDamaged,
    UnknownSession,
)
from turngate.gateway.domain.ids import (
    EntryId,
    InboxId,
    PartId,
    SessionId,
    SessionKey,
    TurnId,
)
from turngate.gateway.domain.messages import (
    InboundMessage,
    InboxState,
    SessionSource,
)
from turngate.gateway.domain.outbox import (
    Part,
    PartState,
    Sent,
)
from turngate.gateway.domain.pairing_records import (
    Approval,
    Approved,
    Invitation,
    Judged,
    Pending,
    Person,
)
from turngate.gateway.domain.ports.clock import Clock
from turngate.gateway.domain.session import (
    EndReason,
    Opened,
    Session,
)
from turngate.gateway.domain.store_values import (
    Accepted,
    AccountRecord,
    Asked,
    Begun,
    Choice,
    Claim,
    Depth,
    EndedSession,
    Hit,
    Imported,
    InboxItem,
    Opening,
    Outcome,
    PolicyOf,
    Pruned,
    SessionFilter,
    Trace,
    Transcript,
)
from turngate.gateway.domain.transcript import Block, Entry
from turngate.gateway.domain.usage import (
    LAST_DAY,
    By,
    Payer,
    Spending,
    Spent,
    Used,
)
from turngate.gateway.rules.retention import said_before
from turngate.gateway.rules.session_lifecycle import answered, touched
from turngate.gateway.stores import jsonl
from turngate.gateway.stores.sqlite import (
    account_table,
    damaged_rows,
    ending_table,
    inbox_table,
    outbox_table,
    people_table,
    question_table,
    repair,
    turn_table,
    upkeep,
    usage_table,
    verify,
)
from turngate.gateway.stores.sqlite.account_table import AccountTable
from turngate.gateway.stores.sqlite.backup import back_up_alongside
from turngate.gateway.stores.sqlite.connection import open_database
from turngate.gateway.stores.sqlite.copy import as_ours, keep_a_descriptor, reading
from turngate.gateway.stores.sqlite.disk import complaint
from turngate.gateway.stores.sqlite.entry_table import EntryTable
from turngate.gateway.stores.sqlite.reader import Reader
from turngate.gateway.stores.sqlite.recent_entries import RecentEntries
from turngate.gateway.stores.sqlite.restore_advice import cure_of
from turngate.gateway.stores.sqlite.rows import (
    INBOX_COLUMNS,
    PART_COLUMNS,
    inbox_from_row,
    micros,
    part_from_row,
)
from turngate.gateway.stores.sqlite.search_index import SearchIndex
from turngate.gateway.stores.sqlite.session_table import SessionTable
from turngate.gateway.stores.sqlite.transcripts import Transcripts
from turngate.gateway.stores.sqlite.turn_transactions import TurnTransactions
from turngate.gateway.stores.sqlite.writer import Committed, LogState, Operation, Writer
from turngate.gateway.stores.texts import scrub
from turngate.gateway.stores.unreadable import make_sure_it_can_be_read, with_raw_only

T = TypeVar("T")

LIVE_ENTRIES = 2000


class SqliteStore:
    """The Store port over one SQLite file. Made by `connect`, released by `close`."""

    def __init__(
        self,
        path: Path,
        clock: Clock,
        *,
        live_entries: int,
        lock_timeout: float,
        backups: Path | None = None,
    ) -> None:
        self._path = path
        self._clock = clock
        # A turn that is running under another run's id died with its daemon and may begin again.
        self.run = secrets.token_hex(8)
        self._index = SearchIndex()
        self._recent = RecentEntries()
        self._entries = EntryTable(self._index, self._recent)
        self._sessions = SessionTable()
        self._transcripts = Transcripts(self._sessions, self._entries, live_entries)
        self._work = TurnTransactions(self._sessions, self._entries, self._transcripts)
        self._accounts = AccountTable()
        self._writer = Writer(
            partial(open_database, path, self._index, lock_timeout),
            lock_timeout=lock_timeout,
            upkeep=self._index.catch_up,
            rolled_back=self._forget_what_was_undone,
            complaint=partial(complaint, path.absolute().parent),
            cure=partial(cure_of, path, backups),
        )
        self._reader = Reader(path, self._index, self._writer.report_damage, self._set_aside_later)
        self._found_damaged: set[tuple[str, str]] = set()
        self._set_aside: Callable[[RowDamaged], None] = _nobody_is_told

    @classmethod
    async def connect(
        cls,
        path: Path,
        clock: Clock,
        *,
        live_entries: int = LIVE_ENTRIES,
        lock_timeout: float = 5.0,
        backups: Path | None = None,
    ) -> SqliteStore:
        """
        Open or create the database. Reads no session and no message, so the time does not depend on
        their number.

        `lock_timeout` in seconds. `backups`: where damage reports look for the newest backup, if
        not beside the database.
        """
        store = cls(
            path, clock, live_entries=live_entries, lock_timeout=lock_timeout, backups=backups
        )
        try:
            await store._writer.start()
            await store._reader.start()
            await asyncio.to_thread(keep_a_descriptor, path)
        except BaseException:
            await store.close()
            raise

        return store

    @property
    def damage(self) -> str | None:
        """The damage found in the file, or None. Once there is any, nothing is written."""
        return self._writer.damage

    @property
    def trouble(self) -> str | None:
        """Why nothing can be written now: damage, or the reason of the last failed write."""
        return self._writer.trouble

    @property
    def log(self) -> LogState:
        """The size of the write-ahead log, and since when no checkpoint came through."""
        return self._writer.log

    @property
    def kept_in_memory(self) -> int:
        """The number of sessions whose newest entries are cached."""
        return len(self._recent)

    def when_committed(self, tell: Committed) -> None:
        """Set the callback for each commit. It runs on the writer thread, so it must be quick."""
        self._writer.committed = tell

    def when_set_aside(self, tell: Callable[[RowDamaged], None]) -> None:
        """Set the callback for each row that is found damaged. It runs on the writer thread."""
        self._set_aside = tell

    async def close(self) -> None:
        """Finish the queued writes, then close the files."""
        # The reader first: the log is checkpointed only when the last connection that closes is the
        # one that writes.
        await self._reader.close()
        await self._writer.close()

    async def back_up(self, target: Path) -> None:
        """
        Write a verified copy while the daemon works. Stops when the caller is cancelled.

        One damaged copy may be a fault of the copy; two in a row mean that the database is damaged.
        Damaged rows are set aside; if there are none, all writes stop.
        """
        try:
            return await back_up_alongside(self._path, target)
        except StoreDamaged:
            if self.damage is not None:
                raise

        for found in await self.damaged_rows():
            await self._writer.run(partial(self._put_aside, found))
        try:
            return await back_up_alongside(self._path, target)
        except StoreDamaged as exc:
            raise self._writer.report_damage(
                f"a backup found the database damaged: {exc.__cause__}"
            ) from exc

    async def damaged_rows(self) -> list[RowDamaged]:
        """Read every row and return those that are not what was written."""

        def look() -> list[RowDamaged]:
            with as_ours(self._path.parent), closing(reading(self._path)) as db:
                return [*verify.damaged_rows(db)]

        return await asyncio.to_thread(look)

    async def repair(self, found: RowDamaged, *, apply: bool) -> None:
        """
        Set a damaged row aside and rebuild it. Raises Refused with the reason if it cannot be
        rebuilt; without `apply` nothing is changed.
        """

        def write(db: sqlite3.Connection) -> None:
            # It may have been written again from memory, which is better than any repair.
            if apply and not damaged_rows.is_set_aside(db, found):
                return
            repair.rebuild(db, found, self._clock.now())
            if not apply:
                raise _OnlyShown

        if apply:
            await self._writer.run(partial(self._put_aside, found))
        with suppress(_OnlyShown):
            await self._run(write)
        self._found_damaged.discard((found.place, found.key))

    async def probe(self) -> None:
        now = self._clock.now()

        def write(db: sqlite3.Connection) -> None:
            self._writer.make_sure_of_room(db)
            db.execute("INSERT OR REPLACE INTO probe VALUES (1, ?)", (micros(now),))

        await self._run(write)
        # Only after the commit, which may itself fail for lack of space.
        self._writer.has_room()

    async def accept(
        self, message: InboundMessage, key: SessionKey, *, choosing: Choice | None = None
    ) -> Accepted:
        make_sure_it_can_be_read(message)
        now = self._clock.now()

        def write(db: sqlite3.Connection) -> Accepted:
            self._accounts.note_message(db, _account_of(message), message)
            accepted = inbox_table.accept(db, message, key, now)
            # Not for a duplicate: `answered_by` must name the row that will be worked on.
            if choosing is not None and not accepted.duplicate:
                question_table.choose(db, choosing, accepted.id)
            return accepted

        return await self._run(write)

    async def reject(self, message: InboundMessage, key: SessionKey, reason: str) -> Accepted:
        now = self._clock.now()

        def write(db: sqlite3.Connection) -> Accepted:
            self._accounts.note_message(db, _account_of(message), message)
            return inbox_table.reject(db, message, key, reason, now)

        return await self._run(write)

    async def set_aside(self, message: InboundMessage, key: SessionKey, reason: str) -> Accepted:
        now = self._clock.now()
        kept = with_raw_only(message)

        def write(db: sqlite3.Connection) -> Accepted:
            self._accounts.note_message(db, _account_of(message), message)
            return inbox_table.set_aside(db, kept, key, reason, now)

        return await self._run(write)

    async def accept_again(
        self,
        inbox: InboxId,
        message: InboundMessage,
        key: SessionKey,
        *,
        choosing: Choice | None = None,
    ) -> Accepted:
        make_sure_it_can_be_read(message)
        now = self._clock.now()

        def write(db: sqlite3.Connection) -> Accepted:
            accepted = inbox_table.accept_again(db, inbox, message, key, now)
            if choosing is not None:
                question_table.choose(db, choosing, accepted.id)
            return accepted

        return await self._run(write)

    async def amend(self, inbox: InboxId, text: str) -> bool:
        return await self._run(lambda db: inbox_table.amend(db, inbox, text))

    async def open(self, opening: Opening) -> Opened:
        now = self._clock.now()
        return await self._run(lambda db: self._sessions.open(db, opening, now)[1])

    async def begin(self, claim: Claim) -> Begun:
        now = self._clock.now()
        return await self._run(lambda db: self._work.begin(db, claim, self.run, now))

    async def finish(self, turn: TurnId, outcome: Outcome) -> tuple[Part, ...]:
        now = self._clock.now()
        return await self._run(lambda db: self._work.finish(db, turn, outcome, now))

    async def charge(self, session: SessionId, spent: Spent, payer: Payer) -> None:
        now = self._clock.now()

        def write(db: sqlite3.Connection) -> None:
            usage_table.charge(db, payer, Spending.of(spent))
            try:
                n, found = self._sessions.by_id(db, session)
            except UnknownSession:
                return  # deleted in between: the payer is charged anyway, the cost was incurred
            self._sessions.update(db, n, answered(found, (), now, spent, told=False))

        await self._run(write)

    async def usage(self, by: By, *, since: str = "", until: str = LAST_DAY) -> list[Used]:
        rows = await self._reader.rows(usage_table.select(by), scrub(since), scrub(until))
        return [usage_table.used_from_row(by, row) for row in rows]

    async def answer(
        self, inbox: InboxId, session: SessionId, *, entries: Sequence[Entry], parts: Sequence[Part]
    ) -> tuple[Part, ...]:
        now = self._clock.now()

        def write(db: sqlite3.Connection) -> tuple[Part, ...]:
            # Raises if the message was settled before: a repeated command adds no second answer.
            inbox_table.without_turn(db, inbox)
            inbox_table.settle(db, inbox, "done", None, now)
            n, _ = self._transcripts.append(db, session, entries, now)
            return outbox_table.put_out(db, n, session, None, parts, now)

        return await self._run(write)

    async def tell(
        self, session: SessionId, *, entries: Sequence[Entry], parts: Sequence[Part]
    ) -> tuple[Part, ...]:
        now = self._clock.now()

        def write(db: sqlite3.Connection) -> tuple[Part, ...]:
            n, _ = self._transcripts.append(db, session, entries, now)
            return outbox_table.put_out(db, n, session, None, parts, now)

        return await self._run(write)

    async def ask(self, turn: TurnId, *parts: Part) -> tuple[Part, ...]:
        now = self._clock.now()

        def write(db: sqlite3.Connection) -> tuple[Part, ...]:
            n, session = self._sessions.by_number(db, turn_table.running_session(db, turn))
            return outbox_table.put_out(db, n, session.id, turn, parts, now)

        return await self._run(write)

    async def questions(self) -> list[Asked]:
        rows = await self._reader.rows(
            f"SELECT {question_table.COLUMNS} FROM questions WHERE state = 'open' ORDER BY part"
        )
        return [*self._reader.usable(question_table.asked_from_row, rows)]

    async def close_question(self, question: PartId, *parts: Part) -> tuple[Part, ...]:
        now = self._clock.now()

        def write(db: sqlite3.Connection) -> tuple[Part, ...]:
            told = parts if question_table.close(db, question) else ()
            return outbox_table.put_out(db, None, None, None, told, now)

        return await self._run(write)

    async def answered(self, inbox: InboxId) -> Asked | None:
        rows = await self._reader.rows(
            f"SELECT {question_table.COLUMNS} FROM questions WHERE answered_by = ?", inbox
        )
        return next(self._reader.usable(question_table.asked_from_row, rows), None)

    async def say(self, *parts: Part) -> tuple[Part, ...]:
        now = self._clock.now()
        return await self._run(lambda db: outbox_table.put_out(db, None, None, None, parts, now))

    async def invite(self, invitation: Invitation) -> tuple[Part, ...]:
        now = self._clock.now()
        return await self._run(lambda db: people_table.invite(db, invitation, now))

    async def approve(self, approval: Approval) -> Judged:
        now = self._clock.now()
        return await self._run(lambda db: people_table.approve(db, approval, now))

    async def revoke(self, platform: str, account: str | None, person: str) -> tuple[Person, ...]:
        now = self._clock.now()
        return await self._run(lambda db: people_table.revoke(db, platform, account, person, now))

    async def approved(self) -> list[Approved]:
        rows = await self._reader.rows(people_table.APPROVED)
        return [*self._reader.usable(people_table.approved_from_row, rows)]

    async def pending(self) -> list[Pending]:
        rows = await self._reader.rows(people_table.PENDING, micros(self._clock.now()))
        return [people_table.pending_from_row(row) for row in rows]

    async def account(self, platform: str, account: str) -> AccountRecord:
        rows = await self._reader.rows(account_table.SELECT, scrub(f"{platform}/{account}"))
        return account_table.account_from_row(rows[0]) if rows else AccountRecord()

    async def record_refused(self, platform: str, account: str) -> AccountRecord:
        now = self._clock.now()
        return await self._run(
            lambda db: account_table.record_refused(db, f"{platform}/{account}", now)
        )

    async def record_welcome(self, platform: str, account: str) -> None:
        await self._run(lambda db: account_table.record_welcome(db, f"{platform}/{account}"))

    async def record_behind(self, platform: str, account: str, since: datetime) -> None:
        await self._run(lambda db: self._accounts.record_behind(db, f"{platform}/{account}", since))

    async def record_caught_up(self, platform: str, account: str, until: datetime) -> None:
        await self._run(
            lambda db: account_table.record_caught_up(db, f"{platform}/{account}", until)
        )

    async def refuse(
        self, inbox: Sequence[InboxId], reason: str, *, session: SessionId, parts: Sequence[Part]
    ) -> tuple[Part, ...]:
        now = self._clock.now()

        def write(db: sqlite3.Connection) -> tuple[Part, ...]:
            n, found = self._sessions.by_id(db, session)
            refused = inbox_table.refuse(db, inbox, reason)
            # If none of the messages waits any more, the reason must not be sent a second time.
            return outbox_table.put_out(db, n, found.id, None, parts if refused else (), now)

        return await self._run(write)

    async def join(self, turn: TurnId, inbox: InboxId, entry: Entry) -> None:
        now = self._clock.now()
        await self._run(lambda db: self._work.join(db, turn, inbox, entry, now))

    async def count_crash(self, run: str | None) -> None:
        await self._run(lambda db: turn_table.count_crash(db, run))

    async def end_alone(self, turn: TurnId) -> None:
        await self._run(lambda db: turn_table.end_alone(db, turn))

    async def record_tool(self, turn: TurnId) -> None:
        await self._run(lambda db: turn_table.record_tool(db, turn))

    async def record_preview(self, turn: TurnId, message_id: str) -> None:
        await self._run(lambda db: turn_table.record_preview(db, turn, message_id))

    async def requeue(self, inbox: InboxId) -> InboxItem:
        now = self._clock.now()
        return await self._run(lambda db: self._work.requeue(db, inbox, now))

    async def drop(self, inbox: InboxId, reason: str) -> None:
        now = self._clock.now()

        def write(db: sqlite3.Connection) -> None:
            if not inbox_table.is_waiting(db, inbox):
                inbox_table.given_up(db, inbox)
            inbox_table.settle(db, inbox, "refused", reason, now)

        await self._run(write)

    async def requeue_part(self, part: PartId) -> Part:
        now = self._clock.now()
        return await self._run(lambda db: outbox_table.requeue(db, part, now))

    async def drop_part(self, part: PartId, reason: str) -> None:
        await self._run(lambda db: outbox_table.drop(db, part))

    async def depth(self) -> Depth:
        return await self._reader.depth()

    async def find(self, message_id: str) -> list[InboxId]:
        return await self._reader.find(message_id)

    async def trace(self, inbox: InboxId) -> Trace:
        return await self._reader.trace(inbox)

    async def record_sending(self, part: PartId) -> Part:
        now = self._clock.now()
        return await self._run(lambda db: outbox_table.record_sending(db, part, now))

    async def record_sent(self, part: PartId, sent: Sent) -> None:
        await self._run(lambda db: outbox_table.record_sent(db, part, sent))

    async def record_unsent(
        self, part: PartId, reason: str, *, retry_at: datetime | None, in_doubt: bool = False
    ) -> None:
        now = self._clock.now()
        await self._run(
            lambda db: outbox_table.record_unsent(
                db, part, reason, retry_at, now, in_doubt=in_doubt
            )
        )

    async def reset(self, key: SessionKey, *, title: str | None = None) -> Session:
        now = self._clock.now()
        return await self._run(lambda db: self._sessions.reset(db, key, title, now))

    async def switch(self, key: SessionKey, target: SessionId) -> Session:
        now = self._clock.now()
        return await self._run(lambda db: self._sessions.switch(db, key, target, now))

    async def move_chat(
        self, old: SessionSource, chat_id: str, key_of: Callable[[SessionSource], SessionKey]
    ) -> int:
        return await self._run(lambda db: self._sessions.move_chat(db, old, chat_id, key_of))

    async def end_if_due(self, session: SessionId, opening: Opening) -> EndReason | None:
        now = self._clock.now()
        return await self._run(lambda db: self._sessions.end_if_due(db, session, opening, now))

    def due(self, policy_of: PolicyOf) -> AsyncIterator[Session]:
        return self._reader.due(policy_of, self._clock.now())

    async def endings(self, *, limit: int = 100) -> list[EndedSession]:
        rows = await self._reader.rows(
            ending_table.PENDING, *ending_table.bounds(self._clock.now(), limit)
        )
        return [*self._reader.usable(ending_table.ending_from_row, rows)]

    async def record_telling(self, session: SessionId, *, retry_at: datetime) -> bool:
        def write(db: sqlite3.Connection) -> bool:
            try:
                n, _ = self._sessions.by_id(db, session)
            except UnknownSession:
                return False
            return ending_table.count_attempt(db, n, retry_at)

        return await self._run(write)

    async def record_told(self, session: SessionId) -> None:
        def write(db: sqlite3.Connection) -> None:
            with suppress(UnknownSession):
                ending_table.forget(db, self._sessions.by_id(db, session)[0])

        await self._run(write)

    async def rename(self, session: SessionId, title: str | None) -> None:
        await self._amend(session, lambda found: replace(found, title=title))

    async def archive(self, session: SessionId, *, archived: bool = True) -> None:
        await self._amend(session, lambda found: replace(found, archived=archived))

    async def mark_important(self, session: SessionId, *, important: bool = True) -> None:
        await self._amend(session, lambda found: replace(found, important=important))

    async def set_goal(self, session: SessionId, goal: str | None) -> None:
        await self._amend(session, lambda found: replace(found, goal=goal))

    async def choose_agent(self, session: SessionId, agent: str | None) -> None:
        await self._amend(session, lambda found: replace(found, agent=agent))

    async def delete(self, session: SessionId) -> None:
        now = self._clock.now()

        def erase(db: sqlite3.Connection) -> None:
            upkeep.erase(db, *self._sessions.by_id(db, session), self._sessions, self._entries, now)

        await self._run(erase)

    async def prune(
        self,
        *,
        empty_after: timedelta,
        archive_after: timedelta,
        forget_after: timedelta,
        keep: timedelta | None = None,
    ) -> Pruned:
        now = self._clock.now()
        broom = upkeep.Upkeep(
            sessions=self._sessions,
            entries=self._entries,
            now=now,
            empty_before=now - empty_after,
            old_before=now - archive_after,
            said_before=None if keep is None else said_before(now, keep),
        )
        return await upkeep.clean_up(self._run, broom, self._index, now - forget_after)

    async def edit_entry(
        self, session: SessionId, entry: EntryId, content: tuple[Block, ...]
    ) -> Entry:
        now = self._clock.now()
        return await self._run(lambda db: self._transcripts.edit(db, session, entry, content, now))

    async def delete_entry(self, session: SessionId, entry: EntryId) -> None:
        now = self._clock.now()
        await self._run(lambda db: self._transcripts.remove(db, session, entry, now))

    async def truncate(self, session: SessionId, keep: int) -> int:
        if keep < 0:
            raise Refused(f"cannot keep {keep} messages; give 0 or more")
        now = self._clock.now()
        return await self._run(lambda db: self._transcripts.truncate(db, session, keep, now))

    async def summarise(
        self, session: SessionId, summary: Entry, of: Sequence[Entry], *, mark: int
    ) -> bool:
        now = self._clock.now()
        return await self._run(
            lambda db: self._transcripts.summarise(db, session, summary, of, now, mark=mark)
        )

    async def import_(self, lines: Iterable[str | bytes]) -> Imported:
        export = jsonl.read_export(lines)
        if export.session is None and not export.entries:
            return Imported(session=None, entries=0, problems=export.problems)
        now = self._clock.now()
        imported = await self._run(lambda db: self._transcripts.restore(db, export, now))
        return Imported(session=imported, entries=len(export.entries), problems=export.problems)

    async def session(self, session: SessionId) -> Session:
        return await self._reader.session(session)

    async def current(self, key: SessionKey) -> Session | None:
        return await self._reader.current(key)

    async def sessions(self, wanted: SessionFilter = SessionFilter()) -> list[Session]:
        return await self._reader.sessions(wanted, self._clock.now())

    async def inbox(
        self, *states: InboxState, limit: int = 1000, with_settled: bool = True
    ) -> list[InboxItem]:
        rows = await self._reader.work(
            "inbox", INBOX_COLUMNS, states, InboxState, limit, with_settled=with_settled
        )
        return [*self._reader.usable(inbox_from_row, rows)]

    async def outbox(self, *states: PartState, limit: int = 1000) -> list[Part]:
        rows = await self._reader.work("outbox", PART_COLUMNS, states, PartState, limit)
        return [*self._reader.usable(part_from_row, rows)]

    async def transcript(
        self, session: SessionId, *, last: int | None = None, with_archived: bool = False
    ) -> Transcript:
        found = await self._reader.session(session)
        floor = 0 if with_archived else found.archived_through
        return await self._reader.newest_entries(session, floor, last)

    async def search(self, query: str, *, limit: int = 20) -> list[Hit]:
        return await self._reader.search(query, limit)

    async def export(self, session: SessionId) -> AsyncIterator[str]:
        found = await self._reader.session(session)
        # One query, so that a concurrent rewrite is exported as before or as after, never mixed.
        transcript = await self._reader.newest_entries(session, 0, None)
        # Raises if the session was deleted between the two queries: the export would be empty.
        await self._reader.session(session)
        yield jsonl.session_line(found)
        for entry in transcript.entries:
            yield jsonl.entry_line(entry)
        # Damaged entries are counted too, so that an import reports them as missing.
        yield jsonl.closing_line(len(transcript.entries) + len(transcript.damaged))

    async def _run(self, operation: Operation[T], /) -> T:
        """
        Run an operation on the writer thread.

        If it meets a damaged row, the row is set aside and the operation runs again without it.
        """
        met: set[tuple[str, str]] = set()
        while True:
            try:
                return await self._writer.run(operation)
            except RowDamaged as exc:
                damaged = exc.place, exc.key
                if damaged in met:
                    raise
                met.add(damaged)
                await self._writer.run(partial(self._put_aside, exc))

    def _set_aside_later(self, found: RowDamaged) -> None:
        # Each look at the row finds it again, and a write each time would be many.
        known = found.place, found.key
        if known not in self._found_damaged:
            self._found_damaged.add(known)
            self._writer.post(partial(self._put_aside, found))

    def _put_aside(self, found: RowDamaged, db: sqlite3.Connection) -> None:
        # What is remembered was read or written when the row was whole.
        if found.place == "sessions" and self._sessions.write_again(db, found.key):
            return
        if damaged_rows.set_aside(db, found, self._clock.now()):
            self._set_aside(found)

    def _forget_what_was_undone(self) -> None:
        self._recent.clear()
        self._sessions.forget_all()
        self._accounts.forget_all()

    async def _amend(self, session: SessionId, change: Callable[[Session], Session]) -> None:
        now = self._clock.now()
        await self._run(
            lambda db: self._sessions.amend(db, session, lambda found: touched(change(found), now))
        )


class _OnlyShown(Exception):
    """Undoes a repair that was only to be shown."""


def _nobody_is_told(found: RowDamaged) -> None:
    """Do nothing: the default of `when_set_aside`."""


def _account_of(message: InboundMessage) -> str:
    return f"{message.source.platform}/{message.source.account}"
