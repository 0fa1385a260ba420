"""
What the suite of `test_adapter.py` is played with: a scene, an ear for what is received, and the
whole gateway.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import is_hypothesis_test

from tests.contracts.adapters import AdapterUnderTest
from tests.contracts.platforms import UNDER_TEST
from tests.simulators.running import PATIENCE, Remote
from turngate.config.access import AccessEntry
from turngate.config.schema import (
    Access,
    Config,
    Turns,
    Web,
)
from turngate.gateway.daemon.app import running
from turngate.gateway.daemon.gateway import Gateway
from turngate.gateway.daemon.state_dir import take_lock
from turngate.gateway.domain.errors import (
    Refused,
    TurngateError,
    Unauthorized,
)
from turngate.gateway.domain.ids import PartId
from turngate.gateway.domain.messages import (
    MAIN_ACCOUNT,
    InboundMessage,
    SessionSource,
)
from turngate.gateway.domain.outbox import Part
from turngate.gateway.domain.ports.adapter import Adapter, Receive

LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)

_TO_CONNECT = 10.0

Test = TypeVar("Test", bound=Callable[..., Any])


def for_adapters(
    *capabilities: type,
    hands_out_again: bool | None = None,
    own_fault: str | None = None,
    says_whose_pause: bool | None = None,
    quotes: bool | None = None,
    knows_of_gaps: bool | None = None,
) -> Callable[[Test], Test]:
    """
    A test for those that can do all of this. It fails when it takes too long, instead of waiting
    for ever.
    """
    able = [
        each
        for each in UNDER_TEST
        if each.capabilities.issuperset(capabilities)
        and hands_out_again in (None, each.hands_out_again)
        and (own_fault is None or own_fault in each.own_faults)
        and says_whose_pause in (None, each.says_whose_pause)
        and quotes in (None, each.quotes)
        and knows_of_gaps in (None, each.knows_of_gaps)
    ]
    for_able = pytest.mark.parametrize("tested", able, ids=[each.name for each in able])
    return lambda test: for_able(test if is_hypothesis_test(test) else _bounded(test))


def _bounded(test: Test) -> Test:
    @wraps(test)
    async def bounded(*args: object, **fixtures: object) -> None:
        async with asyncio.timeout(PATIENCE):
            await test(*args, **fixtures)

    return bounded


class Ear:
    """
    What stands in for the pipeline: it remembers, raises its troubles one by one, and can take its
    time.
    """

    def __init__(self, *troubles: TurngateError) -> None:
        self.tried: list[InboundMessage] = []
        self.heard: list[InboundMessage] = []
        self.may_go_on = asyncio.Event()
        self.may_go_on.set()
        self._troubles = list(troubles)
        self._changed = asyncio.Condition()

    async def receive(self, message: InboundMessage) -> None:
        """As the port has it."""
        await self._note(self.tried, message)
        await self.may_go_on.wait()
        if self._troubles:
            raise self._troubles.pop(0)
        await self._note(self.heard, message)

    @property
    def texts(self) -> list[str]:
        """What was heard, in order."""
        return [message.text for message in self.heard]

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait until it is so."""
        async with asyncio.timeout(PATIENCE), self._changed:
            await self._changed.wait_for(holds)

    async def until_heard(self, count: int = 1) -> list[InboundMessage]:
        """Wait for that many."""
        await self.until(lambda: len(self.heard) >= count)
        return self.heard

    async def _note(self, where: list[InboundMessage], message: InboundMessage) -> None:
        where.append(message)
        async with self._changed:
            self._changed.notify_all()


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """
    A platform, an adapter of one of its accounts, and two chats. What the adapter can do depends on
    the test.
    """

    tested: AdapterUnderTest
    sim: Remote
    adapter: Any
    account: str = MAIN_ACCOUNT

    @property
    def here(self) -> SessionSource:
        """Where most things happen."""
        return replace(self.tested.chats[0], account=self.account)

    @property
    def there(self) -> SessionSource:
        """Where nothing of that must happen."""
        return replace(self.tested.chats[1], account=self.account)

    async def say(
        self, text: str = "hello", *, to: SessionSource | None = None, **more: object
    ) -> str:
        """The person of that chat writes; returns what the platform calls it."""
        place = to or self.here
        return await self.sim.say(
            text, chat=place.chat_id, user=place.user_id, account=self.account, **more
        )

    async def all_is_acknowledged(self) -> bool:
        """Whether the platform was told that we have everything."""
        return all(update["acknowledged"] for update in await self.sim.updates(self.account))

    def listening(self, ear: Ear) -> AbstractAsyncContextManager[None]:
        """While the block runs."""
        if self.tested.tells_only_listeners:
            return listening_as_supervised(self.adapter, ear.receive)
        return listening(self.adapter, ear.receive)

    @asynccontextmanager
    async def of_account(self, account: str) -> AsyncIterator[Scene]:
        """The same platform, seen by another adapter."""
        async with self.tested.adapter(self.sim, account=account) as adapter:
            yield replace(self, adapter=adapter, account=account)

    async def until_answered(self, word: str) -> None:
        """Wait for an answer that is whole: the echo says last what it was told."""

        async def is_answered() -> bool:
            return any(text.endswith(word) for text in await self.sim.texts(self.account))

        await self.sim.until(is_answered)


