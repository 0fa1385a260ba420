"""`turngate run` as its own process, with bots at a simulated Telegram."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from tests import zygote
from tests.commands import PATIENCE, TURNGATE, environment
from tests.simulators.running import Remote
from tests.simulators.telegram import TOKENS

PERSON = "71001"

_REST = """
web: {{listen: null}}
turns: {{debounce: 50ms, drain: 5s}}
access:
  allow: ["telegram:{person}", "telegram:chat:-5001", "telegram:chat:-1000000005001"]
  admins: ["telegram:{person}"]
"""


def bot(sim: Remote, account: str = "main", *, token: str | None = None, more: str = "") -> str:
    """One account of the config."""
    return (
        f"    - {{account: {account}, token: '{token or TOKENS[account]}', api_url: "
        f"'{sim.url}'{more}}}\n"
    )


def config(folder: Path, *bots: str, more: str = "") -> Path:
    """A config file. `more` takes the place of what it says in other sections."""
    path = folder / "turngate.yaml"
    rest = "\n".join(
        line
        for line in _REST.format(person=PERSON).splitlines()
        if line.partition(":")[0] not in more
    )
    path.write_text(f"platforms:\n  telegram:\n{''.join(bots)}{rest}\n{more}\n")
    return path


class Daemon:
    """One process of it."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    @property
    def pid(self) -> int:
        """Of the process that was started."""
        return self._process.pid

    async def kill(self) -> None:
        """As the kernel would."""
        self._process.kill()
        await self._process.communicate()

    def send(self, number: signal.Signals) -> None:
        """A signal, if it is still there to hear it."""
        if self._process.returncode is None:
            self._process.send_signal(number)

    async def stop(self) -> int:
        """As an operator would; returns the exit status."""
        self.send(signal.SIGTERM)
        return await self.ended()

    async def ended(self) -> int:
        """Its exit status, once it has one."""
        async with asyncio.timeout(PATIENCE):
            await self._process.communicate()
        assert self._process.returncode is not None
        return self._process.returncode


@asynccontextmanager
async def daemon(file: Path, *, under: Sequence[str] = (), **env: str) -> AsyncIterator[Daemon]:
    """From its first word until the block is left. `under` is a command that starts it."""
    with (file.parent / "log").open("ab") as log:
        process = await zygote.start(
            *under,
            TURNGATE,
            "run",
            "--config",
            str(file),
            "--state-dir",
            str(file.parent / "state"),
            env=environment(file.parent, PYTHONUNBUFFERED="1", **env),
            stdout=asyncio.subprocess.PIPE,
            stderr=log,
        )
    assert process.stdout is not None
    running = Daemon(process)
    try:
        async with asyncio.timeout(PATIENCE):
            assert b"gateway runs" in await process.stdout.readline()
        yield running
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()
