"""
The updates of one bot, as getUpdates and webhooks hand them out:
https://core.telegram.org/bots/api#getting-updates
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping
from dataclasses import dataclass

from aiogram.types import Update as UpdateType

from tests.simulators.common import Refusal
from tests.simulators.telegram import rules, specification
from tests.simulators.telegram.clock import Clock

KEPT = 24 * 3600.0
WEEK = 7 * 24 * 3600.0
TYPES = frozenset(UpdateType.model_fields) - {"update_id"}
ONLY_IF_NAMED = frozenset({"chat_member", "message_reaction", "message_reaction_count"})
"""
What a bot gets only if it asks for it: https://core.telegram.org/bots/api#getupdates,
allowed_updates.
"""

_FAR_AHEAD = 10


@dataclass(slots=True, kw_only=True, eq=False)
class Update:
    """
    Something that happened, and how far the news of it has come. `about` is a chat and a message
    there.
    """

    id: int
    kind: str
    payload: Mapping[str, object]
    at: float
    about: tuple[int, int] | None = None
    state: str = "pending"

    def as_json(self) -> dict[str, object]:
        """As a bot is told."""
        return {"update_id": self.id, self.kind: self.payload}


class UpdateQueue:
    """In order, each until it is confirmed or a day old."""

    def __init__(self, clock: Clock, news: asyncio.Event) -> None:
        self.history: list[Update] = []
        self.allowed = TYPES - ONLY_IF_NAMED
        self.allowed_by_name: list[str] = []
        self.news = news
        self._clock = clock
        self._next = random.randrange(10**8, 9 * 10**8)
        self._last_at = clock.now()
        self._pending: list[Update] = []
        self._poll: asyncio.Future[None] | None = None

    def add(
        self, kind: str, payload: Mapping[str, object], about: tuple[int, int] | None = None
    ) -> Update | None:
        """Something happened; None if the bot does not want to know."""
        if kind not in self.allowed:
            return None
        now = self._clock.now()
        if now - self._last_at >= WEEK:
            self._next = random.randrange(10**8, 9 * 10**8)
        update = Update(id=self._next, kind=kind, payload=payload, at=now, about=about)
        specification.check("Update", update.as_json())
        self._next, self._last_at = self._next + 1, now
        self.history.append(update)
        self._pending.append(update)
        self.news.set()
        if self._poll is not None and not self._poll.done():
            self._poll.set_result(None)
        return update

    def again(self, update: Update) -> Update | None:
        """The same under another number."""
        return self.add(update.kind, update.payload, update.about)

    def allow(self, kinds: object) -> None:
        """Remembered until it is said anew; concerns only what happens from now on."""
        if not isinstance(kinds, list):
            return
        strange = sorted({str(kind) for kind in kinds} - TYPES)
        if strange:
            raise rules.bad(
                f"allowed_updates: there is no {', '.join(strange)}", rules.UPDATE_TYPES
            )
        self.allowed = frozenset(kinds) or TYPES - ONLY_IF_NAMED
        self.allowed_by_name = [str(kind) for kind in kinds]

    @property
    def pending(self) -> list[Update]:
        """What is still to be handed out, without what has become too old."""
        oldest = self._clock.now() - KEPT
        for update in [each for each in self._pending if each.at < oldest]:
            self.settle(update, "expired")
        return self._pending

    def settle(self, update: Update, state: str) -> None:
        """It is not handed out any more."""
        update.state = state
        self._pending.remove(update)

    def drop(self) -> None:
        """Forget all that is pending."""
        for update in list(self._pending):
            self.settle(update, "dropped")

    def confirm(self, offset: int) -> None:
        """Everything before it was received. A negative one keeps so many of the newest."""
        pending = list(self.pending)
        if offset < 0:
            for update in pending[:offset]:
                self.settle(update, "dropped")
        elif offset <= self._next + _FAR_AHEAD:
            for update in pending:
                if update.id < offset:
                    self.settle(update, "acknowledged")

    async def poll(self, offset: int, limit: int, timeout: float) -> list[Update]:
        """What is pending, at once or as soon as there is something."""
        self.confirm(offset)
        if self.pending or not timeout:
            return self._from(offset)[:limit]
        self.end_poll(rules.conflict(rules.OTHER_POLLER, rules.ONE_POLLER))
        try:
            async with asyncio.timeout(timeout):
                while not self._from(offset):
                    self._poll = mine = asyncio.get_running_loop().create_future()
                    await mine
        except TimeoutError:
            return []
        return self._from(offset)[:limit]

    def end_poll(self, refusal: Refusal) -> None:
        """Whoever waits is sent away."""
        if self._poll is not None and not self._poll.done():
            self._poll.set_exception(refusal)
        self._poll = None

    def _from(self, offset: int) -> list[Update]:
        """An offset that nobody could have got from here counts for nothing."""
        pending = self.pending
        if not 0 < offset <= self._next + _FAR_AHEAD:
            return list(pending)
        return [update for update in pending if update.id >= offset]
