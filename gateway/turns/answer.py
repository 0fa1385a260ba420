"""Collect what an agent says and uses in a turn, in the form that a transcript keeps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import assert_never

from turngate.gateway.domain.agent_events import (
    LONGEST_ANSWER,
    AgentEvent,
    Ask,
    Done,
    File,
    Send,
    Tool,
    ToolStatus,
    Usage,
    Waiting,
)
from turngate.gateway.domain.errors import AgentError
from turngate.gateway.domain.ports.clock import Clock
from turngate.gateway.domain.transcript import (
    Entry,
    Media,
    MediaType,
    Reasoning,
    Role,
    Text,
    ToolCall,
)
from turngate.gateway.domain.usage import (
    Cost,
    CostStatus,
    Spent,
    Tokens,
)

_MOST_MISSED = 20
_MOST_SENT = 100

Restore = Callable[[str], str]


@dataclass(slots=True)
class _Step:
    """One step of the assistant: its text, the tools it then called, and their results."""

    at: datetime
    pieces: list[str] = field(default_factory=list)
    reasoning: Reasoning | None = None
    calls: dict[str, ToolCall] = field(default_factory=dict)
    results: dict[str, str] = field(default_factory=dict)
    files: list[File] = field(default_factory=list)


class AgentAnswer:
    """The collected answer: real ids instead of pseudonyms, in an order that can be replayed."""

    def __init__(
        self, *, restore: Restore, clock: Clock, for_people: Restore | None = None
    ) -> None:
        self._restore = restore
        self._for_people = for_people or restore
        self._clock = clock
        self._began = clock.monotonic()
        self._steps = [_Step(at=clock.now())]
        self._called_in: dict[str, _Step] = {}
        self._length = 0
        self._sent = 0
        self.spent = Spent()
        self.used_tools = False
        self.missed: list[str] = []

    def add(self, event: AgentEvent) -> None:
        """Add one event."""
        self._length += _length(event)
        # An agent in a loop must not fill the memory or the transcript.
        if self._length > LONGEST_ANSWER:
            raise AgentError(f"it said more than {LONGEST_ANSWER:,} characters")

        match event:
            case Text(text=text):
                self._step(closed_by_calls=True).pieces.append(text)
            case Reasoning():
                step = self._step(closed_by_calls=True)
                step.reasoning = _joined(step.reasoning, event)
            case Tool():
                self._hear_tool(event)
            case Usage():
                self.spent = _with_usage(self.spent, event)
            case File():
                self._step(closed_by_calls=True).files.append(event)
            case Send():
                self._count_sent()
            case Ask() | Waiting() | Done():
                pass
            case _:
                assert_never(event)

    def miss(self, told: str) -> None:
        """Note something that the agent wanted to send and could not."""
        # A refused file never reaches `add`, so it needs a bound of its own.
        if len(self.missed) >= _MOST_MISSED:
            raise AgentError(
                f"it wanted to send more than {_MOST_MISSED} things that cannot be sent"
            )
        self.missed.append(told)

    @property
    def files(self) -> tuple[File, ...]:
        """The files to send besides the text."""
        return tuple(file for step in self._steps for file in step.files)

    @property
    def text(self) -> str:
        """The whole text, with a blank line where a tool was used in between."""
        return self._for_people(
            "\n\n".join(filter(None, ("".join(step.pieces).strip() for step in self._steps)))
        )

    def entries(self) -> tuple[Entry, ...]:
        """Return the transcript entries. The last one carries how long the turn took."""
        entries = [entry for step in self._steps for entry in self._entries_of(step)]
        took = int((self._clock.monotonic() - self._began) * 1000)
        return (*entries[:-1], replace(entries[-1], latency_ms=took)) if entries else ()

    def _count_sent(self) -> None:
        self._sent += 1
        # An agent in a loop would fill the outbox and other users' chats.
        if self._sent > _MOST_SENT:
            raise AgentError(f"it wrote to others more than {_MOST_SENT} times")

    def _hear_tool(self, tool: Tool) -> None:
        self.used_tools = True
        step = self._step_of(tool) or self._step(closed_by_calls=False)
        self._called_in[tool.id] = step
        # Later events of a call may come without its input, and must not erase it.
        if tool.id not in step.calls or tool.input is not None:
            step.calls[tool.id] = ToolCall(id=tool.id, name=tool.name, arguments=tool.input or "{}")
        if tool.status is not ToolStatus.STARTED:
            step.results[tool.id] = tool.output or tool.status.value

    def _step_of(self, tool: Tool) -> _Step | None:
        """Return the step in which a tool was called; None for a new call."""
        # Some agents reuse call ids: a call that starts after its result is another one.
        step = self._called_in.get(tool.id)
        return (
            None if step and tool.status is ToolStatus.STARTED and tool.id in step.results else step
        )

    def _step(self, *, closed_by_calls: bool) -> _Step:
        """Return the current step, or begin a new one."""
        # Text after a call begins a step. Further calls do not until a result comes: calls that ran
        # at the same time are one entry, followed by their results.
        last = self._steps[-1]
        if last.results or (closed_by_calls and last.calls):
            last = _Step(at=self._clock.now())
            self._steps.append(last)
        return last

    def _entries_of(self, step: _Step) -> list[Entry]:
        text = self._for_people("".join(step.pieces))
        if not (text.strip() or step.calls or step.reasoning or step.files):
            return []

        calls = tuple(
            replace(call, arguments=self._restore(call.arguments)) for call in step.calls.values()
        )
        answer_entry = Entry(
            role=Role.ASSISTANT,
            content=(*((Text(text),) if text.strip() else ()), *map(_sent_file, step.files)),
            at=step.at,
            tool_calls=calls,
            reasoning=step.reasoning,
        )
        results = [
            Entry(
                role=Role.TOOL,
                content=(Text(self._restore(output)),),
                at=step.at,
                tool_call_id=call,
            )
            for call, output in step.results.items()
        ]
        return [answer_entry, *results]


def _length(event: AgentEvent) -> int:
    match event:
        case Text(text=text) | Reasoning(text=text):
            return len(text)
        case Tool(input=given, output=got):
            return len(given or "") + len(got or "")
        case File(path=path, name=name):
            return len(path) + len(name or "")
        case Ask(text=text, options=options):
            return len(text) + sum(map(len, options))
        case Send(target=target, text=text):
            return len(target) + len(text)
        case _:
            return 0


def _sent_file(file: File) -> Media:
    """Return the block for a sent file: its name only, as the copy is deleted on arrival."""
    return Media(type=MediaType.FILE, name=file.name)


def _joined(before: Reasoning | None, more: Reasoning) -> Reasoning:
    if before is None:
        return more
    return Reasoning(text=before.text + more.text, signature=more.signature or before.signature)


def _with_usage(spent: Spent, usage: Usage) -> Spent:
    """Add usage. Tokens of several calls add up; the prompt size is that of the last call."""
    tokens = Tokens(
        input=usage.input,
        output=usage.output,
        cache_read=usage.cache_read,
        cache_write=usage.cache_write,
    )
    reported = (
        Cost(usd=usage.cost_usd, status=CostStatus.REPORTED) if usage.cost_usd is not None else None
    )
    cost = spent.cost + reported if spent.cost and reported else reported or spent.cost
    # Not added up: each call of a turn sends the whole prompt again.
    prompt = tokens.input + tokens.cache_read + tokens.cache_write

    return replace(spent, tokens=spent.tokens + tokens, prompt_tokens=prompt, cost=cost)
