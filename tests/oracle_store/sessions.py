"""
Sessions: find, make, change and end them, for the store in memory. Its caller holds the lock and
tells the time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime

from tests.oracle_store.endings import MemoryEndings
from turngate.gateway.domain.errors import Refused, UnknownSession
from turngate.gateway.domain.ids import SessionId, SessionKey
from turngate.gateway.domain.messages import SessionSource
from turngate.gateway.domain.session import (
    EndReason,
    Opened,
    ResetPolicy,
    Session,
)
from turngate.gateway.domain.store_values import Opening, SessionFilter
from turngate.gateway.rules.retention import tombstone
from turngate.gateway.rules.session_lifecycle import (
    OpenDecision,
    due_before,
    end_session,
    next_session,
    open_session,
    reset_due,
    resumed,
    touched,
)
from turngate.gateway.stores.texts import scrub, scrubbed

IsBusy = Callable[[SessionId], bool]


class MemorySessions:
    """
    By id, in the order in which they were made. Whatever ends here is noted among the endings.
    """

    def __init__(self, numbers: Iterator[int], endings: MemoryEndings) -> None:
        self._numbers = numbers
        self._endings = endings
        self._sessions: dict[SessionId, Session] = {}

    def find(self, session: SessionId) -> Session | None:
        """Unless it never was, or was deleted."""
        found = self._sessions.get(SessionId(scrub(session)))
        return None if found is None or found.end_reason is EndReason.DELETED else found

    def existing(self, session: SessionId) -> Session:
        """UnknownSession for one that never was, and for one that was deleted."""
        found = self.find(session)
        if found is None:
            raise UnknownSession(f"there is no session {session}; it may have been deleted")
        return found

    def current(self, key: SessionKey) -> Session | None:
        """The session a key points at."""
        return next(
            (
                session
                for session in self._sessions.values()
                if session.key == key and session.current
            ),
            None,
        )

    def all(self) -> list[Session]:
        """What is left of deleted ones too."""
        return list(self._sessions.values())

    def listed(self, wanted: SessionFilter, now: datetime) -> list[Session]:
        """Newest interaction first."""
        since = None if wanted.active_within is None else now - wanted.active_within
        found = [
            session
            for session in reversed(self._sessions.values())
            if session.end_reason is not EndReason.DELETED
            and wanted.key in (None, session.key)
            and wanted.owner in (None, session.owner)
            and wanted.archived in (None, session.archived)
            and (session.current or not wanted.current_only)
            and (since is None or session.last_interaction_at >= since)
        ]
        limit = None if wanted.limit is None else max(wanted.limit, 0)
        return sorted(found, key=lambda session: session.last_interaction_at, reverse=True)[:limit]

    def add(self, session: Session) -> Session:
        """A new one; returns what was stored."""
        session = scrubbed(session)
        self._sessions[session.id] = session
        return session

    def put(self, session: Session) -> None:
        """As it is from now on."""
        self._sessions[session.id] = session

    def amend(
        self, session: SessionId, change: Callable[[Session], Session], now: datetime
    ) -> None:
        """Change what is known of it."""
        self.put(scrubbed(touched(change(self.existing(session)), now)))

    def decide(self, opening: Opening, now: datetime, is_busy: IsBusy) -> OpenDecision:
        """Which session a key is to have; nothing has happened yet."""
        return open_session(
            self.current(opening.key), opening, now=now, fresh_id=self._fresh_id, is_busy=is_busy
        )

    def open(self, decision: OpenDecision, now: datetime) -> Opened:
        """Let it happen."""
        if decision.ended is not None:
            if self._sessions[decision.ended.id].end_reason is None:
                self._endings.note(decision.ended)
            self.put(decision.ended)
        session = self.add(decision.session) if decision.is_new else decision.session
        return Opened(session=session, is_new=decision.is_new)

    def reset(self, key: SessionKey, title: str | None, now: datetime) -> Session:
        """
        End the current session and start a fresh one. The user asked for it, so there is nothing to
        be told.
        """
        found = self.current(key)
        if found is None:
            raise UnknownSession("there is no conversation here yet, so there is nothing to reset")
        self._retire(found, EndReason.RESET, now)
        fresh = next_session(found, now=now, fresh_id=self._fresh_id(), title=title)
        return self.add(replace(fresh, notice=None))

    def switch(self, key: SessionKey, target: SessionId, now: datetime) -> Session:
        """Point a key at an earlier session of its own."""
        wanted = self.existing(target)
        if wanted.key != key:
            raise Refused(f"session {target} belongs to another conversation")
        if wanted.current and wanted.end_reason is None:
            return wanted
        found = self.current(key)
        if found is not None and found.id != wanted.id:
            self._retire(found, EndReason.SWITCH, now)
        back = resumed(wanted, now)
        self._endings.forget(back.id)
        self.put(back)
        return back

    def end_if_due(
        self, session: SessionId, opening: Opening, now: datetime, is_busy: IsBusy
    ) -> EndReason | None:
        """
        End a current one whose time has come; its key goes on pointing at it until somebody writes.
        """
        found = self.existing(session)
        if not found.current or found.end_reason is not None:
            return None
        reason = reset_due(found, opening.policy, now, is_busy)
        if reason is not None:
            self._endings.note(found)
            self.put(end_session(found, reason, now))
        return reason

    def move_chat(
        self, old: SessionSource, chat_id: str, key_of: Callable[[SessionSource], SessionKey]
    ) -> int:
        """The one change that touches keys; a current one gives way to what is there already."""
        here = (old.platform, old.account, old.chat_id)
        moving = [
            session
            for session in self._sessions.values()
            if (session.origin.platform, session.origin.account, session.origin.chat_id) == here
            and session.end_reason is not EndReason.DELETED
        ]
        for session in moving:
            origin = replace(session.origin, chat_id=chat_id)
            key = key_of(origin)
            is_current = session.current and self.current(key) is None
            self.put(replace(session, origin=origin, key=key, current=is_current))
        return len(moving)

    def free_id(self, session: Session | None) -> SessionId:
        """
        An imported session's own id if that was never taken here, by a deleted one either; else a
        fresh one.
        """
        wanted = SessionId(scrub(session.id)) if session is not None else None
        return wanted if wanted and wanted not in self._sessions else self._fresh_id()

    def bury(self, session: Session, now: datetime) -> None:
        """A tombstone is left, so that nothing late brings it back."""
        self._endings.forget(session.id)
        self.put(tombstone(session, now))

    def forget(self, session: SessionId) -> None:
        """The tombstone too."""
        del self._sessions[session]

    def _retire(self, session: Session, reason: EndReason, now: datetime) -> None:
        """No longer current; a reason that was there before stays."""
        if session.end_reason is None:
            self._endings.note(session)
            session = end_session(session, reason, now)
        self.put(replace(session, current=False))

    def _fresh_id(self) -> SessionId:
        return SessionId(f"s_{next(self._numbers)}")


def may_be_due(session: Session, policy: ResetPolicy, now: datetime) -> bool:
    """By its clocks alone: whether it is busy is asked when it is ended."""
    before = due_before(policy, now)
    is_open = session.current and session.end_reason is None
    return is_open and before is not None and session.last_interaction_at < before
