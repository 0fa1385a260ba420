"""Notify users whose answer a restart cuts off."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress

from turngate.gateway.domain.errors import Refused, StoreError
from turngate.gateway.domain.ids import SessionKey
from turngate.gateway.domain.messages import InboundMessage
from turngate.gateway.domain.outbox import Part, Says
from turngate.gateway.pipeline import Pipeline
from turngate.gateway.rules import outcomes

CUT_OFF = "the gateway is being restarted"

# True in both cases: a turn that may run again does; for any other the user is notified after the
# restart how to continue.
GOES_ON = "The gateway is restarting. This will be continued afterwards."


async def announce_restart(
    unanswered: Iterable[tuple[SessionKey, InboundMessage]], pipeline: Pipeline
) -> None:
    """
    Send one notice per conversation. One that cannot be sent before the stop is dropped: later it
    would be wrong.
    """
    await asyncio.gather(*(_say(key, message, pipeline) for key, message in unanswered))


async def _say(key: SessionKey, message: InboundMessage, pipeline: Pipeline) -> None:
    try:
        kept_parts = await _keep(key, message, pipeline)
    except (StoreError, Refused) as exc:
        pipeline.observer.store_failed(exc)
        return
    # Also when cancelled at its time limit: an unsent part would go out after the restart.
    try:
        await pipeline.delivery.deliver(kept_parts)
    finally:
        await _take_back(kept_parts, pipeline)


async def _keep(key: SessionKey, message: InboundMessage, pipeline: Pipeline) -> tuple[Part, ...]:
    session = await pipeline.store.current(key)
    if session is None:
        return ()
    entries = (outcomes.notice(GOES_ON, pipeline.clock.now()),)
    parts = outcomes.parts(message, GOES_ON, says=Says.NOTICE)
    return await pipeline.store.tell(session.id, entries=entries, parts=parts)


async def _take_back(kept_parts: Iterable[Part], pipeline: Pipeline) -> None:
    for part in kept_parts:
        # Refused if it was sent or is being sent; then it is still true when it arrives.
        with suppress(Refused, StoreError):
            await pipeline.store.drop_part(part.id, "the restart it spoke of is over")
