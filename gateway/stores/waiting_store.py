"""
The store as turns and deliveries use it: their writes wait while it is unavailable.

A full disk is cleared and a lock is released; until then, writes that must not be lost are retried
here instead of at each caller. Verbs that must answer at once do not wait: a message that cannot be
stored (`accept`) must not be acknowledged, and the health probe must report the failure.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from turngate.gateway.domain.backoff import Backoff
from turngate.gateway.domain.errors import StoreUnavailable
from turngate.gateway.domain.ports.store import Store
from turngate.gateway.observability.observer import Observer

P = ParamSpec("P")
T = TypeVar("T")

_BACKOFF = Backoff(first=0.5, longest=3.0)


class WaitingStore:
    """
    Every verb of a store: those that wait, and those that do not.

    A new verb of the port is added to one of the two groups; the type check fails until it is.
    """

    def __init__(self, store: Store, observer: Observer) -> None:
        self._retry(store, observer)
        self._hand_on(store)

    def _retry(self, store: Store, observer: Observer) -> None:
        """Nobody else repeats these, and what they record would be lost."""

        def waits(verb: Callable[P, Awaitable[T]]) -> Callable[P, Coroutine[Any, Any, T]]:
            @wraps(verb)
            async def waiting(*args: P.args, **kwargs: P.kwargs) -> T:
                return await until_stored(observer, verb, *args, **kwargs)

            return waiting

        self.account = waits(store.account)
        self.answer = waits(store.answer)
        self.ask = waits(store.ask)
        self.begin = waits(store.begin)
        self.charge = waits(store.charge)
        self.end_alone = waits(store.end_alone)
        self.finish = waits(store.finish)
        self.join = waits(store.join)
        self.open = waits(store.open)
        self.record_preview = waits(store.record_preview)
        self.record_refused = waits(store.record_refused)
        self.record_sending = waits(store.record_sending)
        self.record_sent = waits(store.record_sent)
        self.record_tool = waits(store.record_tool)
        self.record_unsent = waits(store.record_unsent)
        self.record_welcome = waits(store.record_welcome)
        self.refuse = waits(store.refuse)
        self.summarise = waits(store.summarise)
        self.tell = waits(store.tell)

    def _hand_on(self, store: Store) -> None:
        """The callers of these repeat them, report the failure, or only read."""
        self.accept = store.accept
        self.accept_again = store.accept_again
        self.amend = store.amend
        self.answered = store.answered
        self.approve = store.approve
        self.approved = store.approved
        self.archive = store.archive
        self.choose_agent = store.choose_agent
        self.close_question = store.close_question
        self.close = store.close
        self.count_crash = store.count_crash
        self.current = store.current
        self.delete = store.delete
        self.delete_entry = store.delete_entry
        self.depth = store.depth
        self.drop = store.drop
        self.drop_part = store.drop_part
        self.due = store.due
        self.edit_entry = store.edit_entry
        self.end_if_due = store.end_if_due
        self.endings = store.endings
        self.export = store.export
        self.find = store.find
        self.import_ = store.import_
        self.inbox = store.inbox
        self.invite = store.invite
        self.mark_important = store.mark_important
        self.move_chat = store.move_chat
        self.outbox = store.outbox
        self.pending = store.pending
        self.probe = store.probe
        self.prune = store.prune
        self.questions = store.questions
        self.record_behind = store.record_behind
        self.record_caught_up = store.record_caught_up
        self.record_telling = store.record_telling
        self.record_told = store.record_told
        self.reject = store.reject
        self.rename = store.rename
        self.requeue = store.requeue
        self.requeue_part = store.requeue_part
        self.reset = store.reset
        self.revoke = store.revoke
        self.say = store.say
        self.search = store.search
        self.set_aside = store.set_aside
        self.session = store.session
        self.sessions = store.sessions
        self.set_goal = store.set_goal
        self.switch = store.switch
        self.trace = store.trace
        self.transcript = store.transcript
        self.truncate = store.truncate
        self.usage = store.usage


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
