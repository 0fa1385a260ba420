"""
The one thread that writes, and the commit that all waiting callers share.

A durable commit costs an fsync however much is in it, so the writer takes all jobs that are
waiting, from any task of any thread's event loop, and commits them once. A caller gets its result
only after that commit. Only one connection writes and checkpoints: SQLite before 3.51.3 can corrupt
a database if two do.
"""

from __future__ import annotations

import asyncio
import queue
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Generic, TypeVar

from turngate.gateway.domain.crashpoints import crashpoint
from turngate.gateway.domain.errors import (
    StoreDamaged,
    StoreError,
    StoreUnavailable,
)
from turngate.gateway.stores.sqlite.connection import Database
from turngate.gateway.stores.sqlite.disk import ROOM
from turngate.gateway.stores.sqlite.errors import (
    FOREIGN_ERRORS,
    as_our_error,
    is_locked,
    name_of,
)
from turngate.gateway.stores.sqlite.file_identity import FileIdentity

T = TypeVar("T")
Operation = Callable[[sqlite3.Connection], T]

Committed = Callable[[float, int], None]
"""Told, on the writer's thread, how many seconds a commit took and how many writes shared it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogState:
    """
    The write-ahead log. `blocked_for`: seconds in which no checkpoint came through, because another
    process reads; None if they do.
    """

    size: int = 0
    blocked_for: float | None = None


# In bytes: four times as much as is written before SQLite tries a checkpoint.
_LONG_LOG = 64 * 1024 * 1024
_LARGEST_BATCH = 256
_IDLE_SECONDS = 0.2
_JOBS_BETWEEN_UPKEEP = 1024
_SECONDS_BETWEEN_LOOKS = 1.0


@dataclass(slots=True, eq=False)
class _Job(Generic[T]):
    """One caller's operation, the future it waits on, if it waits, and the result."""

    operation: Operation[T]
    loop: asyncio.AbstractEventLoop | None = None
    future: asyncio.Future[T] | None = None
    result: T | None = None
    error: BaseException | None = None

    def settle(self) -> None:
        """Set the caller's future, on the caller's own loop, unless it was cancelled."""
        if self.future is None or self.future.done():
            return

        if isinstance(self.error, StopIteration):
            # set_exception raises TypeError for StopIteration, and then the jobs after this one in
            # the batch would never be settled.
            self.future.set_exception(RuntimeError("an operation raised StopIteration"))
        elif self.error is not None:
            self.future.set_exception(self.error)
        else:
            # Set together with error=None.
            self.future.set_result(self.result)  # type: ignore[arg-type]


