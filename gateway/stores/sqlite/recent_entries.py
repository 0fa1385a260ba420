"""
A cache of the newest entries of recently used sessions, so that the next turn of an active chat
reads no history.

Writer thread only. It is changed together with the rows, inside their transaction, so a rollback
must clear it. Its size is bounded by sessions, entries and characters.
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
    """Entries by session number; the least recently used session is evicted first."""

    def __init__(self) -> None:
        self._tails: OrderedDict[int, _Tail] = OrderedDict()
        self._longest = 0

    def __len__(self) -> int:
        return len(self._tails)

    def newest(self, n: int, count: int) -> list[Entry] | None:
        """Return the last `count` entries, or None if they are not all cached."""
        tail = self._tails.get(n)
        if tail is None or (len(tail.entries) < count and not tail.is_whole):
            return None
        self._tails.move_to_end(n)
        return tail.entries[-count:] if count else []

    def remember(self, n: int, entries: Sequence[Entry], count: int) -> None:
        """Cache the result of reading the last `count` entries."""
        self._longest = max(self._longest, count)
        self._tails[n] = _Tail(
            list(entries), is_whole=len(entries) < count, characters=_characters(entries)
        )
        self._tails.move_to_end(n)
        self._bound(n)

    def extend(self, n: int, entries: Sequence[Entry]) -> None:
        """Add entries that were appended, if the session is cached."""
        tail = self._tails.get(n)
        if tail is None:
            return

        tail.entries += entries
        tail.characters += _characters(entries)
        # Cut from twice the needed length back to once: cutting at each append would copy the list
        # each time.
        if len(tail.entries) > 2 * self._longest:
            # `or None`: with a length of 0, [:-0] would delete nothing.
            del tail.entries[: -self._longest or None]
            tail.is_whole = False
            tail.characters = _characters(tail.entries)

        self._bound(n)

    def forget(self, n: int) -> None:
        """Drop a session whose entries were changed or deleted."""
        self._tails.pop(n, None)

    def clear(self) -> None:
        """Drop everything, after a rollback."""
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
