"""
The process between the gateway and one program of an agent, which leaves no child process behind.

It is started without the gateway's packages and has one connection: its lifeline, a socket to the
gateway. While that is open the program may run. When it closes, because the gateway closed it or
was killed, the program and all its descendants are killed; when the program ends by itself, so is
everything it left running. Orphans are reparented to their nearest subreaper, which is this
process, so neither a fork nor a new session or group escapes it.
"""

from __future__ import annotations

import ctypes
import os
import resource
import select
import signal
import sys
import time

GRACE = 0.3
"""Seconds from "please end" to "end"."""

LENGTH_DIGITS = 10
"""
The order on the lifeline: its length in that many digits, then fields with a NUL between them.
"""

# Seconds for what a program leaves to end by itself: the last stage of a pipeline still writes.
_LINGER = 0.2
_LONGEST_PAUSE = 0.5
_LOOKS = 500

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_IGNORED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
# Ignored signals stay ignored across exec: those from here, from Python (SIGPIPE) and from whatever
# started the daemon (a shell ignores SIGQUIT in background jobs). A program gets all defaults back.
_RESTORED = signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}


def main(lifeline: int) -> None:
    """Read one order, run its program, and exit when no process of it is left."""
    # A copy in the program would keep the socket open after our death, and the gateway would miss
    # that its guardian is gone.
    os.set_inheritable(lifeline, False)
    # systemd signals all processes of the service at once, and this one has to clean up last.
    for number in _IGNORED:
        signal.signal(number, signal.SIG_IGN)

    # Both before the fork: an early SIGCHLD would be lost, an early orphan would go to init.
    changes = _listen_for_children()
    _control_process(_PR_SET_CHILD_SUBREAPER, 1)
    argv, environment, memory = _read_order(lifeline)
    program = _start(argv, environment, memory, lifeline)
    # Our copies of the pipes would hide from the gateway that the program has closed its own.
    for descriptor in (0, 1, 2):
        os.close(descriptor)

    status = _watch(program, lifeline, changes)
    if status is not None:
        _tell(lifeline, f"ended {status}")
    if status is None or not _wait_until_alone(_LINGER):
        _end_everybody(program)

    _tell(lifeline, "over")
    os._exit(0)  # skips the interpreter's shutdown: the end of the turn waits for this process


def _listen_for_children() -> int:
    """Return a descriptor that becomes readable when a child has ended."""
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    # Python writes to the descriptor only for signals that have a Python handler.
    signal.signal(signal.SIGCHLD, lambda *_: None)
    return reader


def _control_process(option: int, value: int) -> None:
    """Call prctl. Only Linux has it: elsewhere a process that leaves its group is not found."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, ctypes.c_ulong(value), *(ctypes.c_ulong(0),) * 3)


def _read_order(lifeline: int) -> tuple[list[str], dict[str, str], int]:
    length = int(_read_exactly(lifeline, LENGTH_DIGITS))
    memory, words, *fields = (
        _read_exactly(lifeline, length).decode("utf-8", "surrogateescape").split("\0")
    )
    argv = fields[: int(words)]
    variables = fields[int(words) :]
    return argv, dict(each.split("=", 1) for each in variables if each), int(memory)


def _read_exactly(lifeline: int, size: int) -> bytes:
    data = b""
    while len(data) < size:
        piece = os.read(lifeline, size - len(data))
        if not piece:
            sys.exit(0)  # the gateway is gone or has given up the start
        data += piece
    return data


def _start(argv: list[str], environment: dict[str, str], memory: int, lifeline: int) -> int:
    reader, writer = os.pipe()
    guardian = os.getpid()
    program = os.fork()
    if program == 0:
        _become(argv, environment, memory, guardian, writer)
    os.close(writer)
    # The pipe is close-on-exec: no bytes mean that exec succeeded, otherwise they are its errno.
    failure = os.read(reader, 16)
    os.close(reader)
    _tell(lifeline, f"failed {failure.decode()}" if failure else "started")
    return program


def _become(
    argv: list[str], environment: dict[str, str], memory: int, guardian: int, failure: int
) -> None:
    try:
        os.setpgid(0, 0)
        _control_process(_PR_SET_PDEATHSIG, signal.SIGKILL)
        # A parent that died before the call above sends no signal any more.
        if os.getppid() != guardian:
            os._exit(1)
        if memory:
            _limit_memory(memory)

        for number in _RESTORED:
            signal.signal(number, signal.SIG_DFL)

        # The operator's own words, and no shell between.
        os.execvpe(argv[0], argv, environment)  # noqa: S606
    except OSError as exc:
        os.write(failure, str(exc.errno or 0).encode())
    finally:
        # Whatever was raised, this fork must not return into the guardian's code.
        os._exit(127)


def _limit_memory(most: int) -> None:
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    allowed = most if hard == resource.RLIM_INFINITY else min(most, hard)
    # The hard limit, too: a program may raise its soft limit by itself.
    resource.setrlimit(resource.RLIMIT_AS, (allowed, allowed))


def _watch(program: int, lifeline: int, changes: int) -> int | None:
    """Return the program's exit status; None if the lifeline closed before it ended."""
    waiting = select.poll()
    waiting.register(lifeline, select.POLLIN)
    waiting.register(changes, select.POLLIN)

    while True:
        ready = [descriptor for descriptor, _ in waiting.poll()]
        if changes in ready:
            os.read(changes, 4096)
            ended = _reap()
            if program in ended:
                return ended[program]
        # The gateway writes nothing after the order, so readable means closed.
        if lifeline in ready:
            return None


