"""
A turn as a dialogue that every model accepts: it begins and ends with a user, the two sides
alternate, and every tool call has its result right after it. Each agent kind then converts it to
its own protocol.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from turngate.gateway.agents.blocks import (
    Content,
    Opener,
    TextBlock,
)
from turngate.gateway.agents.plain_text import Marks
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
    A tool call of an earlier turn, with its result. `id` is new: ids of agents may repeat, or
    contain characters that a model server refuses.
    """

    id: str
    name: str
    arguments: dict[str, Json]
    result: str = _NO_RESULT


@dataclass(frozen=True, slots=True, kw_only=True)
class Utterance:
    """One message of one side; only the assistant has `calls` and `thinking`."""

    by_person: bool
    content: tuple[Content, ...]
    calls: tuple[Call, ...] = ()
    thinking: Reasoning | None = None


def has_files(turn: Turn) -> bool:
    """Return whether files must be read: then `dialogue` is to be called in a thread."""
    return any(message.attachments for message in turn.messages)


def dialogue(turn: Turn, *, images: bool) -> list[Utterance]:
    """Return the history and the new messages as one dialogue, with its final texts redacted."""
    marks = Marks.of(turn)
    opener = Opener(marks, images=images)
    utterances = _recall(turn.history, marks)
    utterances += [_heard(message, opener, marks) for message in turn.messages]
    return [_redacted(each, turn.redact) for each in _alternating(utterances)]


def _redacted(utterance: Utterance, redact: Callable[[str], str]) -> Utterance:
    """Redact what one side said. Arguments of calls are values as they were, and are redacted."""
    content = tuple(
        TextBlock(redact(each.text)) if isinstance(each, TextBlock) else each
        for each in utterance.content
    )
    calls = tuple(replace(each, result=redact(each.result)) for each in utterance.calls)
    return replace(utterance, content=content, calls=calls)


def _heard(message: InboundMessage, opener: Opener, marks: Marks) -> Utterance:
    files = tuple(opener.block(each) for each in message.attachments)
    # In a shared chat also for a file without text: the mark before it names the sender.
    has_words = bool(message.text.strip()) or not files or marks.shared
    words = (TextBlock(marks.spoken(message)),) if has_words else ()
    return Utterance(by_person=True, content=(*words, *files))


@dataclass(slots=True)
class _Numbers:
    """The calls of the last assistant entry by the ids that its results name."""

    count: int = 0
    open: dict[str, int] = field(default_factory=dict)

    def call(self, call: ToolCall, index: int) -> Call:
        self.count += 1
        self.open[call.id] = index
        return Call(id=f"call_{self.count}", name=call.name, arguments=_arguments(call.arguments))


def _recall(history: Iterable[Entry], marks: Marks) -> list[Utterance]:
    utterances: list[Utterance] = []
    numbers = _Numbers()

    for entry in history:
        if entry.role is Role.TOOL:
            index = numbers.open.pop(entry.tool_call_id or "", None)
            # `open` has entries only while the last utterance is the one with the calls.
            if index is not None:
                utterances[-1] = _with_result(utterances[-1], index, marks.recalled(entry))
            continue
        numbers.open.clear()
        utterance = _recalled(entry, numbers, marks)
        if utterance.content or utterance.calls:
            utterances.append(utterance)

    return utterances


def _recalled(entry: Entry, numbers: _Numbers, marks: Marks) -> Utterance:
    words = marks.recalled(entry)
    content = (TextBlock(words),) if words.strip() else ()
    # A summary is no answer of the model, so it stands on the user's side.
    if entry.role is not Role.ASSISTANT or entry.origin is Origin.SUMMARY:
        return Utterance(by_person=True, content=content)
    calls = tuple(numbers.call(call, index) for index, call in enumerate(entry.tool_calls))
    return Utterance(
        by_person=False, content=content, calls=calls, thinking=entry.reasoning if calls else None
    )


def _with_result(utterance: Utterance, index: int, result: str) -> Utterance:
    calls = [*utterance.calls]
    calls[index] = replace(calls[index], result=result or _NO_RESULT)
    return replace(utterance, calls=tuple(calls))


def _alternating(utterances: Sequence[Utterance]) -> list[Utterance]:
    """Merge neighbours of the same side, and let the dialogue begin with a user."""
    merged: list[Utterance] = []
    for each in utterances:
        # After calls come their results, which separate the two.
        if merged and merged[-1].by_person is each.by_person and not merged[-1].calls:
            merged[-1] = replace(each, content=merged[-1].content + each.content)
        else:
            merged.append(each)
    if merged and not merged[0].by_person:
        merged.insert(0, Utterance(by_person=True, content=(_WE_BEGAN,)))
    return merged


def _arguments(written: str) -> dict[str, Json]:
    """Return the arguments as an object, which every protocol requires."""
    try:
        value: Json = json.loads(written)
    except (ValueError, RecursionError):
        value = written
    return value if isinstance(value, dict) else {"input": value}
