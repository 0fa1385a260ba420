"""
The store as turns and deliveries use it: their writes wait while it is unavailable.

A full disk is cleared and a lock is released; until then, writes that must not be lost are retried
here instead of at each caller. Verbs that must answer at once do not wait: a message that cannot be
stored (`accept`) must not be acknowledged, and the health probe must report the failure.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import ParamSpec, TypeVar, cast

from turngate.gateway.domain.backoff import Backoff
from turngate.gateway.domain.errors import StoreUnavailable
from turngate.gateway.domain.ports.store import Store
from turngate.gateway.observability.observer import Observer

P = ParamSpec("P")
T = TypeVar("T")

WAITING_VERBS = frozenset(
    {
        "account",
        "answer",
        "ask",
        "begin",
        "charge",
        "end_alone",
        "finish",
        "join",
        "open",
        "record_preview",
        "record_refused",
        "record_sending",
        "record_sent",
        "record_tool",
        "record_unsent",
        "record_welcome",
        "refuse",
        "summarise",
        "tell",
    }
)

_BACKOFF = Backoff(first=0.5, longest=3.0)


def waiting(store: Store, observer: Observer) -> Store:
    """Return the same store with verbs that retry. Each failed attempt is reported."""
    return cast(Store, _WaitingStore(store, observer))


class _WaitingStore:
    """Delegates every verb by name, so the port's verbs are not listed a second time."""

    def __init__(self, store: Store, observer: Observer) -> None:
        self._store = store
        self._observer = observer

    def __getattr__(self, name: str) -> object:
        verb = getattr(self._store, name)
        return partial(until_stored, self._observer, verb) if name in WAITING_VERBS else verb


async def until_stored(
    observer: Observer, write: Callable[P, Awaitable[T]], /, *args: P.args, **kwargs: P.kwargs
) -> T:
    """Retry a write while the store is unavailable. Damage and refusals are raised at once."""
    attempt = 0
    while True:
        try:
            return await write(*args, **kwargs)
        except StoreUnavailable as exc:
            observer.store_failed(exc)
        await asyncio.sleep(_BACKOFF.pause(attempt))
        attempt += 1
