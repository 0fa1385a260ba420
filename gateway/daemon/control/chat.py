"""
The daemon's side of `turngate chat`: input arrives, events go out, until the terminal disconnects.

A terminal may stall for hours, and no turn waits for it. Text that it has not read yet is joined;
one that has missed too much gets an event that says so.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from turngate.gateway.daemon.control.chat_events import (
    LARGEST_MESSAGE,
    ChatCommand,
    ChatEvent,
    Hello,
    MessageStored,
    NotStored,
    Say,
    event_json,
)
from turngate.gateway.daemon.control.requests import (
    Line,
    Requests,
    taking,
)
from turngate.gateway.domain.agent_events import (
    Ask,
    File,
    Tool,
)
from turngate.gateway.domain.errors import (
    MalformedRecord,
    Refused,
    Retryable,
    StoreError,
)
from turngate.gateway.domain.ids import TurnId
from turngate.gateway.domain.live_view import (
    Began,
    FellBehind,
    Happened,
    Screens,
    Shown,
    Watch,
)
from turngate.gateway.domain.serialization import Json, from_dict
from turngate.gateway.domain.transcript import Text

_LONGEST_BACKLOG = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Chat:
    """The session of this terminal; without a name, the main one."""

    session: str | None = None


def chat_requests(screens: Screens, commands: Sequence[ChatCommand]) -> Requests:
    """Return the verb by name. `screens` is the adapter of the terminal."""

    async def chat(asked: Chat, line: Line) -> Json:
        conversation = asked.session or ""
        with screens.watch(conversation) as watch:
            # Filled before the first await: no later event of the turn may precede its beginning.
            backlog = _Backlog()
            backlog.put(Hello(commands=tuple(commands)))
            _put_what_runs(watch, backlog)
            async with asyncio.TaskGroup() as tasks:
                at_work = [
                    tasks.create_task(_show(watch, backlog)),
                    tasks.create_task(backlog.pass_on(line)),
                ]
                await _listen(screens, conversation, line, backlog)
                for task in at_work:
                    task.cancel()

        return None

    return {"chat": taking(Chat, chat)}


async def _listen(screens: Screens, conversation: str, line: Line, backlog: _Backlog) -> None:
    """Receive messages until the terminal disconnects."""
    while True:
        try:
            request = await line.next()
            if request is None:
                return
            message = from_dict(Say, request.get("say"))
        except ConnectionError:
            return
        except MalformedRecord as exc:
            backlog.put(NotStored(id="", reason=str(exc)))
            continue

        backlog.put(await _say(screens, conversation, message))


async def _say(screens: Screens, conversation: str, message: Say) -> MessageStored | NotStored:
    size = len(message.text.encode("utf-8", "replace"))
    if size > LARGEST_MESSAGE:
        return NotStored(id=message.id, reason=too_long(size))
    try:
        await screens.say(conversation, message.id, message.text)
    except (Refused, StoreError, Retryable) as exc:
        return NotStored(id=message.id, reason=str(exc))
    return MessageStored(id=message.id)


def too_long(size: int) -> str:
    """Return why a message of this size in bytes is refused, and what to do instead."""
    return (
        f"a message of {size:,} bytes is too long; send at most {LARGEST_MESSAGE:,}, or name "
        "a file instead"
    )


def _put_what_runs(watch: Watch, backlog: _Backlog) -> None:
    """Queue the events of a running turn from its beginning, as if it happened now."""
    live = watch.live
    if live is None:
        return
    backlog.put(Began(turn=live.turn, messages=live.messages))
    for tool in live.tools.values():
        backlog.put(Happened(turn=live.turn, event=tool))
    backlog.put(Happened(turn=live.turn, event=Text(live.text)))


async def _show(watch: Watch, backlog: _Backlog) -> None:
    while not isinstance(shown := await watch.next(), FellBehind):
        if _is_for_reading(shown):
            backlog.put(shown)
    backlog.put(shown)


def _is_for_reading(shown: Shown) -> bool:
    return not isinstance(shown, Happened) or isinstance(shown.event, Text | Tool | File | Ask)


class _Backlog:
    """
    The events that the terminal has not read yet. A full backlog ends with FellBehind, and later
    events are dropped.
    """

    def __init__(self) -> None:
        self._waiting: deque[ChatEvent] = deque()
        self._text_of: TurnId | None = None
        self._pieces: list[str] = []
        self._is_full = False
        self._some = asyncio.Event()

    def put(self, event: ChatEvent) -> None:
        """Add an event without waiting. Consecutive text of one turn is joined."""
        match event:
            case Happened(turn=turn, event=Text(text=text)) if turn == self._text_of:
                self._pieces.append(text)
            case Happened(turn=turn, event=Text(text=text)):
                self._end_text()
                self._text_of, self._pieces = turn, [text]
            case _:
                self._end_text()
                self._append(event)

        self._some.set()

    async def pass_on(self, line: Line) -> None:
        """Send the events in order, as fast as the terminal reads them."""
        try:
            while True:
                await self._some.wait()
                # Text is closed only when all else is sent: until then more of it is joined.
                if not self._waiting:
                    self._end_text()
                    self._some.clear()
                while self._waiting:
                    await line.item(event_json(self._waiting.popleft()))
        except ConnectionError:
            return  # the terminal has disconnected, which ends `_listen` as well

    def _end_text(self) -> None:
        if self._text_of is not None:
            self._append(Happened(turn=self._text_of, event=Text("".join(self._pieces))))
            self._text_of, self._pieces = None, []

    def _append(self, event: ChatEvent) -> None:
        if self._is_full:
            return
        if len(self._waiting) >= _LONGEST_BACKLOG:
            self._is_full = True
            event = FellBehind()
        self._waiting.append(event)
