"""
Programs of agents: started with the environment and the folder they are given, and ended with all
that came of them.

Between us and a program stands its guardian (`guardian.py`), which ends it even when we are killed.
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
from turngate.gateway.domain.errors import (
    AgentError,
    AgentRefused,
    AgentUnavailable,
)
from turngate.gateway.observability.logs import Action

# Its guardian asks a program to end, and a moment later ends it. What takes longer than this hangs
# in the kernel.
_LONGEST_END = 0.9
_READ = 65_536
_KEPT_OF_STDERR = 8192
_LAST_LINES = 20
_LONGEST_LINE = 400
_SHORTEST_SECRET = 4
_GIVEN_TO_ALL = frozenset({"PATH", "HOME", "LANG", "TZ"})
_PASSING = frozenset({errno.EAGAIN, errno.EMFILE, errno.ENFILE, errno.ENOMEM})
# As a module, so that it is compiled once; last on the path, where its neighbours hide nothing.
_RUN_GUARDIAN = (
    "import sys; sys.path.append(sys.argv[1]); import guardian; guardian.main(int(sys.argv[2]))"
)

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
    A program that runs. `env` is all it sees of the environment, `memory`, in bytes, all that each
    of its processes may take. `longest_line` is for those who read with asyncio's `readline`.

    Raises AgentRefused if it cannot be started until the operator changes something,
    AgentUnavailable if that may pass.
    """
    order = _order(argv, env, memory)
    ours, its = socket.socketpair()

    with its:
        words, lifeline = await asyncio.open_connection(sock=ours)
        try:
            process = await _guardian(its, cwd, longest_line)
        except BaseException as exc:
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
    """One that runs. Whoever has it must `end` it, also when it has ended by itself."""

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

    async def until_started(self) -> None:
        """Raises what `start` does."""
        failure = await asyncio.shield(self._started)
        if failure is not None:
            raise _cannot_start(self.name, failure)

    async def status(self) -> int:
        """
        How it ended, once it has: its exit status, or less than zero for the signal that ended it.

        Raises AgentError if nobody knows.
        """
        status = await asyncio.shield(self._ended)
        if status is None:
            raise AgentError("the program was lost from sight")
        return status

    def last_words(self) -> list[str]:
        """
        The last lines on its stderr, each cut, with nothing in them that it was given to keep
        secret.
        """
        text = self._errors.decode("utf-8", "replace")
        for secret in self._secrets:
            text = text.replace(secret, "***")

        if len(self._errors) == _KEPT_OF_STDERR and self._secrets:
            text = text[len(self._secrets[0]) :]  # it may begin in the middle of one

        lines = (
            "".join(char if char.isprintable() else " " for char in line).strip()
            for line in text.splitlines()
        )

        return [line[:_LONGEST_LINE] for line in lines if line][-_LAST_LINES:]

    async def end(self) -> None:
        """
        Ask it to end, then end it: within a second nothing of it is left, whatever it started or
        became. Nobody else may be reading its stdout. Harmless when it has ended, or was ended
        before.
        """
        if self._is_over:
            return

        self._is_over = True
        with contextlib.suppress(OSError):  # it has gone, which is what is wanted
            self._lifeline.write_eof()

        try:
            await asyncio.wait({self._listening}, timeout=_LONGEST_END)
            if self._listening.done() and not self._over.done():
                _end_session(self._guardian.pid)
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

        if last := self.last_words():
            structlog.get_logger().debug(
                "a program complained", action=Action.AGENT, where=self.name, said=" / ".join(last)
            )

    async def _let_go(self) -> None:
        """
        What is left in the pipes goes to nobody, and the guardian is waited for, or it would stay
        as a zombie.
        """
        self.stdin.close()
        while await self.stdout.read(_READ):
            continue
        await self._draining
        await self._guardian.wait()

    async def _listen(self, words: asyncio.StreamReader) -> None:
        """What its guardian tells, until that is gone."""
        try:
            async for line in words:
                self._hear(*line.decode().split())
        except ConnectionError:
            return  # it was killed before it had read its order
        finally:
            self._hear("failed", "0")
            self._hear("ended")

    def _hear(self, word: str, number: str = "") -> None:
        """What is said first counts."""
        told = self._news[word]
        if not told.done():
            told.set_result(int(number) if number else None)

    async def _drain_errors(self, stderr: asyncio.StreamReader) -> None:
        while piece := await stderr.read(_READ):
            self._errors = (self._errors + piece)[-_KEPT_OF_STDERR:]


def said_status(status: int) -> str:
    """For people: "exit status 3", "ended by SIGSEGV"."""
    if status >= 0:
        return f"exit status {status}"
    try:
        return f"ended by {signal.Signals(-status).name}"
    except ValueError:
        return f"ended by signal {-status}"


async def _guardian(
    lifeline: socket.socket, cwd: str | None, longest_line: int
) -> asyncio.subprocess.Process:
    """With nothing in its own environment or arguments that its program may have to keep secret."""
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


def _end_session(leader: int) -> None:
    """
    Somebody killed a guardian. The kernel then kills its program, but not what came of that: found
    are those who have left their group and not those who have left their session.
    """
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it has just ended
            if int(stat.read_bytes().rpartition(b")")[2].split()[3]) == leader:
                os.kill(int(stat.parent.name), signal.SIGKILL)


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
    """Longest first: one may be a part of another."""
    values = {
        value
        for name, value in env.items()
        if name not in _GIVEN_TO_ALL and len(value) >= _SHORTEST_SECRET
    }
    return sorted(values, key=len, reverse=True)


def _cannot_start(name: str, number: int | None) -> AgentError:
    why = os.strerror(number) if number else "nobody knows why"
    kind = AgentUnavailable if number in _PASSING else AgentRefused
    return kind(f"{name} cannot be started: {why}")
