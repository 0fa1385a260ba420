"""The Telegram adapter and its simulator, as the contract suite needs them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from tests.contracts.adapters import CAPABILITIES, OTHER_ACCOUNT
from tests.simulators.common import Simulator
from tests.simulators.running import Remote, in_process
from tests.simulators.telegram import TOKENS, Telegram
from turngate.adapters.telegram import plugin as telegram
from turngate.gateway.daemon.system_clock import SystemClock
from turngate.gateway.domain.messages import MAIN_ACCOUNT, SessionSource
from turngate.gateway.domain.ports.adapter import Adapter, CatchesUp, FindsSent

_CLARA, _DORA, _STRANGER = (
    SessionSource(platform="telegram", chat_id=number, user_id=number)
    for number in ("71001", "71002", "79999")
)
# Markdown changes blanks at the ends and everything that has a meaning, and Telegram trims.
_WORDS = st.lists(
    st.text(st.characters(categories=["Lu", "Ll", "Lo", "So"]), min_size=1, max_size=9), min_size=1
)
_SENTENCES = _WORDS.map(" ".join)
_NO_TOKEN = "110009:AAH-token-of-somebody-else-entirely-0009"  # noqa: S105 - nobody's


@dataclass(frozen=True, slots=True, kw_only=True)
class TelegramUnderTest:
    """The Telegram adapter, with the real aiogram."""

    name: str = "telegram"
    capabilities: frozenset[type] = frozenset(CAPABILITIES) - {CatchesUp, FindsSent}
    hands_out_again: bool = True
    own_faults: frozenset[str] = frozenset({"duplicate", "reorder"})
    says_whose_pause: bool = False
    knows_of_gaps: bool = False
    tells_only_listeners: bool = False
    quotes: bool = True
    chats: tuple[SessionSource, SessionSource] = (_CLARA, _DORA)
    nowhere: SessionSource = _STRANGER
    texts: SearchStrategy[str] = _SENTENCES

    @asynccontextmanager
    async def simulator(self) -> AsyncIterator[Remote]:
        """On this event loop."""
        async with in_process(Simulator(Telegram())) as sim:
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
        """
        As the protocol says. A hasty one does not let polls wait: Telegram counts in whole seconds.
        """
        timeouts = telegram.Timeouts(
            poll=0 if hasty else 1,
            answer=0.5 if hasty else 10.0,
            pause=0.01,
            deaf=0.5 if hasty else 60.0,
        )
        token = TOKENS[account] if trusted else _NO_TOKEN
        adapter = telegram.TelegramAdapter(
            telegram.Account(name=account, token=token, api_url=url or sim.url),
            SystemClock(),
            timeouts,
        )
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
        """A poll that is open ends with it."""
        await sim.do("bot", revoked=True)

    async def refuse_formatting(self, sim: Remote, *, does: str) -> None:
        """Once, and only entities."""
        await sim.fault("unparsable", does=does)


UNDER_TEST = (TelegramUnderTest(),)
