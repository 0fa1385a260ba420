"""The Slack adapter and its simulator, as the contract suite needs them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from tests.contracts.adapters import CAPABILITIES, OTHER_ACCOUNT
from tests.simulators.common import Simulator
from tests.simulators.running import Remote, in_process
from tests.simulators.slack import Settings, Slack
from turngate.adapters.slack import plugin as slack
from turngate.adapters.slack.app.needs import EVENTS, SCOPES
from turngate.gateway.daemon.system_clock import SystemClock
from turngate.gateway.domain.messages import MAIN_ACCOUNT, SessionSource
from turngate.gateway.domain.ports.adapter import Adapter

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
        settings = Settings(
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
            connect=answer, answer=answer, ping=0.1, deaf=0.5 if hasty else 60.0
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


UNDER_TEST = (SlackUnderTest(),)
