"""The scripted adapter, in each of its shapes: the smallest adapter of the suite."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from tests.contracts.adapters import CAPABILITIES, OTHER_ACCOUNT
from tests.simulators.common import Simulator
from tests.simulators.running import Remote, in_process
from tests.simulators.scripted import Scripted
from tests.simulators.scripted_adapter import ADAPTERS, PLATFORM, Timeouts
from turngate.gateway.domain.messages import MAIN_ACCOUNT, SessionSource
from turngate.gateway.domain.ports.adapter import (
    Adapter,
    CatchesUp,
    EditsMessages,
    FindsSent,
    TellsProgress,
)

_ANN, _BOB, _NOBODY = (
    SessionSource(platform=PLATFORM, chat_id=name, user_id=name)
    for name in ("ann", "bob", "nobody")
)
_TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=50)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptedUnderTest:
    """One shape of the scripted adapter."""

    name: str
    capabilities: frozenset[type]
    hands_out_again: bool = True
    own_faults: frozenset[str] = frozenset({"duplicate", "reorder"})
    says_whose_pause: bool = True
    knows_of_gaps: bool = True
    tells_only_listeners: bool = False
    quotes: bool = True
    chats: tuple[SessionSource, SessionSource] = (_ANN, _BOB)
    nowhere: SessionSource = _NOBODY
    texts: SearchStrategy[str] = _TEXTS

    @asynccontextmanager
    async def simulator(self) -> AsyncIterator[Remote]:
        """On this event loop: a process of its own would cost each test a third of a second."""
        async with in_process(Simulator(Scripted(lossy=not self.hands_out_again))) as sim:
            for account in (MAIN_ACCOUNT, OTHER_ACCOUNT):
                for chat in self.chats:
                    await sim.do("open", account=account, chat=chat.chat_id)
            yield sim

    @asynccontextmanager
    async def adapter(
        self,
        sim: Remote,
        *,
        account: str = MAIN_ACCOUNT,
        trusted: bool = True,
        hasty: bool = False,
        url: str | None = None,
    ) -> AsyncIterator[Adapter]:
        """As the protocol says."""
        timeouts = Timeouts(
            poll=0.2, answer=0.5 if hasty else 10.0, pause=0.01, deaf=0.5 if hasty else 60.0
        )
        token = None if trusted else "somebody else's"
        make = ADAPTERS[self.name.removeprefix("scripted ")]
        adapter = make(url or sim.url, account=account, token=token, timeouts=timeouts)
        try:
            yield adapter
        finally:
            await adapter.close()

    async def where_typing_shows(self, sim: Remote, chat: SessionSource) -> SessionSource:
        """Anywhere."""
        return chat

    async def go_deaf(self, sim: Remote) -> None:
        """A poll that is open ends by itself."""
        await sim.fault("half-open", does="receive", times=None)

    async def revoke(self, sim: Remote) -> None:
        """From the next poll on."""
        await sim.fault("401", account=MAIN_ACCOUNT, times=None)

    async def refuse_formatting(self, sim: Remote, *, does: str) -> None:
        """Once, and only markup."""
        await sim.fault("unparsable", does=does)


_SCRIPTED = {TellsProgress}

UNDER_TEST = (
    ScriptedUnderTest(name="scripted plain", capabilities=frozenset(_SCRIPTED)),
    ScriptedUnderTest(name="scripted finding", capabilities=frozenset(_SCRIPTED | {FindsSent})),
    ScriptedUnderTest(
        name="scripted catching-up",
        capabilities=frozenset(_SCRIPTED | {FindsSent, CatchesUp}),
        hands_out_again=False,
    ),
    ScriptedUnderTest(name="scripted editing", capabilities=frozenset(_SCRIPTED | {EditsMessages})),
    ScriptedUnderTest(name="scripted everything", capabilities=frozenset(CAPABILITIES)),
)
