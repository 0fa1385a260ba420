"""Which of the agent's sessions a turn belongs to, and what has to be told in it."""

from __future__ import annotations

import asyncio
import hashlib
from dataclasses import dataclass, replace

from turngate.gateway.agents.acp.peer import Peer
from turngate.gateway.agents.acp.prompt import Told
from turngate.gateway.agents.acp.session_map import (
    Held,
    SessionMap,
    is_rewound,
    last_seq,
    unheard,
)
from turngate.gateway.domain.agent_events import Turn


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundSession:
    """
    The session for a turn: as it will be remembered, what is to be told in it, and where that is
    written down.
    """

    held: Held
    told: Told
    memory: SessionMap


async def opened(peer: Peer, turn: Turn, agent: str) -> FoundSession:
    """
    The session that the agent holds for ours, else a new one in which it is told what was said.
    """
    memory = SessionMap(turn.workdir, agent)
    held = await asyncio.to_thread(memory.recall)

    if held is not None and held.session in peer.talks:
        held = None
        memory = SessionMap(None, agent)  # a turn runs in it: this one is apart from it
    elif held is not None and not await _goes_on(peer, held, turn):
        held = None

    if held is None:
        told = Told(is_first=True, entries=turn.history)
        held = Held(session=await peer.new_session(turn.workdir))
    else:
        told = _news(held, turn)

    return FoundSession(held=_asked(held, turn), told=told, memory=memory)


async def _goes_on(peer: Peer, held: Held, turn: Turn) -> bool:
    """Whether what the agent remembers is what was said."""
    return not is_rewound(held, turn.history) and await peer.holds(held.session, turn.workdir)


def _news(held: Held, turn: Turn) -> Told:
    return Told(
        is_first=False,
        system=_digest(turn.system) != held.system,
        context=_digest(turn.context) != held.context,
        entries=unheard(held, turn.history),
    )


def _asked(held: Held, turn: Turn) -> Held:
    """As it will be once this turn has been asked."""
    return replace(
        held,
        through=last_seq(turn.history),
        asked=len(turn.messages),
        system=_digest(turn.system),
        context=_digest(turn.context),
    )


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()
