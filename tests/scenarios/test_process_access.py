"""What programs of agents can read of the gateway, although they run as the same user (R13)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.commands import turngate

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has prctl")

# Both as one ordinary user: root could read everything. setuid clears the flag, so it is set again.
_PARENT = """
import ctypes, os, subprocess, sys
from turngate.gateway.daemon.process_access import close_to_others
prctl = ctypes.CDLL(None).prctl
if os.getuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
prctl(4, 1, 0, 0, 0)
if sys.argv[1] == "closed":
    close_to_others()
os.chdir("/")
child = subprocess.run(["/bin/cat", f"/proc/{os.getpid()}/environ"], capture_output=True, env={})
sys.stdout.buffer.write(child.stdout + child.stderr)
"""
_ASKING = """
import ctypes

class Asking:
    def __init__(self, options):
        pass

    async def run(self, turn):
        yield f"dumpable: {ctypes.CDLL(None).prctl(3, 0, 0, 0, 0)}"
"""


def read_by_child(how: str) -> str:
    asked = subprocess.run(
        [sys.executable, "-c", _PARENT, how],
        env=os.environ | {"TELEGRAM_BOT_TOKEN": "123:canary"},
        capture_output=True,
        text=True,
        check=True,
    )
    return asked.stdout


def test_a_child_of_the_same_user_cannot_read_the_environment() -> None:
    """Finding R13: a `command` agent read all tokens from /proc/PID/environ."""
    assert "123:canary" in read_by_child("open")
    assert "123:canary" not in read_by_child("closed")
    assert "Permission denied" in read_by_child("closed")


def test_a_gateway_that_runs_agents_is_closed_to_them(tmp_path: Path) -> None:
    (tmp_path / "asking.py").write_text(_ASKING)
    config = tmp_path / "turngate.yaml"
    agents = {"main": {"kind": "python", "object": "asking:Asking"}}
    config.write_text(json.dumps({"agents": agents}))
    result = turngate(
        tmp_path / "state",
        "chat",
        "--config",
        str(config),
        said="hello\n",
        PYTHONPATH=str(tmp_path),
    )

    assert result.stdout == "dumpable: 0\n"
