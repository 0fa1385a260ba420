"""
Notify agents of sessions that have ended, so that each can keep what it needs.

Pending notices are stored in the transaction that ends the session, and each attempt is counted
before it is made. An agent is notified at least once, however often the daemon crashes, and at most
three times.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from datetime import timedelta

from turngate.gateway.domain.errors import StoreError, UnknownSession
from turngate.gateway.domain.ports.agent import TakesSessionEnd
from turngate.gateway.domain.ports.clock import Clock
from turngate.gateway.domain.ports.store import Store
from turngate.gateway.domain.session import Session
from turngate.gateway.domain.store_values import EndedSession
from turngate.gateway.domain.transcript import Entry
from turngate.gateway.observability.observer import Observer
from turngate.gateway.rules.policy import ConfiguredAgent, Policy
from turngate.gateway.stores.session_files import SessionFiles
from turngate.gateway.turns.agent_input import concluded

MOST_TRIES = 3
TIMEOUT = timedelta(minutes=1)
EVERY = timedelta(seconds=5)

# From the beginning of an attempt. A service that is being restarted is back by then.
_PAUSES = timedelta(minutes=5), timedelta(minutes=30), timedelta(minutes=30)
_AT_ONCE = 4
_PAGE = 100


@dataclass(slots=True, kw_only=True)
class SessionEndNotices:
    """The task that notifies agents, a few at a time. No turn waits for it."""

    policy: Policy
    store: Store
    files: SessionFiles
    clock: Clock
    observer: Observer
    _room: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_AT_ONCE))

    async def run(self) -> None:
        """Run until cancelled."""
        while True:
            try:
                await self.tell()
            except StoreError as exc:
                self.observer.store_failed(exc)
            # Nobody waits for it: its bug must not end the gateway's other tasks.
            except Exception as exc:  # noqa: BLE001
                self.observer.bug(exc)
            await asyncio.sleep(EVERY.total_seconds())

    async def tell(self) -> None:
        """
        Send all notices that are due. Each is confirmed, postponed or dropped, so the loop ends.
        """
        while endings := await self.store.endings(limit=_PAGE):
            # Without `return_exceptions` the first error would leave the others running unattended.
            outcomes = await asyncio.gather(
                *map(self._tell_in_turn, endings), return_exceptions=True
            )
            for error in filter(None, outcomes):
                raise error

    async def _tell_in_turn(self, ending: EndedSession) -> None:
        async with self._room:
            await self._tell(ending)

    async def _tell(self, ending: EndedSession) -> None:
        session = ending.session
        configured = self.policy.agent_of(ending.session)
        if not isinstance(configured.agent, TakesSessionEnd):
            return await self.store.record_told(session.id)
        # Only after a crash during the last attempt; otherwise it was dropped below.
        if ending.attempts >= MOST_TRIES:
            return await self._let_go(session, configured)

        # Counted before the agent is called: one that kills the daemon does so three times at most.
        retry_at = self.clock.now() + _PAUSES[ending.attempts]
        if not await self.store.record_telling(session.id, retry_at=retry_at):
            return None  # resumed or deleted since the list was read
        if await self._heard(configured.agent, configured, session):
            await self.store.record_told(session.id)
        elif ending.attempts + 1 >= MOST_TRIES:
            await self._let_go(session, configured)

        return None

    async def _heard(
        self, agent: TakesSessionEnd, configured: ConfiguredAgent, session: Session
    ) -> bool:
        try:
            history = await self._read(session)
        except UnknownSession:
            return True  # deleted: there is nothing left to report

        try:
            async with asyncio.timeout(TIMEOUT.total_seconds()):
                await agent.session_end(
                    concluded(self.policy, configured, session, history, self.files)
                )
        # Somebody's agent: whatever it raises, it is asked again.
        except Exception as exc:  # noqa: BLE001
            self.observer.ending_not_heard(session.id, configured.name, exc)
            return False

        return True

    async def _read(self, session: Session) -> list[Entry]:
        """Return the summary, if there is one, and the entries after it."""
        # A summary that is itself archived is read only on request.
        is_archived = 0 < session.summary_seq <= session.archived_through
        entries = (await self.store.transcript(session.id, with_archived=is_archived)).entries
        floor = max(session.archived_through, session.consolidated_through)
        summary = [entry for entry in entries if entry.seq == session.summary_seq]
        return summary + [
            entry for entry in entries if entry.seq > floor and entry.seq != session.summary_seq
        ]

    async def _let_go(self, session: Session, configured: ConfiguredAgent) -> None:
        self.observer.session_end_dropped(session.id, configured.name, MOST_TRIES)
        await self.store.record_told(session.id)
