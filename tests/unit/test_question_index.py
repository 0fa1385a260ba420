"""How long a question may be answered, whatever the time of day becomes."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from tests.fakes import NOON, FrozenClock, dm, message
from turngate.gateway.domain.ids import PartId, SessionKey
from turngate.gateway.domain.messages import InboundMessage, MessageKind
from turngate.gateway.domain.outbox import (
    Button,
    Does,
    Part,
    Question,
)
from turngate.gateway.turns.question_index import (
    NOT_OPEN,
    TOO_LATE,
    OpenQuestions,
)

KEY = SessionKey("agent:main:telegram:dm:42")
HOUR = timedelta(hours=1)


def question() -> Part:
    """Asked at noon, for an hour."""
    about = Question(does=Does.RERUN, person="42", key=KEY, expires_at=NOON + HOUR)
    buttons = (Button(label="Run it again", nonce="n"),)
    return Part(
        id=PartId(1), target=dm(), text="Again?", buttons=buttons, question=about, created_at=NOON
    )


def press() -> InboundMessage:
    return replace(message("n"), kind=MessageKind.BUTTON)


def why_not(questions: OpenQuestions) -> str | None:
    choice = questions.choice_in(press(), KEY)
    return NOT_OPEN if choice is None else questions.why_not(choice, press())


@pytest.mark.parametrize("days", [1, 365, -1])
def test_a_question_is_open_for_its_hour_however_the_clock_is_set_meanwhile(days: int) -> None:
    clock = FrozenClock()
    questions = OpenQuestions(clock)
    questions.add(question())

    clock.jump(days=days)
    assert why_not(questions) is None
    clock.advance(minutes=59)
    assert why_not(questions) is None
    clock.advance(minutes=1)
    assert why_not(questions) == TOO_LATE


def test_one_of_an_earlier_run_has_what_is_left_of_its_hour() -> None:
    clock = FrozenClock(NOON + timedelta(minutes=50))
    questions = OpenQuestions(clock)
    questions.add(question())

    clock.advance(minutes=9)
    assert why_not(questions) is None
    clock.advance(minutes=1)
    assert why_not(questions) == TOO_LATE


def test_one_of_an_earlier_run_has_no_more_than_its_hour_if_the_clock_was_set_back() -> None:
    clock = FrozenClock(NOON - timedelta(days=1))
    questions = OpenQuestions(clock)
    questions.add(question())

    clock.advance(hours=1)
    assert why_not(questions) == TOO_LATE
