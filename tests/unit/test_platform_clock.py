"""What time a platform thinks it is, and what that makes of our own times."""

from __future__ import annotations

from datetime import timedelta
from email.utils import format_datetime

import pytest

from tests.fakes import NOON, FrozenClock
from turngate.adapters.platform_clock import PlatformClock

HOUR = timedelta(hours=1)


def told(clock: FrozenClock, ahead: timedelta) -> PlatformClock:
    theirs = PlatformClock(clock)
    theirs.note_date(format_datetime(clock.now() + ahead, usegmt=True))
    return theirs


def test_before_an_answer_it_is_ours() -> None:
    clock = FrozenClock()

    assert PlatformClock(clock).now() == NOON
    assert PlatformClock(clock).no_later(NOON) == NOON


@pytest.mark.parametrize("ahead", [-HOUR, HOUR, timedelta(days=365)])
def test_it_goes_on_from_the_last_answer_however_ours_is_set(ahead: timedelta) -> None:
    clock = FrozenClock()
    theirs = told(clock, ahead)

    clock.advance(minutes=10)
    clock.jump(days=-3)

    assert theirs.now() == NOON + ahead + timedelta(minutes=10, seconds=1), (
        "a date has no fractions of a second"
    )


def test_what_was_by_ours_is_no_later_by_theirs() -> None:
    clock = FrozenClock()

    assert told(clock, -HOUR).no_later(NOON) == NOON - HOUR
    assert told(clock, HOUR).no_later(NOON) == NOON


def test_a_few_seconds_are_no_difference() -> None:
    assert told(FrozenClock(), timedelta(seconds=-4)).now() == NOON


@pytest.mark.parametrize(
    "date", [None, "", "soon", "Mon, 99 Foo 2026", "Mon, 04 May 2026 11:00:00 -0000"]
)
def test_what_is_no_date_changes_nothing(date: str | None) -> None:
    theirs = PlatformClock(FrozenClock())
    theirs.note_date(date)

    assert theirs.now() == NOON
