"""
Which entries a page has been sent, and which it needs next.

Entries are always read from the transcript, never built from events. If the transcript no longer
matches what a page shows (after /undo, /retry, an edit), the page needs a new snapshot.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from turngate.gateway.domain.ids import SessionId
from turngate.gateway.domain.ports.store import Store
from turngate.gateway.domain.session import Session
from turngate.gateway.domain.transcript import Entry

ENTRIES_A_PAGE = 200
# An entry may have a million characters; this limits the size of one frame.
CHARACTERS_A_PAGE = 4_000_000
FURTHEST_BACK = 10_000

Page = tuple[Sequence[Entry], str]


@dataclass(frozen=True, slots=True)
class Seen:
    """The newest entries that a page shows: sequence number and content hash of each."""

    session: SessionId | None
    marks: tuple[tuple[int, int], ...] = ()

    @classmethod
    def of(cls, session: SessionId | None, entries: Sequence[Entry]) -> Seen:
        """Return the state after exactly these entries were sent."""
        return cls(session, tuple(map(_mark, entries[-ENTRIES_A_PAGE:])))

    def added(self, newest: Sequence[Entry]) -> Sequence[Entry] | None:
        """Return the new entries among the newest, or None if the earlier ones have changed."""
        marks = [_mark(entry) for entry in newest]
        if not self.marks:
            return newest
        # The last entry shown was changed or removed, or too many are new.
        if self.marks[-1] not in marks:
            return None

        # The window of newest entries moves on, so its beginning and ours differ. Only the part
        # that both contain can be compared.
        known = marks.index(self.marks[-1]) + 1
        overlap = min(known, len(self.marks))

        return (
            newest[known:]
            if marks[known - overlap : known] == list(self.marks[-overlap:])
            else None
        )

    def grown(self, new: Sequence[Entry]) -> Seen:
        """Return the state after these entries were sent too."""
        return Seen(self.session, (*self.marks, *map(_mark, new))[-ENTRIES_A_PAGE:])


async def newest(store: Store, session: Session | None) -> Page:
    """Return the last page of a session."""
    if session is None:
        return (), "none"
    # One more than a page shows whether there are earlier entries.
    read = await store.transcript(session.id, last=ENTRIES_A_PAGE + 1, with_archived=True)
    return _last_page(read.entries)


async def before(store: Store, session: Session, seq: int) -> Page:
    """
    Return the page before an entry. Beyond FURTHEST_BACK, only the command line shows older
    entries.
    """
    read = await store.transcript(session.id, last=FURTHEST_BACK, with_archived=True)
    older = [entry for entry in read.entries if entry.seq < seq]
    page, earlier = _last_page(older)
    reached = earlier == "none" and len(read.entries) == FURTHEST_BACK
    return page, "elsewhere" if reached else earlier


def _last_page(entries: Sequence[Entry]) -> Page:
    room = CHARACTERS_A_PAGE
    start = len(entries)
    while start and len(entries) - start < ENTRIES_A_PAGE:
        room -= len(entries[start - 1].text)
        # At least one entry is shown, however long it is.
        if room < 0 and start < len(entries):
            break
        start -= 1
    return entries[start:], "more" if start else "none"


def _mark(entry: Entry) -> tuple[int, int]:
    # An entry may have a million characters, so a tab keeps its hash. It is compared only within
    # this process: Python's string hash has another seed in the next one.
    return entry.seq, hash(entry)
