"""Find the agent's session for a turn, and decide what has to be sent in it."""

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
    """The session for a turn: its state after the prompt, what to send, and where to store it."""

    held: Held
    told: Told
    memory: SessionMap


async def opened(peer: Peer, turn: Turn, agent: str) -> FoundSession:
    """Return the session that the agent holds for ours, else a new one that gets the history."""
    memory = SessionMap(turn.workdir, agent)
    held = await asyncio.to_thread(memory.recall)

    if held is not None and held.session in peer.talks:
        # A turn runs in it, and a session takes one prompt at a time. This turn gets a session of
        # its own, which is not stored: the other stays the one of this conversation.
        held = None
        memory = SessionMap(None, agent)
    elif held is not None and not await _goes_on(peer, held, turn):
        held = None

    if held is None:
        told = Told(is_first=True, entries=turn.history)
        held = Held(session=await peer.new_session(turn.workdir))
    else:
        told = _news(held, turn)

    return FoundSession(held=_asked(held, turn), told=told, memory=memory)


async def _goes_on(peer: Peer, held: Held, turn: Turn) -> bool:
    """Return whether the agent's session exists and agrees with the transcript."""
    return not is_rewound(held, turn.history) and await peer.holds(held.session, turn.workdir)


def _news(held: Held, turn: Turn) -> Told:
    return Told(
        is_first=False,
        system=_digest(turn.system) != held.system,
        context=_digest(turn.context) != held.context,
        entries=unheard(held, turn.history),
    )


def _asked(held: Held, turn: Turn) -> Held:
    """Return the state after the prompt of this turn."""
    return replace(
        held,
        through=last_seq(turn.history),
        asked=len(turn.messages),
        system=_digest(turn.system),
        context=_digest(turn.context),
    )


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()
