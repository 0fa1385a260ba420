"""One trouble is told when it begins, now and then while it lasts, and when it is over."""

from __future__ import annotations

from datetime import timedelta

from gateway.reminding import AT_MOST_EVERY, EVERY, Reminding


def test_a_trouble_that_everybody_meets_is_told_once_and_then_now_and_then() -> None:
    reminding = Reminding()
    told = [second for second in range(3 * int(EVERY.total_seconds())) if reminding.is_due("full", float(second))]

    assert told == [0, EVERY.total_seconds(), 2 * EVERY.total_seconds()]


def test_another_trouble_is_told_as_well() -> None:
    reminding = Reminding()

    assert [reminding.is_due(words, 0.0) for words in ("full", "locked", "full")] == [True, True, False]


def test_its_end_is_told_once_with_how_long_it_lasted() -> None:
    reminding = Reminding()
    reminding.is_due("full", 5.0)

    assert [reminding.is_over(12.0), reminding.is_over(13.0)] == [timedelta(seconds=7), None]


def test_one_that_comes_and_goes_is_told_at_most_once_a_minute() -> None:
    reminding, lines = Reminding(), 0
    for second in range(0, 600, 2):
        lines += reminding.is_due("full", float(second))
        lines += reminding.is_over(second + 1.0) is not None

    assert lines <= 2 * 600 / AT_MOST_EVERY.total_seconds()
