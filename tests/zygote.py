"""
Start our own programs by forking a process that has imported them already.

An import of the gateway costs half a second of CPU time, with the SDK of a platform up to three,
and the suite starts hundreds of processes. One process per test worker, the zygote, imports each
module once and forks for every start. What it forks is a process like any other: it has its own
pid, environment, folder and streams, and is a child of the test worker, which waits for it and
reads its exit status as usual.

What is about importing, the beginning of a start, LD_PRELOAD or the installed command itself
starts real processes with `subprocess`.

    python -m tests.zygote DESCRIPTOR
"""

from __future__ import annotations

import array
import asyncio
import atexit
import ctypes
import gc
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tests.full_length import is_full_length

ROOT = Path(__file__).parents[1]
TURNGATE = str(Path(sys.executable).with_name("turngate"))

_PR_SET_CHILD_SUBREAPER = 36
_PLATFORMS = ("telegram", "discord", "slack")
# Read by the dynamic loader or the interpreter before the first line of a program runs.
_NEEDS_A_REAL_START = (
    "LD_PRELOAD",
    "PYTHONHASHSEED",
    "PYTHONASYNCIODEBUG",
    "PYTHONDEVMODE",
)
_GATEWAY = (
    "turngate.gateway.__main__",
    "turngate.config.load",
    "turngate.gateway.daemon.process",
    "turngate.gateway.agents.api",
)


class Forked(subprocess.Popen[Any]):
    """
    `subprocess.Popen` that lets the zygote fork where it can, and starts a program where it cannot.
    """

    def _execute_child(  # type: ignore[misc]
        self,
        args: Any,
        executable: Any,
        preexec_fn: Any,
        close_fds: Any,
        pass_fds: Any,
        cwd: Any,
        env: Any,
        startupinfo: Any,
        creationflags: Any,
        shell: Any,
        p2cread: int,
        p2cwrite: int,
        c2pread: int,
        c2pwrite: int,
        errread: int,
        errwrite: int,
        *others: Any,
    ) -> None:
        surroundings = dict(os.environ if env is None else env)
        if preexec_fn or pass_fds or shell or not _is_ours(args, surroundings):
            super()._execute_child(  # type: ignore[misc]
                args,
                executable,
                preexec_fn,
                close_fds,
                pass_fds,
                cwd,
                env,
                startupinfo,
                creationflags,
                shell,
                p2cread,
                p2cwrite,
                c2pread,
                c2pwrite,
                errread,
                errwrite,
                *others,
            )
            return

        streams = [
            own if given == -1 else given for own, given in enumerate((p2cread, c2pwrite, errwrite))
        ]
        self.pid = _zygote().fork(args, str(cwd or Path.cwd()), surroundings, streams)
        self._child_created = True
        self._close_pipe_fds(p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite)  # type: ignore[attr-defined]


def run(
    args: Sequence[str], *, said: str | None = None, timeout: float, **more: Any
) -> subprocess.CompletedProcess[str]:
    """`subprocess.run` with both outputs captured, for a command that may fail."""
    with Forked(
        args,
        stdin=None if said is None else subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **more,
    ) as process:
        try:
            output, errors = process.communicate(said, timeout=timeout)
        except BaseException:
            process.kill()
            raise
        return subprocess.CompletedProcess(args, process.returncode, output, errors)


async def start(*args: str, **more: Any) -> asyncio.subprocess.Process:
    """`asyncio.create_subprocess_exec`."""
    # The loop's transport makes its Popen before it first waits for anything.
    stand_in = SimpleNamespace(Popen=Forked, PIPE=subprocess.PIPE)
    unix_events: Any = asyncio.unix_events
    before = unix_events.subprocess
    unix_events.subprocess = stand_in
    try:
        return await asyncio.create_subprocess_exec(*args, **more)
    finally:
        unix_events.subprocess = before


def _is_ours(args: Any, env: Mapping[str, str]) -> bool:
    if is_full_length() or any(name in env for name in _NEEDS_A_REAL_START):
        return False
    if _installs_packages(env):
        return False
    if not isinstance(args, list | tuple):
        return False
    program = [os.fspath(each) for each in args[:3]]
    return program[0] == TURNGATE or (program[:2] == [sys.executable, "-m"] and "." in program[2])


def _installs_packages(env: Mapping[str, str]) -> bool:
    """Entry points are read while the config is imported, which the zygote has done already."""
    folders = env.get("PYTHONPATH", "").split(os.pathsep)
    return any(True for folder in folders if folder for _ in Path(folder).glob("*.dist-info"))


