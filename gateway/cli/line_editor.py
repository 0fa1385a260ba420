"""Typing at the prompt: line editing, what was typed before on the arrow keys, commands on Tab."""

from __future__ import annotations

import json
import os
import readline
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType

_LONGEST_HISTORY = 1000
_CONTINUED = "\\"


class LineEditor:
    """
    Lasts for one chat. The history is a file of our own, a JSON string per line: what GNU readline and libedit write is
    not the same, and neither keeps a message of several lines.
    """

    def __init__(self, history: Path, commands: Sequence[str]) -> None:
        self._file = history
        self._commands = sorted(commands)

    def __enter__(self) -> LineEditor:
        readline.clear_history()
        readline.set_auto_history(False)
        for said in self._remembered():
            readline.add_history(said)
        readline.set_completer_delims(" \t\n")
        readline.set_completer(self._complete)
        is_libedit = "libedit" in (readline.__doc__ or "")
        readline.parse_and_bind("bind ^I rl_complete" if is_libedit else "tab: complete")
        # Python turns it off for its own prompt. With it, lines that are pasted together are one message.
        readline.parse_and_bind("set enable-bracketed-paste on")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        readline.set_completer(None)
        with suppress(OSError):  # a history that cannot be kept is no reason to fail at leaving
            self._remember()

    def read(self, prompt: str) -> str:
        """One message; a line that ends in a backslash goes on in the next."""
        lines = [input(prompt)]
        while lines[-1].endswith(_CONTINUED):
            lines[-1] = lines[-1].removesuffix(_CONTINUED)
            lines.append(input(f"{'...':>{len(prompt) - 1}} "))
        message = "\n".join(lines).rstrip()
        if message:
            readline.add_history(message)
        return message

    def _complete(self, begun: str, number: int) -> str | None:
        if readline.get_begidx() > 0 or not begun.startswith("/"):
            return None
        fitting = [f"{command} " for command in self._commands if command.startswith(begun)]
        return fitting[number] if number < len(fitting) else None

    def _remembered(self) -> list[str]:
        try:
            written = self._file.read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            return []
        return [said for said in map(_read, written[-_LONGEST_HISTORY:]) if said]

    def _remember(self) -> None:
        said = [
            readline.get_history_item(at + 1) for at in range(readline.get_current_history_length())
        ]
        draft = self._file.with_name(f"{self._file.name}.{os.getpid()}")
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.writelines(f"{json.dumps(each)}\n" for each in said[-_LONGEST_HISTORY:])
        draft.replace(self._file)


def _read(written: str) -> str | None:
    try:
        said = json.loads(written)
    except ValueError:
        return None
    return said if isinstance(said, str) and "\0" not in said else None
