"""
The lifecycle of the agent's program: started by the first turn, restarted with backoff after its
death.
"""

from __future__ import annotations

import asyncio

from turngate.gateway.agents.acp.peer import Peer
from turngate.gateway.agents.spec import AgentSpec
from turngate.gateway.domain.backoff import Backoff
from turngate.gateway.domain.errors import AgentUnavailable

_BACKOFF = Backoff(first=0.5, longest=60.0)
# Seconds that a turn waits for a restart. If it takes longer, the turn fails, and a retry or
# a fallback follows.
_WORTH_WAITING = 1.0


class AgentProcess:
    """One program for new turns, and possibly retired ones that finish their last turns."""

    def __init__(self, spec: AgentSpec) -> None:
        self._spec = spec
        self._peer: Peer | None = None
        self._peers: set[Peer] = set()
        self._starting = asyncio.Lock()
        self._deaths = 0
        self._not_before = 0.0

    async def running(self) -> Peer:
        """Return the program, started if needed. Raises AgentUnavailable or AgentRefused."""
        # Turns that arrive together must not start one program each.
        async with self._starting:
            if self._peer is not None and not self._peer.is_alive:
                await self._died(self._peer)
            if self._peer is None:
                self._peer = await self._started()
                self._peers.add(self._peer)
            return self._peer

    @property
    def at_hand(self) -> Peer | None:
        """Return the program if it runs, without starting it."""
        return self._peer if self._peer is not None and self._peer.is_alive else None

    def praise(self) -> None:
        """Reset the backoff after a successful turn."""
        self._deaths = 0

    def retire(self, peer: Peer) -> None:
        """Send it no more turns. `look_after` ends it after the last of those that run."""
        peer.is_spoilt = True
        if self._peer is peer:
            self._peer = None

    async def look_after(self, peer: Peer) -> None:
        """End a program that a turn has left, if it is dead, or retired and without turns."""
        if not peer.is_alive:
            await self._died(peer)
        if peer.is_spoilt and not peer.talks:
            await self._end(peer)

    async def close(self) -> None:
        """End all programs."""
        peers = self._peers
        self._peers = set()
        self._peer = None
        await asyncio.gather(*(peer.close() for peer in peers))

    async def _started(self) -> Peer:
        wait = self._not_before - asyncio.get_running_loop().time()
        if wait > _WORTH_WAITING:
            raise AgentUnavailable(
                "the agent's program ended and is not started again yet", retry_after=wait
            )

        await asyncio.sleep(max(wait, 0))
        try:
            return await Peer.start(self._spec)
        except AgentUnavailable:
            self._pause()
            raise

    async def _died(self, peer: Peer) -> None:
        # Every turn of a dead program gets here, and only the first may count the death.
        if self._peer is peer:
            self._peer = None
            self._pause()
            await self._end(peer)

    def _pause(self) -> None:
        pause = _BACKOFF.pause(self._deaths)
        self._deaths += 1
        self._not_before = asyncio.get_running_loop().time() + pause

    async def _end(self, peer: Peer) -> None:
        if peer in self._peers:
            # Before the await: another turn may get here while the program is being closed.
            self._peers.discard(peer)
            await peer.close()