class Writer:
    """
    Runs operations in order on its own thread. The queue has no limit of its own: each caller waits
    for its result before it can queue another operation.
    """

    def __init__(
        self,
        connect: Callable[[], Database],
        *,
        lock_timeout: float,
        upkeep: Operation[bool],
        rolled_back: Callable[[], None],
        complaint: Callable[[int], str | None],
        cure: Callable[[], str],
    ) -> None:
        """
        Set up without opening the database. All callbacks run on the writer thread.

        `lock_timeout`: seconds to wait for another process's lock. `upkeep` does one step of
        deferred work and returns whether there is more. `rolled_back` is called after a rollback.
        `complaint` returns why the log, of that many bytes, cannot grow. `cure` returns the advice
        that ends every damage report.
        """
        self._connect = connect
        self._lock_patience = lock_timeout
        self._upkeep = upkeep
        self._rolled_back = rolled_back
        self._complaint = complaint
        self._cure = cure
        self._presence: FileIdentity | None = None
        self._closing = False
        self._queue: queue.SimpleQueue[_Job[object] | None] = queue.SimpleQueue()
        # Makes "is it stopped?" and "queue the job" one step, so no job is queued after the last
        # drain in `_stop`.
        self._gate = threading.Lock()
        self._stopped = False
        self._jobs_since_upkeep = 0
        self._thread = threading.Thread(target=self._work, name="turngate-writer", daemon=True)
        self._log_size = 0
        self._log_looked_at = 0.0
        self._log_blocked_at: float | None = None
        self._db: sqlite3.Connection | None = None
        self.committed: Committed = _nobody_counts
        self.commits = 0
        self.damage: str | None = None
        self._failure: str | None = None
        self._is_cramped = False

    @property
    def trouble(self) -> str | None:
        """Why nothing can be written now: damage, or the reason of the last failed write."""
        return self.damage or self._failure

    @property
    def log(self) -> LogState:
        """The size of the log, and since when no checkpoint came through. On any thread."""
        since = self._log_blocked_at
        blocked_for = None if since is None else time.monotonic() - since
        return LogState(size=self._log_size, blocked_for=blocked_for)

    async def start(self) -> None:
        """Open the connection on the writer's thread; an error there is raised here."""
        loop = asyncio.get_running_loop()
        ready: asyncio.Future[object] = loop.create_future()
        self._ready: _Job[object] = _Job(operation=lambda _: None, loop=loop, future=ready)
        self._thread.start()
        await ready

    async def run(self, operation: Operation[T]) -> T:
        """
        Run an operation in a transaction and return its result once that is on disk.

        It may run twice, the first time rolled back, so it must change nothing but the database and
        what `rolled_back` clears. A caller that is cancelled while waiting cannot know whether it
        ran.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        job: _Job[object]
        job = _Job(operation=operation, loop=loop, future=future)  # type: ignore[arg-type]
        with self._gate:
            if self._stopped:
                raise StoreUnavailable("the store is closed")
            self._queue.put(job)

        return await future

    def post(self, operation: Operation[object]) -> None:
        """Run an operation whose result nobody waits for. Callable from any thread."""
        with self._gate:
            if not self._stopped:
                self._queue.put(_Job(operation=operation))

    async def close(self) -> None:
        """Finish the queued operations, then stop. Idempotent."""
        # Read by `_begin` on the writer thread: a wait for a lock must not delay the shutdown.
        self._closing = True
        self._queue.put(None)
        await asyncio.to_thread(self._thread.join)

    def make_sure_of_room(self, db: sqlite3.Connection) -> None:
        """
        Raise StoreUnavailable if the database or the disk cannot grow. Call inside an operation.
        """
        # A small write may fit into a page that is already allocated and succeed on a full disk.
        # The blob needs new pages (page limit), `_complaint` extends a file (disk, quota, limit).
        db.execute("SAVEPOINT room")
        db.execute("INSERT OR REPLACE INTO probe VALUES (1, zeroblob(?))", (ROOM,))
        db.execute("ROLLBACK TO room")
        db.execute("RELEASE room")
        problem = self._complaint(self._length_of_log())

        if problem is not None:
            self._is_cramped = True
            raise StoreUnavailable(problem)

    def has_room(self) -> None:
        """Clear the "out of space" state, after `make_sure_of_room` was committed."""
        self._is_cramped = False
        self._failure = None

    def report_damage(self, what: str) -> StoreDamaged:
        """Stop all further writes, so that the damage does not spread, and return the error."""
        # Keeps the first report. Also called on other threads (reads, backups); if two race, either
        # report will do.
        self.damage = self.damage or f"{what}. {self._cure()}"
        return StoreDamaged(self.damage)

    def _work(self) -> None:
        try:
            database = self._connect()
        # Any error must reach the caller that waits in start.
        except Exception as exc:  # noqa: BLE001
            self._ready.error = self._translate(exc)
            _deliver([self._ready])
            self._stop()
            return

        self._presence = database.presence
        self._db = database.connection
        _deliver([self._ready])
        try:
            while (jobs := self._next_batch(database.connection)) is not None:
                began = time.perf_counter()
                self._commit(database.connection, jobs)
                took = time.perf_counter() - began
                _deliver(jobs)
                self.committed(took, len(jobs))
                self._look_at_log(database.connection)
        finally:
            self._stop()
            crashpoint("checkpoint")
            self._presence = None
            database.close(is_damaged=self.damage is not None)

    def _stop(self) -> None:
        """Refuse new jobs and fail the queued ones, so that no caller waits for ever."""
        with self._gate:
            self._stopped = True
        while not self._queue.empty():
            job = self._queue.get()
            if job is not None:
                job.error = StoreUnavailable("the store is closed")
                _deliver([job])

    def _next_batch(self, db: sqlite3.Connection) -> list[_Job[object]] | None:
        """Wait for a job and return it with all others that are queued; None after `close`."""
        first = self._wait(db)
        if first is None:
            return None

        jobs = [first]
        while len(jobs) < _LARGEST_BATCH and not self._queue.empty():
            job = self._queue.get()
            if job is None:
                # Commit this batch first; the next call finds the end mark again.
                self._queue.put(None)
                break
            jobs.append(job)

        return jobs

    def _wait(self, db: sqlite3.Connection) -> _Job[object] | None:
        """Return the next job, None to stop. Does upkeep when idle and, under load, at times."""
        more = True
        # Without this a queue that is never empty would leave the search index behind for ever.
        if self._jobs_since_upkeep >= _JOBS_BETWEEN_UPKEEP:
            more = self._keep_up(db)

        while more:
            try:
                return self._queue.get(timeout=_IDLE_SECONDS)
            except queue.Empty:
                more = self._keep_up(db)

        return self._wait_watchfully()

    def _wait_watchfully(self) -> _Job[object] | None:
        """Wait for a job and check the files each second, so that damage is seen before a write."""
        while True:
            try:
                return self._queue.get(timeout=_SECONDS_BETWEEN_LOOKS)
            except queue.Empty:
                self._seen_damage()

    def _keep_up(self, db: sqlite3.Connection) -> bool:
        self._jobs_since_upkeep = 0
        if self.damage is not None:
            return False
        try:
            with self._transaction(db):
                return self._upkeep(db)
        # Upkeep has no caller; the next write meets the same error.
        except Exception as exc:  # noqa: BLE001
            self._translate(exc)
            return False

    def _commit(self, db: sqlite3.Connection, jobs: list[_Job[object]]) -> None:
        """
        Commit all jobs in one transaction. If one fails, commit each in its own transaction, so
        that the failure stays with its caller.
        """
        self._jobs_since_upkeep += len(jobs)
        if len(jobs) > 1 and self._commit_together(db, jobs):
            return

        for index, job in enumerate(jobs):
            self._commit_alone(db, job)
            if isinstance(job.error, StoreUnavailable):
                # The other jobs would fail on the same disk or lock; their callers retry.
                self._fail(jobs[index:], job.error)
                return

    def _commit_together(self, db: sqlite3.Connection, jobs: list[_Job[object]]) -> bool:
        if self.damage is not None:
            return False

        try:
            with self._transaction(db):
                for job in jobs:
                    _run_or_spoil(db, job)
        except (sqlite3.Error, StoreDamaged, _Spoiled) as exc:
            if is_locked(exc):
                # Each job alone would wait for the lock just as long.
                self._fail(jobs, self._translate(exc))
                return True
            # Not translated yet: the job that caused it fails again alone, with its own error.
            return False

        return True

    def _fail(self, jobs: Sequence[_Job[object]], error: BaseException) -> None:
        for job in jobs:
            job.result = None
            job.error = error

    def _commit_alone(self, db: sqlite3.Connection, job: _Job[object]) -> None:
        # Discard the result of the shared transaction, which was rolled back.
        job.result = None
        job.error = None
        if self.damage is not None:
            job.error = StoreDamaged(self.damage)
            return
        try:
            with self._transaction(db):
                job.result = job.operation(db)
        # Every error belongs to the caller that waits for this job.
        except BaseException as exc:  # noqa: BLE001
            job.error = self._translate(exc)

    @contextmanager
    def _transaction(self, db: sqlite3.Connection) -> Iterator[None]:
        self._begin(db)
        try:
            # Before anything is written: a write to a deleted, replaced or cut file would be lost.
            self._look()
            yield
            crashpoint("committing")
            db.execute("COMMIT")
            self.commits += 1
            crashpoint("committed")
            # Before any caller gets its result: the file that took the commit may have been deleted
            # or replaced, and then the commit is lost with this process.
            if self._presence is not None:
                self._presence.note_commit()

            # After a full disk a small write may succeed in a free page and prove nothing: only the
            # probe (`has_room`) clears that failure.
            if not self._is_cramped:
                self._failure = None
        except BaseException:
            self._rolled_back()
            # After some errors (disk full, I/O) SQLite has already rolled back by itself.
            if db.in_transaction:
                db.execute("ROLLBACK")
            raise

    def _begin(self, db: sqlite3.Connection) -> None:
        """Begin a write transaction; wait up to the lock timeout, unless the store is closing."""
        # IMMEDIATE: a deferred transaction that has read and then writes gets SQLITE_BUSY without
        # any wait. busy_timeout is 100 ms (`_ONE_WAIT`), so this loop checks `_closing` that often.
        deadline = time.monotonic() + self._lock_patience
        while True:
            try:
                db.execute("BEGIN IMMEDIATE")
            except sqlite3.Error as exc:
                if not is_locked(exc) or self._closing or time.monotonic() >= deadline:
                    raise
                continue
            return

    def _look(self) -> None:
        if self._presence is not None:
            self._presence.look()

    def _seen_damage(self) -> StoreDamaged | None:
        """Check the files; return the damage found now or earlier, or None."""
        try:
            self._look()
        except StoreDamaged as exc:
            return self.report_damage(str(exc))
        except OSError:
            return None  # stat failed (permission denied, I/O): no proof that the file is gone
        return None if self.damage is None else StoreDamaged(self.damage)

    def _translate(self, exc: BaseException) -> BaseException:
        """Return SQLite's error as ours. Remembers damage, and why the store is unavailable."""
        error = as_our_error(exc) if isinstance(exc, FOREIGN_ERRORS) else exc
        if isinstance(error, StoreDamaged):
            return self.report_damage(str(error))
        if not isinstance(error, StoreUnavailable):
            return error
        if isinstance(exc, sqlite3.Error):
            # The cause may be a deleted or truncated file: that is damage, which no retry cures.
            error = self._seen_damage() or self._explained(exc, error)

        self._failure = str(error)
        return error

    def _look_at_log(self, db: sqlite3.Connection) -> None:
        """Note once a second how long the log is, and whether a long one can be checkpointed."""
        now = time.monotonic()
        if self.damage is not None or now - self._log_looked_at < _SECONDS_BETWEEN_LOOKS:
            return

        self._log_looked_at = now
        self._log_size = self._length_of_log()
        if self._log_size < _LONG_LOG:
            self._log_blocked_at = None
            return

        try:
            # PASSIVE waits for nobody. SQLite tries the same after each commit, but does not tell.
            _, pages, done = db.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        except sqlite3.Error as exc:
            self._translate(exc)
            return
        is_through = done >= pages
        self._log_blocked_at = None if is_through else self._log_blocked_at or now

    def _length_of_log(self) -> int:
        return 0 if self._presence is None else self._presence.log_length()

    def _is_at_page_limit(self) -> bool:
        if self._db is None:
            return False
        pages = self._db.execute("PRAGMA page_count").fetchone()[0]
        limit = self._db.execute("PRAGMA max_page_count").fetchone()[0]
        # A write needs a few pages at once.
        return bool(pages + 2 * ROOM // 4096 >= limit)

    def _explained(self, exc: sqlite3.Error, error: StoreUnavailable) -> StoreUnavailable:
        """Return the error with the reason that the operating system gives, if there is one."""
        name = name_of(exc)
        if not name.startswith(("SQLITE_FULL", "SQLITE_IOERR")):
            return error

        self._is_cramped = True
        problem = self._complaint(self._length_of_log())
        if problem is None and name.startswith("SQLITE_FULL"):
            problem = _PAGE_LIMIT if self._is_at_page_limit() else _NO_SPACE

        return error if problem is None else StoreUnavailable(problem)


_PAGE_LIMIT = (
    "the database may not grow any further, though the disk has room: raise its page limit"
)
# SQLite reports ENOSPC so. The limit may be one that other files do not have.
_NO_SPACE = (
    "the operating system told SQLite that there is no space left (ENOSPC), though another file "
    "can still grow: free some space, and check quotas and reserved blocks; then writing goes on "
    "by itself"
)


def _nobody_counts(seconds: float, writes: int) -> None:
    """Do nothing: the default of `Writer.committed`."""


class _Spoiled(Exception):
    """A job failed after it had changed something: the shared transaction must not be committed."""


def _run_or_spoil(db: sqlite3.Connection, job: _Job[object]) -> None:
    before = db.total_changes
    try:
        job.result = job.operation(db)
    except sqlite3.Error:
        raise
    except BaseException as exc:  # every error belongs to the caller that waits for this job
        # A refusal that changed nothing costs the batch no rollback. A StoreError must be raised
        # again by `_commit_alone`, which records it.
        if db.total_changes != before or isinstance(exc, StoreError):
            raise _Spoiled from exc
        job.error = exc


def _deliver(jobs: list[_Job[object]]) -> None:
    """Wake each caller's loop once, for all of its jobs together."""
    by_loop: dict[asyncio.AbstractEventLoop, list[_Job[object]]] = {}
    for job in jobs:
        if job.loop is not None:
            by_loop.setdefault(job.loop, []).append(job)
    for loop, done in by_loop.items():
        try:
            loop.call_soon_threadsafe(_settle_all, done)
        except RuntimeError:
            # That loop is closed, and the tasks that waited are gone with it.
            continue


def _settle_all(jobs: list[_Job[object]]) -> None:
    for job in jobs:
        job.settle()
