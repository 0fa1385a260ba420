"""
The adapter of the two built-in platforms, the web chat and the terminal. Both are a screen that a
local user has open on a conversation.

All messages are in the transcript, and a new screen reads them from there. So only the running
turn, which is not in the transcript yet, is kept here. Any number of screens may watch one
conversation.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta

from turngate.gateway.domain.agent_events import AgentEvent, Tool
from turngate.gateway.domain.errors import Unreachable
from turngate.gateway.domain.ids import TurnId
from turngate.gateway.domain.live_view import (
    Arrived,
    Began,
    FellBehind,
    Happened,
    Live,
    Settled,
    Shown,
)
from turngate.gateway.domain.messages import InboundMessage, MessageKind, SessionSource
from turngate.gateway.domain.outbox import Part, Sent
from turngate.gateway.domain.ports.adapter import Limits, Receive
from turngate.gateway.domain.ports.clock import Clock
from turngate.gateway.domain.transcript import Text

# A screen with a longer queue than this is told to reload the transcript.
_LONGEST_BACKLOG = 1000

_ChatKey = tuple[str | None, str | None]


class Watch:
    """One open screen: the turn that ran when it was opened, and all events since then."""

    def __init__(self, live: Live | None) -> None:
        self.live = live
        self._backlog: asyncio.Queue[Shown] = asyncio.Queue()
        self._fell_behind = False

    async def next(self) -> Shown:
        """Wait for the next event to show."""
        return await self._backlog.get()

    def show(self, shown: Shown) -> None:
        """
        Queue an event without waiting, so that a stalled screen never blocks a turn. A screen whose
        queue is full gets FellBehind and nothing after it.
        """
        if self._fell_behind:
            return
        self._fell_behind = self._backlog.qsize() >= _LONGEST_BACKLOG
        self._backlog.put_nowait(FellBehind() if self._fell_behind else shown)


class Screens:
    """The adapter. `source` maps the name of a conversation to its source."""

    def __init__(self, platform: str, source: Callable[[str], SessionSource], clock: Clock) -> None:
        self.platform = platform
        # A message may have any length, so it is neither measured exactly nor edited.
        self.limits = Limits(largest_part=2**31, measure=len, edit_every=timedelta(0))
        self._source = source
        self._clock = clock
        self._receive: Receive | None = None
        self._live: dict[_ChatKey, Live] = {}
        self._watches: dict[_ChatKey, list[Watch]] = {}

    def source(self, conversation: str) -> SessionSource:
        return self._source(conversation)

    async def run(self, receive: Receive) -> None:
        """Accept messages until cancelled."""
        self._receive = receive
        try:
            await asyncio.Event().wait()
        finally:
            self._receive = None

    async def say(self, conversation: str, message_id: str, text: str) -> None:
        """
        Store a message that the user typed. The same id again is the same message.

        Raises Refused with the reason, StoreError if it could not be stored, Unreachable while the
        adapter does not run.
        """
        await self._store(conversation, message_id, text, MessageKind.NEW)

    async def press(self, conversation: str, message_id: str, nonce: str) -> None:
        """Store the press of a button. Same errors as `say`."""
        await self._store(conversation, message_id, nonce, MessageKind.BUTTON)

    async def _store(
        self, conversation: str, message_id: str, text: str, kind: MessageKind
    ) -> None:
        if self._receive is None:
            raise Unreachable("the gateway is stopping; say it again when it is back")

        message = InboundMessage(
            id=message_id,
            event_ids=(f"{conversation}:{message_id}",),
            source=self._source(conversation),
            text=text,
            sent_at=self._clock.now(),
            kind=kind,
            addressed_to_bot=True,
        )
        await self._receive(message)

    @contextmanager
    def watch(self, conversation: str) -> Iterator[Watch]:
        """Open a screen."""
        key = _key(self._source(conversation))
        live = self._live.get(key)
        watch = Watch(live and live.at_this_moment())
        watches = self._watches.setdefault(key, [])
        watches.append(watch)

        try:
            yield watch
        finally:
            watches.remove(watch)
            if not watches:
                self._watches.pop(key, None)

    async def send(self, part: Part) -> Sent:
        """Show the part on all open screens; there may be none, the transcript has it."""
        self._show(part.target, Arrived(part=part))
        return self._sent(part)

    async def find_sent(self, part: Part, since: datetime) -> Sent | None:
        """Report the part as sent: it is in the transcript, which the next screen shows."""
        return self._sent(part)

    def turn_began(self, target: SessionSource, turn: TurnId, messages: Sequence[str]) -> None:
        """Keep the turn for screens that open while it runs."""
        self._live[_key(target)] = Live(turn=turn, messages=tuple(messages))
        self._show(target, Began(turn=turn, messages=tuple(messages)))

    def turn_event(self, target: SessionSource, turn: TurnId, event: AgentEvent) -> None:
        """Show the event, and add it to what new screens show first."""
        live = self._live.get(_key(target))
        if live is not None and live.turn == turn:
            match event:
                case Text(text=text):
                    live.pieces.append(text)
                case Tool(id=tool):
                    live.tools[tool] = _known_of(live.tools.get(tool), event)
        self._show(target, Happened(turn=turn, event=event))

    def settled(self, target: SessionSource, messages: Sequence[str]) -> None:
        """End the turn, for new screens too."""
        live = self._live.get(_key(target))
        if live is not None and set(live.messages) <= set(messages):
            del self._live[_key(target)]
        self._show(target, Settled(messages=tuple(messages)))

    def _show(self, target: SessionSource, shown: Shown) -> None:
        for watch in self._watches.get(_key(target), ()):
            watch.show(shown)

    def _sent(self, part: Part) -> Sent:
        return Sent(message_id=str(part.id), at=self._clock.now())


class BrowserScreens(Screens):
    """The adapter of the web chat, where a question has buttons."""

    async def ask(self, part: Part) -> Sent:
        """Show a question. Screens that open later get it from the open questions."""
        return await self.send(part)


def _known_of(before: Tool | None, now: Tool) -> Tool:
    """Merge the states of a tool: later events may omit its title and input."""
    if before is None:
        return now
    return replace(
        now,
        title=now.title or before.title,
        input=now.input if now.input is not None else before.input,
        output=now.output if now.output is not None else before.output,
    )


def _key(source: SessionSource) -> _ChatKey:
    return source.chat_id, source.thread_id
