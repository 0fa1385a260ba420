"""
The verbs of the Store port over SQLite.

Each verb that writes is one function handed to the writer thread; the tables' files hold what happens there. Reading
for people (lists, transcripts, search) has a connection of its own that cannot write, so that it delays no turn.
"""

from __future__ import annotations

import asyncio
import secrets
import sqlite3
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TypeVar

from gateway.errors import AlreadySettled, Refused, StoreDamaged, StoreUnavailable, UnknownSession
from gateway.model import (
    Block,
    EndReason,
    Entry,
    EntryId,
    InboundMessage,
    InboxId,
    InboxState,
    Opened,
    Part,
    PartId,
    PartState,
    Sent,
    Session,
    SessionId,
    SessionKey,
    SessionSource,
    Spent,
    TurnId,
)
from gateway.people import Approval, Approved, Invitation, Judged, Pending, Person
from gateway.ports import Clock
from gateway.sessions import answered, interacted, said_before, spared_summary, touched, with_moved_marks
from gateway.spending import LAST_DAY, By, Payer, Spending, Used
from gateway.stores import jsonl
from gateway.stores.sqlite import (
    account_table,
    ending_table,
    entry_table,
    inbox_table,
    outbox_table,
    people_table,
    question_table,
    turn_table,
    upkeep,
    usage_table,
)
from gateway.stores.sqlite.account_table import AccountTable
from gateway.stores.sqlite.backup import back_up
from gateway.stores.sqlite.connection import open_database
from gateway.stores.sqlite.copying import keep_a_descriptor
from gateway.stores.sqlite.cure import cure_of
from gateway.stores.sqlite.disk import complaint
from gateway.stores.sqlite.entry_table import EntryTable
from gateway.stores.sqlite.reader import Reader
from gateway.stores.sqlite.recent_entries import RecentEntries
from gateway.stores.sqlite.rows import INBOX_COLUMNS, PART_COLUMNS, inbox_from_row, micros, part_from_row
from gateway.stores.sqlite.search_index import SearchIndex
from gateway.stores.sqlite.session_table import SessionTable
from gateway.stores.sqlite.writer import Committed, Writer
from gateway.stores.texts import scrub, scrubbed
from gateway.storing import (
    Accepted,
    AccountRecord,
    Asked,
    Begun,
    Choice,
    Claim,
    Depth,
    Ending,
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

T = TypeVar("T")
Position = TypeVar("Position", int, str)

LIVE_ENTRIES = 2000
# Between two pieces of a backup: its thread would otherwise take turns with those that answer people.
_LET_OTHERS = 0.002


class SqliteStore:
    """Made by `connect`; let go by `close`."""

    def __init__(
        self, path: Path, clock: Clock, *, live_entries: int, lock_patience: float, backups: Path | None = None
    ) -> None:
        self._path = path
        self._clock = clock
        self._live_entries = live_entries
        self._run = secrets.token_hex(8)
        self._index = SearchIndex()
        self._recent = RecentEntries()
        self._entries = EntryTable(self._index, self._recent)
        self._sessions = SessionTable()
        self._accounts = AccountTable()
        self._writer = Writer(
            partial(open_database, path, self._index, lock_patience),
            lock_patience=lock_patience,
            upkeep=self._index.catch_up,
            rolled_back=self._forget_what_was_undone,
            complaint=partial(complaint, path.absolute().parent),
            cure=partial(cure_of, path, backups),
        )
        self._reader = Reader(path, self._index, self._writer.report_damage)

    @classmethod
    async def connect(
        cls,
        path: Path,
        clock: Clock,
        *,
        live_entries: int = LIVE_ENTRIES,
        lock_patience: float = 5.0,
        backups: Path | None = None,
    ) -> SqliteStore:
        """
        Open or create the database. Reads no session and no message, so it is as quick with a million of them.

        `backups`: where reports of damage look for the newest, if not beside the database.
        """
        store = cls(path, clock, live_entries=live_entries, lock_patience=lock_patience, backups=backups)
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
        """What is wrong with the file, once that was seen; then nothing is written any more."""
        return self._writer.damage

    @property
    def trouble(self) -> str | None:
        """Why nothing can be written as far as is known now: damage, or what the last write failed of."""
        return self._writer.trouble

    @property
    def kept_in_memory(self) -> int:
        """Of how many sessions the newest entries are here, decoded."""
        return len(self._recent)

    def when_committed(self, tell: Committed) -> None:
        """Whom to tell of each commit, on the thread that writes: it must be quick."""
        self._writer.committed = tell

    async def close(self) -> None:
        """Finish what was handed over, then let go of the files."""
        await self._reader.close()
        await self._writer.close()

    async def back_up(self, target: Path) -> None:
        """
        A verified copy, while everything goes on. Broken off when its caller is cancelled.

        A copy can go wrong by itself; two in a row mean that the database has, and then nothing is written any more.
        """
        try:
            return await self._copy(target)
        except StoreDamaged:
            if self.damage is not None:
                raise
        try:
            return await self._copy(target)
        except StoreDamaged as exc:
            raise self._writer.report_damage(f"a backup found the database damaged: {exc.__cause__}") from exc

    async def _copy(self, target: Path) -> None:
        is_over = threading.Event()

        def tell(what: str, done: int, whole: int) -> None:
            if is_over.is_set():
                raise StoreUnavailable("the backup was broken off")
            time.sleep(_LET_OTHERS)

        working = asyncio.ensure_future(asyncio.to_thread(back_up, self._path, target, tell))
        try:
            await asyncio.shield(working)
        except asyncio.CancelledError:
            is_over.set()
            await asyncio.wait({working})
            working.exception()  # nobody waits for it any more
            raise

    async def probe(self) -> None:
        now = self._clock.now()

        def write(db: sqlite3.Connection) -> None:
            self._writer.make_sure_of_room(db)
            db.execute("INSERT OR REPLACE INTO probe VALUES (1, ?)", (micros(now),))

        await self._writer.run(write)
        self._writer.has_room()

    async def accept(self, message: InboundMessage, key: SessionKey, *, choosing: Choice | None = None) -> Accepted:
        now = self._clock.now()

        def write(db: sqlite3.Connection) -> Accepted:
            self._accounts.note_message(db, _account_of(message), now)
            accepted = inbox_table.accept(db, message, key, now)
            if choosing is not None and not accepted.duplicate:
                question_table.choose(db, choosing, accepted.id)
            return accepted

        return await self._writer.run(write)

    async def turn_away(self, message: InboundMessage, key: SessionKey, reason: str) -> Accepted:
        now = self._clock.now()

        def write(db: sqlite3.Connection) -> Accepted:
            self._accounts.note_message(db, _account_of(message), now)
            return inbox_table.turn_away(db, message, key, reason, now)

        return await self._writer.run(write)

    async def amend(self, inbox: InboxId, text: str) -> bool:
        return await self._writer.run(lambda db: inbox_table.amend(db, inbox, text))

    async def open(self, opening: Opening) -> Opened:
        now = self._clock.now()
        return await self._writer.run(lambda db: self._sessions.open(db, opening, now)[1])

    async def begin(self, claim: Claim) -> Begun:
        now = self._clock.now()
        return await self._writer.run(lambda db: self._begin(db, claim, now))

    async def finish(self, turn: TurnId, outcome: Outcome) -> tuple[Part, ...]:
        now = self._clock.now()
        return await self._writer.run(lambda db: self._finish(db, turn, outcome, now))

    async def charge(self, session: SessionId, spent: Spent, payer: Payer) -> None:
        now = self._clock.now()

        def write(db: sqlite3.Connection) -> None:
            usage_table.charge(db, payer, Spending.of(spent))
            try:
                n, found = self._sessions.by_id(db, session)
            except UnknownSession:
                return  # deleted: what it used was used all the same
            self._sessions.update(db, n, answered(found, (), now, spent, told=False))

        await self._writer.run(write)

    async def usage(self, by: By, *, since: str = "", until: str = LAST_DAY) -> list[Used]:
        rows = await self._reader.rows(usage_table.select(by), scrub(since), scrub(until))
        return [usage_table.used_from_row(by, row) for row in rows]

    async def answer(
        self, inbox: InboxId, session: SessionId, *, entries: Sequence[Entry], parts: Sequence[Part]
    ) -> tuple[Part, ...]:
        now = self._clock.now()

        def write(db: sqlite3.Connection) -> tuple[Part, ...]:
            inbox_table.without_turn(db, inbox)
            inbox_table.settle(db, inbox, "done", None, now)
            n = self._append(db, session, entries, now)
            return outbox_table.put_out(db, n, session, None, parts, now)

        return await self._writer.run(write)

    async def tell(self, session: SessionId, *, entries: Sequence[Entry], parts: Sequence[Part]) -> tuple[Part, ...]:
        now = self._clock.now()

        def write(db: sqlite3.Connection) -> tuple[Part, ...]:
            n = self._append(db, session, entries, now)
            return outbox_table.put_out(db, n, session, None, parts, now)

        return await self._writer.run(write)

    async def ask(self, turn: TurnId, *parts: Part) -> tuple[Part, ...]:
        now = self._clock.now()

        def write(db: sqlite3.Connection) -> tuple[Part, ...]:
            n, session = self._sessions.by_number(db, turn_table.running_session(db, turn))
            return outbox_table.put_out(db, n, session.id, turn, parts, now)

        return await self._writer.run(write)

    async def questions(self) -> list[Asked]:
        rows = await self._reader.rows(
            f"SELECT {question_table.COLUMNS} FROM questions WHERE state = 'open' ORDER BY part"
        )
        return [question_table.asked_from_row(row) for row in rows]

    async def answered(self, inbox: InboxId) -> Asked | None:
        rows = await self._reader.rows(f"SELECT {question_table.COLUMNS} FROM questions WHERE answered_by = ?", inbox)
        return question_table.asked_from_row(rows[0]) if rows else None

    async def say(self, *parts: Part) -> tuple[Part, ...]:
        now = self._clock.now()
        return await self._writer.run(lambda db: outbox_table.put_out(db, None, None, None, parts, now))

    async def invite(self, invitation: Invitation) -> tuple[Part, ...]:
        now = self._clock.now()
        return await self._writer.run(lambda db: people_table.invite(db, invitation, now))

    async def approve(self, approval: Approval) -> Judged:
        now = self._clock.now()
        return await self._writer.run(lambda db: people_table.approve(db, approval, now))

    async def revoke(self, platform: str, account: str | None, person: str) -> tuple[Person, ...]:
        now = self._clock.now()
        return await self._writer.run(lambda db: people_table.revoke(db, platform, account, person, now))

    async def approved(self) -> list[Approved]:
        rows = await self._reader.rows(people_table.APPROVED)
        return [self._reader.decoded(people_table.approved_from_row, row) for row in rows]

    async def pending(self) -> list[Pending]:
        rows = await self._reader.rows(people_table.PENDING, micros(self._clock.now()))
        return [people_table.pending_from_row(row) for row in rows]

    async def account(self, platform: str, account: str) -> AccountRecord:
        rows = await self._reader.rows(account_table.SELECT, scrub(f"{platform}/{account}"))
        return account_table.account_from_row(rows[0]) if rows else AccountRecord()

    async def record_refused(self, platform: str, account: str) -> AccountRecord:
        now = self._clock.now()
        return await self._writer.run(lambda db: account_table.record_refused(db, f"{platform}/{account}", now))

    async def record_welcome(self, platform: str, account: str) -> None:
        await self._writer.run(lambda db: account_table.record_welcome(db, f"{platform}/{account}"))

    async def record_behind(self, platform: str, account: str, since: datetime) -> None:
        await self._writer.run(lambda db: account_table.record_behind(db, f"{platform}/{account}", since))

    async def record_caught_up(self, platform: str, account: str, until: datetime) -> None:
        await self._writer.run(lambda db: account_table.record_caught_up(db, f"{platform}/{account}", until))

    async def refuse(
        self, inbox: Sequence[InboxId], reason: str, *, session: SessionId, parts: Sequence[Part]
    ) -> tuple[Part, ...]:
        now = self._clock.now()

        def write(db: sqlite3.Connection) -> tuple[Part, ...]:
            n, found = self._sessions.by_id(db, session)
            refused = inbox_table.refuse(db, inbox, reason)
            return outbox_table.put_out(db, n, found.id, None, parts if refused else (), now)

        return await self._writer.run(write)

    async def join(self, turn: TurnId, inbox: InboxId, entry: Entry) -> None:
        now = self._clock.now()
        await self._writer.run(lambda db: self._join(db, turn, inbox, entry, now))

    async def record_tool(self, turn: TurnId) -> None:
        await self._writer.run(lambda db: turn_table.record_tool(db, turn))

    async def record_preview(self, turn: TurnId, message_id: str) -> None:
        await self._writer.run(lambda db: turn_table.record_preview(db, turn, message_id))

    async def requeue(self, inbox: InboxId) -> InboxItem:
        now = self._clock.now()

        def write(db: sqlite3.Connection) -> InboxItem:
            item = inbox_table.given_up(db, inbox)
            inbox_table.requeue(db, item)
            if item.turn is not None:
                turn_table.requeue(db, item.turn, now)
            state = InboxState.WAITING if item.turn is None else InboxState.RUNNING
            return replace(item, state=state, attempts=0, reason=None)

        return await self._writer.run(write)

    async def drop(self, inbox: InboxId, reason: str) -> None:
        now = self._clock.now()

        def write(db: sqlite3.Connection) -> None:
            if not inbox_table.is_waiting(db, inbox):
                inbox_table.given_up(db, inbox)
            inbox_table.settle(db, inbox, "refused", reason, now)

        await self._writer.run(write)

    async def requeue_part(self, part: PartId) -> Part:
        now = self._clock.now()
        return await self._writer.run(lambda db: outbox_table.requeue(db, part, now))

    async def drop_part(self, part: PartId, reason: str) -> None:
        await self._writer.run(lambda db: outbox_table.drop(db, part))

    async def depth(self) -> Depth:
        return await self._reader.depth()

    async def find(self, message_id: str) -> list[InboxId]:
        return await self._reader.find(message_id)

    async def trace(self, inbox: InboxId) -> Trace:
        return await self._reader.trace(inbox)

    async def record_sending(self, part: PartId) -> Part:
        now = self._clock.now()
        return await self._writer.run(lambda db: outbox_table.record_sending(db, part, now))

    async def record_sent(self, part: PartId, sent: Sent) -> None:
        await self._writer.run(lambda db: outbox_table.record_sent(db, part, sent))

    async def record_unsent(
        self, part: PartId, reason: str, *, retry_at: datetime | None, in_doubt: bool = False
    ) -> None:
        now = self._clock.now()
        await self._writer.run(
            lambda db: outbox_table.record_unsent(db, part, reason, retry_at, now, in_doubt=in_doubt)
        )

    async def reset(self, key: SessionKey, *, title: str | None = None) -> Session:
        now = self._clock.now()
        return await self._writer.run(lambda db: self._sessions.reset(db, key, title, now))

    async def switch(self, key: SessionKey, target: SessionId) -> Session:
        now = self._clock.now()
        return await self._writer.run(lambda db: self._sessions.switch(db, key, target, now))

    async def move_chat(self, old: SessionSource, chat_id: str, key_of: Callable[[SessionSource], SessionKey]) -> int:
        return await self._writer.run(lambda db: self._sessions.move_chat(db, old, chat_id, key_of))

    async def end_if_due(self, session: SessionId, opening: Opening) -> EndReason | None:
        now = self._clock.now()
        return await self._writer.run(lambda db: self._sessions.end_if_due(db, session, opening, now))

    def due(self, policy_of: PolicyOf) -> AsyncIterator[Session]:
        return self._reader.due(policy_of, self._clock.now())

    async def endings(self, *, limit: int = 100) -> list[Ending]:
        rows = await self._reader.rows(ending_table.PENDING, *ending_table.bounds(self._clock.now(), limit))
        return [self._reader.decoded(ending_table.ending_from_row, row) for row in rows]

    async def record_telling(self, session: SessionId, *, retry_at: datetime) -> bool:
        def write(db: sqlite3.Connection) -> bool:
            try:
                n, _ = self._sessions.by_id(db, session)
            except UnknownSession:
                return False
            return ending_table.count_attempt(db, n, retry_at)

        return await self._writer.run(write)

    async def record_told(self, session: SessionId) -> None:
        def write(db: sqlite3.Connection) -> None:
            with suppress(UnknownSession):
                ending_table.forget(db, self._sessions.by_id(db, session)[0])

        await self._writer.run(write)

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

        await self._writer.run(erase)

    async def prune(
        self,
        *,
        empty_after: timedelta,
        archive_after: timedelta,
        forget_after: timedelta,
        keep: timedelta | None = None,
    ) -> Pruned:
        now = self._clock.now()
        broom = upkeep.Broom(
            sessions=self._sessions,
            entries=self._entries,
            now=now,
            empty_before=now - empty_after,
            old_before=now - archive_after,
            said_before=None if keep is None else said_before(now, keep),
        )
        total = await self._in_steps(broom.prune_sessions, 0) + await self._in_steps(broom.forget_talk, 0)
        for table, born in (("inbox", "received_at"), ("turns", "started_at"), ("outbox", "created_at")):
            work = partial(upkeep.forget_work, table=table, born=born, before=now - forget_after)
            total += await self._in_steps(work, 0)
        codes = await self._writer.run(lambda db: people_table.forget(db, now - forget_after))
        questions = await self._writer.run(lambda db: question_table.forget(db, now - forget_after))
        total += Pruned(forgotten=codes + questions)
        total += await self._in_steps(partial(upkeep.forget_seen, before=now - forget_after), "")
        return total + await self._in_steps(partial(upkeep.remove_traces, index=self._index), 0)

    async def append(self, session: SessionId, entries: Sequence[Entry]) -> tuple[Entry, ...]:
        now = self._clock.now()

        def write(db: sqlite3.Connection) -> tuple[Entry, ...]:
            n, found = self._sessions.by_id(db, session)
            stored = self._entries.append(db, n, entries)
            changed = answered(found, stored, now, Spent(), told=False)
            self._sessions.update(db, n, entry_table.within_bounds(db, n, changed, self._live_entries))
            return stored

        return await self._writer.run(write)

    async def edit_entry(self, session: SessionId, entry: EntryId, content: tuple[Block, ...]) -> Entry:
        def write(db: sqlite3.Connection, n: int, found: Session) -> tuple[Session, Entry]:
            old = self._entries.find(db, n, session, entry)
            return found, self._entries.change(db, n, old, content)

        return await self._rewrite(session, write)

    async def delete_entry(self, session: SessionId, entry: EntryId) -> None:
        def write(db: sqlite3.Connection, n: int, found: Session) -> tuple[Session, None]:
            old = self._entries.find(db, n, session, entry)
            self._entries.remove(db, n, old.seq, old.seq)
            return found, None

        await self._rewrite(session, write)

    async def truncate(self, session: SessionId, keep: int) -> int:
        if keep < 0:
            raise Refused(f"cannot keep {keep} messages; give 0 or more")

        def write(db: sqlite3.Connection, n: int, found: Session) -> tuple[Session, int]:
            first = entry_table.seq_after(db, n, found, keep)
            if first is None:
                return found, found.messages
            spared = spared_summary(found, first)
            self._entries.remove(db, n, first, but=spared)
            return found, keep + (spared >= first)

        return await self._rewrite(session, write)

    async def replace(self, session: SessionId, entries: Sequence[Entry]) -> tuple[Entry, ...]:
        def write(db: sqlite3.Connection, n: int, found: Session) -> tuple[Session, tuple[Entry, ...]]:
            self._entries.remove(db, n, found.archived_through + 1)
            stored = self._entries.append(db, n, entries)
            moved = {old.seq: new.seq for old, new in zip(entries, stored, strict=True) if old.seq}
            return with_moved_marks(found, moved), stored

        return await self._rewrite(session, write)

    async def clear(self, session: SessionId) -> None:
        def write(db: sqlite3.Connection, n: int, found: Session) -> tuple[Session, None]:
            self._entries.remove(db, n, 0)
            return replace(found, archived_through=0, consolidated_through=0, summary_seq=0), None

        await self._rewrite(session, write)

    async def consolidate(self, session: SessionId, through: int, summary: Entry | None = None) -> None:
        def write(db: sqlite3.Connection, n: int, found: Session) -> tuple[Session, None]:
            stored = self._entries.append(db, n, [] if summary is None else [summary])
            seq = stored[0].seq if stored else 0
            return replace(found, consolidated_through=max(through, 0), summary_seq=seq), None

        await self._rewrite(session, write)

    async def summarise(self, session: SessionId, summary: Entry, of: Sequence[Entry], *, mark: int) -> bool:
        now = self._clock.now()

        def write(db: sqlite3.Connection) -> bool:
            n, found = self._sessions.by_id(db, session)
            if not of or found.consolidated_through != mark:
                return False
            if entry_table.between(db, n, of[0].seq, of[-1].seq) != tuple(of):
                return False
            (stored,) = self._entries.append(db, n, [summary])
            marked = replace(touched(found, now), consolidated_through=of[-1].seq, summary_seq=stored.seq)
            self._sessions.update(db, n, entry_table.after_rewrite(db, n, marked))
            return True

        return await self._writer.run(write)

    async def import_(self, lines: Iterable[str | bytes]) -> Imported:
        export = jsonl.read_export(lines)
        if export.session is None and not export.entries:
            return Imported(session=None, entries=0, problems=export.problems)
        now = self._clock.now()

        def write(db: sqlite3.Connection) -> SessionId:
            id_ = self._sessions.free_id(db, export.session)
            restored = jsonl.restored_session(export, id_, now)
            if restored.current and self._sessions.current_of(db, restored.key) is not None:
                restored = replace(restored, current=False, ended_at=now, end_reason=EndReason.SWITCH)
            n, _ = self._sessions.insert(db, replace(restored, current=False))
            stored = self._entries.append(db, n, export.entries)
            restored = jsonl.with_new_places(restored, export, stored)
            self._sessions.update(db, n, scrubbed(entry_table.after_rewrite(db, n, restored)))
            return id_

        imported = await self._writer.run(write)
        return Imported(session=imported, entries=len(export.entries), problems=export.problems)

    async def session(self, session: SessionId) -> Session:
        return await self._reader.session(session)

    async def current(self, key: SessionKey) -> Session | None:
        return await self._reader.current(key)

    async def sessions(self, wanted: SessionFilter = SessionFilter()) -> list[Session]:
        return await self._reader.sessions(wanted, self._clock.now())

    async def ever_another(self, session: SessionId) -> bool:
        made = await self._reader.rows("SELECT seq FROM sqlite_sequence WHERE name = 'sessions'")
        known = await self._reader.rows("SELECT count(*) FROM sessions WHERE id = ?", scrub(session))
        return bool(made and made[0][0] > known[0][0])

    async def inbox(self, *states: InboxState, limit: int = 1000, with_settled: bool = True) -> list[InboxItem]:
        rows = await self._reader.work("inbox", INBOX_COLUMNS, states, InboxState, limit, with_settled=with_settled)
        return [self._reader.decoded(inbox_from_row, row) for row in rows]

    async def outbox(self, *states: PartState, limit: int = 1000) -> list[Part]:
        rows = await self._reader.work("outbox", PART_COLUMNS, states, PartState, limit)
        return [self._reader.decoded(part_from_row, row) for row in rows]

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
        # One query, so that what is rewritten meanwhile is exported as it was or as it is, never half and half.
        transcript = await self._reader.newest_entries(session, 0, None)
        await self._reader.session(session)
        yield jsonl.session_line(found)
        for entry in transcript.entries:
            yield jsonl.entry_line(entry)
        yield jsonl.closing_line(len(transcript.entries) + len(transcript.damaged))

    def _append(self, db: sqlite3.Connection, session: SessionId, entries: Sequence[Entry], now: datetime) -> int:
        """What nobody's turn said; returns the session's number."""
        n, found = self._sessions.by_id(db, session)
        stored = self._entries.append(db, n, entries)
        changed = answered(found, stored, now, Spent(), told=False)
        self._sessions.update(db, n, entry_table.within_bounds(db, n, changed, self._live_entries))
        return n

    def _begin(self, db: sqlite3.Connection, claim: Claim, now: datetime) -> Begun:
        turn = inbox_table.turn_of(db, claim.inbox)
        if turn is not None:
            return self._begin_again(db, turn, claim.history, now)
        n, opened = self._sessions.open(db, claim.opening, now)
        if claim.replacing is not None:
            replaced = self._entries.find(db, n, opened.session.id, claim.replacing)
            self._entries.remove(db, n, replaced.seq, but=spared_summary(opened.session, replaced.seq))
            opened = replace(opened, session=entry_table.after_rewrite(db, n, opened.session))
        history = self._entries.history(db, n, opened.session, claim.history)
        stored = self._entries.append(db, n, claim.entries)
        if claim.by_person:
            session = interacted(opened.session, stored, now)
        else:
            session = answered(opened.session, stored, now, Spent(), told=False)
        self._sessions.update(db, n, session)
        seqs = (stored[0].seq, stored[-1].seq) if stored else (entry_table.LAST, entry_table.LAST)
        turn = turn_table.start(db, n, seqs, repeatable=claim.repeatable, run=self._run, now=now)
        inbox_table.begin(db, claim.inbox, turn)
        opened = Opened(session=session, is_new=opened.is_new)
        return Begun(turn=turn, opened=opened, said=stored, history=history, attempt=1, repeatable=claim.repeatable)

    def _begin_again(self, db: sqlite3.Connection, turn: TurnId, count: int, now: datetime) -> Begun:
        row = turn_table.start_again(db, turn, self._run, now)
        question_table.close_of_turn(db, turn)
        inbox_table.count_attempt(db, turn, row.attempt)
        n, session = self._sessions.by_number(db, row.session)
        return Begun(
            turn=turn,
            opened=Opened(session=session, is_new=False),
            said=entry_table.asked_between(db, n, row.first_seq, row.last_seq),
            history=self._entries.history(db, n, session, count, before=row.first_seq),
            attempt=row.attempt,
            repeatable=row.repeatable,
            preview=row.preview,
        )

    def _join(self, db: sqlite3.Connection, turn: TurnId, inbox: InboxId, entry: Entry, now: datetime) -> None:
        n, found = self._sessions.by_number(db, turn_table.running_session(db, turn))
        if inbox_table.turn_of(db, (inbox,)) is not None:
            raise AlreadySettled(f"inbound message {inbox} belongs to a turn")
        stored = self._entries.append(db, n, (entry,))
        self._sessions.update(db, n, interacted(found, stored, now))
        turn_table.extend(db, turn, stored[-1].seq, now)
        inbox_table.begin(db, (inbox,), turn)

    def _finish(self, db: sqlite3.Connection, turn: TurnId, outcome: Outcome, now: datetime) -> tuple[Part, ...]:
        n, found = self._sessions.by_number(db, turn_table.running_session(db, turn))
        stored = self._entries.append(db, n, outcome.entries)
        session = answered(found, stored, now, outcome.spent, told=outcome.failure is None)
        self._sessions.update(db, n, entry_table.within_bounds(db, n, session, self._live_entries))
        if outcome.payer is not None:
            usage_table.charge(db, outcome.payer, Spending.of(outcome.spent))
        question_table.close_of_turn(db, turn)
        if outcome.failure is None:
            turn_table.end(db, turn, "done", "finished", "", now)
            inbox_table.settle_turn(db, turn, now)
        else:
            turn_table.end(db, turn, "failed", outcome.state, outcome.failure, now)
            inbox_table.fail_turn(db, turn, outcome.state, outcome.failure)
        return outbox_table.put_out(db, n, session.id, turn, outcome.parts, now)

    def _forget_what_was_undone(self) -> None:
        self._recent.clear()
        self._sessions.forget_all()
        self._accounts.forget_all()

    async def _amend(self, session: SessionId, change: Callable[[Session], Session]) -> None:
        now = self._clock.now()
        await self._writer.run(lambda db: self._sessions.amend(db, session, lambda found: touched(change(found), now)))

    async def _rewrite(
        self, session: SessionId, change: Callable[[sqlite3.Connection, int, Session], tuple[Session, T]]
    ) -> T:
        """Change the entries of a session, then make what is known of it fit them again."""
        now = self._clock.now()

        def write(db: sqlite3.Connection) -> T:
            n, found = self._sessions.by_id(db, session)
            changed, result = change(db, n, found)
            self._sessions.update(db, n, entry_table.after_rewrite(db, n, touched(changed, now)))
            return result

        return await self._writer.run(write)

    async def _in_steps(
        self, step: Callable[[sqlite3.Connection, Position], upkeep.Step[Position]], start: Position
    ) -> Pruned:
        """Each step is a transaction of its own, so that turns get in between."""
        total = Pruned()
        position: Position | None = start
        while position is not None:
            done = await self._writer.run(partial(_swapped, step, position))
            total += done.pruned
            position = done.after
        return total


def _account_of(message: InboundMessage) -> str:
    return f"{message.source.platform}/{message.source.account}"


def _swapped(step: Callable[[sqlite3.Connection, Position], T], position: Position, db: sqlite3.Connection) -> T:
    return step(db, position)
