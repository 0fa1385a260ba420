"""
The daemon is killed at every crash point once, and at random moments; `make kill-matrix` does far
more of it.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.crash.daemon import DISCORD, SLACK, TELEGRAM
from tests.crash.kills import ALL_POINTS, kill_at, kill_at_random, poison, storm
from tests.full_length import is_full_length

IN_DOUBT = ("preview-sending", "preview-sent")
KINDS = ["finding", *((TELEGRAM, DISCORD, SLACK) if is_full_length() else ())]


@pytest.mark.parametrize("point", [point for point in ALL_POINTS if point not in IN_DOUBT])
def test_nothing_is_lost_or_answered_twice_when_it_is_killed(tmp_path: Path, point: str) -> None:
    outcome = kill_at(tmp_path, point, 1)

    assert outcome.reached
    assert (outcome.verdict.lost, outcome.verdict.twice, outcome.verdict.marked) == ([], [], 0)


@pytest.mark.parametrize("kind", ["finding", "catching-up", "editing"])
def test_nothing_is_lost_or_answered_twice_when_it_is_killed_again_and_again(
    tmp_path: Path, kind: str
) -> None:
    outcome = kill_at_random(tmp_path, 10, kind=kind, seed=1)

    assert (outcome.verdict.lost, outcome.verdict.twice) == ([], [])


@pytest.mark.parametrize("kind", KINDS)
def test_a_storm_of_kills_gives_nothing_up(tmp_path: Path, kind: str) -> None:
    """Kills and crashes beside other turns are held against no message."""
    verdict = storm(tmp_path, kind=kind).verdict

    assert (verdict.lost, verdict.twice, verdict.noticed) == ([], [], 0)


@pytest.mark.parametrize("kind", KINDS)
def test_a_message_that_crashes_the_daemon_is_the_only_one_given_up(
    tmp_path: Path, kind: str
) -> None:
    outcome = poison(tmp_path, kind=kind)

    assert (outcome.verdict.lost, outcome.verdict.twice, outcome.verdict.noticed) == ([], [], 1)
    assert outcome.kills == 4


@pytest.mark.parametrize("platform", [TELEGRAM, DISCORD])
def test_nothing_is_lost_or_answered_twice_through_a_real_platform(
    tmp_path: Path, platform: str
) -> None:
    """`python -m tests.crash.kill_matrix --telegram` does every point and more kills."""
    outcome = kill_at_random(tmp_path, 4, kind=platform, seed=1)

    assert (outcome.verdict.lost, outcome.verdict.twice) == ([], [])


def test_nothing_is_lost_or_answered_twice_through_slack_and_nothing_may_be(tmp_path: Path) -> None:
    """
    Slack can be asked, so no answer need say that it may be a repeat, though answers to us get lost
    all the time.
    """
    outcome = kill_at_random(tmp_path, 4, kind=SLACK, seed=1)

    assert (outcome.verdict.lost, outcome.verdict.twice, outcome.verdict.marked) == ([], [], 0)


@pytest.mark.parametrize("point", IN_DOUBT)
def test_a_beginning_that_may_stand_above_is_found_at_slack(tmp_path: Path, point: str) -> None:
    outcome = kill_at(tmp_path, point, 1, kind=SLACK)

    assert outcome.reached
    assert (outcome.verdict.lost, outcome.verdict.twice, outcome.verdict.marked) == ([], [], 0)


@pytest.mark.parametrize("point", IN_DOUBT)
def test_an_answer_whose_beginning_may_stand_above_says_so(tmp_path: Path, point: str) -> None:
    """A preview was about to be sent, and nobody knows whether it was."""
    outcome = kill_at(tmp_path, point, 1)

    assert outcome.reached
    assert (outcome.verdict.lost, outcome.verdict.twice) == ([], [])
    assert outcome.verdict.marked


def test_a_repeat_that_cannot_be_avoided_is_marked(tmp_path: Path) -> None:
    """A platform that cannot be asked: the part was sent, and nobody knows."""
    outcome = kill_at(tmp_path, "sent", 1, kind="plain")

    assert outcome.reached
    assert (outcome.verdict.lost, outcome.verdict.twice) == ([], [])
    assert outcome.verdict.marked  # one answer, which may be to several messages
