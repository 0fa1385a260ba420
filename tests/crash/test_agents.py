"""
The daemon is killed in a turn with each kind of agent that may do things: none is asked twice,
nothing is lost.
"""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.crash.agents import AT_WORK
from tests.crash.rig import Rig


@pytest.mark.parametrize("kind", AT_WORK)
@pytest.mark.parametrize(
    ("point", "noticed", "begun"),
    [("turn-started", 1, 0), ("mid-stream", 1, 1), ("turn-finished", 0, 1)],
)
def test_nothing_is_lost_and_no_agent_is_asked_twice(
    tmp_path: Path, kind: str, point: str, noticed: int, begun: int
) -> None:
    (tmp_path / "runs").touch()
    with AT_WORK[kind](tmp_path) as agent, Rig(tmp_path, agent=agent) as rig:
        rig.start(f"{point}:1")
        rig.say("a")
        assert rig.ended() == -signal.SIGKILL

        rig.start()
        assert rig.settle()
        verdict = rig.verdict()
        assert (verdict.lost, verdict.twice, verdict.noticed) == ([], [], noticed)
        assert len((tmp_path / "runs").read_text().splitlines()) == begun
