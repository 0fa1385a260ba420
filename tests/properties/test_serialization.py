"""Every type of the vocabulary survives the way to JSON text and back."""

from __future__ import annotations

import json
import types
import typing
from contextlib import suppress
from dataclasses import dataclass, fields, is_dataclass
from datetime import datetime, time, timedelta, timezone
from enum import Enum
from functools import cache

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fakes import user
from tests.full_length import examples
from turngate.gateway.domain import (
    agent_events,
    messages,
    outbox,
    session,
    transcript,
    usage,
)
from turngate.gateway.domain.agent_events import AgentEvent
from turngate.gateway.domain.errors import MalformedRecord
from turngate.gateway.domain.ids import LARGEST_NUMBER
from turngate.gateway.domain.serialization import from_dict, to_dict
from turngate.gateway.domain.session import Session
from turngate.gateway.domain.transcript import Entry

VOCABULARY = (messages, transcript, session, agent_events, outbox, usage)
TYPES = [
    thing
    for module in VOCABULARY
    for thing in vars(module).values()
    if isinstance(thing, type) and is_dataclass(thing) and thing.__module__ == module.__name__
]

LIKE_JSON = [
    "",
    "null",
    "true",
    "0",
    "1e5",
    "[]",
    "{}",
    '"',
    '[{"type":"text","text":"hi"}]',
    '{"type":"image"}',
    "\\u0000",
]
# One kind of lone surrogate only: two that make a pair are one character to JSON.
texts = (
    st.sampled_from(LIKE_JSON)
    | st.text(max_size=8)
    | st.text(alphabet='\udfff\x00\n"\\', max_size=4)
)

PLAIN: dict[object, st.SearchStrategy[object]] = {
    str: texts,
    int: st.integers(-LARGEST_NUMBER, LARGEST_NUMBER),
    float: st.floats(allow_nan=False, allow_infinity=False),
    bool: st.booleans(),
    type(None): st.none(),
    time: st.times(),
    # Beyond some 270 years a duration in seconds no longer holds its microseconds.
    timedelta: st.timedeltas(min_value=timedelta(0), max_value=timedelta(days=36_500)),
    datetime: st.datetimes(
        min_value=datetime(1900, 1, 1),  # noqa: DTZ001 - the strategy adds the zone
        max_value=datetime(2200, 1, 1),  # noqa: DTZ001
        timezones=st.sampled_from(
            [timezone(timedelta(minutes=minutes)) for minutes in (0, 345, 840, -720)]
        ),
    ),
}


@cache
def values(hint: object) -> st.SearchStrategy[typing.Any]:
    """Values of an annotation, so that a type added tomorrow is tested tomorrow."""
    if hint in PLAIN:
        return PLAIN[hint]
    if isinstance(hint, typing.NewType):
        return values(hint.__supertype__)
    if typing.get_origin(hint) is tuple:
        return st.lists(values(typing.get_args(hint)[0]), max_size=3).map(tuple)
    if typing.get_origin(hint) in (types.UnionType, typing.Union):
        return st.one_of([values(member) for member in typing.get_args(hint)])
    if isinstance(hint, type) and issubclass(hint, Enum):
        return st.sampled_from(hint)
    assert isinstance(hint, type), f"no values for {hint!r}"
    hints = typing.get_type_hints(hint)
    kept = [field.name for field in fields(hint) if field.compare]
    return st.builds(hint, **{name: values(hints[name]) for name in kept})


def through_json(value: object) -> object:
    return json.loads(json.dumps(to_dict(value), allow_nan=False))


def test_the_vocabulary_was_found() -> None:
    assert {Session, Entry, *typing.get_args(AgentEvent)} < set(TYPES)


@pytest.mark.parametrize("cls", TYPES, ids=lambda cls: cls.__name__)
@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_a_value_comes_back_from_json_as_it_was(cls: type, data: st.DataObject) -> None:
    value = data.draw(values(cls))

    assert from_dict(cls, through_json(value)) == value


@dataclass(frozen=True, slots=True, kw_only=True)
class Transmission:
    """A record of ours with a union in it, as a stream of events has."""

    events: tuple[AgentEvent, ...]


@settings(deadline=None)
@given(transmission=st.builds(Transmission, events=values(tuple[AgentEvent, ...])))
def test_events_come_back_as_the_same_kind_of_event(transmission: Transmission) -> None:
    assert from_dict(Transmission, through_json(transmission)) == transmission


@settings(deadline=None)
@given(typed=texts)
def test_text_stays_the_very_text_that_was_typed(typed: str) -> None:
    assert from_dict(Entry, through_json(user(typed))).text == typed


scraps = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=examples(200), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data(), scrap=scraps)
def test_a_spoiled_record_is_read_or_refused_and_nothing_else(
    data: st.DataObject, scrap: object
) -> None:
    cls = data.draw(st.sampled_from(TYPES))
    record = to_dict(data.draw(values(cls)))
    spoiled = record | {
        data.draw(st.sampled_from([field.name for field in fields(cls)] or ["type"])): scrap
    }

    with suppress(MalformedRecord):
        assert isinstance(from_dict(cls, spoiled), cls)
