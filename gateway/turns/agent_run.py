"""
Run an agent for one turn: show its events as they happen and collect its answer.

However the run ends, what the agent said until then is kept.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Coroutine, Sequence
from contextlib import aclosing
from dataclasses import replace
from datetime import timedelta
from typing import Protocol

from turngate.gateway.domain.agent_events import (
    WAITING,
    AgentEvent,
    Ask,
    Done,
    File,
    RunEnd,
    Send,
    Tool,
    ToolStatus,
    Turn,
    Usage,
    Waiting,
)
from turngate.gateway.domain.crashpoints import crashpoint
from turngate.gateway.domain.errors import (
    AgentError,
    AgentRefused,
    PromptTooLong,
    Refused,
    RequestRefused,
    StoreError,
)
from turngate.gateway.domain.ports.agent import Agent
from turngate.gateway.domain.ports.clock import Clock
from turngate.gateway.domain.text import clean_label
from turngate.gateway.domain.transcript import Reasoning, Text
from turngate.gateway.observability.observer import Observer
from turngate.gateway.rules.outcomes import AgentResult
from turngate.gateway.rules.policy import TurnTimeouts
from turngate.gateway.rules.stream_restorer import StreamRestorer
from turngate.gateway.stores.session_files import clean_name
from turngate.gateway.turns.answer import AgentAnswer, Restore

SECONDS_TO_LET_GO = 5.0
"""For an agent that was told to stop. Then it is left to itself, and its lane goes on."""

NOT_AVAILABLE = "the agent is not available; the operator can see why"
_SET_ASIDE = "the model refuses this message; the conversation goes on without it"
_TOO_LONG = (
    "this message is longer than the model can read at once; the conversation goes on without it"
)

Show = Callable[[AgentEvent], None]
_Listening = Coroutine[None, None, BaseException | None]


class TurnServices(Protocol):
    """
    What is done for an agent while it runs.

    `acts`: the agent may do harm if it runs twice, whatever it reports.
    """

    @property
    def acts(self) -> bool: ...

    async def mark_not_repeatable(self) -> None:
        """Record it. Called once, before the first tool is shown or the first message is sent."""

    async def keep_file(self, file: File) -> File:
        """Return a copy of a file that is to be sent. Raises Refused or StoreError."""

    async def send_to_chat(self, send: Send) -> None:
        """Send a message to another chat. Raises Refused or StoreError."""

    async def ask(
        self, ask: Ask, text: str, labels: Sequence[str], on_answer: Callable[[], None]
    ) -> bool:
        """
        Ask the user, with the text and labels they are to read.

        Returns whether the agent waits; then `on_answer` is called when it is given the answer.
        """


class NoServices:
    """The services of a run without a user, such as a summary: it may not act, send or ask."""

    acts = False

    async def mark_not_repeatable(self) -> None:
        """Do nothing: such a run has no turn in the store."""

    async def keep_file(self, file: File) -> File:
        raise Refused("files cannot be sent from here")

    async def send_to_chat(self, send: Send) -> None:
        raise Refused("messages cannot be sent to other chats from here")

    async def ask(
        self, ask: Ask, text: str, labels: Sequence[str], on_answer: Callable[[], None]
    ) -> bool:
        raise AgentError("the agent wanted to ask a question, and there is no user to answer it")


class AgentWillNotStop(Exception):
    """The agent ignored its cancellation; the name of this class is what the log shows."""


class AgentRun:
    """
    One run of an agent. Any task of the loop may call `stop`, at any time and repeatedly.

    `restore` puts back what pseudonyms stand for; `for_people` also writes names and decides on
    mentions.
    """

    def __init__(
        self,
        agent: Agent,
        restore: Restore,
        show: Show,
        clock: Clock,
        observer: Observer,
        *,
        for_people: Restore | None = None,
    ) -> None:
        self._agent = agent
        self._restore = restore
        self._for_people = for_people or restore
        self._show = show
        self._observer = observer
        self._limit: asyncio.Timeout | None = None
        self._idle_timeout = 0.0
        self._deadline: float | None = None
        self._asked_at = self._began_at = 0.0
        self._unanswered = 0
        self._stopped = self._given_up = self._finished = self._is_over = self._is_marked = False
        self._has_spoken = False
        self._pause: Tool | None = None
        self._expecting: list[asyncio.Future[bool]] = []
        self._words = StreamRestorer(self._for_people)
        self._thoughts = StreamRestorer(self._for_people)
        self.answer = AgentAnswer(restore=restore, clock=clock, for_people=for_people)
        self.failure: str | None = None
        self.cause: str | None = None
        self.refusal: RequestRefused | None = None

    def stop(self) -> None:
        """Take no more events from the agent. Harmless before the first and after the last."""
        self._stopped = True
        # An expired timeout cannot be moved, and the run ends anyway.
        if self._limit is not None and not self._limit.expired():
            self._limit.reschedule(asyncio.get_running_loop().time())

    async def goes_on(self) -> bool:
        """Wait for the agent's next event. False if there is none."""
        if self._is_over:
            return False
        expected: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._expecting.append(expected)
        return await expected

    async def run(
        self, turn: Turn, timeouts: TurnTimeouts, services: TurnServices | None = None
    ) -> RunEnd:
        """Run until the agent is done, fails, times out or is stopped, and fill `answer`."""
        if self._stopped:
            self._end()
            return RunEnd.STOPPED

        # The clock of the event loop, not the wall clock: a jump of the time of day must not end a
        # turn.
        self._idle_timeout = timeouts.idle.total_seconds()
        self._began_at = asyncio.get_running_loop().time()
        if timeouts.total is not None:
            self._deadline = asyncio.get_running_loop().time() + timeouts.total.total_seconds()

        error = await self._listen(self._hear_all(turn, services or NoServices()))
        # Ctrl-C is meant for the process: it is not an error of the agent.
        if isinstance(error, KeyboardInterrupt):
            raise error

        if isinstance(error, AgentError):
            self._observer.agent_failed(error)
            self.refusal = error if isinstance(error, RequestRefused) else None
            self.failure = self._for_people(_told(error))
            self.cause = self._for_people(str(error))
        elif error is not None:
            # After a timeout we cancelled it ourselves.
            if not (self._given_up and isinstance(error, asyncio.CancelledError)):
                self._observer.bug(error)
            self.failure = "the agent failed with an error"

        return self._ending()

    def result(self, ending: RunEnd, *, stopped_because: str | None = None) -> AgentResult:
        """Return what the run left. `stopped_because`: why it was stopped, if not by a user."""
        return AgentResult(
            ending=ending,
            text=self.answer.text,
            entries=self.answer.entries(),
            files=self.answer.files,
            missed=tuple(self.answer.missed),
            spent=self.answer.spent,
            failure=stopped_because if ending is RunEnd.STOPPED else self.failure,
            cause=self.cause,
            is_refused=self.refusal is not None and not self.answer.text,
        )

    def _ending(self) -> RunEnd:
        """Return how the turn ended."""
        # Checked first: an error raised after the agent's last event or a stop changes nothing.
        if self._finished or self._stopped:
            self.failure = self.cause = self.refusal = None
            return RunEnd.DONE if self._finished else RunEnd.STOPPED

        if self._given_up:
            self._observer.agent_silent()
            self.cause = None
            self.failure = "the agent took too long" if self._is_late() else "the agent fell silent"
            return RunEnd.SILENT

        return RunEnd.FAILED if self.failure is not None else RunEnd.DONE

    async def _listen(self, hearing: _Listening) -> BaseException | None:
        """Return the error that ended the run, if any."""
        # A task of its own: an agent that ignores its cancellation is left behind with it, and the
        # lane continues.
        listening = asyncio.ensure_future(hearing)
        try:
            async with asyncio.timeout_at(self._silent_until()) as self._limit:
                await asyncio.wait({listening})
        # Always the timeout above: `wait` does not raise a TimeoutError of the agent.
        except TimeoutError:
            self._given_up = True
        finally:
            self._limit = None  # from here on `stop` must not move it
            # Also after a normal end, where it does nothing.
            listening.cancel()
            await asyncio.wait({listening}, timeout=SECONDS_TO_LET_GO)
            self._end()
            self._end_pause()
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

    async def _hear_all(self, turn: Turn, services: TurnServices) -> BaseException | None:
        """Consume the agent's events. Returns the error that ended them, if any."""
        try:
            # An agent that may do harm is marked before it starts: it need not report its tools.
            if services.acts:
                await self._mark(services)
            async with aclosing(self._agent.run(turn)) as events:
                async for event in events:
                    # An agent may ignore its cancellation and go on: nothing of that is kept.
                    if self._stopped or self._given_up or self._is_over:
                        break

                    self._wait_longer()
                    if not self._has_spoken and isinstance(event, Text):
                        self._tell_first_text(turn)
                    if _goes_on(event):
                        self._tell_expecting(goes_on=True)

                    crashpoint("mid-stream")
                    if isinstance(event, Waiting):
                        self._show_pause(event)
                        continue

                    self._end_pause()
                    if isinstance(event, Ask):
                        await self._put(event, services)
                    elif (taken := await self._taken(event, services)) is not None:
                        self.answer.add(taken)
                        self._preview(taken)

                    if isinstance(event, Done):
                        self._finished = True
                        break
        # Even a CancelledError or SystemExit that the agent raises itself must end only the turn,
        # not the lane or the daemon.
        # An error here is a value, which `run` looks at.
        except BaseException as exc:  # noqa: BLE001
            return exc

        return None

    def _show_pause(self, waiting: Waiting) -> None:
        """Show among the tools that the agent is waited for, though it is no tool of a turn."""
        told = f"the model has too much to do; asked again in {math.ceil(waiting.seconds)} s"
        self._pause = Tool(id=WAITING, name=WAITING, title=told, status=ToolStatus.STARTED)
        self._show(self._pause)

    def _end_pause(self) -> None:
        if self._pause is not None:
            self._show(replace(self._pause, status=ToolStatus.DONE))
            self._pause = None

    def _tell_first_text(self, turn: Turn) -> None:
        self._has_spoken = True
        self._observer.first_text(
            turn.id, timedelta(seconds=asyncio.get_running_loop().time() - self._began_at)
        )

    def _wait_longer(self) -> None:
        """Restart the idle timeout. There is none while a user is to answer a question."""
        # `stop` has set the timeout to now. Moving it again would undo the stop.
        if self._limit is not None and not (self._limit.expired() or self._stopped):
            self._limit.reschedule(None if self._unanswered else self._silent_until())

    def _silent_until(self) -> float:
        silent_until = asyncio.get_running_loop().time() + self._idle_timeout
        return silent_until if self._deadline is None else min(silent_until, self._deadline)

    def _is_late(self) -> bool:
        return self._deadline is not None and asyncio.get_running_loop().time() >= self._deadline

    async def _put(self, ask: Ask, services: TurnServices) -> None:
        self._show_rest()
        self.answer.add(ask)
        labels = tuple(map(self._for_people, ask.options))
        if await services.ask(ask, self._for_people(ask.text), labels, self._was_answered):
            # No await since the task that gives the answer was started, so it cannot come before it
            # is counted here. With several open questions the time counts from the first one.
            if not self._unanswered:
                self._asked_at = asyncio.get_running_loop().time()
            self._unanswered += 1
        self._wait_longer()

    def _was_answered(self) -> None:
        """Extend the deadline by the time the user took to answer."""
        self._unanswered -= 1
        if not self._unanswered and self._deadline is not None:
            self._deadline += asyncio.get_running_loop().time() - self._asked_at
        self._wait_longer()

    async def _taken(self, event: AgentEvent, services: TurnServices) -> AgentEvent | None:
        """Return what is kept of an event; None if nothing is."""
        # On disk before it is shown or sent: after a crash the turn must not run again.
        if isinstance(event, Tool | Send):
            await self._mark(services)
        if isinstance(event, Send):
            await self._send(event, services)
            return None
        return await self._copied(event, services) if isinstance(event, File) else event

    async def _mark(self, services: TurnServices) -> None:
        if not self._is_marked:
            await services.mark_not_repeatable()
        self._is_marked = True

    async def _send(self, send: Send, services: TurnServices) -> None:
        """Send to another chat at once. The user is informed only if that fails."""
        # Counted before it is sent, so that an agent in a loop reaches its limit whatever happens.
        self.answer.add(send)
        target = self._restore(send.target)
        restored = replace(send, target=target, text=self._for_people(send.text))
        try:
            await services.send_to_chat(restored)
        except (Refused, StoreError) as exc:
            self._observer.not_sent_elsewhere(exc)
            self.answer.miss(f"A message to {clean_label(restored.target)} was not sent: {exc}.")

    async def _copied(self, file: File, services: TurnServices) -> File | None:
        """Copy a file as it is now. None if that is refused, which the answer then says."""
        named = replace(file, name=clean_name(self._restore(file.name or file.path)))
        try:
            return await services.keep_file(named)
        except (Refused, StoreError) as exc:
            self._observer.file_refused(exc)
            self.answer.miss(f"The file {named.name} was not sent: {exc}.")
            return None

    def _preview(self, event: AgentEvent) -> None:
        """Show an event. Text is held back while a pseudonym could be incomplete at its end."""
        match event:
            case Text(text=text):
                self._show_words(self._words.feed(text))
            case Reasoning(text=text):
                self._show_thoughts(self._thoughts.feed(text))
            case Tool():
                # Text that was held back came before the tool, so it is shown before it.
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


def _told(error: AgentError) -> str:
    """Return why there is no answer, in words for users."""
    if isinstance(error, PromptTooLong):
        return _TOO_LONG
    if isinstance(error, RequestRefused):
        return _SET_ASIDE
    return NOT_AVAILABLE if isinstance(error, AgentRefused) else str(error)


def _goes_on(event: AgentEvent) -> bool:
    """Return whether an event shows new work: not the end of an earlier tool, nor usage."""
    return not isinstance(event, Usage | Waiting | Done) and not (
        isinstance(event, Tool) and event.status is not ToolStatus.STARTED
    )


def restored_tool(tool: Tool, restore: Restore) -> Tool:
    """Return a tool event with real ids, for display."""
    return replace(
        tool,
        title=tool.title and restore(tool.title),
        input=tool.input and restore(tool.input),
        output=tool.output and restore(tool.output),
    )