class _Zygote:
    """The process that forks, as the tests see it."""

    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair()
        self._gate = threading.Lock()
        with theirs:
            command = [sys.executable, "-m", "tests.zygote", str(theirs.fileno())]
            self._process = subprocess.Popen(
                command, cwd=ROOT, stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()]
            )
        atexit.register(self._end)

    def fork(
        self, args: Sequence[str], cwd: str, env: dict[str, str], streams: Sequence[int]
    ) -> int:
        """The pid of a new child of this process."""
        asked = json.dumps(
            {
                "args": [os.fspath(each) for each in args],
                "cwd": cwd,
                "env": env,
                "modules": _modules_of(args),
            }
        ).encode()
        with self._gate, _adopting():
            descriptors = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", streams))]
            self._socket.sendmsg([len(asked).to_bytes(4, "big")], descriptors)
            self._socket.sendall(asked)
            answer = self._socket.recv(16)
        if not answer:
            raise RuntimeError("the zygote has ended; what it said is on stderr")
        return int(answer)

    def _end(self) -> None:
        self._socket.close()
        self._process.wait(10)


@contextmanager
def _adopting() -> Iterator[None]:
    """
    The process whose parent ends becomes a child of this one.

    Only while the zygote forks: what daemons leave behind when they are killed is not to end up
    here, where no one waits for it.
    """
    libc = ctypes.CDLL(None)
    libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    try:
        yield
    finally:
        libc.prctl(_PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


_running: list[_Zygote] = []
_starting = threading.Lock()


def _zygote() -> _Zygote:
    with _starting:
        if not _running:
            _running.append(_Zygote())
        return _running[0]


def _modules_of(args: Sequence[str]) -> list[str]:
    """What this start imports; a platform's SDK only where the program asks for it."""
    words = [os.fspath(each) for each in args]
    if words[0] != TURNGATE:
        named = [word for word in words[3:] if word in _PLATFORMS]
        return [words[2], *(f"turngate.adapters.{name}.plugin" for name in named)]

    config = ""
    if "--config" in words:
        file = Path(words[words.index("--config") + 1])
        config = file.read_text(errors="replace") if file.is_file() else ""
    named = [name for name in _PLATFORMS if f"{name}:" in config]
    return [*_GATEWAY, *(f"turngate.adapters.{name}.plugin" for name in named)]


def _serve(connection: socket.socket) -> Callable[[], object]:
    """Fork for every request. Returns in the new process only, with what it is to do."""
    while True:
        header, descriptors, _, _ = socket.recv_fds(connection, 4, 3)
        if not header:
            sys.exit(0)
        asked = json.loads(_read(connection, int.from_bytes(header, "big")))
        for module in asked["modules"]:
            _preload(module)

        # The process between ends at once, so that its child is adopted by the test worker.
        reader, writer = os.pipe()
        between = os.fork()
        if between == 0:
            pid = os.fork()
            if pid == 0:
                return _become(asked, descriptors)
            os.write(writer, str(pid).encode())
            os._exit(0)
        os.waitpid(between, 0)
        connection.sendall(os.read(reader, 16))
        for descriptor in (reader, writer, *descriptors):
            os.close(descriptor)


def _read(connection: socket.socket, length: int) -> bytes:
    read = b""
    while len(read) < length:
        read += connection.recv(length - len(read))
    return read


def _preload(module: str) -> None:
    if module in sys.modules:
        return
    import_module(module)
    assert threading.active_count() == 1, f"{module} starts a thread, which no fork takes along"
    # What is there now stays there: a collection in a child would copy all of its pages.
    gc.collect()
    gc.freeze()


def _become(asked: Mapping[str, Any], descriptors: Sequence[int]) -> Callable[[], object]:
    """Everything that a start from a shell would have set, and the program to run."""
    for own, given in enumerate(descriptors):
        os.dup2(given, own)
    os.closerange(3, 1024)
    os.chdir(asked["cwd"])
    os.environ.clear()
    os.environ.update(asked["env"])
    time.tzset()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    _open_streams(unbuffered=bool(os.environ.get("PYTHONUNBUFFERED")))

    paths = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    words = asked["args"]
    if words[0] == TURNGATE:
        from turngate.gateway.__main__ import main

        sys.argv = words
        sys.path[:1] = [str(Path(TURNGATE).parent), *paths]
        return main
    sys.argv = words[2:]
    sys.path[:1] = [asked["cwd"], *paths]
    sys.modules.pop(words[2], None)
    return lambda: runpy.run_module(words[2], run_name="__main__", alter_sys=True)


def _open_streams(*, unbuffered: bool) -> None:
    # Detached, not closed: the old objects must not write what they hold, nor close the new files.
    sys.stdin = os.fdopen(0, "r", closefd=False)
    sys.stdout = os.fdopen(1, "w", closefd=False)
    sys.stderr = os.fdopen(2, "w", closefd=False, errors="backslashreplace")
    sys.stdout.reconfigure(write_through=unbuffered, line_buffering=os.isatty(1))  # type: ignore[attr-defined]
    sys.stderr.reconfigure(line_buffering=True)  # type: ignore[attr-defined]


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _serve(socket.socket(fileno=int(sys.argv[1])))()
