"""What `turngate check` and `turngate agents` find out about the agents of a config."""

from __future__ import annotations

import json
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.commands import turngate

KEY = "sk-right"


class ModelServer(BaseHTTPRequestHandler):
    """Lists two models to whoever has the key."""

    def do_GET(self) -> None:
        if self.headers["Authorization"] != f"Bearer {KEY}":
            self._answer(401, {"error": {"message": "no"}})
        elif self.path != "/v1/models":
            self._answer(404, {})
        else:
            self._answer(200, {"data": [{"id": "small:latest"}, {"id": "large"}]})

    def _answer(self, status: int, document: object) -> None:
        body = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def model_server() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), ModelServer) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/v1"
        server.shutdown()
        thread.join()


def config_with(folder: Path, agent: str) -> tuple[str, str]:
    file = folder / "turngate.yaml"
    file.write_text(f"agents: {{main: {agent}}}\nweb: {{listen: null}}\n")
    return "--config", str(file)


def test_a_program_that_does_not_exist_is_found(tmp_path: Path) -> None:
    options = config_with(tmp_path, "{kind: command, argv: [nosuchprogram]}")

    result = turngate(tmp_path / "state", "check", *options)

    assert result.returncode == 1
    assert "agents.main: error: there is no program nosuchprogram on the PATH" in result.stdout


def test_a_program_that_is_not_executable_is_found_with_its_cure(tmp_path: Path) -> None:
    program = tmp_path / "agent.sh"
    program.write_text("#!/bin/sh\n")
    options = config_with(tmp_path, f"{{kind: acp, argv: [{program}]}}")

    refused = turngate(tmp_path / "state", "check", *options)
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    taken = turngate(tmp_path / "state", "check", *options)

    assert f"run chmod +x {program}" in refused.stdout
    assert (refused.returncode, taken.returncode) == (1, 0)


@pytest.mark.parametrize(
    ("key", "model", "words", "status"),
    [
        (KEY, "small", "answers and has the model small", 0),
        (
            KEY,
            "huge",
            "no model huge; it has small:latest, large: correct agents.main.model",
            1,
        ),
        ("sk-wrong", "small", "does not take our key (401): check agents.main.api_key", 1),
    ],
)
def test_a_model_server_is_asked_for_key_and_model(
    tmp_path: Path, key: str, model: str, words: str, status: int
) -> None:
    with model_server() as url:
        agent = f"{{kind: openai, base_url: '{url}', model: {model}, api_key: '${{KEY}}'}}"
        options = config_with(tmp_path, agent)
        result = turngate(tmp_path / "state", "check", "--online", *options, KEY=key)

    assert words in result.stdout
    assert key not in result.stdout
    assert result.returncode == status


@pytest.mark.parametrize(
    ("agent", "where"),
    [
        ("{kind: openai, base_url: 'http://127.0.0.1:1/v1', model: m}", "agents.main.base_url"),
        ("{kind: anthropic, base_url: 'http://127.0.0.1:1', model: m}", "agents.main.base_url"),
        ("{kind: http, url: 'http://127.0.0.1:1/turn'}", "agents.main.url"),
    ],
)
def test_an_address_where_nothing_listens_is_found(tmp_path: Path, agent: str, where: str) -> None:
    result = turngate(tmp_path / "state", "check", "--online", *config_with(tmp_path, agent))

    assert f"nothing answers there. Start the server, or correct {where}" in result.stdout
    assert result.returncode == 1


def test_check_prints_one_document(tmp_path: Path) -> None:
    options = config_with(tmp_path, "{kind: command, argv: [nosuchprogram]}")

    document = json.loads(turngate(tmp_path / "state", "check", "--json", *options).stdout)

    assert document["valid"] is True
    assert [(each["where"], each["error"]) for each in document["findings"]] == [
        ("agents.main", True)
    ]


def test_check_prints_a_document_of_a_wrong_config_too(tmp_path: Path) -> None:
    result = turngate(
        tmp_path / "state", "check", "--json", *config_with(tmp_path, "{kind: nosuch}")
    )

    document = json.loads(result.stdout)
    assert (document["valid"], result.returncode) == (False, 78)
    assert "agents.main.kind" in document["problems"][0]


def test_agents_are_listed(tmp_path: Path) -> None:
    options = config_with(tmp_path, "{kind: command, argv: [cat, -u]}")

    shown = turngate(tmp_path / "state", "agents", "list", *options)
    listed = turngate(tmp_path / "state", "agents", "list", "--json", *options)

    assert "cat -u" in shown.stdout
    assert json.loads(listed.stdout) == {
        "agents": [
            {"name": "main", "kind": "command", "model": None, "target": "cat -u", "fallback": []}
        ]
    }


def test_one_agent_is_asked_and_what_it_was_shown_is_printed(tmp_path: Path) -> None:
    options = config_with(tmp_path, "{kind: command, argv: [cat]}")

    result = turngate(tmp_path / "state", "agents", "test", "main", "hi there", *options)

    assert (result.returncode, result.stdout.strip()) == (0, "hi there")
    assert '"text": "hi there"' in result.stderr


def test_an_exception_of_ones_own_agent_is_shown_whole(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text(
        "class Broken:\n    async def run(self, turn):\n        yield 'half'\n"
        "        raise ValueError('no such thing')\n\n\ndef build(options):\n    return Broken()\n"
    )
    options = config_with(tmp_path, '{kind: python, object: "broken:build"}')

    result = turngate(
        tmp_path / "state", "agents", "test", "main", *options, PYTHONPATH=str(tmp_path)
    )

    assert (result.returncode, result.stdout.strip()) == (1, "half")
    assert 'broken.py", line 4' in result.stderr
    assert "agents.main raised ValueError: no such thing" in result.stderr
