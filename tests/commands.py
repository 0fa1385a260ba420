"""
Short ways to be an operator in tests: the real command, the real terminal, a gateway that runs
beside it.
"""

from __future__ import annotations

import os
import re
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from tests import zygote
from tests.zygote import ROOT, TURNGATE

# Nothing is measured by it: it ends a test that would otherwise wait for ever.
PATIENCE = 60
# Longer than a command takes to leave: a key that comes meanwhile would be another one.
BETWEEN_PRESSES = 5


def environment(home: Path, **more: str) -> dict[str, str]:
    """An empty home, and nothing of ours."""
    return {
        "HOME": str(home),
        "PATH": "/usr/bin:/bin",
        "LANG": "C.UTF-8",
        "TERM": "xterm-256color",
    } | more


def turngate(
    state: Path, *arguments: str, said: str = "", **env: str
) -> subprocess.CompletedProcess[str]:
    """Run it on a state folder, without a terminal. `said` is piped in."""
    return zygote.run(
        [TURNGATE, *arguments, "--state-dir", str(state)],
        cwd=state.parent,
        env=environment(state.parent, **env),
        said=said,
        encoding="utf-8",
        errors="surrogateescape",
        timeout=PATIENCE,
    )


def address_in(line: str) -> str:
    """The web address in the line that a daemon prints when it is up."""
    found = re.search(r"http://[^/\s]+:\d+", line)
    assert found is not None, line
    return found[0]


def errors_without_reader(state: Path, *arguments: str, said: str = "") -> str:
    """What is on stderr when whoever read stdout has gone."""
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as gone:
        result = subprocess.run(
            [TURNGATE, *arguments, "--state-dir", str(state)],
            env=environment(state.parent),
            input=said,
            stdout=gone,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            timeout=PATIENCE,
        )
    return result.stderr


@contextmanager
def scripted_gateway(state: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that holds the folder like a daemon, and answers by a script."""
    child = zygote.Forked(
        [sys.executable, "-m", "tests.scripted_gateway", str(state)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "ready\n"
    try:
        yield child
    finally:
        child.kill()
        child.communicate()


@contextmanager
def daemon(state: Path, *, web: str = "null") -> Iterator[subprocess.Popen[str]]:
    """`turngate run` itself, from its first word until it was asked to stop."""
    config = state.parent / "daemon.yaml"
    config.write_text(f"web:\n  listen: {web}\nturns:\n  debounce: 10ms\n")
    child = zygote.Forked(
        [TURNGATE, "run", "--config", str(config), "--state-dir", str(state)],
        env=environment(state.parent, PYTHONUNBUFFERED="1"),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert child.stdout is not None
    try:
        assert "The gateway runs" in child.stdout.readline()
        yield child
    finally:
        child.terminate()
        child.communicate(timeout=PATIENCE)


# Whatever was started in the background ignores Ctrl-C, and so would all that it starts.
IN_A_TERMINAL = """
import os, pty, signal, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)
sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))
"""


class Terminal:
    """A command in a terminal of its own: type, and read what appears."""

    def __init__(self, child: subprocess.Popen[bytes]) -> None:
        assert child.stdin is not None
        assert child.stdout is not None
        self._child = child
        self._stdin: IO[bytes] = child.stdin
        self._stdout: IO[bytes] = child.stdout
        self.output = ""
        self._seen = 0

    def type(self, text: str) -> None:
        """Keys, Enter included where it is meant."""
        self._stdin.write(text.encode())
        self._stdin.flush()

    def wait_for(self, text: str) -> str:
        """Everything that appeared until this did."""
        deadline = time.monotonic() + PATIENCE
        while (found := self.output.find(text, self._seen)) < 0:
            assert self._read(deadline), (
                f"{text!r} never appeared after {self.output[self._seen :]!r}"
            )
        appeared = self.output[self._seen : found + len(text)]
        self._seen = found + len(text)
        return appeared

    def end(self, *, pressing: str = "") -> int:
        """
        The exit status. With `pressing`, somebody presses that key now and then until the command
        is gone.
        """
        deadline = time.monotonic() + PATIENCE
        is_gone = not pressing
        while not is_gone and time.monotonic() < deadline:
            self.type(pressing)
            patience = time.monotonic() + BETWEEN_PRESSES
            while self._read(patience):
                pass
            is_gone = time.monotonic() < patience
        while self._read(deadline):
            pass
        self._stdin.close()
        self._stdout.close()
        return self._child.wait(PATIENCE)

    def _read(self, deadline: float) -> bool:
        ready, _, _ = select.select([self._stdout], [], [], max(deadline - time.monotonic(), 0))
        piece = os.read(self._stdout.fileno(), 65536) if ready else b""
        self.output += piece.decode(errors="replace")
        return bool(piece)


@contextmanager
def in_terminal(state: Path, *arguments: str, **env: str) -> Iterator[Terminal]:
    """The real command with a terminal at all three ends."""
    child = subprocess.Popen(
        [sys.executable, "-c", IN_A_TERMINAL, TURNGATE, *arguments, "--state-dir", str(state)],
        cwd=state.parent,
        env=environment(state.parent, COLUMNS="80", LINES="24", **env),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        bufsize=0,
    )
    try:
        yield Terminal(child)
    finally:
        child.kill()
        child.wait()
        for pipe in (child.stdin, child.stdout):
            if pipe is not None and not pipe.closed:
                pipe.close()
