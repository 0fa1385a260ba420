"""
Places where a crash would hurt: each has one name, stands in the code, and costs nothing unless a
test asks.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter

from tests.commands import ROOT
from turngate.gateway.domain.crashpoints import (
    POINTS,
    UPKEEP_POINTS,
    crashpoint,
)

ARMED = """
from turngate.gateway.domain.crashpoints import arm, crashpoint
reached = []
arm(reached.append)
arm(lambda name: reached.append(name.upper()))
crashpoint("sending")
crashpoint("sent")
print(*reached)
"""
FATAL = """
import os
from turngate.gateway.domain.crashpoints import arm, crashpoint
arm(lambda name: os._exit(9) if name == "sending" else None)
crashpoint("sent")
print("still here", flush=True)
crashpoint("sending")
print("never")
"""


def ran(script: str) -> subprocess.CompletedProcess[str]:
    """In a process of its own: whoever arms points has them armed until it ends."""
    return subprocess.run(
        [sys.executable, "-c", script],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def named_in_the_code() -> Counter[str]:
    code = [
        path.read_text()
        for path in (ROOT / "gateway").rglob("*.py")
        if path.name != "crashpoints.py"
    ]
    calls = [call for text in code for call in re.findall(r"\bcrashpoint\(([^)]*)\)", text)]
    return Counter(name for call in calls for name in re.findall(r'"([a-z-]+)"', call))


def test_every_point_of_the_code_is_on_the_list() -> None:
    assert set(named_in_the_code()) <= {*POINTS, *UPKEEP_POINTS}


def test_no_name_is_on_the_list_twice() -> None:
    assert len({*POINTS, *UPKEEP_POINTS}) == len(POINTS) + len(UPKEEP_POINTS)


def test_nothing_happens_at_a_point_that_nobody_armed() -> None:
    for name in (*POINTS, *UPKEEP_POINTS):
        crashpoint(name)


def test_everybody_who_armed_is_told_of_every_point_in_order() -> None:
    assert ran(ARMED).stdout == "sending SENDING sent SENT\n"


def test_a_process_can_be_ended_at_a_point() -> None:
    result = ran(FATAL)

    assert (result.returncode, result.stdout) == (9, "still here\n")
