"""Two bots facing each other."""

from __future__ import annotations

from dataclasses import replace

from tests.fakes import FrozenClock
from turngate.gateway.domain.messages import ChatType, SessionSource
from turngate.gateway.inbound.bot_loop_guard import (
    MOST_CHATS,
    MOST_IN_A_ROW,
    BotLoopGuard,
)

CHAT = SessionSource(platform="telegram", chat_type=ChatType.GROUP, chat_id="-100", user_id="777")


def answered(
    standoff: BotLoopGuard, clock: FrozenClock, times: int, chat: SessionSource = CHAT
) -> int:
    return sum(not standoff.bot_spoke(chat, clock.monotonic()) for _ in range(times))


def test_a_few_in_a_row_are_answered_and_no_more_however_long_they_go_on() -> None:
    standoff, clock = BotLoopGuard(), FrozenClock()

    assert answered(standoff, clock, 100) == MOST_IN_A_ROW
    for _ in range(100):
        clock.advance(minutes=59)
        assert answered(standoff, clock, 1) == 0


def test_a_person_who_speaks_there_begins_a_new_row_and_one_elsewhere_does_not() -> None:
    standoff, clock = BotLoopGuard(), FrozenClock()
    answered(standoff, clock, 100)

    standoff.person_spoke(replace(CHAT, chat_id="-200"))
    standoff.person_spoke(replace(CHAT, account="support"))
    assert answered(standoff, clock, 1) == 0
    standoff.person_spoke(replace(CHAT, user_id="ann", thread_id="7"))
    assert answered(standoff, clock, 100) == MOST_IN_A_ROW


def test_a_row_ends_by_itself_when_the_bots_pause_for_an_hour() -> None:
    standoff, clock = BotLoopGuard(), FrozenClock()
    answered(standoff, clock, 100)

    clock.advance(hours=1)

    assert answered(standoff, clock, 1) == 1


def test_a_clock_that_is_set_ends_no_row() -> None:
    standoff, clock = BotLoopGuard(), FrozenClock()
    answered(standoff, clock, 100)

    for days in (1, -2, 365):
        clock.jump(days=days)
        assert answered(standoff, clock, 1) == 0


def test_what_is_remembered_is_bounded() -> None:
    standoff, clock = BotLoopGuard(), FrozenClock()
    for number in range(3 * MOST_CHATS):
        standoff.bot_spoke(replace(CHAT, chat_id=str(number)), clock.monotonic())

    assert len(standoff._rows) == MOST_CHATS
