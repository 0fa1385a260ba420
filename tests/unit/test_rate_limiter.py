"""What goes out keeps to the rates of its account and its chat, and hints give way to answers."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise

import pytest

from tests.at_work import at_desk
from tests.hurry import hurried, later
from turngate.gateway.domain.errors import Throttled
from turngate.gateway.domain.messages import ChatType, SessionSource
from turngate.gateway.domain.ports.adapter import (
    CallKind,
    Limits,
    MethodClass,
    PlatformCall,
    Rate,
)
from turngate.gateway.outbound.rate_limiter import RateLimiter


def limits(*, per_chat: Rate | None = None, per_account: Rate | None = None) -> Limits:
    return Limits(
        largest_part=4000,
        measure=len,
        edit_every=timedelta(seconds=1),
        per_chat=per_chat,
        per_account=per_account,
    )


def rate(count: int, seconds: float) -> Rate:
    return Rate(count=count, per=timedelta(seconds=seconds))


def now() -> float:
    return asyncio.get_running_loop().time()


async def answers(
    rate_limiter: RateLimiter, limits: Limits, count: int, target: SessionSource | None = None
) -> list[float]:
    """When each of them went."""
    went = []
    for _ in range(count):
        await rate_limiter.admit(target or at_desk(), limits)
        went.append(now())
    return went


def hinted(rate_limiter: RateLimiter, limits: Limits, target: SessionSource | None = None) -> bool:
    with rate_limiter.hint(target or at_desk(), limits) as may:
        return may


def throttle(rate_limiter: RateLimiter, seconds: float, *, everywhere: bool = False) -> None:
    error = Throttled("slow down", retry_after=seconds, everywhere=everywhere)
    with pytest.raises(Throttled), rate_limiter.limited(at_desk(), limits()):
        raise error


EDIT = PlatformCall(kind=CallKind.EDIT, message_id="m1")


def by_method(count: int, seconds: float = 60.0, **more: Rate) -> Limits:
    """Return limits under which edits are counted together, and sends are not."""
    edits = MethodClass(name="edits", rate=rate(count, seconds))

    def class_of(target: SessionSource, call: PlatformCall) -> MethodClass | None:
        return edits if call.kind is CallKind.EDIT else None

    return replace(limits(**more), class_of=class_of)


def edited(rate_limiter: RateLimiter, limits: Limits, chat: str) -> bool:
    with rate_limiter.hint(at_desk(chat), limits, EDIT) as may:
        return may


async def preview(
    rate_limiter: RateLimiter, limits: Limits, chat: str, seconds: int
) -> list[float]:
    """When each edit of a preview went that grows every second."""
    went = []
    for _ in range(seconds):
        if edited(rate_limiter, limits, chat):
            went.append(now())
        await asyncio.sleep(1.0)
    return went


def most_within(seconds: float, went: list[float]) -> int:
    return max(sum(start <= each < start + seconds - 1e-3 for each in went) for start in went)


@hurried
class TestRates:
    async def test_a_group_can_have_a_rate_of_its_own(self) -> None:
        group = replace(at_desk(), chat_type=ChatType.GROUP)
        both = replace(limits(per_chat=rate(1, 1)), per_group=rate(1, 3))

        assert await answers(RateLimiter(), both, 3) == [0.0, 1.0, 2.0]
        began = now()
        assert [went - began for went in await answers(RateLimiter(), both, 3, group)] == [
            0.0,
            3.0,
            6.0,
        ]

    async def test_without_a_rate_nothing_waits(self) -> None:
        assert await answers(RateLimiter(), limits(), 1000) == [0.0] * 1000

    async def test_no_stretch_of_time_sees_more_than_the_rate(self) -> None:
        went = await answers(RateLimiter(), limits(per_chat=rate(20, 60)), 100)

        assert most_within(60, went) == 20
        assert went[-1] == pytest.approx(240)

    async def test_nor_does_one_that_begins_in_the_middle_of_a_burst(self) -> None:
        rate_limiter, kept = RateLimiter(), limits(per_chat=rate(20, 60))
        went = await answers(rate_limiter, kept, 7)
        await later(50)
        went += await answers(rate_limiter, kept, 50)

        assert most_within(60, went) == 20

    async def test_a_chat_that_used_up_its_rate_delays_no_other(self) -> None:
        rate_limiter, kept = RateLimiter(), limits(per_chat=rate(1, 60), per_account=rate(30, 1))
        async with asyncio.TaskGroup() as tasks:
            waiting = tasks.create_task(answers(rate_limiter, kept, 3))
            await asyncio.sleep(0)
            assert await answers(rate_limiter, kept, 1, at_desk("other")) == [0.0]

        assert waiting.result() == [0.0, pytest.approx(60), pytest.approx(120)]

    async def test_all_chats_of_an_account_share_its_rate_in_the_order_in_which_they_came(
        self,
    ) -> None:
        rate_limiter, kept = RateLimiter(), limits(per_account=rate(30, 1))
        went: list[tuple[float, int]] = []

        async def answer(number: int) -> None:
            await rate_limiter.admit(at_desk(f"chat{number}"), kept)
            went.append((now(), number))

        async with asyncio.TaskGroup() as tasks:
            for number in range(100):
                tasks.create_task(answer(number))

        assert [number for _, number in went] == list(range(100))
        assert most_within(1, [at for at, _ in went]) == 30

    async def test_two_of_one_chat_that_stood_in_line_keep_to_its_rate(self) -> None:
        rate_limiter, kept = RateLimiter(), limits(per_chat=rate(1, 10), per_account=rate(1, 1))
        await rate_limiter.admit(at_desk("other"), kept)
        async with asyncio.TaskGroup() as tasks:
            both = [tasks.create_task(answers(rate_limiter, kept, 1)) for _ in range(2)]

        assert [each.result() for each in both] == [[pytest.approx(1)], [pytest.approx(11)]]

    async def test_an_answer_that_is_given_up_in_line_lets_the_others_go(self) -> None:
        rate_limiter, kept = RateLimiter(), limits(per_account=rate(1, 10))
        await rate_limiter.admit(at_desk(), kept)
        first = asyncio.ensure_future(rate_limiter.admit(at_desk(), kept))
        await later(1)
        second = asyncio.ensure_future(answers(rate_limiter, kept, 1))
        await later(1)
        first.cancel()

        assert await second == [pytest.approx(10)]

    @pytest.mark.parametrize(("count", "seconds"), [(0, 1), (-1, 1), (1, -1)])
    async def test_a_rate_that_lets_nothing_pass_cannot_be_made(
        self, count: int, seconds: float
    ) -> None:
        with pytest.raises(ValueError, match="lets nothing pass"):
            rate(count, seconds)


@hurried
class TestPauses:
    async def test_the_pause_of_one_chat_is_kept_to_the_second_and_by_no_other(self) -> None:
        rate_limiter = RateLimiter()
        throttle(rate_limiter, 7.5)

        assert await answers(rate_limiter, limits(), 1, at_desk("other")) == [0.0]
        assert await answers(rate_limiter, limits(), 1) == [7.5]

    async def test_a_pause_of_the_account_is_kept_by_all_its_chats_and_by_no_other_account(
        self,
    ) -> None:
        rate_limiter = RateLimiter()
        throttle(rate_limiter, 7.5, everywhere=True)
        second = SessionSource(platform="web", account="second", chat_id="desk")

        assert await answers(rate_limiter, limits(), 1, second) == [0.0]
        assert await answers(rate_limiter, limits(), 1, at_desk("other")) == [7.5]

    async def test_a_shorter_pause_does_not_end_a_longer_one(self) -> None:
        rate_limiter = RateLimiter()
        throttle(rate_limiter, 60)
        throttle(rate_limiter, 1)

        assert await answers(rate_limiter, limits(), 1) == [60.0]

    async def test_whoever_would_have_to_wait_can_know_it(self) -> None:
        rate_limiter = RateLimiter()
        throttle(rate_limiter, 60)

        assert rate_limiter.has_to_wait(at_desk(), limits())
        assert not rate_limiter.has_to_wait(at_desk("other"), limits())
        await later(60)
        assert not rate_limiter.has_to_wait(at_desk(), limits())

    async def test_a_platform_that_asks_for_ever_is_asked_again_the_next_day(self) -> None:
        rate_limiter = RateLimiter()
        throttle(rate_limiter, float("inf"))

        assert await answers(rate_limiter, limits(), 1) == [86400.0]


@hurried
class TestHints:
    async def test_hints_leave_half_of_the_room_to_answers(self) -> None:
        rate_limiter, kept = RateLimiter(), limits(per_chat=rate(20, 60))

        assert sum(hinted(rate_limiter, kept) for _ in range(30)) == 10
        assert await answers(rate_limiter, kept, 10) == [0.0] * 10

    async def test_a_rate_of_one_lets_a_hint_pass_too(self) -> None:
        rate_limiter, kept = RateLimiter(), limits(per_chat=rate(1, 1))

        assert [hinted(rate_limiter, kept), hinted(rate_limiter, kept)] == [True, False]
        assert await answers(rate_limiter, kept, 1) == [1.0]

    async def test_a_hint_gives_way_while_an_answer_of_its_chat_waits(self) -> None:
        rate_limiter = RateLimiter()
        rate_limiter.answer_waits(at_desk())
        rate_limiter.answer_waits(at_desk())
        rate_limiter.answer_is_over(at_desk())

        assert not hinted(rate_limiter, limits())
        assert hinted(rate_limiter, limits(), at_desk("other"))
        rate_limiter.answer_is_over(at_desk())
        assert hinted(rate_limiter, limits())

    async def test_a_hint_gives_way_while_any_answer_stands_in_line(self) -> None:
        rate_limiter, kept = RateLimiter(), limits(per_account=rate(2, 10))
        await answers(rate_limiter, kept, 2)
        waiting = asyncio.ensure_future(rate_limiter.admit(at_desk(), kept))
        await asyncio.sleep(0)

        assert not hinted(rate_limiter, limits(), at_desk("other"))
        await waiting

    async def test_a_throttled_hint_makes_its_chat_wait(self) -> None:
        rate_limiter = RateLimiter()
        with pytest.raises(Throttled), rate_limiter.hint(at_desk(), limits()):
            raise Throttled("slow down", retry_after=5.0)

        assert not hinted(rate_limiter, limits())
        assert await answers(rate_limiter, limits(), 1) == [5.0]


@hurried
class TestMemory:
    async def test_chats_that_hold_nobody_up_are_forgotten(self) -> None:
        rate_limiter, kept = RateLimiter(), limits(per_chat=rate(1, 1))
        for number in range(5000):
            await rate_limiter.admit(at_desk(f"chat{number}"), kept)
            await later(0.1)

        assert len(rate_limiter._chats) < 100

    async def test_a_pause_is_not_forgotten(self) -> None:
        rate_limiter = RateLimiter()
        throttle(rate_limiter, 3600)
        for number in range(500):
            await rate_limiter.admit(at_desk(f"chat{number}"), limits())

        assert len(rate_limiter._chats) < 100
        assert await answers(rate_limiter, limits(), 1) == [3600.0]

    async def test_nothing_is_kept_of_answers_that_are_over(self) -> None:
        rate_limiter = RateLimiter()
        rate_limiter.answer_waits(at_desk())
        rate_limiter.answer_is_over(at_desk())

        assert not rate_limiter._answers


@hurried
class TestMethods:
    """Finding H5: a platform may count each method over all chats of an account."""

    async def test_calls_of_one_class_share_its_rate_over_all_chats(self) -> None:
        rate_limiter, kept = RateLimiter(), by_method(2, 10)
        for chat in ("one", "two", "three"):
            await rate_limiter.admit(at_desk(chat), kept, EDIT)

        assert now() == 10.0
        assert await answers(rate_limiter, kept, 5) == [10.0] * 5, "sends are not counted there"

    async def test_each_account_has_its_own(self) -> None:
        rate_limiter, kept = RateLimiter(), by_method(1, 10)
        await rate_limiter.admit(at_desk(), kept, EDIT)
        await rate_limiter.admit(replace(at_desk(), account="second"), kept, EDIT)

        assert now() == 0.0

    async def test_answers_of_a_class_are_served_in_the_order_in_which_they_came(self) -> None:
        rate_limiter, kept = RateLimiter(), by_method(1, 10)
        order = list[str]()

        async def answer(chat: str) -> None:
            await rate_limiter.admit(at_desk(chat), kept, EDIT)
            order.append(chat)

        async with asyncio.TaskGroup() as tasks:
            for chat in "abc":
                tasks.create_task(answer(chat))

        assert (order, now()) == (["a", "b", "c"], 20.0)

    async def test_previews_leave_half_of_the_rate_to_answers(self) -> None:
        rate_limiter, kept = RateLimiter(), by_method(50)
        async with asyncio.TaskGroup() as tasks:
            shown = [
                tasks.create_task(preview(rate_limiter, kept, f"chat{number}", 20))
                for number in range(6)
            ]
        assert sum(len(each.result()) for each in shown) <= 25
        began = now()
        for number in range(25):
            await rate_limiter.admit(at_desk(f"chat{number}"), kept, EDIT)

        assert now() == began

    async def test_previews_slow_down_as_more_of_them_grow_and_take_turns(self) -> None:
        went = dict[int, list[int]]()
        for count in (1, 6):
            rate_limiter, kept = RateLimiter(), by_method(50)
            async with asyncio.TaskGroup() as tasks:
                shown = [
                    tasks.create_task(preview(rate_limiter, kept, f"chat{number}", 120))
                    for number in range(count)
                ]
            went[count] = [len(each.result()) for each in shown]
            gaps = [later - earlier for each in shown for earlier, later in pairwise(each.result())]
            assert max(gaps) <= 10.0 * count, "none stands still"

        assert went[1][0] > 2 * max(went[6])
        assert max(went[6]) - min(went[6]) <= 2

    async def test_a_short_answer_grows_at_the_pace_of_its_preview(self) -> None:
        rate_limiter, kept = RateLimiter(), by_method(50)

        assert len(await preview(rate_limiter, kept, "one", 6)) == 6

    async def test_a_preview_gives_way_to_an_answer_that_waits(self) -> None:
        rate_limiter, kept = RateLimiter(), by_method(2, 10)
        await rate_limiter.admit(at_desk(), kept, EDIT)
        await rate_limiter.admit(at_desk(), kept, EDIT)
        waiting = asyncio.ensure_future(rate_limiter.admit(at_desk(), kept, EDIT))
        await asyncio.sleep(1)

        assert not edited(rate_limiter, kept, "other")
        assert hinted(rate_limiter, kept, at_desk("other")), "a send concerns nobody there"
        await waiting

    async def test_a_preview_that_found_no_room_does_not_count_as_one_that_passed(self) -> None:
        """A full chat must not slow the previews of the others down."""
        rate_limiter, kept = RateLimiter(), by_method(50, per_chat=rate(1, 60))
        for number in range(7):
            assert edited(rate_limiter, kept, f"chat{number}")
        await asyncio.sleep(5)
        assert not edited(rate_limiter, kept, "chat0")

        assert edited(rate_limiter, kept, "another")

    async def test_a_pause_of_one_class_closes_that_class_and_no_chat(self) -> None:
        rate_limiter, kept = RateLimiter(), by_method(50)
        error = Throttled("slow down", retry_after=7.5)
        with pytest.raises(Throttled), rate_limiter.limited(at_desk(), kept, EDIT):
            raise error

        assert await answers(rate_limiter, kept, 1) == [0.0]
        assert rate_limiter.has_to_wait(at_desk("other"), kept, EDIT)
        await rate_limiter.admit(at_desk("other"), kept, EDIT)
        assert now() == 7.5

    async def test_six_answers_that_grow_at_once_end_when_they_are_written(self) -> None:
        """The platform counts, and answers what is too much with a pause."""
        rate_limiter, kept = RateLimiter(), by_method(50)
        edits = list[float]()
        refused = 0

        async def edit() -> None:
            nonlocal refused
            if sum(at > now() - 60 for at in edits) >= 50:
                refused += 1
                raise Throttled("slow down", retry_after=60 - (now() - edits[-50]))
            edits.append(now())

        async def grow(chat: str) -> float:
            for _ in range(20):
                with suppress(Throttled), rate_limiter.hint(at_desk(chat), kept, EDIT) as may:
                    if may:
                        await edit()
                await asyncio.sleep(1)
            await rate_limiter.admit(at_desk(chat), kept, EDIT)
            with rate_limiter.limited(at_desk(chat), kept, EDIT):
                await edit()
            return now()

        ended = await asyncio.gather(*(grow(f"chat{number}") for number in range(6)))

        assert (ended, refused) == ([20.0] * 6, 0)
