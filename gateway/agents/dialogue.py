"""
A turn as a dialogue that every model takes: it begins and ends with a person, the two sides
alternate, and every call of a tool has its result right after it. Each kind then writes it in the
words of its own protocol.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from turngate.gateway.agents.blocks import (
    Content,
    Opener,
    TextBlock,
)
from turngate.gateway.agents.plain_text import recalled, spoken
from turngate.gateway.domain.agent_events import Turn
from turngate.gateway.domain.messages import InboundMessage
from turngate.gateway.domain.serialization import Json
from turngate.gateway.domain.transcript import (
    Entry,
    Origin,
    Reasoning,
    Role,
    ToolCall,
)

_WE_BEGAN = TextBlock("(You wrote first.)")
_NO_RESULT = "[result unavailable]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """
    A tool that was used in an earlier turn, and what it gave back. Ids are made anew: some repeat,
    some are odd.
    """

    id: str
    name: str
    arguments: dict[str, Json]
    result: str = _NO_RESULT


@dataclass(frozen=True, slots=True, kw_only=True)
class Utterance:
    """What one side said in one breath; `calls` and `thinking` are the assistant's alone."""

    by_person: bool
    content: tuple[Content, ...]
    calls: tuple[Call, ...] = ()
    thinking: Reasoning | None = None


def has_files(turn: Turn) -> bool:
    """Whether the dialogue is to be made in a thread, since files must be read."""
    return any(message.attachments for message in turn.messages)


def dialogue(turn: Turn, *, images: bool) -> list[Utterance]:
    """All that was said, and what is said now."""
    opener = Opener(images=images)
    said = _recall(turn.history, shared=turn.shared)
    said += [_heard(message, opener, shared=turn.shared) for message in turn.messages]
    return _alternating(said)


def _heard(message: InboundMessage, opener: Opener, *, shared: bool) -> Utterance:
    files = tuple(opener.block(each) for each in message.attachments)
    has_words = bool(message.text.strip()) or not files or shared
    words = (TextBlock(spoken(message, shared=shared)),) if has_words else ()
    return Utterance(by_person=True, content=(*words, *files))


@dataclass(slots=True)
class _Numbers:
    """The calls of the last assistant entry by the ids that its results name."""

    count: int = 0
    open: dict[str, int] = field(default_factory=dict)

    def call(self, call: ToolCall, place: int) -> Call:
        self.count += 1
        self.open[call.id] = place
        return Call(id=f"call_{self.count}", name=call.name, arguments=_arguments(call.arguments))


def _recall(history: Iterable[Entry], *, shared: bool) -> list[Utterance]:
    said: list[Utterance] = []
    numbers = _Numbers()

    for entry in history:
        if entry.role is Role.TOOL:
            place = numbers.open.pop(entry.tool_call_id or "", None)
            if place is not None:
                said[-1] = _with_result(said[-1], place, recalled(entry, shared=shared))
            continue
        numbers.open.clear()
        utterance = _recalled(entry, numbers, shared=shared)
        if utterance.content or utterance.calls:
            said.append(utterance)

    return said


def _recalled(entry: Entry, numbers: _Numbers, *, shared: bool) -> Utterance:
    """A summary is nobody's answer: it is told, as a person would."""
    words = recalled(entry, shared=shared)
    content = (TextBlock(words),) if words.strip() else ()
    if entry.role is not Role.ASSISTANT or entry.origin is Origin.SUMMARY:
        return Utterance(by_person=True, content=content)
    calls = tuple(numbers.call(call, place) for place, call in enumerate(entry.tool_calls))
    return Utterance(
        by_person=False, content=content, calls=calls, thinking=entry.reasoning if calls else None
    )


def _with_result(utterance: Utterance, place: int, result: str) -> Utterance:
    calls = [*utterance.calls]
    calls[place] = replace(calls[place], result=result or _NO_RESULT)
    return replace(utterance, calls=tuple(calls))


def _alternating(said: Sequence[Utterance]) -> list[Utterance]:
    """Neighbours of one side become one, unless results stand between them."""
    merged: list[Utterance] = []
    for each in said:
        if merged and merged[-1].by_person is each.by_person and not merged[-1].calls:
            merged[-1] = replace(each, content=merged[-1].content + each.content)
        else:
            merged.append(each)
    if merged and not merged[0].by_person:
        merged.insert(0, Utterance(by_person=True, content=(_WE_BEGAN,)))
    return merged


def _arguments(written: str) -> dict[str, Json]:
    """An object, as every protocol wants it, whatever an agent wrote."""
    try:
        value: Json = json.loads(written)
    except (ValueError, RecursionError):
        value = written
    return value if isinstance(value, dict) else {"input": value}
