"""
Which adapters the suite of `test_adapter.py` runs over, and what it needs to know of each.

A new platform brings a simulator (`tests/simulators`) and one `AdapterUnderTest`, and is listed in
`UNDER_TEST`. What people do and see is asked of every simulator in the same words
(`tests/simulators/common.py`), so only what differs between platforms stands here.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from typing import Protocol

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from tests.simulators.common import Simulator
from tests.simulators.discord import TOKENS as DISCORD_TOKENS
from tests.simulators.discord import Discord
from tests.simulators.running import Remote, in_process
from tests.simulators.scripted import Scripted
from tests.simulators.scripted_adapter import ADAPTERS, PLATFORM, Timeouts
from tests.simulators.slack import Settings as SlackSettings
from tests.simulators.slack import Slack
from tests.simulators.telegram import TOKENS as TELEGRAM_TOKENS
from tests.simulators.telegram import Telegram
from turngate.adapters.discord import plugin as discord
from turngate.adapters.slack import plugin as slack
from turngate.adapters.slack.app.needs import EVENTS, SCOPES
from turngate.adapters.telegram import plugin as telegram
from turngate.gateway.daemon.system_clock import SystemClock
from turngate.gateway.domain.messages import MAIN_ACCOUNT, SessionSource
from turngate.gateway.domain.ports.adapter import (
    Adapter,
    AsksWithButtons,
    CatchesUp,
    EditsMessages,
    FetchesFiles,
    FindsSent,
    Reacts,
    SendsFiles,
    ShowsTyping,
    TellsProgress,
)

CAPABILITIES = (
    AsksWithButtons,
    CatchesUp,
    EditsMessages,
    FetchesFiles,
    FindsSent,
    Reacts,
    SendsFiles,
    ShowsTyping,
    TellsProgress,
)
OTHER_ACCOUNT = "support"


class AdapterUnderTest(Protocol):
    """One adapter and its platform."""

    @property
    def name(self) -> str:
        """As in the names of the tests."""

    @property
    def capabilities(self) -> frozenset[type]:
        """Which of CAPABILITIES it must have, and no others."""

    @property
    def hands_out_again(self) -> bool:
        """
        Whether the platform hands out what was not acknowledged, until it is. Else only `catch_up`
        has it.
        """

    @property
    def own_faults(self) -> frozenset[str]:
        """Which of "duplicate" and "reorder" its simulator knows."""

    @property
    def says_whose_pause(self) -> bool:
        """Whether a pause that is asked for is said to be of a chat or of the whole account."""

    @property
    def knows_of_gaps(self) -> bool:
        """
        Whether it can be told that the past is not all there. What is deleted on Discord leaves no
        trace.
        """

    @property
    def tells_only_listeners(self) -> bool:
        """
        Whether the platform keeps nothing for those who are not connected: what was said before is
        in `catch_up`.
        """

    @property
    def quotes(self) -> bool:
        """
        Whether an answer can name what it answers without leaving the conversation for a thread.
        """

    @property
    def chats(self) -> tuple[SessionSource, SessionSource]:
        """
        Two direct conversations of the main account, open from the start, for the other account
        too.
        """

    @property
    def nowhere(self) -> SessionSource:
        """A chat that the platform does not know."""

    @property
    def texts(self) -> SearchStrategy[str]:
        """
        Words that arrive as they were sent: a platform that trims or escapes says here what it
        leaves alone.
        """

    def simulator(self) -> AbstractAsyncContextManager[Remote]:
        """The platform, fresh."""

    def adapter(
        self,
        sim: Remote,
        *,
        account: str = MAIN_ACCOUNT,
        trusted: bool = True,
        hasty: bool = False,
        url: str | None = None,
    ) -> AbstractAsyncContextManager[Adapter]:
        """
        The adapter of one account; leaving hangs up. With `trusted` its credentials are right.

        It gives up waiting for an answer after ten seconds or so, and takes a minute's silence for
        deafness. A `hasty` one does both after half a second: for tests in which no answer comes.
        """

    async def where_typing_shows(self, sim: Remote, chat: SessionSource) -> SessionSource:
        """
        A place in that chat where typing can be shown; on some platforms only a thread is one.
        """

    async def go_deaf(self, sim: Remote) -> None:
        """
        Let the platform answer nothing that receives, over open connections and new ones, until it
        is healed.
        """

    async def revoke(self, sim: Remote) -> None:
        """
        Let the credentials of the main account hold no longer, for connections that are open too.
        """

    async def refuse_formatting(self, sim: Remote, *, does: str) -> None:
        """
        Let the platform find fault with the formatting of whatever comes next, but not with its
        words.
        """


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
        token = TELEGRAM_TOKENS[account] if trusted else _NO_TOKEN
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
                token=DISCORD_TOKENS[account] if trusted else "a token of somebody else",
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


_ELSA, _FAY, _GHOST = (
    SessionSource(platform="slack", chat_id=f"D{name}", user_id=f"U{name}", scope="T0001")
    for name in ("71001", "71002", "79999")
)
# Of what Slack does not say how it counts, the adapter counts the most.
_PLAIN_WORD = st.text(
    st.characters(categories=["Lu", "Ll", "Lo"], max_codepoint=0xFFFF), min_size=1, max_size=9
)
_PLAIN_WORDS = st.lists(_PLAIN_WORD, min_size=1).map(" ".join)


@dataclass(frozen=True, slots=True, kw_only=True)
class SlackUnderTest:
    """The Slack adapter, with the real slack-sdk and slack-bolt, over Socket Mode."""

    name: str = "slack"
    capabilities: frozenset[type] = frozenset(CAPABILITIES)
    hands_out_again: bool = True
    # Both are about answers that bring several events. Slack gives each by itself.
    own_faults: frozenset[str] = frozenset()
    says_whose_pause: bool = True
    knows_of_gaps: bool = True
    tells_only_listeners: bool = False
    # A direct chat is flat, and what answers something in particular would stand in a thread.
    quotes: bool = False
    chats: tuple[SessionSource, SessionSource] = (_ELSA, _FAY)
    nowhere: SessionSource = _GHOST
    texts: SearchStrategy[str] = _PLAIN_WORDS

    @asynccontextmanager
    async def simulator(self) -> AsyncIterator[Remote]:
        """
        On this event loop, with an app that may do what its manifest says and no more.

        What is not acknowledged comes again soon, and waits for a connection.
        """
        settings = SlackSettings(
            waits=20.0, retries=(0.0, 0.05, 0.1, 0.2, 0.5, 1.0), ack_within=2.0, grace=0.5
        )
        async with in_process(Simulator(Slack(settings))) as sim:
            for account in (MAIN_ACCOUNT, OTHER_ACCOUNT):
                await sim.do("app", account=account, scopes=list(SCOPES), events=list(EVENTS))
                for chat in self.chats:
                    await sim.do("open", account=account, chat=chat.chat_id, user=chat.user_id)
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
        answer = 0.5 if hasty else 10.0
        timeouts = slack.Timeouts(
            connect=answer, answer=answer, ping=0.1, deaf=0.5 if hasty else 60.0, catch_up=0.0
        )
        whose = account if trusted else "nobody"
        adapter = slack.SlackAdapter(
            slack.Account(
                name=account,
                bot_token=f"xoxb-{whose}",
                app_token=f"xapp-{whose}",
                api_url=f"{url or sim.url}/api/",
            ),
            SystemClock(),
            timeouts=timeouts,
        )
        try:
            yield adapter
        finally:
            await adapter.close()

    async def where_typing_shows(self, sim: Remote, chat: SessionSource) -> SessionSource:
        """Slack shows a status below a message, in its thread."""
        thread = await sim.say("hello", chat=chat.chat_id, user=chat.user_id, account=chat.account)
        return replace(chat, thread_id=thread)

    async def go_deaf(self, sim: Remote) -> None:
        """The socket that is open, too."""
        await sim.fault("half-open", does="receive", times=None)

    async def revoke(self, sim: Remote) -> None:
        """Slack ends the connections of an app that has lost its tokens."""
        await sim.do("app", revoked=True, app_token="xapp-another")  # noqa: S106 - nobody's
        await sim.do("cut")

    async def refuse_formatting(self, sim: Remote, *, does: str) -> None:
        """Once, and only markdown and blocks."""
        await sim.fault("unparsable", does=does)


_SCRIPTED = {TellsProgress}

UNDER_TEST: tuple[AdapterUnderTest, ...] = (
    ScriptedUnderTest(name="scripted plain", capabilities=frozenset(_SCRIPTED)),
    ScriptedUnderTest(name="scripted finding", capabilities=frozenset(_SCRIPTED | {FindsSent})),
    ScriptedUnderTest(
        name="scripted catching-up",
        capabilities=frozenset(_SCRIPTED | {FindsSent, CatchesUp}),
        hands_out_again=False,
    ),
    ScriptedUnderTest(name="scripted editing", capabilities=frozenset(_SCRIPTED | {EditsMessages})),
    ScriptedUnderTest(name="scripted everything", capabilities=frozenset(CAPABILITIES)),
    TelegramUnderTest(),
    DiscordUnderTest(),
    SlackUnderTest(),
)
