"""
Which entries a page has been shown, and which it must be shown next.

The transcript is the one truth: nothing here is taken from events. A page that is shown something the transcript no
longer says (after /undo, /retry, an edit) is told to start anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from turngate.gateway.domain.messages import Entry, Session, SessionId
from turngate.gateway.domain.ports.store import Store

ENTRIES_A_PAGE = 200
# An entry may hold a million characters; a page must stay what a browser can be sent.
CHARACTERS_A_PAGE = 4_000_000
FURTHEST_BACK = 10_000

Page = tuple[Sequence[Entry], str]


@dataclass(frozen=True, slots=True)
class Seen:
    """What one page holds of the newest entries: for each its place, and what it said."""

    session: SessionId | None
    marks: tuple[tuple[int, int], ...] = ()

    @classmethod
    def of(cls, session: SessionId | None, entries: Sequence[Entry]) -> Seen:
        """After a page was sent exactly these."""
        return cls(session, tuple(map(_mark, entries[-ENTRIES_A_PAGE:])))

    def added(self, newest: Sequence[Entry]) -> Sequence[Entry] | None:
        """What is new among the newest entries, or None if the rest is no longer what was shown."""
        marks = [_mark(entry) for entry in newest]
        if not self.marks:
            return newest
        if self.marks[-1] not in marks:
            return None
        known = marks.index(self.marks[-1]) + 1
        overlap = min(known, len(self.marks))
        return (
            newest[known:]
            if marks[known - overlap : known] == list(self.marks[-overlap:])
            else None
        )

    def grown(self, new: Sequence[Entry]) -> Seen:
        """After these were sent too."""
        return Seen(self.session, (*self.marks, *map(_mark, new))[-ENTRIES_A_PAGE:])


async def newest(store: Store, session: Session | None) -> Page:
    """The last page of a session."""
    if session is None:
        return (), "none"
    read = await store.transcript(session.id, last=ENTRIES_A_PAGE + 1, with_archived=True)
    return _last_page(read.entries)


async def before(store: Store, session: Session, seq: int) -> Page:
    """The page that ends before an entry. Further back than we reach, the command line shows it."""
    read = await store.transcript(session.id, last=FURTHEST_BACK, with_archived=True)
    older = [entry for entry in read.entries if entry.seq < seq]
    page, earlier = _last_page(older)
    reached = earlier == "none" and len(read.entries) == FURTHEST_BACK
    return page, "elsewhere" if reached else earlier


def _last_page(entries: Sequence[Entry]) -> Page:
    room, start = CHARACTERS_A_PAGE, len(entries)
    while start and len(entries) - start < ENTRIES_A_PAGE:
        room -= len(entries[start - 1].text)
        if room < 0 and start < len(entries):
            break
        start -= 1
    return entries[start:], "more" if start else "none"


def _mark(entry: Entry) -> tuple[int, int]:
    return entry.seq, hash(entry)
