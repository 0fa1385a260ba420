"""
A log has a bound, whatever goes wrong: the same trouble is told once, and then how often it came
back.
"""

from __future__ import annotations

from turngate.gateway.observability.log_dedup import (
    FIRST_PAUSE,
    LONGEST_PAUSE,
    MOST_KEPT,
    LogDedup,
)


class Clock:
    """Goes on when it is told to."""

    def __init__(self) -> None:
        self.at = 0.0

    def __call__(self) -> float:
        return self.at


LOCKED = {"level": "error", "event": "the store failed", "reason": "locked", "part": 1}


def test_the_same_trouble_is_news_once_and_counted_after_a_while() -> None:
    clock = Clock()
    repeats = LogDedup(clock)
    assert [repeats.is_news({**LOCKED, "part": number}) for number in range(42)] == [True] + [
        False
    ] * 41
    assert list(repeats.overdue()) == []

    clock.at += FIRST_PAUSE
    ((line, times),) = repeats.overdue()
    assert times == 41
    assert "part" not in line


def test_another_reason_is_another_trouble() -> None:
    repeats = LogDedup(Clock())
    assert repeats.is_news(LOCKED)
    assert repeats.is_news({**LOCKED, "reason": "full"})


def test_what_has_not_come_back_is_news_again() -> None:
    clock = Clock()
    repeats = LogDedup(clock)
    repeats.is_news(LOCKED)
    clock.at += FIRST_PAUSE
    assert list(repeats.overdue()) == []
    assert repeats.is_news(LOCKED)


def test_a_trouble_that_stays_for_a_day_is_told_less_than_forty_times() -> None:
    clock = Clock()
    repeats = LogDedup(clock)
    told = 0
    while clock.at < 24 * 3600:
        told += repeats.is_news(LOCKED) + len(list(repeats.overdue()))
        clock.at += 1
    assert 24 <= told < 40
    assert LONGEST_PAUSE == 3600


def test_troubles_without_number_are_not_all_remembered() -> None:
    repeats = LogDedup(Clock())
    for number in range(3 * MOST_KEPT):
        repeats.is_news({**LOCKED, "reason": number})
    assert len(repeats._troubles) == MOST_KEPT
