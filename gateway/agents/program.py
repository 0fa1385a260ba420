"""
Programs of agents: started in a given folder with a given environment, and killed together with all
their descendants.

Each runs under a guardian process (`guardian.py`), which kills it even when the daemon is killed.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import signal
import socket
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import structlog

from turngate.gateway.agents.guardian import LENGTH_DIGITS
from turngate.gateway.agents.orphans import adopt_orphans, end_orphans, started_at
from turngate.gateway.domain.errors import (
    AgentError,
    AgentRefused,
    AgentUnavailable,
)
from turngate.gateway.observability.logs import Action

# Seconds. The guardian sends SIGKILL after its GRACE; what takes longer than this hangs in the
# kernel.
_LONGEST_END = 0.9
_READ = 65_536
_KEPT_OF_STDERR = 8192
_LAST_LINES = 20
_LONGEST_LINE = 400
_SHORTEST_SECRET = 4
# Copied from the daemon's own environment (config/load.py), so they are not secrets of the agent.
_GIVEN_TO_ALL = frozenset({"PATH", "HOME", "LANG", "TZ"})
# A shortage of processes, descriptors or memory is temporary: a retry may succeed.
_PASSING = frozenset({errno.EAGAIN, errno.EMFILE, errno.ENFILE, errno.ENOMEM})
# Imported as a module, so that its bytecode is cached. Its folder is last on the path: the modules
# beside it (http.py) must not hide those of the standard library.
_RUN_GUARDIAN = (
    "import sys; sys.path.append(sys.argv[1]); import guardian; guardian.main(int(sys.argv[2]))"
)

# Of all programs that run: whoever else was adopted has lost its guardian.
_GUARDIANS: set[int] = set()

_News = asyncio.Future[int | None]


async def start(
    argv: Sequence[str],
    *,
    env: Mapping[str, str],
    cwd: str | None,
    memory: int | None = None,
    longest_line: int = _READ,
) -> Program:
    """
    Start a program and wait until it runs. `env` is its whole environment, `memory` the limit of
    each of its processes in bytes, `longest_line` the buffer limit for asyncio's `readline`.

    Raises AgentRefused if it cannot be started until the operator changes something,
    AgentUnavailable if the cause is temporary.
    """
    order = _order(argv, env, memory)
    adopt_orphans()
    ours, its = socket.socketpair()

    # Closed here once the guardian has its copy: with ours open, its death would be no end of file.
    with its:
        words, lifeline = await asyncio.open_connection(sock=ours)
        try:
            process = await _guardian(its, cwd, longest_line)
        except BaseException as exc:
            # After a cancel the guardian may run already; it exits when the lifeline closes.
            await _close(lifeline)
            if isinstance(exc, OSError):
                raise _cannot_start(argv[0], exc.errno) from exc
            raise

    program = Program(process, words, lifeline, name=Path(argv[0]).name, secrets=_secrets(env))
    lifeline.write(order)

    try:
        await program.until_started()
    except BaseException:
        await program.end()
        raise

    return program


class Program:
    """A running program. Its owner must call `end`, also when it has ended by itself."""

    def __init__(
        self,
        guardian: asyncio.subprocess.Process,
        words: asyncio.StreamReader,
        lifeline: asyncio.StreamWriter,
        *,
        name: str,
        secrets: Sequence[str],
    ) -> None:
        if guardian.stdin is None or guardian.stdout is None or guardian.stderr is None:
            raise ValueError("a program has three pipes")

        self.stdin = guardian.stdin
        self.stdout = guardian.stdout
        self.name = name
        self._guardian = guardian
        self._lifeline = lifeline
        self._secrets = secrets
        self._errors = b""
        loop = asyncio.get_running_loop()
        self._started: _News = loop.create_future()
        self._ended: _News = loop.create_future()
        self._over: _News = loop.create_future()
        self._news = {
            "started": self._started,
            "failed": self._started,
            "ended": self._ended,
            "over": self._over,
        }
        self._listening = asyncio.ensure_future(self._listen(words))
        self._draining = asyncio.ensure_future(self._drain_errors(guardian.stderr))
        self._is_over = False
        self._started_at = started_at(guardian.pid)
        _GUARDIANS.add(guardian.pid)

    async def until_started(self) -> None:
        """Wait for the result of exec. Raises AgentRefused or AgentUnavailable, as `start` does."""
        # Shielded, here and in `status`: a cancelled caller must not cancel the shared future.
        failure = await asyncio.shield(self._started)
        if failure is not None:
            raise _cannot_start(self.name, failure)

    async def status(self) -> int:
        """
        Wait for its end and return its exit status, or minus the number of the signal that killed
        it.

        Raises AgentError if the guardian died before it could report the status.
        """
        status = await asyncio.shield(self._ended)
        if status is None:
            raise AgentError("the program was lost from sight")
        return status

    def last_words(self) -> list[str]:
        """Return the last lines of its stderr, each cut, without the values in its environment."""
        text = self._errors.decode("utf-8", "replace")
        for secret in self._secrets:
            text = text.replace(secret, "***")

        if len(self._errors) == _KEPT_OF_STDERR and self._secrets:
            # What was kept may begin in the middle of a secret, which the replacement above misses.
            text = text[len(self._secrets[0]) :]

        lines = (
            "".join(char if char.isprintable() else " " for char in line).strip()
            for line in text.splitlines()
        )

        return [line[:_LONGEST_LINE] for line in lines if line][-_LAST_LINES:]

    async def end(self) -> None:
        """
        Send SIGTERM, then SIGKILL, to the program and all its descendants, and wait for their end.

        No other task may be reading its stdout. May be called again, and after it ended by itself.
        """
        if self._is_over:
            return

        self._is_over = True
        with contextlib.suppress(OSError):  # the guardian has ended before
            # Half-closed: the guardian takes it for the end and can still report "over".
            self._lifeline.write_eof()

        try:
            await asyncio.wait({self._listening}, timeout=_LONGEST_END)
            # Killed or stopped, perhaps by the program itself: it has cleaned up nothing.
            if not self._over.done():
                await self._end_without_guardian()
            async with asyncio.timeout(_LONGEST_END):
                await self._let_go()
        except TimeoutError:
            structlog.get_logger().warning(
                "a program will not end", action=Action.AGENT, where=self.name
            )
        finally:
            self._draining.cancel()
            self._listening.cancel()
            await _close(self._lifeline)
            _GUARDIANS.discard(self._guardian.pid)

        if last := self.last_words():
            structlog.get_logger().debug(
                "a program wrote to stderr",
                action=Action.AGENT,
                where=self.name,
                said=" / ".join(last),
            )

    async def _end_without_guardian(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._guardian.kill()
        guardian = self._guardian.pid
        # Not awaited by asyncio, which also waits for the pipes: its orphans hold them open.
        if not await asyncio.to_thread(
            end_orphans, guardian, frozenset(_GUARDIANS), self._started_at
        ):
            structlog.get_logger().warning(
                "a program has killed its guardian and will not end",
                action=Action.AGENT,
                where=self.name,
            )

    async def _let_go(self) -> None:
        """Discard what is left in the pipes, and reap the guardian."""
        self.stdin.close()
        # A full StreamReader pauses its pipe, and asyncio does not see a paused pipe close.
        while await self.stdout.read(_READ):
            continue
        await self._draining
        await self._guardian.wait()

    async def _listen(self, words: asyncio.StreamReader) -> None:
        """Read the guardian's reports until it disconnects."""
        try:
            async for line in words:
                self._hear(*line.decode().split())
        except ConnectionError:
            return  # it was killed before it had read its order
        finally:
            # Defaults for what was never reported, or `until_started` and `status` would hang.
            self._hear("failed", "0")
            self._hear("ended")

    def _hear(self, word: str, number: str = "") -> None:
        """Record a report. The first one of its kind counts."""
        told = self._news[word]
        if not told.done():
            told.set_result(int(number) if number else None)

    async def _drain_errors(self, stderr: asyncio.StreamReader) -> None:
        # Read all the time: a program blocks as soon as its stderr pipe is full.
        while piece := await stderr.read(_READ):
            self._errors = (self._errors + piece)[-_KEPT_OF_STDERR:]


