"""The daemon is killed at every crash point once, and at random moments; `make kill-matrix` does far more of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.crash.kills import ALL_POINTS, kill_at, kill_at_random


@pytest.mark.parametrize("point", ALL_POINTS)
def test_nothing_is_lost_or_answered_twice_when_it_is_killed(tmp_path: Path, point: str) -> None:
    outcome = kill_at(tmp_path, point, 1)

    assert outcome.reached
    assert (outcome.verdict.lost, outcome.verdict.twice, outcome.verdict.marked) == ([], [], 0)


@pytest.mark.parametrize("kind", ["finding", "catching-up", "editing"])
def test_nothing_is_lost_or_answered_twice_when_it_is_killed_again_and_again(tmp_path: Path, kind: str) -> None:
    outcome = kill_at_random(tmp_path, 10, kind=kind, seed=1)

    assert (outcome.verdict.lost, outcome.verdict.twice) == ([], [])


def test_a_repeat_that_cannot_be_avoided_is_marked(tmp_path: Path) -> None:
    """A platform that cannot be asked: the part was sent, and nobody knows."""
    outcome = kill_at(tmp_path, "sent", 1, kind="plain")

    assert outcome.reached
    assert (outcome.verdict.lost, outcome.verdict.twice, outcome.verdict.marked) == ([], [], 1)
