"""
What every store promises of sessions that come to an end: which are due, who has to hear of it,
what is kept.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import time, timedelta

import pytest

from tests.fakes import FrozenClock, add_entries, assistant, dm, message, said
from tests.talk import begin, exchange, key_of, opening
from turngate.gateway.domain.errors import UnknownSession
from turngate.gateway.domain.messages import ChatType, SessionSource
from turngate.gateway.domain.outbox import Part
from turngate.gateway.domain.ports.store import Store
from turngate.gateway.domain.session import (
    EndReason,
    ResetPolicy,
    Session,
)
from turngate.gateway.domain.store_values import Claim, Outcome
from turngate.gateway.domain.transcript import (
    Entry,
    Origin,
    Role,
    Text,
)
from turngate.gateway.rules.session_lifecycle import ResetPolicies

HOUR = timedelta(hours=1)
EVER = timedelta(days=36_500)
IDLE = ResetPolicy(idle_after=HOUR)
NEVER = ResetPolicy()


def group(chat: str, *, platform: str = "telegram") -> SessionSource:
    """A group in which everybody talks in one conversation."""
    return SessionSource(platform=platform, chat_type=ChatType.GROUP, chat_id=chat)


async def due(store: Store, policies: ResetPolicies) -> set[str | None]:
    """The chats of the sessions that are."""
    return {session.origin.chat_id async for session in store.due(policies.for_kind)}


async def told_of(store: Store) -> list[tuple[str, int]]:
    """Whose endings are to be told now, and how often that was tried."""
    return [(ending.session.id, ending.attempts) for ending in await store.endings()]


class TestDue:
    async def test_a_session_is_due_by_the_policy_of_its_platform_else_of_its_chat_type_else_by_the_default(  # noqa: E501
        self, store: Store, clock: FrozenClock
    ) -> None:
        for id_, source in enumerate(
            (dm("1"), group("2"), dm("3", platform="slack"), group("4", platform="slack"))
        ):
            await exchange(store, id=str(id_), source=source)
        clock.advance(hours=2)

        assert await due(store, ResetPolicies(default=IDLE)) == {"1", "2", "3", "4"}
        assert await due(store, ResetPolicies(by_chat_type={ChatType.GROUP: IDLE})) == {"2", "4"}
        assert await due(store, ResetPolicies(default=IDLE, by_platform={"slack": NEVER})) == {
            "1",
            "2",
        }
        assert await due(store, ResetPolicies(by_platform={"slack": IDLE})) == {"3", "4"}
        assert await due(store, ResetPolicies()) == set()

    async def test_a_session_is_due_just_after_its_time_and_not_at_it(
        self, store: Store, clock: FrozenClock
    ) -> None:
        await exchange(store, source=dm("1"))
        clock.advance(hours=1)
        at_the_time = await due(store, ResetPolicies(default=IDLE))
        clock.advance(milliseconds=1)

        assert (at_the_time, await due(store, ResetPolicies(default=IDLE))) == (set(), {"1"})

    async def test_a_session_is_due_by_whichever_of_its_two_times_comes_first(
        self, store: Store, clock: FrozenClock
    ) -> None:
        both = ResetPolicies(default=ResetPolicy(idle_after=timedelta(days=9), daily_at=time(13)))
        await exchange(store, source=dm("1"))
        clock.advance(minutes=59)
        before = await due(store, both)
        clock.advance(minutes=2)

        assert (before, await due(store, both)) == (set(), {"1"})

    async def test_what_has_ended_or_is_no_longer_current_or_was_deleted_is_not_due(
        self, store: Store, clock: FrozenClock
    ) -> None:
        sessions = [await exchange(store, id=str(n), source=dm(str(n))) for n in range(4)]
        clock.advance(hours=2)
        await store.end_if_due(sessions[0].id, opening(dm("0"), IDLE))
        await store.reset(key_of(dm("1")))
        await store.delete(sessions[2].id)

        assert await due(store, ResetPolicies(default=IDLE)) == {"3"}

    async def test_more_than_a_page_of_them_are_all_found_once(
        self, store: Store, clock: FrozenClock
    ) -> None:
        for number in range(230):
            await store.open(opening(dm(str(number))))
        clock.advance(hours=2)
        found = [
            session.origin.chat_id
            async for session in store.due(ResetPolicies(default=IDLE).for_kind)
        ]

        assert sorted(map(int, filter(None, found))) == list(range(230))

    async def test_a_message_makes_a_session_that_was_due_young_again(
        self, store: Store, clock: FrozenClock
    ) -> None:
        await exchange(store)
        clock.advance(hours=2)
        await exchange(store, id="2")

        assert await due(store, ResetPolicies(default=IDLE)) == set()

    async def test_a_chat_that_moved_is_due_where_it_is_now(
        self, store: Store, clock: FrozenClock
    ) -> None:
        await exchange(store, source=group("1"))
        await store.move_chat(group("1"), "-100", key_of)
        clock.advance(hours=2)

        assert await due(store, ResetPolicies(by_chat_type={ChatType.GROUP: IDLE})) == {"-100"}


class TestAtTheSameMoment:
    @pytest.mark.parametrize("first", ["sweep", "message"])
    async def test_the_sweep_and_a_message_reset_a_session_once_and_the_person_is_told(
        self, store: Store, clock: FrozenClock, first: str
    ) -> None:
        sources = [dm(str(number)) for number in range(40)]
        old = [await exchange(store, id="1", source=source) for source in sources]
        clock.advance(hours=2)
        sweeping = [
            store.end_if_due(session.id, opening(source, IDLE))
            for session, source in zip(old, sources, strict=True)
        ]
        writing = [begin(store, message(id="2", source=source), IDLE) for source in sources]
        both = (
            zip(sweeping, writing, strict=True)
            if first == "sweep"
            else zip(writing, sweeping, strict=True)
        )
        await asyncio.gather(*(each for pair in both for each in pair))

        for session, source in zip(old, sources, strict=True):
            now = await store.current(key_of(source))
            assert now is not None
            assert now.notice is not None
            assert (now.notice.reason, now.notice.previous) == (EndReason.IDLE, session.id)
            assert now.end_reason is None
        assert sorted(await told_of(store)) == sorted((session.id, 0) for session in old)
        assert len(await store.sessions()) == 80


class TestEndings:
    async def test_whoever_ends_a_session_its_agent_is_to_hear_of_it(
        self, store: Store, clock: FrozenClock
    ) -> None:
        swept = await exchange(store, id="1", source=dm("1"))
        late = await exchange(store, id="2", source=dm("2"))
        clock.advance(hours=2)
        renewed = await exchange(store, id="3", source=dm("3"))
        left = await exchange(store, id="4", source=dm("4"))
        again = await store.reset(key_of(dm("4")))
        await exchange(store, id="5", source=dm("4"))
        await store.record_told(left.id)
        await store.end_if_due(swept.id, opening(dm("1"), IDLE))
        await store.open(opening(dm("2"), IDLE))
        await store.reset(key_of(dm("3")))
        await store.switch(key_of(dm("4")), left.id)

        endings = {ending.session.id: ending.session.end_reason for ending in await store.endings()}

        assert endings == {
            swept.id: EndReason.IDLE,
            late.id: EndReason.IDLE,
            renewed.id: EndReason.RESET,
            again.id: EndReason.SWITCH,
        }

    async def test_an_ending_is_one_however_many_verbs_come_by(
        self, store: Store, clock: FrozenClock
    ) -> None:
        session = await exchange(store)
        clock.advance(hours=2)
        await store.end_if_due(session.id, opening(policy=IDLE))
        await store.record_told(session.id)
        await store.open(opening(policy=IDLE))

        assert await told_of(store) == []

    async def test_a_clock_that_is_set_back_hides_no_ending(
        self, store: Store, clock: FrozenClock
    ) -> None:
        session = await exchange(store)
        await store.reset(key_of())
        clock.jump(seconds=-30)

        assert await told_of(store) == [(session.id, 0)]

    async def test_where_nothing_was_said_there_is_nothing_to_hear_of(
        self, store: Store, clock: FrozenClock
    ) -> None:
        opened = await store.open(opening(policy=IDLE))
        await add_entries(
            store, opened.session.id, [said(Role.USER, "/help", origin=Origin.COMMAND)]
        )
        clock.advance(hours=2)
        await store.end_if_due(opened.session.id, opening(policy=IDLE))

        assert await told_of(store) == []

    async def test_a_try_is_counted_before_it_is_made_and_the_next_is_put_off(
        self, store: Store, clock: FrozenClock
    ) -> None:
        session = await exchange(store)
        await store.reset(key_of())

        assert await store.record_telling(session.id, retry_at=clock.now() + timedelta(minutes=1))
        assert await told_of(store) == []
        clock.advance(minutes=1)
        assert await told_of(store) == [(session.id, 1)]

    async def test_what_was_told_is_over(self, store: Store, clock: FrozenClock) -> None:
        session = await exchange(store)
        await store.reset(key_of())
        await store.record_told(session.id)

        assert await told_of(store) == []
        assert not await store.record_telling(session.id, retry_at=clock.now())

    @pytest.mark.parametrize("verb", ["resume", "delete"])
    async def test_of_a_session_that_goes_on_or_is_gone_nobody_hears(
        self, store: Store, clock: FrozenClock, verb: str
    ) -> None:
        session = await exchange(store)
        await store.reset(key_of())
        await (store.switch(key_of(), session.id) if verb == "resume" else store.delete(session.id))

        assert await told_of(store) == []
        assert not await store.record_telling(session.id, retry_at=clock.now())
        await store.record_told(session.id)

    async def test_a_session_that_ends_a_second_time_is_told_a_second_time(
        self, store: Store
    ) -> None:
        session = await exchange(store)
        await store.reset(key_of())
        await store.record_told(session.id)
        await store.switch(key_of(), session.id)
        await store.reset(key_of())

        assert await told_of(store) == [(session.id, 0)]

    async def test_a_clock_that_jumps_back_puts_nothing_off_for_longer_than_an_hour(
        self, store: Store, clock: FrozenClock
    ) -> None:
        session = await exchange(store)
        await store.reset(key_of())
        await store.record_telling(session.id, retry_at=clock.now() + timedelta(minutes=10))
        clock.jump(days=-300)

        assert await told_of(store) == [(session.id, 1)]

    async def test_no_more_are_read_than_asked_for(self, store: Store) -> None:
        for number in range(3):
            await exchange(store, id=str(number), source=dm(str(number)))
            await store.reset(key_of(dm(str(number))))

        assert len(await store.endings(limit=2)) == 2


async def talk(
    store: Store, clock: FrozenClock, text: str, id_: str, source: SessionSource | None = None
) -> Session:
    """A turn whose words have the time of the clock."""
    inbound = message(text, id=id_, source=source)
    asked = opening(inbound.source)
    accepted = await store.accept(inbound, asked.key)
    entry = said(Role.USER, text, at=clock.now())
    begun = await store.begin(
        Claim(inbox=(accepted.id,), opening=asked, entries=(entry,), history=50)
    )
    answer = replace(assistant(f"re: {text}"), at=clock.now())
    await store.finish(begun.turn, Outcome(entries=(answer,)))
    return await store.session(begun.opened.session.id)


async def kept(store: Store, session: Session) -> list[str]:
    """Everything that can still be read."""
    return [
        entry.text for entry in (await store.transcript(session.id, with_archived=True)).entries
    ]


class TestKeeping:
    DAYS = timedelta(days=90)

    async def prune(self, store: Store, keep: timedelta | None = DAYS) -> tuple[int, int]:
        pruned = await store.prune(
            empty_after=EVER, archive_after=EVER, forget_after=EVER, keep=keep
        )
        return pruned.deleted, pruned.entries

    async def test_without_a_limit_everything_is_kept(
        self, store: Store, clock: FrozenClock
    ) -> None:
        session = await talk(store, clock, "old", "1")
        clock.advance(days=3650)

        assert await self.prune(store, None) == (0, 0)
        assert await kept(store, session) == ["old", "re: old"]

    async def test_what_was_said_too_long_ago_is_gone_and_the_rest_stays(
        self, store: Store, clock: FrozenClock
    ) -> None:
        await talk(store, clock, "ancient secret", "1")
        clock.advance(days=80)
        session = await talk(store, clock, "young", "2")
        clock.advance(days=20)

        assert await self.prune(store) == (0, 2)
        left = await store.session(session.id)
        assert await kept(store, left) == ["young", "re: young"]
        assert (left.messages, left.preview, left.current) == (2, "young", True)
        assert await store.search("secret") == []
        assert [hit.entry.text for hit in await store.search("young")] == ["re: young", "young"]
        assert await self.prune(store) == (0, 0)

    async def test_forgetting_moves_no_clock(self, store: Store, clock: FrozenClock) -> None:
        await talk(store, clock, "ancient", "1")
        clock.advance(days=80)
        before = await talk(store, clock, "young", "2")
        clock.advance(days=20)
        await self.prune(store)
        after = await store.session(before.id)

        assert (after.updated_at, after.last_interaction_at) == (
            before.updated_at,
            before.last_interaction_at,
        )

    async def test_a_session_in_which_nothing_is_left_is_deleted(
        self, store: Store, clock: FrozenClock
    ) -> None:
        session = await talk(store, clock, "all there is", "1")
        clock.advance(days=92)

        assert await self.prune(store) == (1, 2)
        with pytest.raises(UnknownSession):
            await store.session(session.id)
        assert (await store.open(opening())).notice is None

    async def test_an_important_session_is_spared(self, store: Store, clock: FrozenClock) -> None:
        session = await talk(store, clock, "for ever", "1")
        await store.mark_important(session.id)
        clock.advance(days=3650)

        assert await self.prune(store) == (0, 0)
        assert await kept(store, session) == ["for ever", "re: for ever"]

    async def test_a_session_that_is_at_work_or_has_something_to_send_is_left_alone(
        self, store: Store, clock: FrozenClock
    ) -> None:
        at_work = await talk(store, clock, "at work", "1", dm("1"))
        sending = await talk(store, clock, "sending", "2", dm("2"))
        clock.advance(days=100)
        await begin(store, message("now", id="3", source=dm("1")))
        await store.tell(sending.id, entries=(), parts=(Part(target=sending.origin, text="x"),))

        assert await self.prune(store) == (0, 0)
        assert "at work" in await kept(store, at_work)

    async def test_a_summary_goes_with_the_first_of_what_it_stands_for_and_the_rest_is_shown_again(
        self, store: Store, clock: FrozenClock
    ) -> None:
        await talk(store, clock, "old", "1")
        clock.advance(days=50)
        session = await talk(store, clock, "middle", "2")
        there = (await store.transcript(session.id)).entries
        summary = Entry(
            role=Role.USER,
            content=(Text("they spoke of old and middle"),),
            at=clock.now(),
            origin=Origin.SUMMARY,
        )
        assert await store.summarise(session.id, summary, there, mark=0)
        await talk(store, clock, "new", "3")
        clock.advance(days=50)

        assert await self.prune(store) == (0, 3)
        left = await store.session(session.id)
        assert await kept(store, left) == ["middle", "re: middle", "new", "re: new"]
        assert (left.summary_seq, left.consolidated_through, left.messages) == (0, 0, 4)
        begun = await begin(store, message("and now", id="4"))
        assert [entry.text for entry in begun.history] == ["middle", "re: middle", "new", "re: new"]

    async def test_a_summary_of_what_is_all_young_stays(
        self, store: Store, clock: FrozenClock
    ) -> None:
        session = await talk(store, clock, "young", "1")
        there = (await store.transcript(session.id)).entries
        summary = Entry(
            role=Role.USER, content=(Text("young"),), at=clock.now(), origin=Origin.SUMMARY
        )
        await store.summarise(session.id, summary, there, mark=0)
        await talk(store, clock, "younger", "2")
        clock.advance(days=50)

        assert await self.prune(store) == (0, 0)
        assert (await store.session(session.id)).summary_seq

    async def test_entries_that_are_no_longer_live_go_too(
        self, store: Store, clock: FrozenClock
    ) -> None:
        session = await talk(store, clock, "first", "0")
        for number in range(1, 20):
            session = await talk(store, clock, f"word {number}", str(number))
        assert session.archived_through
        clock.advance(days=80)
        await talk(store, clock, "last", "last")
        clock.advance(days=20)

        assert (await self.prune(store))[1] == 40
        assert await kept(store, session) == ["last", "re: last"]

    async def test_more_than_a_step_of_one_session_goes_at_once(
        self, store: Store, clock: FrozenClock
    ) -> None:
        session = await talk(store, clock, "young", "1")
        for _ in range(5):
            await add_entries(
                store, session.id, [said(Role.USER, "x", at=clock.now()) for _ in range(500)]
            )
        clock.advance(days=92)
        other = await talk(store, clock, "other", "2", dm("7"))

        assert await self.prune(store) == (1, 2502)
        assert await kept(store, other) == ["other", "re: other"]

    async def test_days_are_whole_days_and_hours_are_hours(
        self, store: Store, clock: FrozenClock
    ) -> None:
        await talk(store, clock, "said at noon", "1")
        clock.advance(days=90, hours=11)
        assert await self.prune(store) == (0, 0)
        clock.advance(hours=2)
        assert await self.prune(store) == (1, 2)

        await talk(store, clock, "said just now", "2")
        clock.advance(minutes=61)
        assert await self.prune(store, timedelta(hours=1)) == (1, 2)

    async def test_an_imported_conversation_goes_by_when_it_was_said(
        self, store: Store, clock: FrozenClock
    ) -> None:
        session = await talk(store, clock, "from elsewhere", "1")
        lines = [line async for line in store.export(session.id)]
        await store.delete(session.id)
        clock.advance(days=100)
        await talk(store, clock, "from here", "2", dm("7"))
        await store.import_(lines)

        assert await self.prune(store) == (1, 2)

    async def test_a_clock_that_jumps_back_makes_nothing_old(
        self, store: Store, clock: FrozenClock
    ) -> None:
        session = await talk(store, clock, "said", "1")
        clock.jump(days=-400)

        assert await self.prune(store) == (0, 0)
        assert await kept(store, session) == ["said", "re: said"]
