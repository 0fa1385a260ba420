"""The kind of agent that the documentation shows works, though nothing here knows it."""

from __future__ import annotations

from pathlib import Path

from tests.commands import turngate
from tests.outside_package import installed_from


def test_an_agent_of_an_outside_kind_answers(tmp_path: Path) -> None:
    package = str(installed_from("agents.md", tmp_path))
    config = tmp_path / "turngate.yaml"
    config.write_text('web: {listen: null}\nagents: {main: {kind: shout, options: {end: "!!!"}}}\n')

    state = tmp_path / "state"
    result = turngate(state, "chat", "--config", str(config), said="hello\n", PYTHONPATH=package)

    assert "HELLO!!!" in result.stdout, result.stderr
