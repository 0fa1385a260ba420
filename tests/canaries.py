"""
Canaries: words that occur nowhere else, each hidden in one place, so that one that sings says where
it got out.

Where a platform wants numbers they are numbers, large enough to be nobody's port, pid or time.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Canaries:
    """By the place they are hidden in."""

    words: dict[str, str] = field(default_factory=dict)

    def word(self, place: str) -> str:
        """The one of that place."""
        return self.words.setdefault(
            place, f"Canary{len(self.words):03d}{place.replace('_', '').capitalize()}Xq"
        )

    def number(self, place: str, *, negative: bool = False) -> str:
        """The one of that place, as an id."""
        plain = self.words.setdefault(place, f"8675309{len(self.words):03d}")
        assert plain.isdecimal(), f"{place} has a canary that is a word"
        return f"-{plain}" if negative else plain

    def keep(self, place: str, word: str) -> str:
        """One that somebody else has made."""
        return self.words.setdefault(place, word)

    def singing(self, *texts: str) -> dict[str, str]:
        """Which of them got out, each with the line in which it did."""
        lines = [line for text in texts for line in text.splitlines()]
        heard = {
            place: [line for line in lines if word.lower() in line.lower()]
            for place, word in self.words.items()
        }
        return {place: found[0] for place, found in heard.items() if found}


def command_lines(pids: Iterable[int]) -> str:
    """What other users of this machine can read of these processes and of all that came of them."""
    return "\n".join(
        stat.parent.joinpath("cmdline").read_bytes().decode(errors="replace").replace("\0", " ")
        for stat in Path("/proc").glob("[0-9]*/stat")
        if _parents(stat) & set(pids)
    )


def _parents(stat: Path) -> set[int]:
    found: set[int] = set()
    try:
        while stat.exists() and int(stat.parent.name) > 1:
            found.add(int(stat.parent.name))
            stat = Path("/proc", stat.read_text().rpartition(")")[2].split()[1], "stat")
    except OSError:
        pass  # it has just ended
    return found
