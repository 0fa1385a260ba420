"""The Discord adapter and its simulator, as the contract suite needs them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from tests.contracts.adapters import CAPABILITIES, OTHER_ACCOUNT
from tests.simulators.common import Simulator
from tests.simulators.discord import TOKENS, Discord
from tests.simulators.running import Remote, in_process
from turngate.adapters.discord import plugin as discord
from turngate.gateway.daemon.system_clock import SystemClock
from turngate.gateway.domain.messages import MAIN_ACCOUNT, SessionSource
from turngate.gateway.domain.ports.adapter import Adapter

_EMMA, _FAYE, _HIDDEN = (
    SessionSource(platform="discord", chat_id=number, user_id=number)
    for number in ("81001", "81002", "89999")
)
# Of what is outside the first plane the simulator counts characters and a careful bot counts halves
# of them.
_FIRST_PLANE = st.characters(max_codepoint=0xFFFF, categories=["Lu", "Ll", "Lo"])
_PLAIN_SENTENCES = st.lists(st.text(_FIRST_PLANE, min_size=1, max_size=9), min_size=1).map(" ".join)


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscordUnderTest:
    """The Discord adapter, with the real discord.py."""

    name: str = "discord"
    capabilities: frozenset[type] = frozenset(CAPABILITIES)
    hands_out_again: bool = False
    own_faults: frozenset[str] = frozenset()
    says_whose_pause: bool = True
    knows_of_gaps: bool = False
    tells_only_listeners: bool = True
    quotes: bool = True
    chats: tuple[SessionSource, SessionSource] = (_EMMA, _FAYE)
    nowhere: SessionSource = _HIDDEN
    texts: SearchStrategy[str] = _PLAIN_SENTENCES

    @asynccontextmanager
    async def simulator(self) -> AsyncIterator[Remote]:
        """On this event loop, with a heart that beats often enough for the hasty."""
        async with in_process(Simulator(Discord())) as sim:
            await sim.do("server", heartbeat=0.25)
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
        timeouts = discord.Timeouts(
            answer=0.5 if hasty else 10.0,
            pause=0.01,
            silence=0.5 if hasty else 60.0,
            deaf=0.5 if hasty else 60.0,
            identify=0.0,
        )
        there = url or sim.url
        adapter = discord.DiscordAdapter(
            discord.Account(
                name=account,
                token=TOKENS[account] if trusted else "a token of somebody else",
                api_url=there + "/api/v10",
                gateway_url=there.replace("http", "ws", 1) + "/gateway",
                cdn_url=there + "/cdn",
            ),
            SystemClock(),
            self._places,
            timeouts,
        )
        try:
            yield adapter
        finally:
            await adapter.close()

    async def _places(self) -> tuple[SessionSource, ...]:
        return self.chats

    async def where_typing_shows(self, sim: Remote, chat: SessionSource) -> SessionSource:
        """Anywhere."""
        return chat

    async def go_deaf(self, sim: Remote) -> None:
        """Lines that are open fall silent with their next frame."""
        await sim.fault("half-open", does="receive", times=None)

    async def revoke(self, sim: Remote) -> None:
        """Lines that are open end with it."""
        await sim.do("bot", revoked=True)

    async def refuse_formatting(self, sim: Remote, *, does: str) -> None:
        """Discord takes every text."""


UNDER_TEST = (DiscordUnderTest(),)
