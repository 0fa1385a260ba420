"""
Asking Telegram for updates.

The number that is sent with a question confirms everything before it. So it is sent only after all of that was stored,
and only once: numbers begin anew after a week of silence, and an old one would then confirm what nobody has read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from aiogram.methods import DeleteWebhook
from aiogram.methods.base import TelegramMethod

from turngate.adapters.telegram.account import Patience
from turngate.adapters.telegram.api import Api, Conflict, WebhookIsSet
from turngate.adapters.telegram.intake import Intake, Raw, number_of
from turngate.adapters.telegram.normalise import HANDLED
from turngate.gateway.domain.errors import Retryable, Throttled

MOST_AT_ONCE = 100

_FAILURES_IN_A_ROW = 3


class GetRawUpdates(TelegramMethod[list[dict[str, Any]]]):
    """getUpdates, without looking into the updates: one that aiogram does not know would spoil all of them."""

    __returning__ = list[dict[str, Any]]
    __api_method__ = "getUpdates"

    offset: int | None = None
    limit: int = MOST_AT_ONCE
    timeout: int = 0
    allowed_updates: list[str]


async def poll(api: Api, intake: Intake, patience: Patience, progress: Callable[[], None]) -> None:
    """
    Until cancelled. `progress` is called with every answer.

    Raises Unauthorized, Conflict, what a store raises, and Retryable when Telegram has failed several times in a row.
    """
    offset, wait, failures = (
        None,
        0,
        0,
    )  # the first question does not wait, so that one is known to receive at once
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
            await asyncio.sleep(patience.pause * failures)
            continue
        numbers = [number_of(update) for update in updates]
        progress()
        if is_new:
            intake.offer_commands()
            is_new = False
        await intake.take(updates)
        offset, wait, failures = max(numbers) + 1 if numbers else None, patience.poll, 0


async def _ask(api: Api, offset: int | None, wait: int) -> list[Raw]:
    asking = GetRawUpdates(offset=offset, timeout=wait, allowed_updates=list(HANDLED))
    try:
        return [*await api.call(asking, wait=wait)]
    except WebhookIsSet:
        # The operator says that we are to ask. What waits for the webhook stays, and is handed out here.
        await api.call(DeleteWebhook(drop_pending_updates=False))
        return [*await api.call(asking, wait=wait)]
