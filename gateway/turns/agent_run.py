"""
One turn with the agent: runs it, shows what it does as it happens, and keeps what it said.

An agent may talk for ten minutes, fall silent, or be told to stop. Whatever happens, what it had said by then is kept.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from datetime import timedelta
from enum import StrEnum

from turngate.gateway.domain.crashpoints import crashpoint
from turngate.gateway.domain.errors import AgentError, AgentRefused, Refused, StoreError
from turngate.gateway.domain.messages import (
    AgentEvent,
    Ask,
    Done,
    File,
    Reasoning,
    Send,
    Text,
    Tool,
    ToolStatus,
    Turn,
    Usage,
)
from turngate.gateway.domain.ports.adapter import Agent, Clock
from turngate.gateway.domain.text import clean_label
from turngate.gateway.observability.observer import Observer
from turngate.gateway.rules.redaction import StreamRestorer
from turngate.gateway.stores.session_files import clean_name
from turngate.gateway.turns.answer import Restore, Said

SECONDS_TO_LET_GO = 5.0
"""For an agent that was told to stop. Then it is left to itself, and its lane goes on."""

NOT_AVAILABLE = "the agent is not available; whoever runs it can see why"

Show = Callable[[AgentEvent], None]
FirstTool = Callable[[], Awaitable[None]]
KeepFile = Callable[[File], Awaitable[File]]
SendElsewhere = Callable[[Send], Awaitable[None]]
Answered = Callable[[], None]
PutQuestion = Callable[[Ask, str, Sequence[str], Answered], Awaitable[bool]]
_Hearing = Coroutine[None, None, BaseException | None]


async def _nothing_to_do() -> None:
    """For a turn that leaves no trace."""


async def _nothing_is_taken(file: File) -> File:
    raise Refused("files cannot be sent from here")


async def _nobody_is_written_to(send: Send) -> None:
    raise Refused("nobody can be written to from here")


async def _nobody_is_asked(ask: Ask, text: str, labels: Sequence[str], answered: Answered) -> bool:
    raise AgentError("the agent wanted to ask a question, and there is nobody here to answer it")


@dataclass(frozen=True, slots=True, kw_only=True)
class Hands:
    """
    What is done for a turn while it runs.

    `first_tool` is awaited before the first tool is shown. `keep_file` gives the copy of a file that goes out, or
    raises Refused or StoreError. `send_elsewhere` sends what is for others, or raises the same. `put_question` gets a
    question with the words that people are to read; True if the agent waits, and then it calls back when the agent is
    told the answer. `acts`: the agent may do harm if it runs twice, whatever it shows of it.
    """

    first_tool: FirstTool = _nothing_to_do
    keep_file: KeepFile = _nothing_is_taken
    send_elsewhere: SendElsewhere = _nobody_is_written_to
    put_question: PutQuestion = _nobody_is_asked
    acts: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long an agent may be silent, and how long a turn may take in all."""

    idle: timedelta
    total: timedelta | None = None


class AgentWillNotStop(Exception):
    """A bug of the agent, by a name that the log can tell."""


class Ending(StrEnum):
    """How the agent's work came to its end."""

    DONE = "done"
    STOPPED = "stopped"
    SILENT = "silent"
    FAILED = "failed"


