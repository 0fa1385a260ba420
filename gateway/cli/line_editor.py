"""Line editing at the prompt: history on the arrow keys, commands on Tab."""

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
    Line editor of one chat.

    The history file has one JSON string per line: GNU readline and libedit use different formats,
    and neither supports messages of several lines.
    """

    def __init__(self, history: Path, commands: Sequence[str]) -> None:
        self._file = history
        self._commands = sorted(commands)

    def __enter__(self) -> LineEditor:
        readline.clear_history()
        # `read` adds whole messages; input() would add each line of a message on its own.
        readline.set_auto_history(False)
        for message in self._load_history():
            readline.add_history(message)

        # The default delimiters contain the slash, which is part of a command here.
        readline.set_completer_delims(" \t\n")
        readline.set_completer(self._complete)
        is_libedit = "libedit" in (readline.__doc__ or "")
        readline.parse_and_bind("bind ^I rl_complete" if is_libedit else "tab: complete")
        # Python disables it for its own prompt. With it, several pasted lines are one message.
        readline.parse_and_bind("set enable-bracketed-paste on")

        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        readline.set_completer(None)
        # A history that cannot be written must not turn the exit into a failure.
        with suppress(OSError):
            self._save_history()

    def read(self, prompt: str) -> str:
        """Read one message; a line that ends in a backslash continues on the next."""
        lines = [input(prompt)]
        while lines[-1].endswith(_CONTINUED):
            lines[-1] = lines[-1].removesuffix(_CONTINUED)
            lines.append(input(f"{'...':>{len(prompt) - 1}} "))
        message = "\n".join(lines).rstrip()
        if message:
            readline.add_history(message)
        return message

    def _complete(self, prefix: str, number: int) -> str | None:
        # Commands are completed at the beginning of the line only.
        if readline.get_begidx() > 0 or not prefix.startswith("/"):
            return None
        matching = [f"{command} " for command in self._commands if command.startswith(prefix)]
        return matching[number] if number < len(matching) else None

    def _load_history(self) -> list[str]:
        try:
            lines = self._file.read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            return []
        return [message for message in map(_read, lines[-_LONGEST_HISTORY:]) if message]

    def _save_history(self) -> None:
        message = [
            readline.get_history_item(at + 1) for at in range(readline.get_current_history_length())
        ]
        draft = self._file.with_name(f"{self._file.name}.{os.getpid()}")
        # A new file, never what a link of that name leads to.
        draft.unlink(missing_ok=True)
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.writelines(f"{json.dumps(each)}\n" for each in message[-_LONGEST_HISTORY:])
        # Atomic, because several chats may end at the same time.
        draft.replace(self._file)


def _read(lines: str) -> str | None:
    try:
        message = json.loads(lines)
    except ValueError:
        return None
    # readline raises on a NUL character.
    return message if isinstance(message, str) and "\0" not in message else None
