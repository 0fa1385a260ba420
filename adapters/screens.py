"""
The two platforms that are our own: the web chat and the terminal. They are one adapter, because both are a screen that
somebody of this machine has open on a conversation.

Whatever is said stands in the transcript, and a screen that opens reads it from there. So nothing is kept here but what
is not in the transcript yet: the turn that is running. Any number of screens may watch one conversation.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta

from turngate.gateway.domain.errors import Unreachable
from turngate.gateway.domain.live_view import (
    Arrived,
    Began,
    FellBehind,
    Happened,
    Live,
    Settled,
    Shown,
)
from turngate.gateway.domain.messages import (
    AgentEvent,
    InboundMessage,
    Part,
    Sent,
    SessionSource,
    Text,
    Tool,
    TurnId,
)
from turngate.gateway.domain.ports.adapter import Clock, Limits, Receive

# A screen that falls further behind than this is told to read the transcript anew instead.
_LONGEST_BACKLOG = 1000

_Place = tuple[str | None, str | None]


class Watch:
    """One screen: the turn that was running when it was opened, and everything since then."""

    def __init__(self, live: Live | None) -> None:
        self.live = live
        self._backlog: asyncio.Queue[Shown] = asyncio.Queue()
        self._fell_behind = False

    async def next(self) -> Shown:
        """What is to be shown next."""
        return await self._backlog.get()

    def show(self, shown: Shown) -> None:
        """Never waits: a screen that stands still must not hold up a turn. One that has missed anything is over."""
        if self._fell_behind:
            return
        self._fell_behind = self._backlog.qsize() >= _LONGEST_BACKLOG
        self._backlog.put_nowait(FellBehind() if self._fell_behind else shown)


class Screens:
    """The adapter. `source` makes of a conversation's name the place it is."""

    def __init__(self, platform: str, source: Callable[[str], SessionSource], clock: Clock) -> None:
        self.platform = platform
        # One message takes any length, so there is nothing to measure exactly and nothing that is edited.
        self.limits = Limits(largest_part=2**31, measure=len, edit_every=timedelta(0))
        self._source = source
        self._clock = clock
        self._receive: Receive | None = None
        self._live: dict[_Place, Live] = {}
        self._watches: dict[_Place, list[Watch]] = {}

    def source(self, conversation: str) -> SessionSource:
        """Where a conversation takes place."""
        return self._source(conversation)

    async def run(self, receive: Receive) -> None:
        """Let people in until cancelled."""
        self._receive = receive
        try:
            await asyncio.Event().wait()
        finally:
            self._receive = None

    async def say(self, conversation: str, message_id: str, text: str) -> None:
        """
        What somebody typed. Returning means stored; the same id again is the same message, and is not said twice.

        Raises Refused with the reason, StoreError if it could not be stored, Unreachable while nobody listens.
        """
        if self._receive is None:
            raise Unreachable("the gateway is stopping; say it again when it is back")
        message = InboundMessage(
            id=message_id,
            event_ids=(f"{conversation}:{message_id}",),
            source=self._source(conversation),
            text=text,
            sent_at=self._clock.now(),
            addressed_to_bot=True,
        )
        await self._receive(message)

    @contextmanager
    def watch(self, conversation: str) -> Iterator[Watch]:
        """Open a screen."""
        place = _place(self._source(conversation))
        live = self._live.get(place)
        watch = Watch(live and live.at_this_moment())
        watches = self._watches.setdefault(place, [])
        watches.append(watch)
        try:
            yield watch
        finally:
            watches.remove(watch)
            if not watches:
                self._watches.pop(place, None)

    async def send(self, part: Part) -> Sent:
        """Show it to whoever is there. Nobody need be: the transcript has it."""
        self._show(part.target, Arrived(part=part))
        return self._sent(part)

    async def find_sent(self, part: Part, since: datetime) -> Sent | None:
        """What is in the transcript has arrived: the next screen that opens shows it."""
        return self._sent(part)

    def turn_began(self, target: SessionSource, turn: TurnId, messages: Sequence[str]) -> None:
        """Remember the turn for screens that open while it runs."""
        self._live[_place(target)] = Live(turn=turn, messages=tuple(messages))
        self._show(target, Began(turn=turn, messages=tuple(messages)))

    def turn_event(self, target: SessionSource, turn: TurnId, event: AgentEvent) -> None:
        """Show it, and add it to what such a screen will be shown first."""
        live = self._live.get(_place(target))
        if live is not None and live.turn == turn:
            match event:
                case Text(text=text):
                    live.pieces.append(text)
                case Tool(id=tool):
                    live.tools[tool] = _known_of(live.tools.get(tool), event)
        self._show(target, Happened(turn=turn, event=event))

    def settled(self, target: SessionSource, messages: Sequence[str]) -> None:
        """The turn is over, for new screens too."""
        live = self._live.get(_place(target))
        if live is not None and set(live.messages) <= set(messages):
            del self._live[_place(target)]
        self._show(target, Settled(messages=tuple(messages)))

    def _show(self, target: SessionSource, shown: Shown) -> None:
        for watch in self._watches.get(_place(target), ()):
            watch.show(shown)

    def _sent(self, part: Part) -> Sent:
        return Sent(message_id=str(part.id), at=self._clock.now())


def _known_of(before: Tool | None, now: Tool) -> Tool:
    """A tool that is done need not say again what it was asked."""
    if before is None:
        return now
    return replace(
        now,
        title=now.title or before.title,
        input=now.input if now.input is not None else before.input,
        output=now.output if now.output is not None else before.output,
    )


def _place(source: SessionSource) -> _Place:
    return source.chat_id, source.thread_id
