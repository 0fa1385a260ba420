"""What the docs say of agents works as it is written, pasted."""

from __future__ import annotations

import re
import shlex
import socket
import subprocess
import sys
import time
from pathlib import Path

from tests.commands import PATIENCE, ROOT, turngate


def pasted(kind: str, language: str, port: int = 9000) -> str:
    """A block of the section about a kind. The port may be somebody else's here."""
    section = (
        (ROOT / "docs" / "agents.md")
        .read_text()
        .partition(f"\n### {kind}\n")[2]
        .partition("\n#")[0]
    )
    found = re.search(rf"```{language}\n(.*?)```", section, re.DOTALL)
    assert found is not None
    return found[1].replace("9000", str(port))


def answer_to(words: str, config: str, folder: Path, **environment: str) -> str:
    """What somebody reads who has written that config."""
    (folder / "turngate.yaml").write_text(config)
    said = turngate(
        folder / "state",
        "chat",
        "--config",
        str(folder / "turngate.yaml"),
        said=f"{words}\n",
        **environment,
    )
    assert said.stderr == ""
    return said.stdout


def test_a_command_is_pasted(tmp_path: Path) -> None:
    assert answer_to("hello", pasted("command", "yaml"), tmp_path) == "HELLO\n"


def test_a_service_is_pasted(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    child = subprocess.Popen(shlex.split(pasted("http", "sh", port)), stderr=subprocess.DEVNULL)
    try:
        _wait_for(port)
        assert answer_to("hello", pasted("http", "yaml", port), tmp_path) == "Hello.\n"
    finally:
        child.kill()
        child.wait()


def test_python_is_pasted(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(pasted("python", "python"))
    assert (
        answer_to("hello", pasted("python", "yaml"), tmp_path, PYTHONPATH=str(tmp_path))
        == "HELLO!\n"
    )


def test_an_agent_of_the_protocol_is_pasted(tmp_path: Path) -> None:
    program = tmp_path / "bin" / "opencode"
    program.parent.mkdir()
    program.write_text(
        f"#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} -m tests.simulators.acp_agent\n"
    )
    program.chmod(0o755)
    path = f"{program.parent}:/usr/bin:/bin"
    assert answer_to("hello", pasted("acp", "yaml"), tmp_path, PATH=path) == "You said: hello\n"


def _wait_for(port: int) -> None:
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        with socket.socket() as knocking:
            if knocking.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
