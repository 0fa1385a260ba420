"""
Short ways to be whoever runs the daemon: a service manager, an operator with a log and a new
config.
"""

from __future__ import annotations

import asyncio
import signal
import socket
from pathlib import Path

from tests.commands import PATIENCE
from tests.simulators.running import Remote
from tests.telegram_daemon import PERSON, Daemon


async def until_told(sim: Remote, end: str, *, chat: str = PERSON) -> None:
    """The echo says last what it was told."""

    async def is_told() -> bool:
        return any(
            each["chat"] == chat and each["text"].endswith(end) for each in await sim.messages()
        )

    await sim.until(is_told)


async def until_growing(sim: Remote) -> None:
    """An answer is being given."""

    async def is_growing() -> object:
        return await sim.messages()

    await sim.until(is_growing)


async def until_logged(file: Path, words: str, times: int = 1) -> str:
    """The whole log, once it says so."""
    async with asyncio.timeout(PATIENCE):
        while (log := (file.parent / "log").read_text()).count(words) < times:
            await asyncio.sleep(0.01)
    return log


async def reload(running: Daemon, file: Path, written: str, times: int) -> str:
    """Write another config and say so. Returns the log when it was read or refused so often."""
    file.write_text(written)
    running.send(signal.SIGHUP)
    return await until_logged(file, "action=reloaded", times)


class Listener:
    """A service manager's ear."""

    def __init__(self, folder: Path) -> None:
        self.path = str(folder / "notify")
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(self.path)
        self._socket.setblocking(False)

    async def until(self, word: str) -> list[str]:
        """Everything that was said until this was."""
        heard: list[str] = []
        async with asyncio.timeout(PATIENCE):
            while not any(word in line for line in heard):
                datagram = await asyncio.get_running_loop().sock_recv(self._socket, 4096)
                heard += datagram.decode().splitlines()
        return heard

    def forget(self) -> list[str]:
        """What was said and not listened to yet."""
        said: list[str] = []
        while True:
            try:
                said += self._socket.recv(4096).decode().splitlines()
            except BlockingIOError:
                return said

    def close(self) -> None:
        """Deaf."""
        self._socket.close()