@asynccontextmanager
async def listening(adapter: Adapter, receive: Receive) -> AsyncIterator[None]:
    """While the block runs. An error that is not ours comes out of it."""
    task = asyncio.create_task(_live(adapter, receive))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait({task}, timeout=PATIENCE)
    if not task.cancelled():
        task.result()


async def _live(adapter: Adapter, receive: Receive) -> None:
    """As the supervisor does it: what ends with an error of ours is begun again."""
    while True:
        try:
            await adapter.run(receive)
        except Unauthorized:
            raise
        except TurngateError:
            await asyncio.sleep(0)


@asynccontextmanager
async def listening_as_supervised(adapter: Any, receive: Receive) -> AsyncIterator[None]:
    """
    Where only those who are connected are told, the past is read first, and the block waits for the
    line.
    """
    known = set[str]()

    async def note(message: InboundMessage) -> None:
        await receive(message)
        known.update(message.event_ids)

    class Supervised:
        async def run(self, receive: Receive) -> None:
            async for message in adapter.catch_up(LONG_AGO):
                if not known.intersection(message.event_ids):
                    with suppress(Refused):
                        await receive(message)
            await adapter.run(receive)

    before = adapter.progress
    async with listening(Supervised(), note):  # type: ignore[arg-type]
        with suppress(TimeoutError):  # a platform that does not answer is for the test to find
            async with asyncio.timeout(_TO_CONNECT):
                while adapter.progress == before:
                    await asyncio.sleep(0.005)
        yield


@asynccontextmanager
async def gateway(folder: Path, *scenes: Scene) -> AsyncIterator[Gateway]:
    """The whole of it as it ships, with the echo agent, for the two people of the chats."""
    persons = [
        AccessEntry(platform=chat.platform, id=str(chat.user_id)) for chat in scenes[0].tested.chats
    ]
    config = Config(
        state_dir=folder / "state",
        web=Web(listen=None),
        access=Access(allow=tuple(persons)),
        turns=Turns(debounce=timedelta(milliseconds=10), drain=timedelta(seconds=5)),
    )
    accounts = {(scene.adapter.platform, scene.account): scene.adapter for scene in scenes}
    with take_lock(config.state_dir) as lock:
        async with running(config, lock, doors=False, accounts=accounts) as open_gateway:
            while (
                scenes[0].tested.tells_only_listeners
                and not (await open_gateway.health.readiness()).ready
            ):
                await asyncio.sleep(0.005)
            yield open_gateway


def part(place: SessionSource, text: str = "hello", number: int = 1) -> Part:
    """Something to send there."""
    return Part(target=place, text=text, id=PartId(number))


def only_our_errors() -> suppress:
    """Whatever of ours is raised is as good as success; anything else is a bug of the adapter."""
    return suppress(TurngateError)
