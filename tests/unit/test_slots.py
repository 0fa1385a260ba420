"""
Room for turns: who waits for people takes none, who has the answer waits for his turn, and none is
ever lost.
"""

from __future__ import annotations

import asyncio

from turngate.gateway.turns.slots import Slot, Slots


def is_free(slots: Slots) -> bool:
    """Whether somebody could begin now."""
    return not slots.free.locked()


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
