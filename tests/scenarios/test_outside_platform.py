"""The platform that the documentation shows works, though nothing in this repository knows it."""

from __future__ import annotations

import json
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.commands import PATIENCE, TURNGATE, environment, turngate
from tests.outside_package import installed_from
from tests.ports import free_port

CONFIG = """
web: {{listen: null}}
turns: {{debounce: 10ms}}
platforms:
  lines:
    - {{listen: "127.0.0.1:{port}", secret: "${{LINES_SECRET}}", home: ann}}
access: {{allow: ["lines:ann"]}}
"""
SECRET = {"LINES_SECRET": "canary"}


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(installed_from("adding-a-platform.md", tmp_path_factory.mktemp("outside")))


@contextmanager
def running(state: Path, config: Path, package: str) -> Iterator[None]:
    """The real daemon with the package on its path."""
    child = subprocess.Popen(
        [TURNGATE, "run", "--config", str(config), "--state-dir", str(state)],
        env=environment(state.parent, PYTHONUNBUFFERED="1", PYTHONPATH=package, **SECRET),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert child.stdout is not None
    try:
        assert "The gateway runs" in child.stdout.readline()
        yield
    finally:
        child.terminate()
        child.communicate(timeout=PATIENCE)


def connection(port: int) -> socket.socket:
    """The adapter listens a moment after the daemon says that it runs."""
    for _ in range(PATIENCE * 10):
        try:
            return socket.create_connection(("127.0.0.1", port), timeout=0.1)
        except OSError:
            continue
    raise AssertionError("nothing listens")


def test_a_user_is_answered_through_it_once(tmp_path: Path, package: str) -> None:
    port = free_port()
    config = tmp_path / "turngate.yaml"
    config.write_text(CONFIG.format(port=port))

    with running(tmp_path / "state", config, package), connection(port) as line:
        line.settimeout(PATIENCE)
        reader = line.makefile()
        line.sendall(b"canary 1 ann hello\n")
        first = {reader.readline() for _ in range(2)}
        line.sendall(b"canary 1 ann hello\n")
        repeated = reader.readline()
        line.sendall(b"canary 2 ann more\n")
        second = {reader.readline() for _ in range(2)}

    assert "stored 1\n" in first
    assert any(each.endswith("hello\n") for each in first)
    assert repeated == "stored 1\n"
    assert any(each.endswith("more\n") for each in second)


def test_the_config_treats_it_like_any_other(tmp_path: Path, package: str) -> None:
    config = tmp_path / "turngate.yaml"
    config.write_text(CONFIG.format(port=1) + "routes: [{match: {platform: linez}, agent: main}]\n")
    state = tmp_path / "state"
    env = {"PYTHONPATH": package, **SECRET}

    wrong = turngate(state, "check", "--config", str(config), **env)
    config.write_text(CONFIG.format(port=7007).replace("lines:ann", "lines:Ann"))
    unknown = turngate(state, "check", "--config", str(config), **env)
    config.write_text(CONFIG.format(port=7007))
    right = turngate(state, "check", "--online", "--config", str(config), **env)
    schema = turngate(state, "config", "schema", **env)
    shown = turngate(state, "config", "show", "--config", str(config), **env)

    assert wrong.returncode == 78
    assert 'routes[0].match.platform: "linez" is not a choice; did you mean lines?' in wrong.stderr
    assert "on lines it is what is written in the third word of a line" in unknown.stderr
    assert right.stdout.endswith("lines/main: listens on 127.0.0.1:7007 when the gateway runs\n")
    assert "lines" in json.loads(schema.stdout)["$defs"]["Platforms"]["properties"]
    assert "canary" not in shown.stdout
