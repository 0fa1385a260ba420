"""
Backups on a schedule: when one is due, which of them stay, and what became of the last.

The files' names say when they were made, so that a restart forgets nothing. Clocks are set, so what this run made is
timed by what has passed; files are deleted by their number and never by their age, those from the future first.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from turngate.gateway.domain.errors import StoreError, StoreUnavailable, TurngateError
from turngate.gateway.domain.ports.adapter import Clock
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
    """What the operator decided; no `every`, no backups."""

    every: timedelta | None
    keep: int
    folder: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupReport:
    """The newest one there is, and why there is none after it, if one was tried."""

    folder: Path
    last_at: datetime | None
    failure: str | None


class Backups:
    """Asks the rules each time, so that they can be changed."""

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
        """Until cancelled. What fails is tried again later."""
        if self.rules.every is not None:
            await self._look()
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._at_most(LOOKS_EVERY)):
                    await self._changed.wait()
            self._changed.clear()
            await self.make_if_due()

    async def make_if_due(self) -> None:
        """One, verified; then the oldest go."""
        if self.rules.every is None or self._clock.monotonic() < self._not_before:
            return
        if await self._look() and self._is_due(self.rules.every):
            await self._make()

    def change(self, rules: BackupRules) -> None:
        """Live by other rules. What was made elsewhere is no backup here."""
        if rules.folder != self.rules.folder:
            self._made_at = self._last_at = None
        self.rules = rules
        self._not_before = min(self._not_before, self._in(FIRST_AFTER))
        self._changed.set()

    def report(self) -> BackupReport | None:
        """How it stands; None where none are wanted."""
        if self.rules.every is None:
            return None
        return BackupReport(folder=self.rules.folder, last_at=self._last_at, failure=self._failure)

    def _in(self, pause: timedelta) -> float:
        return self._clock.monotonic() + self._at_most(pause)

    def _at_most(self, pause: timedelta) -> float:
        """Whoever wants them often does not want to wait for long."""
        return min(pause, self.rules.every or pause).total_seconds()

    def _is_due(self, every: timedelta) -> bool:
        if self._made_at is not None:
            return self._clock.monotonic() - self._made_at >= every.total_seconds()
        # Of what an earlier run made only the name is known; one from the future says nothing.
        return (
            self._last_at is None or not timedelta(0) <= self._clock.now() - self._last_at < every
        )

    async def _make(self) -> None:
        rules, now = self.rules, self._clock.now().replace(microsecond=0)  # as the name says it
        target = rules.folder / f"turngate-{now:{_STAMP}}.db"
        try:
            await asyncio.to_thread(_prepare, rules.folder)
            await self._back_up(target)
            await asyncio.to_thread(_rotate, rules.folder, rules.keep, target, now)
        except TurngateError as exc:
            self._fail(exc)
            return
        self._made_at, self._failure = self._clock.monotonic(), None
        self._last_at = now
        self._observer.backed_up(now)

    async def _look(self) -> bool:
        """Which is the newest there; whether that can be known."""
        try:
            made = await asyncio.to_thread(_made_in, self.rules.folder)
        except StoreError as exc:
            self._fail(exc)
            return False
        now = self._clock.now()
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
    """The folder, without what a killed daemon may have left."""
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        for leftover in folder.iterdir():
            if _DRAFT.fullmatch(leftover.name):
                leftover.unlink(missing_ok=True)
    except OSError as exc:
        raise _unusable(folder, exc) from exc


def _rotate(folder: Path, keep: int, made: Path, now: datetime) -> None:
    """The one that was just made and verified stays, whatever the others are called."""
    others = {path: at for path, at in _made_in(folder).items() if path != made}
    # A clock that was ahead for a while leaves names from the future, which would outlive all others.
    oldest_first = sorted(others, key=lambda path: (others[path] <= now, others[path]))
    try:
        for path in oldest_first[: max(len(others) - keep + 1, 0)]:
            path.unlink(missing_ok=True)
    except OSError as exc:
        raise _unusable(folder, exc) from exc


def _made_in(folder: Path) -> dict[Path, datetime]:
    """Ours by their names; whatever else lies there is somebody else's."""
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
        f"{folder} cannot be used for backups ({exc.strerror}); check its owner and permissions, or set backups.folder"
    )
