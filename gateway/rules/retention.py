"""How long sessions and their text are kept, and what remains of a deleted session. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from turngate.gateway.domain.session import EndReason, Session

_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanUpRules:
    """
    When the clean-up runs, and its age limits.

    Without `every` no session is archived or deleted for being empty. `forget_after` is longer than
    any platform redelivers a message: Telegram and our own retries keep them for a day. `keep` is
    how long text is kept; None: for ever.
    """

    every: timedelta | None = timedelta(hours=1)
    empty_after: timedelta = timedelta(hours=1)
    archive_after: timedelta = timedelta(days=30)
    forget_after: timedelta = timedelta(days=7)
    keep: timedelta | None = None


def tombstone(session: Session, now: datetime) -> Session:
    """
    Return what remains of a deleted session, so that nothing late brings it back: its identity,
    none of its content.
    """
    # Built from scratch, not by replace(): a field that is added to Session later stays out of it.
    return Session(
        id=session.id,
        key=session.key,
        owner=session.owner,
        origin=replace(session.origin, chat_name=None, user_name=None, chat_topic=None),
        started_at=session.started_at,
        last_interaction_at=session.last_interaction_at,
        updated_at=now,
        ended_at=now,
        end_reason=EndReason.DELETED,
        current=False,
    )


def is_empty(session: Session, before: datetime) -> bool:
    """
    Return whether the clean-up may delete a session: nothing was ever said, it is old enough, and
    not marked important.
    """
    return (
        not session.had_activity and not session.important and session.last_interaction_at < before
    )


def is_disused(session: Session, before: datetime) -> bool:
    """
    Return whether the clean-up may archive a session. By last interaction: a rename or a view does
    not count.
    """
    return not session.archived and not session.important and session.last_interaction_at < before


def is_over(session: Session, before: datetime) -> bool:
    """Return whether the clean-up may delete a session once its text is gone."""
    return not session.important and session.last_interaction_at < before


def said_before(now: datetime, keep: timedelta) -> datetime:
    """
    Return the time before which text is deleted, in whole days where days are meant.

    Deleting text also deletes its summaries, and writing new ones costs money, so once a day is
    enough.
    """
    before = now - keep
    return before if keep < _DAY else before.replace(hour=0, minute=0, second=0, microsecond=0)


def spared_summary(session: Session, first: int) -> int:
    """
    Return the summary's sequence number if it survives a cut of everything from `first` on, else 0.
    """
    return session.summary_seq if 0 < session.consolidated_through < first else 0


def with_moved_marks(session: Session, moved: Mapping[int, int]) -> Session:
    """
    Return the marks after entries got new sequence numbers (old to new); a mark without entries is
    removed.
    """
    mark = session.consolidated_through
    # A mark beyond the last entry is invalid: it would hide everything.
    is_valid = mark <= max(moved, default=0)
    return replace(
        session,
        consolidated_through=moved_mark(mark, moved) if is_valid else 0,
        summary_seq=moved.get(session.summary_seq, 0),
    )


def moved_mark(mark: int, moved: Mapping[int, int]) -> int:
    """Return the new sequence number of the last entry that the mark covered."""
    return max((new for old, new in moved.items() if old <= mark), default=0)
