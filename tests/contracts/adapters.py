"""
What the suite of `test_adapter.py` needs to know of an adapter.

Each module of `tests/contracts/platforms` tells it about one platform. What people do and see is
asked of every simulator in the same words (`tests/simulators/common.py`), so only what differs
between platforms stands there.
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Protocol

from hypothesis.strategies import SearchStrategy

from tests.simulators.running import Remote
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
