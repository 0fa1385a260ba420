"""
The newest entries of the sessions that were used last, decoded: the next turn of a lively chat
reads no history at all.

Belongs to the writer thread. It is changed together with the rows, inside their transaction, so a
transaction that is rolled back must clear it. What it holds is bounded by sessions, entries and
characters, whatever the database holds.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

from turngate.gateway.domain.transcript import Entry, Text

_SESSIONS = 256
_CHARACTERS_OF_A_SESSION = 65_536


@dataclass(slots=True)
class _Tail:
    entries: list[Entry]
    is_whole: bool
    characters: int


class RecentEntries:
    """By session number, the one used longest ago goes first."""

    def __init__(self) -> None:
        self._tails: OrderedDict[int, _Tail] = OrderedDict()
        self._longest = 0

    def __len__(self) -> int:
        return len(self._tails)

    def newest(self, n: int, count: int) -> list[Entry] | None:
        """The last `count` entries, or None if they are not all here."""
        tail = self._tails.get(n)
        if tail is None or (len(tail.entries) < count and not tail.is_whole):
            return None
        self._tails.move_to_end(n)
        return tail.entries[-count:] if count else []

    def remember(self, n: int, entries: Sequence[Entry], count: int) -> None:
        """What a reading of the last `count` found."""
        self._longest = max(self._longest, count)
        self._tails[n] = _Tail(
            list(entries), is_whole=len(entries) < count, characters=_characters(entries)
        )
        self._tails.move_to_end(n)
        self._bound(n)

    def extend(self, n: int, entries: Sequence[Entry]) -> None:
        """They were appended."""
        tail = self._tails.get(n)
        if tail is None:
            return

        tail.entries += entries
        tail.characters += _characters(entries)
        # Twice what is asked for, then back to once: a list that lost its head each time would be
        # copied each time.
        if len(tail.entries) > 2 * self._longest:
            del tail.entries[: -self._longest or None]
            tail.is_whole = False
            tail.characters = _characters(tail.entries)

        self._bound(n)

    def forget(self, n: int) -> None:
        """They were changed in some other way."""
        self._tails.pop(n, None)

    def clear(self) -> None:
        """A transaction was rolled back: nothing here can be trusted."""
        self._tails.clear()

    def _bound(self, n: int) -> None:
        if self._tails[n].characters > _CHARACTERS_OF_A_SESSION:
            del self._tails[n]
        elif len(self._tails) > _SESSIONS:
            self._tails.popitem(last=False)


def _characters(entries: Sequence[Entry]) -> int:
    return sum(_weight(entry) for entry in entries)


def _weight(entry: Entry) -> int:
    words = sum(len(block.text) for block in entry.content if isinstance(block, Text))
    if entry.tool_calls:
        words += sum(len(call.arguments) for call in entry.tool_calls)
    return words + len(entry.reasoning.text) if entry.reasoning else words
