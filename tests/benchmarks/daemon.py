"""
What the command costs before it does anything: `--help`, a daemon until it is ready, one that
idles; without an account and with a bot on Telegram, whose library is the heaviest.

    python -m tests.benchmarks.daemon

Prints one JSON line. Processor time, not wall time: machines are shared.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.commands import address_in
from tests.simulators.telegram import TOKENS

TURNGATE = [sys.executable, "-m", "gateway"]
IDLE_SECONDS = 3.0


def cpu_of(*arguments: str) -> float:
    """Seconds of processor time of a command that ends by itself."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([*TURNGATE, *arguments], stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def daemon(more: str = "") -> dict[str, float]:
    """Processor time until /readyz says yes, and memory a little later."""
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder, "turngate.yaml")
        config.write_text(f"web: {{listen: '127.0.0.1:0'}}\n{more}")
        command = [
            *TURNGATE,
            "run",
            "--config",
            str(config),
            "--state-dir",
            str(Path(folder, "state")),
        ]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        ) as process:
            assert process.stdout is not None
            address = address_in(process.stdout.readline())
            _wait_until_ready(address)
            cpu = _cpu_of(process.pid)
            time.sleep(IDLE_SECONDS)
            memory = _memory_of(process.pid)
            process.send_signal(signal.SIGTERM)
    return {"ready_cpu_s": round(cpu, 2), "idle_mb": round(memory, 1)}


@contextmanager
def telegram() -> Iterator[str]:
    """A config with a bot at a simulated Telegram."""
    command = [sys.executable, "-m", "tests.simulators.telegram"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        yield f"platforms: {{telegram: [{{token: '{TOKENS['main']}', api_url: '{url}'}}]}}\n"
        process.terminate()


def measure() -> dict[str, object]:
    """All of it."""
    found: dict[str, object] = {
        "case": "daemon",
        "help_cpu_s": round(cpu_of("--help"), 2),
        **daemon(),
    }
    with telegram() as bot:
        return found | {f"telegram_{name}": value for name, value in daemon(bot).items()}


def _wait_until_ready(address: str) -> None:
    for _ in range(200):
        try:
            with urllib.request.urlopen(f"{address}/readyz", timeout=5):  # noqa: S310 - our own daemon, on loopback
                return
        except urllib.error.URLError:
            time.sleep(0.05)
    raise TimeoutError("the daemon did not get ready")


def _cpu_of(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _memory_of(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) / 1024


if __name__ == "__main__":
    print(json.dumps(measure()))
