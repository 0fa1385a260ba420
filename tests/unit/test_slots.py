"""
Room for turns: who waits for people takes none, who has the answer waits for his turn, and none is
ever lost.
"""

from __future__ import annotations

import asyncio

from turngate.gateway.turns.slots import Holder, Slot, Slots


def is_free(slots: Slots) -> bool:
    """Whether somebody could begin now."""
    return not slots.is_full


async def test_who_rests_lets_another_work() -> None:
    slots = Slots(1)
    async with Slot(slots) as slot:
        assert not is_free(slots)
        slot.release()
        assert is_free(slots)
        await slot.reacquire()
        assert not is_free(slots)
    assert is_free(slots)


async def test_who_goes_on_waits_until_there_is_room() -> None:
    slots = Slots(1)
    async with Slot(slots) as slot:
        slot.release()
        async with Slot(slots):
            going_on = asyncio.ensure_future(slot.reacquire())
            await asyncio.sleep(0)
            assert not going_on.done()
        await going_on


async def test_only_as_many_may_rest_as_may_work() -> None:
    slots = Slots(1)
    async with Slot(slots) as first:
        first.release()
        async with Slot(slots) as second:
            second.release()
            assert not is_free(slots)
        assert is_free(slots)


async def test_several_questions_and_answers_take_and_give_one_slot() -> None:
    slots = Slots(2)
    async with Slot(slots) as slot:
        slot.release()
        slot.release()
        async with Slot(slots), Slot(slots):
            both = asyncio.gather(slot.reacquire(), slot.reacquire())
            await asyncio.sleep(0)
        await both
        async with Slot(slots):
            assert not is_free(slots)
    assert slots.may_release == 2


async def test_an_answer_that_comes_when_the_turn_is_over_takes_nothing() -> None:
    slots = Slots(1)
    slot = await Slot(slots).__aenter__()
    slot.release()
    async with Slot(slots):
        late = asyncio.ensure_future(slot.reacquire())
        await asyncio.sleep(0)
        await slot.__aexit__(None, None, None)
    await late
    assert is_free(slots)
    assert slots.may_release == 1


async def test_room_that_is_taken_away_while_nobody_works_is_gone_at_once() -> None:
    slots = Slots(3)
    slots.resize(1)
    async with Slot(slots):
        assert not is_free(slots)
    assert is_free(slots)


async def test_room_that_is_taken_away_from_those_at_work_is_gone_when_they_are_done() -> None:
    slots = Slots(2)
    async with Slot(slots):
        async with Slot(slots):
            slots.resize(1)
        assert not is_free(slots)
    assert is_free(slots)


async def test_room_that_is_added_lets_those_in_who_wait() -> None:
    slots = Slots(1)
    async with Slot(slots):
        waiting = asyncio.ensure_future(Slot(slots).__aenter__())
        await asyncio.sleep(0)
        assert not waiting.done()
        slots.resize(2)
        await waiting


async def holding(slots: Slots, *holders: Holder) -> list[asyncio.Task[Slot]]:
    """Everybody tries to take a slot, in this order."""
    tasks = [asyncio.ensure_future(Slot(slots, holder).__aenter__()) for holder in holders]
    await asyncio.sleep(0)
    return tasks


def served(tasks: list[asyncio.Task[Slot]]) -> int:
    return sum(task.done() for task in tasks)


async def leave(*tasks: asyncio.Task[Slot]) -> None:
    for task in tasks:
        await (await task).__aexit__(None, None, None)
    await asyncio.sleep(0)


class TestShares:
    """Findings R7 and R18: nobody takes all slots."""

    async def test_of_several_agents_one_takes_at_most_half(self) -> None:
        slots = Slots(8, agents=2)
        dead = await holding(slots, *[Holder(agent="dead", person=f"{n}") for n in range(20)])
        assert served(dead) == 4
        (other,) = await holding(slots, Holder(agent="healthy", person="x"))
        assert other.done()

    async def test_an_agent_that_is_alone_takes_all(self) -> None:
        slots = Slots(8)
        assert served(await holding(slots, *[Holder(person=f"{n}") for n in range(20)])) == 8

    async def test_one_person_takes_at_most_a_quarter(self) -> None:
        slots = Slots(8)
        many = await holding(slots, *[Holder(person="eager")] * 120)
        assert served(many) == 2
        (other,) = await holding(slots, Holder(person="calm"))
        assert other.done()

    async def test_with_few_slots_everybody_can_still_have_one(self) -> None:
        slots = Slots(1, agents=3)
        first, second = await holding(slots, Holder(agent="a", person="1"), Holder(agent="b"))
        assert (first.done(), second.done()) == (True, False)
        await leave(first)
        assert second.done()

    async def test_nobody_in_particular_is_not_limited(self) -> None:
        slots = Slots(8)
        assert served(await holding(slots, *[Holder()] * 8)) == 8

    async def test_people_are_served_one_after_the_other(self) -> None:
        slots = Slots(4)
        running = await holding(slots, *[Holder(person=f"{n}") for n in range(4)])
        eager = await holding(slots, *[Holder(person="eager")] * 5)
        calm = await holding(slots, Holder(person="calm"), Holder(person="mild"))
        await leave(*running[:3])
        assert (served(eager), served(calm)) == (1, 2)

    async def test_who_leaves_while_waiting_is_passed_over_and_forgotten(self) -> None:
        slots = Slots(1)
        (first,) = await holding(slots, Holder(person="a"))
        gone, next_ = await holding(slots, Holder(person="b"), Holder(person="c"))
        gone.cancel()
        await leave(first)
        assert next_.done()
        await leave(next_)
        assert not slots.is_full

    async def test_a_slot_given_to_somebody_who_leaves_at_that_moment_is_not_lost(self) -> None:
        slots = Slots(1)
        (first,) = await holding(slots, Holder(person="a"))
        (gone,) = await holding(slots, Holder(person="b"))
        slot = await first
        await slot.__aexit__(None, None, None)
        gone.cancel()
        await asyncio.wait({gone})
        assert is_free(slots)

    async def test_a_turn_of_another_agent_than_expected_waits_for_its_share(self) -> None:
        slots = Slots(2, agents=2)
        (first,) = await holding(slots, Holder(agent="dead"))
        (other,) = await holding(slots, Holder(agent="main"))
        moving = asyncio.ensure_future((await other).count_for("dead"))
        await asyncio.sleep(0)
        assert not moving.done()
        assert not slots.is_full
        await leave(first)
        await moving
        await leave(other)
        assert is_free(slots)

    async def test_a_second_agent_takes_half_of_the_slots_from_the_first_as_turns_end(self) -> None:
        slots = Slots(4)
        running = await holding(slots, *[Holder(agent="a")] * 4)
        slots.resize(4, agents=2)
        waiting = await holding(slots, *[Holder(agent="a")] * 2, Holder(agent="b"))
        await leave(*running[:2])
        assert [task.done() for task in waiting] == [False, False, True]
        await leave(*running[2:])
        assert [task.done() for task in waiting] == [True, True, True]
