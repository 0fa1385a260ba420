"""
Keeps the agent's program running: started with the first turn, started again when it has died.
"""

from __future__ import annotations

import asyncio

from turngate.gateway.agents.acp.peer import Peer
from turngate.gateway.agents.spec import AgentSpec
from turngate.gateway.domain.backoff import Backoff
from turngate.gateway.domain.errors import AgentUnavailable

_BACKOFF = Backoff(first=0.5, longest=60.0)
# A turn waits so long for a program that is to be started again; else another agent may do better.
_WORTH_WAITING = 1.0


class AgentProcess:
    """Has one program that takes turns, and perhaps others that finish what runs in them."""

    def __init__(self, spec: AgentSpec) -> None:
        self._spec = spec
        self._peer: Peer | None = None
        self._peers: set[Peer] = set()
        self._starting = asyncio.Lock()
        self._deaths = 0
        self._not_before = 0.0

    async def running(self) -> Peer:
        """The program, started if there is none. Raises AgentUnavailable or AgentRefused."""
        async with self._starting:
            if self._peer is not None and not self._peer.is_alive:
                await self._died(self._peer)
            if self._peer is None:
                self._peer = await self._started()
                self._peers.add(self._peer)
            return self._peer

    @property
    def at_hand(self) -> Peer | None:
        """The program, if it runs; it is not started."""
        return self._peer if self._peer is not None and self._peer.is_alive else None

    def praise(self) -> None:
        """A turn went well: whatever killed the program before is over."""
        self._deaths = 0

    def retire(self, peer: Peer) -> None:
        """It takes no more turns, and ends when those that run in it have."""
        peer.is_spoilt = True
        if self._peer is peer:
            self._peer = None

    async def look_after(self, peer: Peer) -> None:
        """A turn has left it: perhaps it is dead, or was the last that held it."""
        if not peer.is_alive:
            await self._died(peer)
        if peer.is_spoilt and not peer.talks:
            await self._end(peer)

    async def close(self) -> None:
        """End them all."""
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
        """Many turns may find out, and one tidies up."""
        if self._peer is peer:
            self._peer = None
            self._pause()
            await self._end(peer)

    def _pause(self) -> None:
        """Longer each time, until a turn went well."""
        pause = _BACKOFF.pause(self._deaths)
        self._deaths += 1
        self._not_before = asyncio.get_running_loop().time() + pause

    async def _end(self, peer: Peer) -> None:
        if peer in self._peers:
            self._peers.discard(peer)
            await peer.close()