def _reap() -> dict[int, int]:
    ended = {}
    try:
        while (found := os.waitpid(-1, os.WNOHANG))[0]:
            ended[found[0]] = os.waitstatus_to_exitcode(found[1])
    except ChildProcessError:
        ended[0] = 0  # the mark for "no child is left"; no process has the id 0
    return ended


def _wait_until_alone(seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    pause = 0.001
    while 0 not in _reap():
        if time.monotonic() >= deadline:
            return False
        time.sleep(pause)
        pause = min(pause * 2, 0.02)
    return True


def _end_everybody(program: int) -> None:
    _signal_all(program, signal.SIGTERM)
    pause = 0.001
    alone = _wait_until_alone(GRACE)
    while not alone:
        _signal_all(program, signal.SIGKILL)
        alone = _hunt() or _wait_until_alone(pause)
        pause = min(pause * 2, _LONGEST_PAUSE)


def _hunt() -> bool:
    """
    Kill our own children in a tight loop, up to `_LOOKS` times; True if none is left.

    A process that only forks and exits is gone before a scan of /proc is over. Its child becomes
    ours at that moment, and our own children can be listed faster than they fork.
    """
    try:
        children = os.open(f"/proc/self/task/{os.getpid()}/children", os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False  # only kernels with CONFIG_PROC_CHILDREN have it

    try:
        for _ in range(_LOOKS):
            for process in os.pread(children, 65536, 0).split():
                _kill(int(process), signal.SIGKILL)
            if 0 in _reap():
                return True
    finally:
        os.close(children)

    return False


def _signal_all(program: int, number: int) -> None:
    # Without /proc only the program's own process group is known.
    for process in _descendants() if sys.platform == "linux" else [-program]:
        _kill(process, number)


def _kill(process: int, number: int) -> None:
    try:
        os.kill(process, number)
    except (ProcessLookupError, PermissionError):
        return  # it has ended, or runs as another user (a set-user-ID program)


def _descendants() -> list[int]:
    children: dict[int, list[int]] = {}
    # Without pathlib, which loads slowly.
    for process in [int(name) for name in os.listdir("/proc") if name.isdecimal()]:  # noqa: PTH208
        children.setdefault(_parent(process), []).append(process)
    found = [os.getpid()]
    # The list grows while it is read, which adds one generation after the other.
    for ancestor in found:
        found += children.get(ancestor, ())
    return found[1:]


def _parent(process: int) -> int:
    try:
        with open(f"/proc/{process}/stat", "rb") as file:  # noqa: PTH123 - as above
            # From the last parenthesis: the process name before it may contain ") " itself.
            return int(file.read().rpartition(b")")[2].split()[1])
    except (FileNotFoundError, ProcessLookupError):
        return 0  # it ended during the scan


def _tell(lifeline: int, words: str) -> None:
    try:
        os.write(lifeline, words.encode() + b"\n")
    except (BrokenPipeError, ConnectionResetError):
        return  # the gateway is gone; `_watch` sees the closed lifeline


if __name__ == "__main__":
    main(int(sys.argv[1]))
