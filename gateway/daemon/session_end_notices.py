"""
Tells agents of conversations that are over, so that each may keep what it wants of them.

What is still to be told is on disk, written when the session ended; each try is counted there before it is made. So an
agent hears of an ending at least once, however often the daemon dies, and after three tries that failed never again.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from datetime import timedelta

from turngate.gateway.domain.errors import StoreError, UnknownSession
from turngate.gateway.domain.messages import Entry, Session
from turngate.gateway.domain.ports.adapter import Clock, HearsOfEndings
from turngate.gateway.domain.ports.store import Ending, Store
from turngate.gateway.observability.observer import Observer
from turngate.gateway.rules.policy import ConfiguredAgent, Policy
from turngate.gateway.stores.session_files import Files
from turngate.gateway.turns.agent_input import concluded

MOST_TRIES = 3
PATIENCE = timedelta(minutes=1)
EVERY = timedelta(seconds=5)

# From the beginning of a try. A service that is being restarted is there again by then.
_PAUSES = timedelta(minutes=5), timedelta(minutes=30), timedelta(minutes=30)
_AT_ONCE = 4
_PAGE = 100


@dataclass(slots=True, kw_only=True)
class SessionEndNotices:
    """Works beside all turns, a few agents at a time, so that nobody ever waits for it."""

    policy: Policy
    store: Store
    files: Files
    clock: Clock
    observer: Observer
    _room: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_AT_ONCE))

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            try:
                await self.tell()
            except StoreError as exc:
                self.observer.store_failed(exc)
            except Exception as exc:  # noqa: BLE001 - nobody waits for it: its bug must not end the gateway's other tasks
                self.observer.bug(exc)
            await asyncio.sleep(EVERY.total_seconds())

    async def tell(self) -> None:
        """Of all that are to be told now. Each is told, or put off, or let go, so that this comes to an end."""
        while endings := await self.store.endings(limit=_PAGE):
            outcomes = await asyncio.gather(
                *map(self._tell_in_turn, endings), return_exceptions=True
            )
            for error in filter(None, outcomes):
                raise error

    async def _tell_in_turn(self, ending: Ending) -> None:
        async with self._room:
            await self._tell(ending)

    async def _tell(self, ending: Ending) -> None:
        session, employed = ending.session, self.policy.agent_of(ending.session)
        if not isinstance(employed.agent, HearsOfEndings):
            return await self.store.record_told(session.id)
        if ending.attempts >= MOST_TRIES:
            return await self._let_go(session, employed)
        retry_at = self.clock.now() + _PAUSES[ending.attempts]
        if not await self.store.record_telling(session.id, retry_at=retry_at):
            return None  # somebody has taken the conversation up again, or deleted it
        if await self._heard(employed.agent, employed, session):
            await self.store.record_told(session.id)
        elif ending.attempts + 1 >= MOST_TRIES:
            await self._let_go(session, employed)
        return None

    async def _heard(
        self, agent: HearsOfEndings, employed: ConfiguredAgent, session: Session
    ) -> bool:
        try:
            history = await self._read(session)
        except UnknownSession:
            return True  # deleted: there is nothing to tell
        try:
            async with asyncio.timeout(PATIENCE.total_seconds()):
                await agent.session_end(
                    concluded(self.policy, employed, session, history, self.files)
                )
        except Exception as exc:  # noqa: BLE001 - somebody's agent: whatever it raises, it is asked again
            self.observer.ending_not_heard(session.id, employed.name, exc)
            return False
        return True

    async def _read(self, session: Session) -> list[Entry]:
        """The summary, if there is one, and what was said after it."""
        is_archived = 0 < session.summary_seq <= session.archived_through
        entries = (await self.store.transcript(session.id, with_archived=is_archived)).entries
        floor = max(session.archived_through, session.consolidated_through)
        summary = [entry for entry in entries if entry.seq == session.summary_seq]
        return summary + [
            entry for entry in entries if entry.seq > floor and entry.seq != session.summary_seq
        ]

    async def _let_go(self, session: Session, employed: ConfiguredAgent) -> None:
        self.observer.ending_let_go(session.id, employed.name, MOST_TRIES)
        await self.store.record_told(session.id)
