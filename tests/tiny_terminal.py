"""
A terminal of a few lines: enough to know what stands on the screen after everything was drawn over
and over.
"""

from __future__ import annotations

import re

_PIECE = re.compile(r"\x1b\[(?P<numbers>[?0-9;]*)(?P<letter>[A-Za-z])|(?P<char>.)", re.DOTALL)


class TinyTerminal:
    """
    Endless upwards, so that what has scrolled away is there to be looked at. Refuses what it does
    not know.
    """

    def __init__(self) -> None:
        self._lines = [""]
        self._row = 0
        self._column = 0

    @property
    def text(self) -> str:
        """What can be read."""
        return "\n".join(line.rstrip() for line in self._lines).strip("\n")

    def write(self, output: str) -> None:
        """Letters, newlines, and the handful of sequences that colours and drawing over need."""
        for piece in _PIECE.finditer(output):
            if piece["char"] is None:
                self._obey(piece["letter"], piece["numbers"])
            else:
                self._put(piece["char"])

    def _obey(self, letter: str, numbers: str) -> None:
        if letter == "A":
            self._row = max(self._row - int(numbers or 1), 0)
        elif letter == "K" and numbers == "2":
            self._lines[self._row] = ""
        elif not (letter == "m" or (letter in "hl" and numbers in ("?25", "?2004"))):
            raise ValueError(f"the terminal was told to do {letter} {numbers}")

    def _put(self, char: str) -> None:
        if char == "\n":
            self._row, self._column = self._row + 1, 0
            if self._row == len(self._lines):
                self._lines.append("")
        elif char == "\r":
            self._column = 0
        elif not char.isprintable():
            raise ValueError(f"the terminal was sent {char!r}")
        else:
            line = self._lines[self._row].ljust(self._column)
            self._lines[self._row] = line[: self._column] + char + line[self._column + 1 :]
            self._column += 1
