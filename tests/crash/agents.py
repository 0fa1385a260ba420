"""
Agents of several kinds that note each time they begin, and then answer with what they were told.

    python -m tests.crash.agents FOLDER jsonl    a program
    python -m tests.crash.agents FOLDER http     a service, which prints its address
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import contextmanager, nullcontext
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from subprocess import PIPE
from typing import Any

from tests import zygote
from tests.commands import ROOT

Described = dict[str, object]

POISON = "poison"


def noted(folder: Path, words: str) -> list[Described]:
    """The events of a turn that was noted."""
    with (folder / "runs").open("a") as runs:
        runs.write(words + "\n")
    return [
        {"type": "text", "text": f"{words} "},
        {"type": "text", "text": "was heard"},
        {"type": "done"},
    ]


def noted_end(folder: Path, document: Described) -> bool:
    """One line for each ending that was told. False as long as there is a file `fails`."""
    with (folder / "endings").open("a") as endings:
        endings.write(json.dumps(document) + "\n")
    return not (folder / "fails").exists()


class Own:
    """For the kind `python`."""

    def __init__(self, options: dict[str, str]) -> None:
        self._folder = Path(options["folder"])

    async def run(self, turn: Any) -> AsyncGenerator[Described]:
        """As it says above."""
        for event in noted(self._folder, turn.messages[-1].text):
            yield event

    def session_end(self, ending: Any) -> None:
        """As it says above."""
        history = [
            {"role": entry.role, "content": [{"text": entry.text}]} for entry in ending.history
        ]
        session = {"id": ending.id, "reason": ending.reason, "title": ending.title}
        if not noted_end(
            self._folder, {"type": "session_end", "session": session, "history": history}
        ):
            raise RuntimeError("it cannot be noted")


class Answering:
    """Answers after a moment, and dies with its daemon of a word that it cannot bear."""

    def __init__(self, options: dict[str, float]) -> None:
        self._seconds = options["seconds"]

    async def run(self, turn: Any) -> AsyncGenerator[Described]:
        """What was said, once more."""
        words = " ".join(message.text for message in turn.messages)
        await asyncio.sleep(self._seconds)
        if POISON in words:
            os.kill(os.getpid(), signal.SIGKILL)
        yield {"type": "text", "text": words}


def answering(seconds: float) -> Described:
    """How the config names it. It may run again, as a model may."""
    return {
        "kind": "python",
        "object": "tests.crash.agents:Answering",
        "options": {"seconds": seconds},
        "repeatable": True,
    }


class Waiting(Own):
    """The same, once there is a file `go`."""

    async def run(self, turn: Any) -> AsyncGenerator[Described]:
        """Noted when it begins, and again when it answers."""
        words, go = turn.messages[-1].text, self._folder / "go"
        events = noted(self._folder, words)
        while not go.exists():
            await asyncio.sleep(0.01)
        for event in events:
            yield event


def _command(folder: Path) -> Described:
    argv = [sys.executable, "-m", "tests.crash.agents", str(folder), "jsonl"]
    started = {"kind": "command", "format": "jsonl", "argv": argv, "env": {"PYTHONPATH": str(ROOT)}}
    return {**started, "session_end": True}


def _acp(folder: Path) -> Described:
    argv = [sys.executable, "-m", "tests.simulators.acp_agent", "--runs", str(folder / "runs")]
    return {"kind": "acp", "argv": argv, "env": {"PYTHONPATH": str(ROOT)}}


def _python(folder: Path) -> Described:
    return {
        "kind": "python",
        "object": "tests.crash.agents:Own",
        "options": {"folder": str(folder)},
    }


@contextmanager
def _http(folder: Path) -> Iterator[Described]:
    argv = [sys.executable, "-m", "tests.crash.agents", str(folder), "http"]
    with zygote.Forked(argv, cwd=ROOT, stdout=PIPE, text=True) as child:
        assert child.stdout is not None
        try:
            yield {"kind": "http", "url": child.stdout.readline().strip(), "session_end": True}
        finally:
            child.kill()


AT_WORK: dict[str, Callable[[Path], Any]] = {
    "command": lambda folder: nullcontext(_command(folder)),
    "acp": lambda folder: nullcontext(_acp(folder)),
    "python": lambda folder: nullcontext(_python(folder)),
    "http": _http,
}
"""By kind: what the config says of an agent, for as long as it can be reached."""


class _Service(BaseHTTPRequestHandler):
    folder = Path()

    def do_POST(self) -> None:
        """One turn, or one ending."""
        turn = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if turn.get("type") == "session_end":
            self.send_response(204 if noted_end(self.folder, turn) else 500)
            self.end_headers()
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        for event in noted(self.folder, turn["messages"][-1]["text"]):
            self.wfile.write(b"data: " + json.dumps(event).encode() + b"\n\n")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its own name for it
        """Nobody reads it."""


def _serve(folder: Path) -> None:
    _Service.folder = folder
    with ThreadingHTTPServer(("127.0.0.1", 0), _Service) as server:
        print(f"http://127.0.0.1:{server.server_address[1]}/", flush=True)
        server.serve_forever()


def _run(folder: Path) -> None:
    turn = json.loads(sys.stdin.readline())
    if turn.get("type") == "session_end":
        sys.exit(not noted_end(folder, turn))
    for event in noted(folder, turn["messages"][-1]["text"]):
        print(json.dumps(event), flush=True)


if __name__ == "__main__":
    (_serve if sys.argv[2] == "http" else _run)(Path(sys.argv[1]))
