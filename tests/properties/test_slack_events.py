"""
Whatever Slack sends, made of its recorded samples: nothing breaks, no words are lost, and what gets
into the store can be read from there.
"""

from __future__ import annotations

import json
from contextlib import suppress
from datetime import UTC, datetime
from itertools import cycle, islice

from tests import specifications
from tests.full_length import is_full_length
from tests.simulators.slack.samples import Maker, kinds
from turngate.adapters.slack.identity import BotIdentity, EventContext
from turngate.adapters.slack.lookup_keys import keys_of
from turngate.adapters.slack.normalise import normalise
from turngate.gateway.domain.messages import InboundMessage, MessageKind
from turngate.gateway.domain.serialization import from_dict, to_dict

CASES = 20_000 if is_full_length() else 1_000
ME = BotIdentity(
    user="U0BOT", bot="B0BOT", team="", account="main", commands=frozenset({"new", "stop"})
)
NOW = datetime.fromtimestamp(1790000030, UTC)
_WITH_WORDS = {MessageKind.NEW, MessageKind.EDIT}


def read(body: dict[str, object]) -> InboundMessage | None:
    return None if keys_of(body) is None else normalise(body, ME, EventContext(), NOW)


def is_stored_as_it_is(message: InboundMessage) -> bool:
    return from_dict(InboundMessage, json.loads(json.dumps(to_dict(message)))) == message


@specifications.NEEDED
def test_no_event_is_beyond_understanding_and_no_words_are_lost() -> None:
    """As the samples are, with fields left out, and with types of tomorrow."""
    maker = Maker(seed=1)
    messages = 0

    for name in islice(cycle(kinds()), CASES):
        body = maker.regular(name)
        message = read(body)
        if message is not None:
            assert is_stored_as_it_is(message)
        if message is not None and message.kind in _WITH_WORDS:
            messages += 1
            lost = [word for word in maker.words if word not in message.text]
            assert not lost, (name, lost, body)
        else:
            assert not maker.words, (name, body)

    assert messages > CASES // 20


@specifications.NEEDED
def test_values_of_wrong_types_never_get_into_the_store() -> None:
    """Finding R6. What cannot be converted is set aside as it came."""
    maker = Maker(seed=2)
    converted = 0

    for name in islice(cycle(kinds()), CASES):
        body = maker.broken(name)
        with suppress(ValueError, OverflowError):
            message = read(body)
            assert message is None or is_stored_as_it_is(message), body
            converted += 1

    assert converted > CASES // 2
