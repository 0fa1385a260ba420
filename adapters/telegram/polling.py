"""
Long polling with getUpdates.

The offset of a request confirms all updates before it. So it is sent only after they are stored,
and only once: update ids restart after a week without updates, and an old offset would then confirm
unread ones.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from aiogram.methods import DeleteWebhook
from aiogram.methods.base import TelegramMethod

from turngate.adapters.telegram.account import Timeouts
from turngate.adapters.telegram.api import (
    Api,
    Conflict,
    WebhookIsSet,
)
from turngate.adapters.telegram.intake import (
    Intake,
    Raw,
    number_of,
)
from turngate.adapters.telegram.normalise import HANDLED
from turngate.gateway.domain.errors import Retryable, Throttled

MOST_AT_ONCE = 100

_FAILURES_IN_A_ROW = 3


class GetRawUpdates(TelegramMethod[list[dict[str, Any]]]):
    """getUpdates without parsing: one update unknown to aiogram would fail the whole batch."""

    __returning__ = list[dict[str, Any]]
    __api_method__ = "getUpdates"

    offset: int | None = None
    limit: int = MOST_AT_ONCE
    timeout: int = 0
    allowed_updates: list[str]


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
    request = GetRawUpdates(offset=offset, timeout=wait, allowed_updates=list(HANDLED))
    try:
        return [*await api.call(request, wait=wait)]
    except WebhookIsSet:
        # The config says polling. Updates queued for the webhook are kept and delivered here.
        await api.call(DeleteWebhook(drop_pending_updates=False))
        return [*await api.call(request, wait=wait)]
