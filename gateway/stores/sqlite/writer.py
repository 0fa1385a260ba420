"""
The one thread that writes, and the commit that everybody waiting shares.

A durable commit costs an fsync however much is in it, so the writer takes whatever is waiting, from any task of any
thread's event loop, and commits it once. A caller hears of its result only after that commit. One connection writes and
checkpoints; SQLite before 3.51.3 can corrupt a database that two do.
"""

from __future__ import annotations

import asyncio
import queue
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Generic, TypeVar

from gateway.crashpoints import crashpoint
from gateway.errors import Refused, StoreDamaged, StoreError, StoreUnavailable

T = TypeVar("T")
Operation = Callable[[sqlite3.Connection], T]

Committed = Callable[[float, int], None]
"""Told, on the writer's thread, how many seconds a commit took and how many writes shared it."""

_LARGEST_BATCH = 256
_IDLE_SECONDS = 0.2
_JOBS_BETWEEN_UPKEEP = 1024
FOREIGN_ERRORS = (sqlite3.Error, OSError, UnicodeError, OverflowError)
# Our statements are fixed and tested: if one of them no longer fits the schema or finds no JSON, the file has changed.
_SIGNS_OF_DAMAGE = ("no such column", "no such table", "no column named", "malformed", "invalid fts5 file format")


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
            # A future takes any exception but this one, and those behind it in the batch are waiting too.
            self.future.set_exception(RuntimeError("an operation raised StopIteration"))
        elif self.error is not None:
            self.future.set_exception(self.error)
        else:
            self.future.set_result(self.result)  # type: ignore[arg-type]  # set together with error=None


class Writer:
    """Runs operations in order on its own thread. The queue is bounded by its callers: each waits for its result."""

    def __init__(
        self,
        connect: Callable[[], sqlite3.Connection],
        *,
        upkeep: Operation[bool],
        rolled_back: Callable[[], None],
        cure: str,
    ) -> None:
        """
        `upkeep` does a little work that can wait and says whether there is more; `rolled_back` is called when what
        operations did was undone; `cure` ends every damage report.
        """
        self._connect = connect
        self._upkeep = upkeep
        self._rolled_back = rolled_back
        self._cure = cure
        self._queue: queue.SimpleQueue[_Job[object] | None] = queue.SimpleQueue()
        self._gate = threading.Lock()
        self._stopped = False
        self._jobs_since_upkeep = 0
        self._thread = threading.Thread(target=self._work, name="turngate-writer", daemon=True)
        self.committed: Committed = _nobody_counts
        self.commits = 0
        self.damage: str | None = None

    async def start(self) -> None:
        """Open the connection on the writer's thread; what goes wrong there is raised here."""
        loop = asyncio.get_running_loop()
        self._ready: _Job[object] = _Job(operation=lambda _: None, loop=loop, future=loop.create_future())
        self._thread.start()
        await self._ready.future

    async def run(self, operation: Operation[T]) -> T:
        """
        Run it in a transaction and return its result once that is on disk.

        It may run twice, the first time rolled back, so it must change nothing but the database and what `rolled_back`
        clears. A caller that is cancelled while waiting does not know whether it ran.
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
        self._queue.put(None)
        await asyncio.to_thread(self._thread.join)

    def report_damage(self, what: str) -> StoreDamaged:
        """From now on nothing is written: a damaged file must not be made worse."""
        self.damage = self.damage or f"{what}. {self._cure}"
        return StoreDamaged(self.damage)

    def _work(self) -> None:
        try:
            db = self._connect()
        except Exception as exc:  # noqa: BLE001 - whatever it is, somebody waits for this start
            self._ready.error = self._translate(exc)
            _deliver([self._ready])
            self._stop()
            return
        _deliver([self._ready])
        try:
            while (jobs := self._next_batch(db)) is not None:
                began = time.perf_counter()
                self._commit(db, jobs)
                took = time.perf_counter() - began
                _deliver(jobs)
                self.committed(took, len(jobs))
        finally:
            self._stop()
            crashpoint("checkpoint")
            db.close()

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
        """The next job. Upkeep is done while there are none, and under load now and then, in steps small enough."""
        more = True
        if self._jobs_since_upkeep >= _JOBS_BETWEEN_UPKEEP:
            more = self._keep_up(db)
        while more:
            try:
                return self._queue.get(timeout=_IDLE_SECONDS)
            except queue.Empty:
                more = self._keep_up(db)
        return self._queue.get()

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
        """All of them in one transaction; if one spoils it, each in its own, so that it takes no other with it."""
        self._jobs_since_upkeep += len(jobs)
        if len(jobs) == 1 or not self._commit_together(db, jobs):
            for job in jobs:
                self._commit_alone(db, job)

    def _commit_together(self, db: sqlite3.Connection, jobs: list[_Job[object]]) -> bool:
        if self.damage is not None:
            return False
        try:
            with self._transaction(db):
                for job in jobs:
                    _run_or_spoil(db, job)
        except (sqlite3.Error, _Spoiled) as exc:
            if _is_locked(exc):
                # Each alone would wait for the lock just as long.
                error = self._translate(exc)
                for job in jobs:
                    job.error = error
                return True
            return False
        return True

    def _commit_alone(self, db: sqlite3.Connection, job: _Job[object]) -> None:
        job.result, job.error = None, None
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
        # A deferred transaction would fail at once when it first writes, whatever the busy timeout.
        db.execute("BEGIN IMMEDIATE")
        try:
            yield
            crashpoint("committing")
            db.execute("COMMIT")
            self.commits += 1
            crashpoint("committed")
        except BaseException:
            self._rolled_back()
            if db.in_transaction:
                db.execute("ROLLBACK")
            raise

    def _translate(self, exc: BaseException) -> BaseException:
        """SQLite's errors as ours; damage is remembered."""
        error = as_our_error(exc) if isinstance(exc, FOREIGN_ERRORS) else exc
        return self.report_damage(str(error)) if isinstance(error, StoreDamaged) else error


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


def _is_locked(exc: BaseException) -> bool:
    return (getattr(exc, "sqlite_errorname", None) or "").startswith(("SQLITE_BUSY", "SQLITE_LOCKED"))


def as_our_error(exc: BaseException) -> StoreError | Refused:
    """What SQLite said, as the reaction it earns."""
    name = getattr(exc, "sqlite_errorname", "") or ""
    if isinstance(exc, OverflowError):
        return Refused("a number is larger than anything can be counted by")
    if isinstance(exc, UnicodeEncodeError):
        return Refused("a name or id holds half a character, which nothing is called by")
    if isinstance(exc, UnicodeError) or "Could not decode to UTF-8" in str(exc):
        # The words behind it would be somebody's.
        return StoreDamaged("the database holds a text that is none")
    if name.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB")) or any(sign in str(exc) for sign in _SIGNS_OF_DAMAGE):
        return StoreDamaged(f"SQLite finds the database damaged ({exc})")
    if name.startswith("SQLITE_FULL"):
        return StoreUnavailable("the disk is full; free some space, then writing goes on by itself")
    if _is_locked(exc):
        return StoreUnavailable("another process holds the database locked; end it, then writing goes on by itself")
    if name.startswith(("SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_PERM")):
        return StoreUnavailable(f"the database cannot be written ({exc}); check the folder's owner and permissions")
    return StoreUnavailable(f"the database did not take the write ({exc})")


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
