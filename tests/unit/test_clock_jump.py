"""The time of day is believed while it goes as time goes."""

from __future__ import annotations

import pytest

from tests.fakes import FrozenClock
from turngate.gateway.daemon.clock_jump import WAIT_AFTER_JUMP, ClockJump


def looks(clock: FrozenClock, steadiness: ClockJump, minutes: int) -> list[bool]:
    """Once a minute."""
    found = []
    for _ in range(minutes):
        clock.advance(minutes=1)
        found.append(steadiness.holds())
    return found


def test_a_clock_that_goes_as_time_goes_is_believed() -> None:
    clock = FrozenClock()

    assert all(looks(clock, ClockJump(clock), 300))


@pytest.mark.parametrize("jump", [{"days": 400}, {"days": -400}, {"seconds": 6}, {"seconds": -6}])
def test_after_a_jump_it_is_believed_again_when_it_has_been_steady_for_an_hour(
    jump: dict[str, float],
) -> None:
    clock = FrozenClock()
    steadiness = ClockJump(clock)
    clock.jump(**jump)
    minutes = int(WAIT_AFTER_JUMP.total_seconds() // 60)

    assert looks(clock, steadiness, minutes + 2) == [False] * minutes + [True, True]


def test_a_jump_there_and_one_back_are_two() -> None:
    clock = FrozenClock()
    steadiness = ClockJump(clock)
    clock.jump(days=30)
    assert not any(looks(clock, steadiness, 50))
    clock.jump(days=-30)

    assert not any(looks(clock, steadiness, 60))
    assert looks(clock, steadiness, 2)[-1]


def test_a_clock_that_is_corrected_little_by_little_is_believed() -> None:
    clock = FrozenClock()
    steadiness = ClockJump(clock)
    for _ in range(120):
        clock.jump(milliseconds=30)
        assert looks(clock, steadiness, 1) == [True]


def test_a_look_that_comes_late_is_no_jump() -> None:
    clock = FrozenClock()
    steadiness = ClockJump(clock)
    clock.advance(days=3)

    assert steadiness.holds()
