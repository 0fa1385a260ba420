"""
The concurrency limit of turns. A turn that waits for a user gives its slot back until then.

Nobody takes all slots: where there are several agents, one of them has at most half, so that a dead
model server does not silence the others; and one person has at most a quarter, or two. Who waits is
served in the order of arrival, but one person after the other.
"""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict, deque
from dataclasses import dataclass, replace
from types import TracebackType

_SHARE_OF_AGENT = 2
_SHARE_OF_PERSON = 4
_LEAST_OF_PERSON = 2

_Waiter = asyncio.Future[None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """For which agent and which person a slot is taken; None: for nobody in particular."""

    agent: str = ""
    person: str | None = None


class Slots:
    """A number of slots. As many turns again may wait for users without one."""

    def __init__(self, count: int, *, agents: int = 1) -> None:
        self.may_release = count
        self._count = count
        self._agents = agents
        self._taken = 0
        self._by_agent = Counter[str]()
        self._by_person = Counter[str | None]()
        # By agent, then by person: whoever cannot be served is passed over as a whole.
        self._waiting: dict[str, OrderedDict[str | None, deque[_Waiter]]] = {}

    @property
    def is_full(self) -> bool:
        """Whether no slot is free for anybody."""
        return self._taken >= self._count

    def resize(self, count: int, *, agents: int = 1) -> None:
        """Change the number. A smaller number takes effect as running turns end."""
        self.may_release += count - self._count
        self._count = count
        self._agents = agents
        self._serve()

    async def acquire(self, holder: Holder) -> None:
        """Wait for a slot. Nobody who could be served waits, so a free one is simply taken."""
        if self._may_take(holder):
            self._take(holder)
            return

        waiter = asyncio.get_running_loop().create_future()
        people = self._waiting.setdefault(holder.agent, OrderedDict())
        people.setdefault(holder.person, deque()).append(waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            # It was served in the same moment: somebody else can use the slot.
            if not waiter.cancelled():
                self.release(holder)
            raise

    def release(self, holder: Holder) -> None:
        """Give a slot back."""
        self._taken -= 1
        self._by_agent[holder.agent] -= 1
        self._by_person[holder.person] -= 1
        # Not kept at zero: people come and go for as long as the gateway runs.
        if not self._by_person[holder.person]:
            del self._by_person[holder.person]
        self._serve()

    def _take(self, holder: Holder) -> None:
        self._taken += 1
        self._by_agent[holder.agent] += 1
        self._by_person[holder.person] += 1

    def _may_take(self, holder: Holder) -> bool:
        return (
            not self.is_full
            and self._by_agent[holder.agent] < self._most_of_agent()
            and self._person_may_take(holder.person)
        )

    def _most_of_agent(self) -> int:
        return self._count if self._agents < 2 else -(-self._count // _SHARE_OF_AGENT)

    def _person_may_take(self, person: str | None) -> bool:
        taken = self._by_person.get(person, 0)
        most = max(-(-self._count // _SHARE_OF_PERSON), _LEAST_OF_PERSON)
        return person is None or taken < most

    def _serve(self) -> None:
        """Hand free slots to those who wait for them."""
        while not self.is_full and (holder := self._next()) is not None:
            people = self._waiting[holder.agent]
            queue = people[holder.person]
            waiter = queue.popleft()
            # Behind the others: one person after the other, however many chats each has.
            people.move_to_end(holder.person)
            if not queue:
                del people[holder.person]
            self._take(holder)
            waiter.set_result(None)

    def _next(self) -> Holder | None:
        """Return who is served next: the first person of the agent with the fewest slots."""
        for agent in sorted(self._waiting, key=self._by_agent.__getitem__):
            if self._by_agent[agent] >= self._most_of_agent():
                break
            if (holder := self._first_for(agent)) is not None:
                return holder
        return None

    def _first_for(self, agent: str) -> Holder | None:
        """Return the first one who may have a slot, and forget on the way who has left."""
        people = self._waiting[agent]
        holder = None
        gone = []
        # Few are passed over: only so many people can have their whole share at the same time.
        for person, queue in people.items():
            while queue and queue[0].cancelled():
                queue.popleft()
            if not queue:
                gone.append(person)
            elif self._person_may_take(person):
                holder = Holder(agent=agent, person=person)
                break

        for person in gone:
            del people[person]
        if not people:
            del self._waiting[agent]
        return holder


class Slot:
    """One turn's slot, held in an `async with` block."""

    # The default is frozen.
    def __init__(self, slots: Slots, holder: Holder = Holder()) -> None:  # noqa: B008
        self._slots = slots
        self._holder = holder
        self._held = self._waits_for_user = self._is_over = False

    async def __aenter__(self) -> Slot:
        """Wait for a slot."""
        await self._slots.acquire(self._holder)
        self._held = True
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Give the slot back, if it is held."""
        self._is_over = True
        if self._held:
            self._slots.release(self._holder)
        # The turn ended while it waited for a user: another one may wait in its place.
        elif self._waits_for_user:
            self._slots.may_release += 1

    async def count_for(self, agent: str) -> None:
        """Count the slot toward another agent, and wait while that has its share."""
        if agent == self._holder.agent:
            return

        self._held = False
        self._slots.release(self._holder)
        self._holder = replace(self._holder, agent=agent)
        await self._slots.acquire(self._holder)
        self._held = True

    def release(self) -> None:
        """Give the slot back while the turn waits for a user."""
        # Bounded by `may_release`: a waiting turn still holds memory and perhaps a process.
        if self._held and self._slots.may_release > 0 and not self._is_over:
            self._held = False
            self._waits_for_user = True
            self._slots.may_release -= 1
            self._slots.release(self._holder)

    async def reacquire(self) -> None:
        """Wait for a slot again, if it was given back."""
        if not self._is_released():
            return

        await self._slots.acquire(self._holder)
        # Another answer of this turn may have reacquired it, or the turn may be over by now.
        if self._is_released():
            self._held = True
            self._waits_for_user = False
            self._slots.may_release += 1
        else:
            self._slots.release(self._holder)

    def _is_released(self) -> bool:
        return self._waits_for_user and not self._is_over