class AgentRun:
    """A turn that runs. `stop` may come at any time, from any task of the loop, more than once."""

    def __init__(
        self, agent: Agent, restore: Restore, show: Show, clock: Clock, observer: Observer
    ) -> None:
        self._agent = agent
        self._restore = restore
        self._show = show
        self._observer = observer
        self._limit: asyncio.Timeout | None = None
        self._patience = 0.0
        self._deadline: float | None = None
        self._asked_at = self._began_at = 0.0
        self._unanswered = 0
        self._stopped = self._given_up = self._finished = self._is_over = self._is_marked = False
        self._has_spoken = False
        self._expecting: list[asyncio.Future[bool]] = []
        self._words, self._thoughts = StreamRestorer(restore), StreamRestorer(restore)
        self.said = Said(restore=restore, clock=clock)
        self.failure: str | None = None

    def stop(self) -> None:
        """Take no more from the agent. Harmless before the first word and after the last."""
        self._stopped = True
        if self._limit is not None and not self._limit.expired():
            self._limit.reschedule(asyncio.get_running_loop().time())

    async def goes_on(self) -> bool:
        """Wait for what the agent says or does next. False if it does nothing more."""
        if self._is_over:
            return False
        expected: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._expecting.append(expected)
        return await expected

    async def run(self, turn: Turn, patience: Patience, hands: Hands | None = None) -> Ending:
        """Until the agent is done, fails, takes too long, or is told to stop. What it said is in `said`."""
        if self._stopped:
            self._end()
            return Ending.STOPPED
        self._patience = patience.idle.total_seconds()
        self._began_at = asyncio.get_running_loop().time()
        if patience.total is not None:
            self._deadline = asyncio.get_running_loop().time() + patience.total.total_seconds()
        error = await self._listen(self._hear_all(turn, hands or Hands()))
        if isinstance(error, KeyboardInterrupt):
            raise error
        if isinstance(error, AgentError):
            self._observer.agent_failed(error)
            self.failure = (
                NOT_AVAILABLE if isinstance(error, AgentRefused) else self._restore(str(error))
            )
        elif error is not None:
            if not (self._given_up and isinstance(error, asyncio.CancelledError)):
                self._observer.bug(error)
            self.failure = "the agent broke down"
        return self._ending()

    def _ending(self) -> Ending:
        """Nothing that an agent does after its last word, or after it was cut off, changes how the turn ended."""
        if self._finished or self._stopped:
            self.failure = None
            return Ending.DONE if self._finished else Ending.STOPPED
        if self._given_up:
            self._observer.agent_silent()
            self.failure = "the agent took too long" if self._is_late() else "the agent fell silent"
            return Ending.SILENT
        return Ending.FAILED if self.failure is not None else Ending.DONE

    async def _listen(self, hearing: _Hearing) -> BaseException | None:
        """
        What ended it, if that was an error. The agent has a task of its own: one that takes no notice of being
        cancelled is left behind with it, and holds up nobody.
        """
        listening = asyncio.ensure_future(hearing)
        try:
            async with asyncio.timeout_at(self._silent_until()) as self._limit:
                await asyncio.wait({listening})
        except TimeoutError:
            self._given_up = True
        finally:
            self._limit = None  # its time is over: it can no longer be moved
            listening.cancel()
            await asyncio.wait({listening}, timeout=SECONDS_TO_LET_GO)
            self._end()
            self._show_rest()
        return listening.result() if listening.done() else AgentWillNotStop()

    def _end(self) -> None:
        self._is_over = True
        self._tell_expecting(goes_on=False)

    def _tell_expecting(self, *, goes_on: bool) -> None:
        for expected in self._expecting:
            if not expected.done():
                expected.set_result(goes_on)
        self._expecting.clear()

    async def _hear_all(self, turn: Turn, hands: Hands) -> BaseException | None:
        """An agent is somebody else's code: whatever it raises ends the turn and no task, and what it said is kept."""
        try:
            if hands.acts:
                await self._mark(hands)
            async with aclosing(self._agent.run(turn)) as events:
                async for event in events:
                    if self._stopped or self._given_up or self._is_over:
                        break
                    self._wait_longer()
                    if not self._has_spoken and isinstance(event, Text):
                        self._tell_first_text(turn)
                    if _goes_on(event):
                        self._tell_expecting(goes_on=True)
                    crashpoint("mid-stream")
                    if isinstance(event, Ask):
                        await self._put(event, hands)
                    elif (taken := await self._taken(event, hands)) is not None:
                        self.said.hear(taken)
                        self._preview(taken)
                    if isinstance(event, Done):
                        self._finished = True
                        break
        except BaseException as exc:  # noqa: BLE001 - an error here is a value, which `run` looks at
            return exc
        return None

    def _tell_first_text(self, turn: Turn) -> None:
        self._has_spoken = True
        self._observer.first_text(
            turn.id, timedelta(seconds=asyncio.get_running_loop().time() - self._began_at)
        )

    def _wait_longer(self) -> None:
        """Whoever waits for an answer may be silent: how long people may think is for others to say."""
        if self._limit is not None and not (self._limit.expired() or self._stopped):
            self._limit.reschedule(None if self._unanswered else self._silent_until())

    def _silent_until(self) -> float:
        silent_until = asyncio.get_running_loop().time() + self._patience
        return silent_until if self._deadline is None else min(silent_until, self._deadline)

    def _is_late(self) -> bool:
        return self._deadline is not None and asyncio.get_running_loop().time() >= self._deadline

    async def _put(self, ask: Ask, hands: Hands) -> None:
        self._show_rest()
        self.said.hear(ask)
        labels = tuple(map(self._restore, ask.options))
        if await hands.put_question(ask, self._restore(ask.text), labels, self._was_answered):
            if not self._unanswered:
                self._asked_at = asyncio.get_running_loop().time()
            self._unanswered += 1
        self._wait_longer()

    def _was_answered(self) -> None:
        """How long people took to think is not the agent's time."""
        self._unanswered -= 1
        if not self._unanswered and self._deadline is not None:
            self._deadline += asyncio.get_running_loop().time() - self._asked_at
        self._wait_longer()

    async def _taken(self, event: AgentEvent, hands: Hands) -> AgentEvent | None:
        """What is kept of it. A tool at work is on disk before anybody sees it: after a crash it must not run again."""
        if isinstance(event, Tool | Send):
            await self._mark(hands)
        if isinstance(event, Send):
            await self._send(event, hands)
            return None
        return await self._copied(event, hands) if isinstance(event, File) else event

    async def _mark(self, hands: Hands) -> None:
        if not self._is_marked:
            await hands.first_tool()
        self._is_marked = True

    async def _send(self, send: Send, hands: Hands) -> None:
        """Somewhere else, at once. The person who asked hears of it only if it could not be sent."""
        self.said.hear(send)
        restored = replace(send, target=self._restore(send.target), text=self._restore(send.text))
        try:
            await hands.send_elsewhere(restored)
        except (Refused, StoreError) as exc:
            self._observer.not_sent_elsewhere(exc)
            self.said.miss(f"A message to {clean_label(restored.target)} was not sent: {exc}.")

    async def _copied(self, file: File, hands: Hands) -> File | None:
        """As it is now: the agent may change it afterwards. None for one that cannot be taken: that is told."""
        named = replace(file, name=clean_name(self._restore(file.name or file.path)))
        try:
            return await hands.keep_file(named)
        except (Refused, StoreError) as exc:
            self._observer.file_refused(exc)
            self.said.miss(f"The file {named.name} was not sent: {exc}.")
            return None

    def _preview(self, event: AgentEvent) -> None:
        """Pseudonyms never reach a screen, so text is shown as soon as none can be hiding at its end."""
        match event:
            case Text(text=text):
                self._show_words(self._words.feed(text))
            case Reasoning(text=text):
                self._show_thoughts(self._thoughts.feed(text))
            case Tool():
                if event.status is ToolStatus.STARTED:
                    self._show_rest()
                self._show(restored_tool(event, self._restore))
            case _:
                self._show_rest()
                self._show(event)

    def _show_rest(self) -> None:
        self._show_thoughts(self._thoughts.rest())
        self._show_words(self._words.rest())

    def _show_words(self, text: str) -> None:
        if text:
            self._show(Text(text))

    def _show_thoughts(self, text: str) -> None:
        if text:
            self._show(Reasoning(text=text))


def _goes_on(event: AgentEvent) -> bool:
    """Whether it is something new: not the end of what was begun before, nor what that cost."""
    return not isinstance(event, Usage | Done) and not (
        isinstance(event, Tool) and event.status is not ToolStatus.STARTED
    )


def restored_tool(tool: Tool, restore: Restore) -> Tool:
    """A tool as people may see it."""
    return replace(
        tool,
        title=tool.title and restore(tool.title),
        input=tool.input and restore(tool.input),
        output=tool.output and restore(tool.output),
    )