def said_status(status: int) -> str:
    """Return an exit status in words: "exit status 3", "ended by SIGSEGV"."""
    if status >= 0:
        return f"exit status {status}"
    try:
        return f"ended by {signal.Signals(-status).name}"
    except ValueError:
        return f"ended by signal {-status}"


async def _guardian(
    lifeline: socket.socket, cwd: str | None, longest_line: int
) -> asyncio.subprocess.Process:
    # Other users can read arguments in /proc, so the program's argv and environment are not among
    # these: they follow on the lifeline. Without site-packages (-I -S) the start is faster.
    python = [
        sys.executable,
        "-I",
        "-S",
        "-c",
        _RUN_GUARDIAN,
        str(Path(__file__).parent),
        str(lifeline.fileno()),
    ]

    return await asyncio.create_subprocess_exec(
        *python,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        limit=longest_line,
        cwd=cwd,
        env={},
        pass_fds=(lifeline.fileno(),),
        start_new_session=True,
    )


async def _close(lifeline: asyncio.StreamWriter) -> None:
    lifeline.close()
    with contextlib.suppress(OSError):  # the other side may have closed it first
        await lifeline.wait_closed()


def _order(argv: Sequence[str], env: Mapping[str, str], memory: int | None) -> bytes:
    fields = [
        str(memory or 0),
        str(len(argv)),
        *argv,
        *(f"{name}={value}" for name, value in env.items()),
    ]
    if any("\0" in field for field in fields):
        raise AgentRefused(
            f"{argv[0]!r} cannot be started: no argument or variable may hold a NUL character"
        )

    order = os.fsencode("\0".join(fields))

    return str(len(order)).zfill(LENGTH_DIGITS).encode() + order


def _secrets(env: Mapping[str, str]) -> list[str]:
    values = {
        value
        for name, value in env.items()
        if name not in _GIVEN_TO_ALL and len(value) >= _SHORTEST_SECRET
    }
    # Longest first: replacing a secret that is part of another would leave the rest of that one.
    return sorted(values, key=len, reverse=True)


def _cannot_start(name: str, number: int | None) -> AgentError:
    why = os.strerror(number) if number else "unknown reason"
    kind = AgentUnavailable if number in _PASSING else AgentRefused
    return kind(f"{name} cannot be started: {why}")
