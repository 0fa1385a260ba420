"""
Make backups on a schedule: when one is due, which are kept, and how the last one ended.

File names contain the time of the backup, so a restart needs no other record. Clocks can be set, so
backups of this run are timed by the monotonic clock. Old files are deleted by number and never by
age, those dated in the future first.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from turngate.gateway.domain.errors import (
    StoreError,
    StoreUnavailable,
    TurngateError,
)
from turngate.gateway.domain.ports.clock import Clock
from turngate.gateway.observability.error_text import reason_of
from turngate.gateway.observability.observer import Observer

LOOKS_EVERY = timedelta(minutes=1)
FIRST_AFTER = timedelta(minutes=5)
AGAIN_AFTER = timedelta(minutes=15)

_NAME = re.compile(r"turngate-(?P<stamp>[0-9]{8}T[0-9]{6}Z)\.db")
_STAMP = "%Y%m%dT%H%M%SZ"
_DRAFT = re.compile(rf"{_NAME.pattern}\.part(-[a-z]+)?")

BackUp = Callable[[Path], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupRules:
    """The operator's settings. Without `every` there are no backups."""

    every: timedelta | None
    keep: int
    folder: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupReport:
    """The newest backup, and why a later attempt failed, if one did."""

    folder: Path
    last_at: datetime | None
    failure: str | None


class Backups:
    """The schedule of backups. The rules are read each time, so that a reload can change them."""

    def __init__(
        self, rules: BackupRules, back_up: BackUp, clock: Clock, observer: Observer
    ) -> None:
        self.rules = rules
        self._back_up = back_up
        self._clock = clock
        self._observer = observer
        self._not_before = self._in(FIRST_AFTER)
        self._made_at: float | None = None
        self._last_at: datetime | None = None
        self._failure: str | None = None

        self._changed = asyncio.Event()

    async def run(self) -> None:
        """Run until cancelled. A failed backup is retried later."""
        # Before the first one is due, so that status and metrics show the backup of an earlier run.
        if self.rules.every is not None:
            await self._look()
        while True:
            # Wakes early when `change` was called; the new interval may be shorter.
            with suppress(TimeoutError):
                async with asyncio.timeout(self._at_most(LOOKS_EVERY)):
                    await self._changed.wait()
            self._changed.clear()
            await self.make_if_due()

    async def make_if_due(self) -> None:
        """Make and verify one backup if it is due, then delete the oldest."""
        if self.rules.every is None or self._clock.monotonic() < self._not_before:
            return
        if await self._look() and self._is_due(self.rules.every):
            await self._make()

    def change(self, rules: BackupRules) -> None:
        """Replace the rules. Files in another folder do not count as backups here."""
        if rules.folder != self.rules.folder:
            self._made_at = self._last_at = None
        self.rules = rules
        self._not_before = min(self._not_before, self._in(FIRST_AFTER))
        self._changed.set()

    def report(self) -> BackupReport | None:
        """Return the state of backups; None if they are disabled."""
        if self.rules.every is None:
            return None
        return BackupReport(folder=self.rules.folder, last_at=self._last_at, failure=self._failure)

    def _in(self, pause: timedelta) -> float:
        return self._clock.monotonic() + self._at_most(pause)

    def _at_most(self, pause: timedelta) -> float:
        """Return the longest pause before a retry: shorter for a shorter interval."""
        return min(pause, self.rules.every or pause).total_seconds()

    def _is_due(self, every: timedelta) -> bool:
        if self._made_at is not None:
            return self._clock.monotonic() - self._made_at >= every.total_seconds()
        # Of a backup of an earlier run only the time in its name is known. A time in the future was
        # written by a clock that was wrong, so a backup is due.
        return (
            self._last_at is None or not timedelta(0) <= self._clock.now() - self._last_at < every
        )

    async def _make(self) -> None:
        rules = self.rules
        # As in the name: `_rotate` and a later start compare with times read from names.
        now = self._clock.now().replace(microsecond=0)
        target = rules.folder / f"turngate-{now:{_STAMP}}.db"

        try:
            await asyncio.to_thread(_prepare, rules.folder)
            await self._back_up(target)
            # Only after the new one is verified: a failing backup must not use up the good ones.
            await asyncio.to_thread(_rotate, rules.folder, rules.keep, target, now)
        except TurngateError as exc:
            self._fail(exc)
            return

        self._made_at = self._clock.monotonic()
        self._failure = None
        self._last_at = now
        self._observer.backed_up(now)

    async def _look(self) -> bool:
        """Find the newest backup in the folder. Returns whether the folder could be read."""
        try:
            made = await asyncio.to_thread(_made_in, self.rules.folder)
        except StoreError as exc:
            self._fail(exc)
            return False

        now = self._clock.now()
        # A name from the future would otherwise look like the newest for as long as it exists.
        past = [at for at in made.values() if at <= now]
        self._last_at = max(past or made.values(), default=None)
        if self._last_at is not None:
            self._observer.found_backup(self._last_at)

        return True

    def _fail(self, exc: TurngateError) -> None:
        self._failure = reason_of(exc)
        self._not_before = self._in(AGAIN_AFTER)
        self._observer.not_backed_up(exc)


def _prepare(folder: Path) -> None:
    """Create the folder and remove what a killed daemon may have left in it."""
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        for leftover in folder.iterdir():
            if _DRAFT.fullmatch(leftover.name):
                leftover.unlink(missing_ok=True)
    except OSError as exc:
        raise _unusable(folder, exc) from exc


def _rotate(folder: Path, keep: int, made: Path, now: datetime) -> None:
    """Delete the oldest files. The one just made and verified stays, whatever its date is."""
    others = {path: at for path, at in _made_in(folder).items() if path != made}
    # A clock that was ahead for a while leaves names from the future, which would outlive all
    # others: they sort first.
    oldest_first = sorted(others, key=lambda path: (others[path] <= now, others[path]))
    try:
        for path in oldest_first[: max(len(others) - keep + 1, 0)]:
            path.unlink(missing_ok=True)
    except OSError as exc:
        raise _unusable(folder, exc) from exc


def _made_in(folder: Path) -> dict[Path, datetime]:
    """List our backups by name; other files in the folder are not touched."""
    try:
        found = (
            {path: _NAME.fullmatch(path.name) for path in folder.iterdir()}
            if folder.exists()
            else {}
        )
    except OSError as exc:
        raise _unusable(folder, exc) from exc

    made = {path: _moment(name["stamp"]) for path, name in found.items() if name is not None}
    return {path: at for path, at in made.items() if at is not None}


def _moment(stamp: str) -> datetime | None:
    try:
        return datetime.strptime(stamp, _STAMP).replace(tzinfo=UTC)
    except ValueError:
        return None


def _unusable(folder: Path, exc: OSError) -> StoreUnavailable:
    return StoreUnavailable(
        f"{folder} cannot be used for backups ({exc.strerror}); check its owner and permissions, "
        "or set backups.folder"
    )
