"""
The one thread that writes, and the commit that everybody waiting shares.

A durable commit costs an fsync however much is in it, so the writer takes whatever is waiting, from
any task of any thread's event loop, and commits it once. A caller hears of its result only after
that commit. One connection writes and checkpoints; SQLite before 3.51.3 can corrupt a database that
two do.
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

_LARGEST_BATCH = 256
_IDLE_SECONDS = 0.2
_JOBS_BETWEEN_UPKEEP = 1024
_SECONDS_BETWEEN_LOOKS = 1.0


@dataclass(slots=True, eq=False)
class _Job(Generic[T]):
    """One caller's operation, its place to wait, and what came of it."""

    operation: Operation[T]
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[T]
    result: T | None = None
    error: BaseException | None = None

    def settle(self) -> None:
        """On the caller's own loop: hand over the outcome, unless the caller no longer waits."""
        if self.future.done():
            return

        if isinstance(self.error, StopIteration):
            # A future takes any exception but this one, and those behind it in the batch are
            # waiting too.
            self.future.set_exception(RuntimeError("an operation raised StopIteration"))
        elif self.error is not None:
            self.future.set_exception(self.error)
        else:
            self.future.set_result(self.result)  # type: ignore[arg-type]  # set together with error=None


class Writer:
    """
    Runs operations in order on its own thread. The queue is bounded by its callers: each waits for
    its result.
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
        `lock_timeout` is how many seconds a lock of another process is waited for; `upkeep` does a
        little work that can wait and says whether there is more; `rolled_back` is called when what
        operations did was undone; `complaint` asks the disk why the log, so many bytes long, cannot
        grow; `cure` ends every damage report.
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
        self._gate = threading.Lock()
        self._stopped = False
        self._jobs_since_upkeep = 0
        self._thread = threading.Thread(target=self._work, name="turngate-writer", daemon=True)
        self.committed: Committed = _nobody_counts
        self.commits = 0
        self.damage: str | None = None
        self._failure: str | None = None
        self._is_cramped = False

    @property
    def trouble(self) -> str | None:
        """Why nothing can be written now: damage, or what the last write failed of."""
        return self.damage or self._failure

    async def start(self) -> None:
        """Open the connection on the writer's thread; what goes wrong there is raised here."""
        loop = asyncio.get_running_loop()
        self._ready: _Job[object] = _Job(
            operation=lambda _: None, loop=loop, future=loop.create_future()
        )
        self._thread.start()
        await self._ready.future

    async def run(self, operation: Operation[T]) -> T:
        """
        Run it in a transaction and return its result once that is on disk.

        It may run twice, the first time rolled back, so it must change nothing but the database and
        what `rolled_back` clears. A caller that is cancelled while waiting does not know whether it
        ran.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        job: _Job[object] = _Job(operation=operation, loop=loop, future=future)  # type: ignore[arg-type]
        with self._gate:
            if self._stopped:
                raise StoreUnavailable("the store is closed")
            self._queue.put(job)

        return await future

    async def close(self) -> None:
        """Finish what was handed over, then stop. Closing twice is closing once."""
        self._closing = True
        self._queue.put(None)
        await asyncio.to_thread(self._thread.join)

    def make_sure_of_room(self, db: sqlite3.Connection) -> None:
        """
        Inside an operation. A small write may find its place in a page that is there, and prove
        nothing.
        """
        db.execute("SAVEPOINT room")
        db.execute("INSERT OR REPLACE INTO probe VALUES (1, zeroblob(?))", (ROOM,))
        db.execute("ROLLBACK TO room")
        db.execute("RELEASE room")
        said = self._complaint(self._length_of_log())

        if said is not None:
            self._is_cramped = True
            raise StoreUnavailable(said)

    def has_room(self) -> None:
        """It was made sure of, and that was committed: whatever did not fit before fits now."""
        self._is_cramped = False
        self._failure = None

    def report_damage(self, what: str) -> StoreDamaged:
        """From now on nothing is written: a damaged file must not be made worse."""
        self.damage = self.damage or f"{what}. {self._cure()}"
        return StoreDamaged(self.damage)

    def _work(self) -> None:
        try:
            database = self._connect()
        except Exception as exc:  # noqa: BLE001 - whatever it is, somebody waits for this start
            self._ready.error = self._translate(exc)
            _deliver([self._ready])
            self._stop()
            return

        self._presence = database.presence
        _deliver([self._ready])
        try:
            while (jobs := self._next_batch(database.connection)) is not None:
                began = time.perf_counter()
                self._commit(database.connection, jobs)
                took = time.perf_counter() - began
                _deliver(jobs)
                self.committed(took, len(jobs))
        finally:
            self._stop()
            crashpoint("checkpoint")
            self._presence = None
            database.close(is_damaged=self.damage is not None)

    def _stop(self) -> None:
        """Nobody may wait for a thread that is gone."""
        with self._gate:
            self._stopped = True
        while not self._queue.empty():
            job = self._queue.get()
            if job is not None:
                job.error = StoreUnavailable("the store is closed")
                _deliver([job])

    def _next_batch(self, db: sqlite3.Connection) -> list[_Job[object]] | None:
        """Whatever waits; None when there is nothing more to come."""
        first = self._wait(db)
        if first is None:
            return None

        jobs = [first]
        while len(jobs) < _LARGEST_BATCH and not self._queue.empty():
            job = self._queue.get()
            if job is None:
                self._queue.put(None)
                break
            jobs.append(job)

        return jobs

    def _wait(self, db: sqlite3.Connection) -> _Job[object] | None:
        """
        The next job. Upkeep is done while there are none, and under load now and then, in steps
        small enough.
        """
        more = True
        if self._jobs_since_upkeep >= _JOBS_BETWEEN_UPKEEP:
            more = self._keep_up(db)

        while more:
            try:
                return self._queue.get(timeout=_IDLE_SECONDS)
            except queue.Empty:
                more = self._keep_up(db)

        return self._wait_watchfully()

    def _wait_watchfully(self) -> _Job[object] | None:
        """
        Nothing is to be done. What happens to the files meanwhile is seen before somebody writes to
        them.
        """
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
        except Exception as exc:  # noqa: BLE001 - nobody waits for upkeep; who writes next hears of the same trouble
            self._translate(exc)
            return False

    def _commit(self, db: sqlite3.Connection, jobs: list[_Job[object]]) -> None:
        """
        All of them in one transaction; if one spoils it, each in its own, so that it takes no other
        with it.
        """
        self._jobs_since_upkeep += len(jobs)
        if len(jobs) > 1 and self._commit_together(db, jobs):
            return

        for place, job in enumerate(jobs):
            self._commit_alone(db, job)
            if isinstance(job.error, StoreUnavailable):
                # What comes after it would meet the same disk; whoever waits tries again.
                self._fail(jobs[place:], job.error)
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
                # Each alone would wait for the lock just as long.
                self._fail(jobs, self._translate(exc))
                return True
            return False

        return True

    def _fail(self, jobs: Sequence[_Job[object]], error: BaseException) -> None:
        for job in jobs:
            job.result = None
            job.error = error

    def _commit_alone(self, db: sqlite3.Connection, job: _Job[object]) -> None:
        job.result = None
        job.error = None
        if self.damage is not None:
            job.error = StoreDamaged(self.damage)
            return
        try:
            with self._transaction(db):
                job.result = job.operation(db)
        except BaseException as exc:  # noqa: BLE001 - whatever it is belongs to the caller that waits for this job
            job.error = self._translate(exc)

    @contextmanager
    def _transaction(self, db: sqlite3.Connection) -> Iterator[None]:
        self._begin(db)
        try:
            self._look()
            yield
            crashpoint("committing")
            db.execute("COMMIT")
            self.commits += 1
            crashpoint("committed")
            # Before anybody hears of the commit: it may have gone into a file that nobody will find
            # again.
            if self._presence is not None:
                self._presence.note_commit()

            if not self._is_cramped:
                self._failure = None
        except BaseException:
            self._rolled_back()
            if db.in_transaction:
                db.execute("ROLLBACK")
            raise

    def _begin(self, db: sqlite3.Connection) -> None:
        """
        A deferred transaction would fail at once when it first writes, whoever has the lock and
        however briefly.
        """
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
        """What became of the files, if that was seen just now or before."""
        try:
            self._look()
        except StoreDamaged as exc:
            return self.report_damage(str(exc))
        except OSError:
            return None  # a file that cannot be looked at is still there
        return None if self.damage is None else StoreDamaged(self.damage)

    def _translate(self, exc: BaseException) -> BaseException:
        """
        SQLite's errors as ours. Damage is remembered, and so is what stands in the way of writing
        for now.
        """
        error = as_our_error(exc) if isinstance(exc, FOREIGN_ERRORS) else exc
        if isinstance(error, StoreDamaged):
            return self.report_damage(str(error))
        if not isinstance(error, StoreUnavailable):
            return error
        if isinstance(exc, sqlite3.Error):
            error = self._seen_damage() or self._explained(exc, error)

        self._failure = str(error)
        return error

    def _length_of_log(self) -> int:
        return 0 if self._presence is None else self._presence.log_length()

    def _explained(self, exc: sqlite3.Error, error: StoreUnavailable) -> StoreUnavailable:
        """With what the disk itself says of it."""
        name = name_of(exc)
        if not name.startswith(("SQLITE_FULL", "SQLITE_IOERR")):
            return error

        self._is_cramped = True
        said = self._complaint(self._length_of_log())
        if said is None and name.startswith("SQLITE_FULL"):
            said = (
                "the database may not grow any further, though the disk has room: raise its "
                "page limit"
            )

        return error if said is None else StoreUnavailable(said)


def _nobody_counts(seconds: float, writes: int) -> None:
    """Until somebody wants to know."""


class _Spoiled(Exception):
    """A job failed after it had changed something: the shared transaction must not be committed."""


def _run_or_spoil(db: sqlite3.Connection, job: _Job[object]) -> None:
    before = db.total_changes
    try:
        job.result = job.operation(db)
    except sqlite3.Error:
        raise
    except BaseException as exc:  # whatever it is belongs to the caller that waits for this job
        if db.total_changes != before or isinstance(exc, StoreError):
            raise _Spoiled from exc
        job.error = exc


def _deliver(jobs: list[_Job[object]]) -> None:
    """Wake each caller's loop once, whatever the number of its jobs."""
    by_loop: dict[asyncio.AbstractEventLoop, list[_Job[object]]] = {}
    for job in jobs:
        by_loop.setdefault(job.loop, []).append(job)
    for loop, done in by_loop.items():
        try:
            loop.call_soon_threadsafe(_settle_all, done)
        except RuntimeError:
            # That loop is closed: its tasks, and with them everybody who waited, are gone.
            continue


def _settle_all(jobs: list[_Job[object]]) -> None:
    for job in jobs:
        job.settle()
