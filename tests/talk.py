"""Short ways to talk to a store in tests."""

from __future__ import annotations

from tests.fakes import assistant, dm, message, user
from turngate.gateway.domain.ids import SessionKey
from turngate.gateway.domain.messages import InboundMessage, SessionSource
from turngate.gateway.domain.outbox import Part
from turngate.gateway.domain.ports.store import Store
from turngate.gateway.domain.session import ResetPolicy, Session
from turngate.gateway.domain.store_values import (
    Begun,
    Claim,
    Opening,
    Outcome,
)
from turngate.gateway.domain.usage import Spent
from turngate.gateway.rules.session_keys import build_session_key


def opening(source: SessionSource | None = None, policy: ResetPolicy | None = None) -> Opening:
    """How a message from there asks for its session."""
    source = source or dm()
    return Opening(
        key=build_session_key(source),
        source=source,
        owner=f"{source.platform}:{source.user_id}",
        policy=policy or ResetPolicy(),
    )


def key_of(source: SessionSource | None = None) -> SessionKey:
    """The key of that place."""
    return build_session_key(source or dm())


async def begin(store: Store, inbound: InboundMessage, policy: ResetPolicy | None = None) -> Begun:
    """Accept a message and start its turn."""
    asked = opening(inbound.source, policy)
    accepted = await store.accept(inbound, asked.key)
    return await store.begin(
        Claim(inbox=(accepted.id,), opening=asked, entries=(user(inbound.text),), history=50)
    )


async def exchange(
    store: Store,
    text: str = "hello",
    *,
    id: str = "1",  # noqa: A002
    source: SessionSource | None = None,
    answer: str = "hi",
    policy: ResetPolicy | None = None,
    spent: Spent | None = None,
) -> Session:
    """A whole turn: asked, answered, ready to be sent."""
    begun = await begin(store, message(text, id=id, source=source), policy)
    outcome = Outcome(
        entries=(assistant(answer),),
        spent=spent or Spent(),
        parts=(Part(target=begun.opened.session.origin, text=answer),),
    )
    await store.finish(begun.turn, outcome)
    return await store.session(begun.opened.session.id)


async def texts(store: Store, session: Session) -> list[str]:
    """What the live transcript says."""
    return [entry.text for entry in (await store.transcript(session.id)).entries]
