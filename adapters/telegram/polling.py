"""
Long polling with getUpdates.

The offset of a request confirms all updates before it. So it is sent only after they are stored,
and only once: update ids restart after a week without updates, and an old offset would then confirm
unread ones.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from aiogram.methods import DeleteWebhook, GetUpdates

from turngate.adapters.telegram.account import Timeouts
from turngate.adapters.telegram.api import (
    Api,
    Conflict,
    WebhookIsSet,
)
from turngate.adapters.telegram.fields import Raw, number, things
from turngate.adapters.telegram.intake import Intake, number_of
from turngate.adapters.telegram.normalise import HANDLED
from turngate.gateway.domain.errors import Retryable, Throttled

MOST_AT_ONCE = 100

_FAILURES_IN_A_ROW = 3


async def poll(api: Api, intake: Intake, timeouts: Timeouts, progress: Callable[[], None]) -> None:
    """
    Poll until cancelled. `progress` is called after every answer.

    Raises Unauthorized, Conflict, errors of the store, and Retryable after several failures in a
    row.
    """
    offset = None
    failures = 0
    # The first request does not wait, so that progress is reported at once.
    wait = 0
    is_new = True

    while True:
        try:
            updates = await _ask(api, offset, wait)
        except Throttled as exc:
            await asyncio.sleep(exc.retry_after)
            continue
        except Conflict:
            raise
        except Retryable:
            failures += 1
            if failures > _FAILURES_IN_A_ROW:
                raise
            await asyncio.sleep(timeouts.pause * failures)
            continue
        numbers = [number_of(update) for update in updates]
        progress()
        if is_new:
            intake.offer_commands()
            is_new = False
        await intake.take(updates)
        offset = max(numbers) + 1 if numbers else None
        wait = timeouts.poll
        failures = 0


async def _ask(api: Api, offset: int | None, wait: int) -> list[Raw]:
    request = GetUpdates(
        offset=offset, limit=MOST_AT_ONCE, timeout=wait, allowed_updates=list(HANDLED)
    )
    try:
        answer = await api.call(request, wait=wait)
    except WebhookIsSet:
        # The config says polling. Updates queued for the webhook are kept and delivered here.
        await api.call(DeleteWebhook(drop_pending_updates=False))
        answer = await api.call(request, wait=wait)

    # What has no number is no update: nothing can be confirmed by it.
    return [each for each in things({"updates": answer}, "updates") if number(each, "update_id")]
