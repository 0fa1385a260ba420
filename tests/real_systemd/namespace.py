"""
A systemd that is PID 1 of a namespace of our own, until the block is left.

It has this machine's files with a layer in memory above them, a loopback for a network, and a
cgroup that is made for it. Nothing of what it does stays: its processes end with it, and its mounts
with its processes.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.commands import PATIENCE, ROOT

BOOT = Path(__file__).with_name("boot.sh")
NAMESPACES = ("--cgroup", "--ipc", "--mount", "--net", "--pid", "--uts")
UNITS = (
    "basic.target",
    "multi-user.target",
    "network-online.target",
    "shutdown.target",
    "sysinit.target",
    "systemd-journald-dev-log.socket",
    "systemd-journald.service",
    "systemd-journald.socket",
    "umount.target",
)


@contextmanager
def own_systemd() -> Iterator[list[str]]:
    """The beginning of a command line whose rest is run there."""
    with (
        _own_cgroup() as cgroup,
        tempfile.TemporaryDirectory(prefix="turngate-real-systemd-") as memory,
    ):
        joining = f'echo $$ > {cgroup}/cgroup.procs; exec "$@"'
        making = [
            "unshare",
            "--fork",
            "--kill-child",
            *NAMESPACES,
            "sh",
            str(BOOT),
            memory,
            str(ROOT),
            " ".join(UNITS),
        ]
        process = subprocess.Popen(["sh", "-euc", joining, "sh", *making], start_new_session=True)  # noqa: S607
        try:
            yield _entered(process)
        finally:
            process.kill()  # and its child with it, and with that one everything it had started
            process.wait()


def _entered(process: subprocess.Popen[bytes]) -> list[str]:
    """When it is up, its journal included."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    entering = ["nsenter", "--all", "--target"]

    def is_up() -> bool:
        if process.poll() is not None:
            raise SystemExit(
                "the namespace could not be made: this needs root, and a kernel that lets it"
            )
        begun = [*entering, child] if (child := children.read_text().strip()) else ["false"]
        started = [*begun, "systemctl", "start", "multi-user.target", "systemd-journald.service"]
        return subprocess.run(started, check=False, capture_output=True).returncode == 0

    until(is_up)
    return [*entering, children.read_text().strip()]


@contextmanager
def _own_cgroup() -> Iterator[Path]:
    """Below that of the whole machine. Whatever lives in it must end before the block is left."""
    mounts = (line.split() for line in Path("/proc/mounts").read_text().splitlines())
    everything = next(Path(where) for _, where, kind, *_ in mounts if kind == "cgroup2")
    cgroup = everything / f"turngate-real-systemd-{os.getpid()}"
    cgroup.mkdir()
    try:
        yield cgroup
    finally:
        until(lambda: "populated 0" in (cgroup / "cgroup.events").read_text())
        for folder, _, _ in os.walk(cgroup, topdown=False):
            Path(folder).rmdir()


def until(holds: Callable[[], object]) -> None:
    """Look again and again until it is so."""
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < deadline, "it took too long"
        time.sleep(0.05)
