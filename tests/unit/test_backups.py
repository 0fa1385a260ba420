"""The schedule of backups: when one is due, which stay, and that no clock does harm."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from tests.at_work import numbers
from tests.fakes import NOON, FrozenClock
from turngate.gateway.daemon.backups import (
    AGAIN_AFTER,
    FIRST_AFTER,
    BackupRules,
    Backups,
)
from turngate.gateway.domain.errors import StoreUnavailable
from turngate.gateway.observability.observer import Observer

DAY = timedelta(days=1)


class Copier:
    """Writes a file that says when, or fails."""

    def __init__(self) -> None:
        self.failure: StoreUnavailable | None = None
        self.made = 0

    async def back_up(self, target: Path) -> None:
        """As a store would."""
        if self.failure is not None:
            raise self.failure
        self.made += 1
        target.write_text("a backup")


@pytest.fixture
def clock() -> FrozenClock:
    return FrozenClock()


@pytest.fixture
def copier() -> Copier:
    return Copier()


@pytest.fixture
def rules(tmp_path: Path) -> BackupRules:
    return BackupRules(every=DAY, keep=3, folder=tmp_path / "backups")


def started(
    rules: BackupRules, copier: Copier, clock: FrozenClock, observer: Observer | None = None
) -> Backups:
    """By a daemon that has just begun."""
    return Backups(rules, copier.back_up, clock, observer or Observer())


def names(rules: BackupRules) -> list[str]:
    return sorted(path.name for path in rules.folder.iterdir())


async def days(backups: Backups, clock: FrozenClock, count: int) -> None:
    """Let the time pass, looking every hour."""
    for _ in range(count * 24):
        clock.advance(hours=1)
        await backups.make_if_due()


async def test_the_first_one_is_made_some_minutes_after_the_start_and_not_at_once(
    rules: BackupRules, copier: Copier, clock: FrozenClock
) -> None:
    backups = started(rules, copier, clock)
    await backups.make_if_due()
    assert copier.made == 0

    clock.advance(seconds=FIRST_AFTER.total_seconds())
    await backups.make_if_due()

    assert names(rules) == ["turngate-20260504T120500Z.db"]
    assert rules.folder.stat().st_mode & 0o777 == 0o700


async def test_one_is_made_each_day_and_the_newest_stay(
    rules: BackupRules, copier: Copier, clock: FrozenClock
) -> None:
    await days(started(rules, copier, clock), clock, 10)

    assert copier.made == 10
    assert names(rules) == [f"turngate-202605{day}T130000Z.db" for day in (11, 12, 13)]


async def test_a_restart_does_not_make_another(
    rules: BackupRules, copier: Copier, clock: FrozenClock
) -> None:
    for _ in range(24):
        again = started(rules, copier, clock)
        clock.advance(hours=1)
        await again.make_if_due()

    assert copier.made == 1


async def test_only_files_of_the_schedule_are_counted_and_deleted(
    rules: BackupRules, copier: Copier, clock: FrozenClock
) -> None:
    rules.folder.mkdir()
    others = [
        "turngate-before-002.db",
        "turngate-mine.db",
        "notes.txt",
        "turngate-99999999T999999Z.db",
    ]
    for name in others:
        (rules.folder / name).write_text("not of the schedule")
    await days(started(rules, copier, clock), clock, 6)

    assert set(others) <= set(names(rules))
    assert len(names(rules)) == len(others) + 3


async def test_what_a_killed_daemon_left_half_done_is_removed(
    rules: BackupRules, copier: Copier, clock: FrozenClock
) -> None:
    rules.folder.mkdir()
    for name in (
        "turngate-20260503T120000Z.db.part",
        "turngate-20260503T120000Z.db.part-journal",
        "mine.db.part",
    ):
        (rules.folder / name).write_text("half")
    await days(started(rules, copier, clock), clock, 1)

    assert names(rules) == ["mine.db.part", "turngate-20260504T130000Z.db"]


async def test_one_that_fails_is_told_deletes_nothing_and_is_tried_again_later(
    rules: BackupRules, copier: Copier, clock: FrozenClock
) -> None:
    backups = started(rules, copier, clock)
    await days(backups, clock, 3)
    kept = names(rules)
    copier.failure = StoreUnavailable("there is no room")
    await days(backups, clock, 3)

    report = backups.report()
    assert report is not None
    assert (report.failure, names(rules)) == ("there is no room", kept)

    copier.failure = None
    clock.advance(seconds=AGAIN_AFTER.total_seconds())
    await backups.make_if_due()
    report = backups.report()
    assert report is not None
    assert (report.failure, report.last_at) == (None, clock.now())


async def test_a_folder_that_cannot_be_used_is_a_failure_with_a_cure(
    rules: BackupRules, copier: Copier, clock: FrozenClock
) -> None:
    rules.folder.write_text("a file")
    backups = started(rules, copier, clock)
    await days(backups, clock, 1)

    report = backups.report()
    assert report is not None
    assert "set backups.folder" in str(report.failure)


async def test_a_clock_that_jumps_ahead_and_back_makes_no_storm_and_deletes_no_good_one(
    rules: BackupRules, copier: Copier, clock: FrozenClock
) -> None:
    backups = started(rules, copier, clock)
    await days(backups, clock, 3)
    good = names(rules)

    for _ in range(20):
        clock.jump(days=3650)
        await backups.make_if_due()
        clock.jump(days=-3650)
        await backups.make_if_due()

    assert names(rules) == good


async def test_names_from_the_future_go_first_and_the_one_just_made_stays(
    rules: BackupRules, copier: Copier, clock: FrozenClock
) -> None:
    clock.jump(days=3650)
    await days(started(rules, copier, clock), clock, 3)
    clock.jump(days=-3650)
    await days(started(rules, copier, clock), clock, 2)

    made = names(rules)
    assert [name for name in made if name.startswith("turngate-2026")] == made[:2]
    assert len(made) == 3


async def test_it_can_be_switched_off_on_and_elsewhere_while_it_runs(
    rules: BackupRules, copier: Copier, clock: FrozenClock, tmp_path: Path
) -> None:
    backups = started(replace(rules, every=None), copier, clock)
    await days(backups, clock, 2)
    assert (copier.made, backups.report()) == (0, None)

    backups.change(rules)
    await days(backups, clock, 1)
    elsewhere = replace(rules, folder=tmp_path / "elsewhere")
    backups.change(elsewhere)
    await days(backups, clock, 1)

    assert (len(names(rules)), len(names(elsewhere))) == (1, 1)


async def test_dashboards_see_when_the_newest_was_made(
    rules: BackupRules, copier: Copier, clock: FrozenClock
) -> None:
    observer = Observer()
    await days(started(rules, copier, clock, observer), clock, 1)

    at = (NOON + timedelta(hours=1)).timestamp()
    lines = numbers(observer).decode().splitlines()
    told = next(line for line in lines if line.startswith("turngate_last_backup_timestamp_seconds"))
    assert float(told.split()[1]) == at
