"""What every store promises. Each test runs over each of them."""

from __future__ import annotations

import asyncio
import json
import threading
from dataclasses import replace
from datetime import datetime, time, timedelta

import pytest

from tests.contracts.conftest import CAP
from tests.fakes import NOON, FrozenClock, add_entries, assistant, dm, message, said, user
from tests.oracle_store import MemoryStore
from tests.talk import begin, exchange, key_of, opening, texts
from turngate.gateway.domain.agent_events import File
from turngate.gateway.domain.errors import (
    AlreadySettled,
    Refused,
    UnknownEntry,
    UnknownSession,
    UnknownWork,
)
from turngate.gateway.domain.ids import (
    EntryId,
    InboxId,
    PartId,
    SessionId,
    TurnId,
)
from turngate.gateway.domain.messages import (
    Attachment,
    ChatType,
    InboxState,
    MessageKind,
    SessionSource,
)
from turngate.gateway.domain.outbox import (
    Button,
    Does,
    Part,
    PartState,
    Question,
    Sent,
)
from turngate.gateway.domain.ports.store import Store
from turngate.gateway.domain.session import EndReason, ResetPolicy
from turngate.gateway.domain.store_values import (
    AccountRecord,
    Choice,
    Claim,
    Depth,
    Outcome,
    QuestionState,
    SessionFilter,
)
from turngate.gateway.domain.transcript import (
    Entry,
    Media,
    MediaType,
    Origin,
    Reasoning,
    Role,
    Text,
    ToolCall,
)
from turngate.gateway.domain.usage import (
    Cost,
    CostStatus,
    Model,
    Spent,
    Tokens,
)
from turngate.gateway.rules.session_keys import build_session_key
from turngate.gateway.stores.sqlite import SqliteStore

MINUTE = timedelta(minutes=1)

HOUR = timedelta(hours=1)
IDLE = ResetPolicy(idle_after=HOUR)
LOOKS_LIKE_JSON = '[{"type":"text","text":"x"}]'


def restart(store: Store) -> str:
    """From here on the store belongs to another run of the daemon. Returns the one before."""
    assert isinstance(store, MemoryStore | SqliteStore)
    before = str(store.run)
    if isinstance(store, MemoryStore):
        store.run += 1
    else:
        store.run += "+"
    return before


class TestInbox:
    async def test_a_message_is_accepted_once(self, store: Store) -> None:
        first = await store.accept(message(), key_of())
        again = await store.accept(message(), key_of())

        assert (first.duplicate, again.duplicate) == (False, True)
        assert again.id == first.id
        assert len(await store.inbox(InboxState.WAITING)) == 1

    async def test_another_event_id_for_the_same_message_is_a_duplicate(self, store: Store) -> None:
        mention = replace(message(), event_ids=("event-1", "C1:ts"))
        plain = replace(message(), event_ids=("event-2", "C1:ts"))
        first = await store.accept(mention, key_of())

        assert (await store.accept(plain, key_of())).id == first.id

    async def test_a_name_learnt_from_a_duplicate_is_remembered(self, store: Store) -> None:
        await store.accept(replace(message(), event_ids=("event-1", "C1:ts")), key_of())
        await store.accept(replace(message(), event_ids=("event-2", "C1:ts")), key_of())

        assert (await store.accept(replace(message(), event_ids=("event-2",)), key_of())).duplicate

    async def test_the_same_event_id_of_another_account_is_another_message(
        self, store: Store
    ) -> None:
        other = replace(message(), source=replace(dm(), account="support"))
        await store.accept(message(), key_of())

        assert not (await store.accept(other, key_of())).duplicate

    async def test_sixty_four_copies_at_once_make_one_row(self, store: Store) -> None:
        accepted = await asyncio.gather(*(store.accept(message(), key_of()) for _ in range(64)))

        assert sum(not one.duplicate for one in accepted) == 1

    async def test_an_accepted_message_comes_back_whole_and_in_order(self, store: Store) -> None:
        sent = [
            message(text, id=str(number))
            for number, text in enumerate([LOOKS_LIKE_JSON, "ünï😀", "\0", ""])
        ]
        for one in sent:
            await store.accept(one, key_of())

        assert [item.message for item in await store.inbox(InboxState.WAITING)] == sent

    async def test_an_answered_message_leaves_its_words_to_the_transcript(
        self, store: Store
    ) -> None:
        session = await exchange(store, "the secret plan")

        (item,) = await store.inbox(InboxState.DONE)
        assert item.message == replace(message(), text="", source=replace(dm(), user_name=None))
        assert await texts(store, session) == ["the secret plan", "hi"]


class TestOpening:
    async def test_a_key_without_a_session_gets_one(self, store: Store) -> None:
        opened = await store.open(opening())

        assert opened.is_new
        assert opened.notice is None
        assert await store.current(key_of()) == opened.session

    async def test_the_next_message_finds_the_same_session(self, store: Store) -> None:
        first = await store.open(opening())
        second = await store.open(opening())

        assert not second.is_new
        assert second.session.id == first.session.id

    async def test_sixty_four_tasks_opening_one_key_get_one_session(self, store: Store) -> None:
        opened = await asyncio.gather(*(store.open(opening()) for _ in range(64)))

        assert len({one.session.id for one in opened}) == 1
        assert sum(one.is_new for one in opened) == 1

    async def test_threads_with_tasks_opening_one_key_get_one_session(self, store: Store) -> None:
        ids: set[SessionId] = set()

        async def many() -> None:
            opened = await asyncio.gather(*(store.open(opening()) for _ in range(8)))
            ids.update(one.session.id for one in opened)

        threads = [threading.Thread(target=lambda: asyncio.run(many())) for _ in range(8)]
        for thread in threads:
            thread.start()
        await asyncio.to_thread(lambda: [thread.join() for thread in threads])

        assert len(ids) == 1
        assert len(await store.sessions()) == 1

    async def test_an_idle_session_is_reset_and_the_next_one_knows_why(
        self, store: Store, clock: FrozenClock
    ) -> None:
        old = await exchange(store, policy=IDLE)
        clock.advance(hours=2)
        opened = await store.open(opening(policy=IDLE))

        assert opened.is_new
        assert opened.notice is not None
        assert (opened.notice.reason, opened.notice.had_activity) == (EndReason.IDLE, True)
        assert opened.notice.previous == old.id
        ended = await store.session(old.id)
        assert (ended.end_reason, ended.current) == (EndReason.IDLE, False)

    async def test_a_session_without_activity_ends_without(
        self, store: Store, clock: FrozenClock
    ) -> None:
        await store.open(opening(policy=IDLE))
        clock.advance(hours=2)
        opened = await store.open(opening(policy=IDLE))

        assert opened.notice is not None
        assert not opened.notice.had_activity

    async def test_the_notice_stays_until_a_turn_was_finished_with_it(
        self, store: Store, clock: FrozenClock
    ) -> None:
        await exchange(store, policy=IDLE)
        clock.advance(hours=2)
        begun = await begin(store, message(id="2"), IDLE)
        before = await store.open(opening(policy=IDLE))
        await store.finish(begun.turn, Outcome(entries=(assistant("ok"),)))
        after = await store.open(opening(policy=IDLE))

        assert begun.opened.notice is not None
        assert before.notice == begun.opened.notice
        assert after.notice is None

    async def test_a_failed_turn_has_told_nobody(self, store: Store, clock: FrozenClock) -> None:
        await exchange(store, policy=IDLE)
        clock.advance(hours=2)
        begun = await begin(store, message(id="2"), IDLE)
        await store.finish(begun.turn, Outcome(failure="the agent is down"))

        assert (await store.open(opening(policy=IDLE))).notice is not None

    async def test_a_running_turn_holds_the_reset_back(
        self, store: Store, clock: FrozenClock
    ) -> None:
        begun = await begin(store, message(), IDLE)
        clock.advance(hours=2)
        during = await store.open(opening(policy=IDLE))
        await store.finish(begun.turn, Outcome())
        after = await store.open(opening(policy=IDLE))

        assert (during.is_new, after.is_new) == (False, True)

    async def test_running_background_work_holds_the_reset_back(
        self, store: Store, clock: FrozenClock
    ) -> None:
        session = await exchange(store, policy=IDLE)
        clock.advance(hours=2)
        asked: list[SessionId] = []
        busy = replace(opening(policy=IDLE), is_busy=lambda id_: asked.append(id_) is None)
        opened = await store.open(busy)

        assert not opened.is_new
        assert asked == [session.id]

    async def test_a_failing_busy_check_holds_the_reset_back(
        self, store: Store, clock: FrozenClock
    ) -> None:
        def fail(_: SessionId) -> bool:
            raise RuntimeError("cannot tell")

        await exchange(store, policy=IDLE)
        clock.advance(hours=2)

        assert not (await store.open(replace(opening(policy=IDLE), is_busy=fail))).is_new

    async def test_a_delivery_does_not_keep_a_session_alive(
        self, store: Store, clock: FrozenClock
    ) -> None:
        session = await exchange(store, policy=IDLE)
        clock.advance(minutes=50)
        await add_entries(store, session.id, [said(Role.ASSISTANT, "news", origin=Origin.DELIVERY)])
        clock.advance(minutes=50)

        assert (await store.open(opening(policy=IDLE))).is_new

    async def test_a_clock_that_jumps_back_resets_nothing(
        self, store: Store, clock: FrozenClock
    ) -> None:
        session = await exchange(store, policy=IDLE)
        clock.advance(days=-3)
        later = await exchange(store, id="2", policy=IDLE)

        assert later.id == session.id
        assert later.last_interaction_at == NOON

    async def test_the_sweep_ends_a_due_session_once(
        self, store: Store, clock: FrozenClock
    ) -> None:
        session = await exchange(store, policy=IDLE)
        clock.advance(hours=2)
        reasons = [await store.end_if_due(session.id, opening(policy=IDLE)) for _ in range(2)]

        assert reasons == [EndReason.IDLE, None]

    async def test_the_message_after_the_sweep_knows_why(
        self, store: Store, clock: FrozenClock
    ) -> None:
        session = await exchange(store, policy=IDLE)
        clock.advance(hours=2)
        await store.end_if_due(session.id, opening(policy=IDLE))
        opened = await store.open(opening(policy=IDLE))

        assert opened.is_new
        assert opened.notice is not None
        assert (opened.notice.reason, opened.notice.previous) == (EndReason.IDLE, session.id)

    async def test_the_sweep_spares_a_session_that_is_not_due(self, store: Store) -> None:
        session = await exchange(store, policy=IDLE)

        assert await store.end_if_due(session.id, opening(policy=IDLE)) is None


class TestResetAndSwitch:
    async def test_reset_gives_the_key_a_fresh_session(self, store: Store) -> None:
        old = await exchange(store)
        new = await store.reset(key_of(), title="second try")

        assert new.id != old.id
        assert (new.title, new.origin, new.owner, new.notice) == (
            "second try",
            old.origin,
            old.owner,
            None,
        )
        assert (await store.session(old.id)).end_reason is EndReason.RESET
        assert await store.current(key_of()) == new

    async def test_whoever_resets_an_expired_session_need_not_be_told(
        self, store: Store, clock: FrozenClock
    ) -> None:
        session = await exchange(store, policy=IDLE)
        clock.advance(hours=2)
        await store.end_if_due(session.id, opening(policy=IDLE))

        assert (await store.reset(key_of())).notice is None
        assert (await store.session(session.id)).end_reason is EndReason.IDLE

    async def test_there_is_nothing_to_reset_where_nobody_wrote(self, store: Store) -> None:
        with pytest.raises(UnknownSession, match="nothing to reset"):
            await store.reset(key_of())

    async def test_switch_points_the_key_at_an_earlier_session(self, store: Store) -> None:
        old = await exchange(store)
        new = await store.reset(key_of())
        back = await store.switch(key_of(), old.id)

        assert (back.id, back.current, back.end_reason) == (old.id, True, None)
        assert (await store.session(new.id)).end_reason is EndReason.SWITCH
        assert (await store.open(opening())).session.id == old.id

    async def test_origin_and_owner_survive_a_switch(self, store: Store) -> None:
        old = await exchange(store)
        await store.reset(key_of())
        back = await store.switch(key_of(), old.id)

        assert (back.origin, back.owner) == (old.origin, old.owner)

    async def test_a_daily_reset_keeps_its_reason(self, store: Store, clock: FrozenClock) -> None:
        daily = ResetPolicy(daily_at=time(4), zone="Europe/Berlin")
        old = await exchange(store, policy=daily)
        clock.advance(days=1)
        await store.open(opening(policy=daily))

        assert (await store.session(old.id)).end_reason is EndReason.DAILY

    async def test_switching_back_counts_as_an_interaction(
        self, store: Store, clock: FrozenClock
    ) -> None:
        old = await exchange(store, policy=IDLE)
        await store.reset(key_of())
        clock.advance(hours=5)
        await store.switch(key_of(), old.id)

        assert (await store.open(opening(policy=IDLE))).session.id == old.id

    async def test_switching_to_the_current_session_changes_nothing(
        self, store: Store, clock: FrozenClock
    ) -> None:
        session = await exchange(store)
        clock.advance(hours=1)

        assert await store.switch(key_of(), session.id) == session
        assert await store.session(session.id) == session

    async def test_switching_to_an_unknown_session_is_refused(self, store: Store) -> None:
        session = await exchange(store)

        with pytest.raises(UnknownSession):
            await store.switch(key_of(), SessionId("s_nowhere"))
        assert await store.current(key_of()) == session

    async def test_switching_to_another_conversation_is_refused(self, store: Store) -> None:
        await exchange(store)
        other = await exchange(store, source=dm("7"))

        with pytest.raises(Refused, match="another conversation"):
            await store.switch(key_of(), other.id)

    async def test_a_late_answer_stays_in_the_old_session(self, store: Store) -> None:
        begun = await begin(store, message("old question"))
        new = await store.reset(key_of())
        await store.finish(begun.turn, Outcome(entries=(assistant("late"),)))

        assert await texts(store, begun.opened.session) == ["old question", "late"]
        assert await texts(store, new) == []


class TestTurns:
    async def test_a_turn_sees_the_history_before_it(self, store: Store) -> None:
        await exchange(store, "one", answer="two")
        begun = await begin(store, message("three", id="2"))

        assert [entry.text for entry in begun.history] == ["one", "two"]
        assert begun.attempt == 1

    async def test_the_history_is_bounded(self, store: Store) -> None:
        for number in range(4):
            await exchange(store, f"q{number}", id=str(number), answer=f"a{number}")
        accepted = await store.accept(message(id="9"), key_of())
        begun = await store.begin(
            Claim(inbox=(accepted.id,), opening=opening(), entries=(user("x"),), history=3)
        )

        assert [entry.text for entry in begun.history] == ["a2", "q3", "a3"]

    async def test_asking_for_more_history_than_last_time_gives_it(self, store: Store) -> None:
        for number in range(6):
            await exchange(store, f"q{number}", id=str(number), answer=f"a{number}")
        counts = []
        for number, wanted in enumerate([2, 10, 0, 50]):
            accepted = await store.accept(message(id=f"more {number}"), key_of())
            begun = await store.begin(
                Claim(inbox=(accepted.id,), opening=opening(), entries=(user("x"),), history=wanted)
            )
            counts.append(len(begun.history))

        assert counts == [2, 10, 0, 15]

    async def test_a_finished_turn_settles_everything_at_once(self, store: Store) -> None:
        begun = await begin(store, message("question"))
        outcome = Outcome(
            entries=(assistant("answer"),),
            spent=Spent(tokens=Tokens(input=3, output=5), prompt_tokens=3),
            parts=(Part(target=dm(), text="answer"), Part(target=dm(), text="more", ordinal=1)),
        )
        parts = await store.finish(begun.turn, outcome)

        session = await store.session(begun.opened.session.id)
        assert await texts(store, session) == ["question", "answer"]
        assert session.tokens.total == 8
        assert await store.outbox(PartState.PENDING) == list(parts)
        assert [(part.text, part.ordinal, part.turn) for part in parts] == [
            ("answer", 0, begun.turn),
            ("more", 1, begun.turn),
        ]
        assert len(await store.inbox(InboxState.DONE)) == 1

    async def test_a_turn_is_finished_once(self, store: Store) -> None:
        begun = await begin(store, message())
        await store.finish(begun.turn, Outcome(entries=(assistant("once"),)))

        with pytest.raises(AlreadySettled):
            await store.finish(begun.turn, Outcome(entries=(assistant("twice"),)))
        assert await texts(store, begun.opened.session) == ["hello", "once"]

    async def test_an_unknown_turn_cannot_be_finished(self, store: Store) -> None:
        with pytest.raises(UnknownWork):
            await store.finish(TurnId(4711), Outcome())

    async def test_a_settled_message_cannot_be_claimed_again(self, store: Store) -> None:
        await exchange(store)
        (item,) = await store.inbox(InboxState.DONE)

        with pytest.raises(AlreadySettled):
            await store.begin(
                Claim(inbox=(item.id,), opening=opening(), entries=(user("x"),), history=5)
            )

    async def test_an_unknown_message_cannot_be_claimed(self, store: Store) -> None:
        with pytest.raises(UnknownWork):
            await store.begin(
                Claim(inbox=(InboxId(4711),), opening=opening(), entries=(), history=5)
            )

    async def test_a_turn_that_is_being_worked_on_cannot_be_begun_again(self, store: Store) -> None:
        accepted = await store.accept(message("question"), key_of())
        claim = Claim(
            inbox=(accepted.id,), opening=opening(), entries=(user("question"),), history=50
        )
        results = await asyncio.gather(
            store.begin(claim), store.begin(claim), return_exceptions=True
        )

        assert sorted(type(result).__name__ for result in results) == ["AlreadySettled", "Begun"]
        (item,) = await store.inbox(InboxState.RUNNING)
        assert item.attempts == 1

    async def test_several_messages_become_one_turn(self, store: Store) -> None:
        ids = [(await store.accept(message(f"m{n}", id=str(n)), key_of())).id for n in range(3)]
        entries = tuple(user(f"m{n}") for n in range(3))
        begun = await store.begin(
            Claim(inbox=tuple(ids), opening=opening(), entries=entries, history=5)
        )
        await store.finish(begun.turn, Outcome())

        assert [item.id for item in await store.inbox(InboxState.DONE)] == ids

    async def test_a_claim_of_running_and_waiting_messages_is_refused(self, store: Store) -> None:
        running = await store.accept(message(id="1"), key_of())
        await store.begin(
            Claim(inbox=(running.id,), opening=opening(), entries=(user("1"),), history=5)
        )
        waiting = await store.accept(message(id="2"), key_of())

        with pytest.raises(AlreadySettled):
            await store.begin(
                Claim(inbox=(running.id, waiting.id), opening=opening(), entries=(), history=5)
            )

    async def test_a_failed_turn_keeps_its_message_and_the_reason(self, store: Store) -> None:
        begun = await begin(store, message("precious"))
        await store.finish(begun.turn, Outcome(failure="the agent is down"))

        (item,) = await store.inbox(InboxState.FAILED)
        assert (item.message.text, item.reason) == ("precious", "the agent is down")

    async def test_totals_add_up_but_the_last_prompt_is_the_last(self, store: Store) -> None:
        cost = Cost(usd=0.5, status=CostStatus.REPORTED, source="provider")
        model = Model(name="m1", provider="p", base_url="http://127.0.0.1/v1")
        spent = Spent(
            tokens=Tokens(input=1, output=2, cache_read=3, cache_write=4),
            prompt_tokens=100,
            cost=cost,
            model=model,
        )
        await exchange(store, spent=spent)
        session = await exchange(store, id="2", spent=replace(spent, prompt_tokens=70))

        assert session.tokens == Tokens(input=2, output=4, cache_read=6, cache_write=8)
        assert session.tokens.total == 20
        assert session.last_prompt_tokens == 70
        assert session.cost == Cost(usd=1.0, status=CostStatus.REPORTED, source="provider")
        assert session.model == model

    @pytest.mark.parametrize("usd", [float("nan"), float("inf"), 1e308])
    async def test_a_price_that_is_no_number_spoils_nothing(self, store: Store, usd: float) -> None:
        good = Spent(cost=Cost(usd=1.5, status=CostStatus.REPORTED))
        await exchange(store, spent=good)
        for number in range(3):
            bad = Spent(cost=Cost(usd=usd, status=CostStatus.REPORTED))
            session = await exchange(store, id=f"bad {number}", spent=bad)

        assert session.cost is not None
        assert 1.5 <= session.cost.usd < 2e308
        assert len(await store.sessions()) == 1

    @pytest.mark.parametrize("number", [2**63, 2**70, -(2**70)])
    async def test_a_number_beyond_all_bounds_spoils_nothing(
        self, store: Store, number: int
    ) -> None:
        huge = replace(
            message(id="huge"), attachments=(Attachment(type=MediaType.FILE, size=number),)
        )
        await store.accept(huge, key_of())
        begun = await begin(store, message(id="2"))
        entry = replace(assistant("x"), tokens=number, latency_ms=number)
        spent = Spent(tokens=Tokens(input=number, output=number), prompt_tokens=number)
        await store.finish(
            begun.turn, Outcome(entries=(entry,), spent=spent, parts=(Part(target=dm(), text="x"),))
        )
        session = await exchange(store, id="3", spent=spent)

        assert session.tokens.total >= 0
        assert len(await store.inbox(InboxState.WAITING)) == 1
        assert await store.truncate(session.id, 1) == 1

    async def test_negative_counts_are_none_at_all(self, store: Store) -> None:
        session = await exchange(store)
        accepted = await store.accept(message(id="2"), key_of())
        begun = await store.begin(
            Claim(inbox=(accepted.id,), opening=opening(), entries=(user("x"),), history=-1)
        )

        assert begun.history == ()
        assert (await store.transcript(session.id, last=-1)).entries == ()
        assert await store.sessions(SessionFilter(limit=-1)) == []
        assert await store.inbox(*InboxState, limit=-1) == []
        assert await store.outbox(*PartState, limit=-1) == []


class TestAnsweringWithoutATurn:
    async def test_a_command_ends_with_its_words_in_the_transcript_and_its_answer_in_the_outbox(
        self, store: Store
    ) -> None:
        accepted = await store.accept(message("/help"), key_of())
        session = (await store.open(opening())).session
        chatter = (
            said(Role.USER, "/help", origin=Origin.COMMAND),
            said(Role.ASSISTANT, "so", origin=Origin.COMMAND),
        )
        parts = await store.answer(
            accepted.id, session.id, entries=chatter, parts=(Part(target=dm(), text="so"),)
        )

        assert await texts(store, session) == ["/help", "so"]
        assert [(part.text, part.turn) for part in await store.outbox(PartState.PENDING)] == [
            ("so", None)
        ]
        assert [part.id for part in parts] == [
            part.id for part in await store.outbox(PartState.PENDING)
        ]
        assert [item.message.text for item in await store.inbox(InboxState.DONE)] == [""]
        assert await store.inbox(InboxState.WAITING) == []

    async def test_it_is_no_interaction_and_leaves_the_reset_notice_for_the_next_turn(
        self, store: Store, clock: FrozenClock
    ) -> None:
        await exchange(store, policy=IDLE)
        clock.advance(hours=2)
        opened = await store.open(opening(policy=IDLE))
        clock.advance(minutes=30)
        accepted = await store.accept(message("/status", id="2"), key_of())
        await store.answer(accepted.id, opened.session.id, entries=(), parts=())

        after = await store.session(opened.session.id)
        assert after.last_interaction_at == opened.session.last_interaction_at
        assert after.notice is not None

    async def test_a_message_is_answered_once(self, store: Store) -> None:
        accepted = await store.accept(message("/help"), key_of())
        session = (await store.open(opening())).session
        await store.answer(accepted.id, session.id, entries=(), parts=())

        with pytest.raises(AlreadySettled):
            await store.answer(accepted.id, session.id, entries=(user("late"),), parts=())
        assert await texts(store, session) == []

    async def test_a_message_that_has_a_turn_is_left_to_it(self, store: Store) -> None:
        begun = await begin(store, message())
        row = (await store.inbox(InboxState.RUNNING))[0]

        with pytest.raises(AlreadySettled):
            await store.answer(row.id, begun.opened.session.id, entries=(), parts=())

    async def test_nothing_is_settled_for_a_session_that_is_gone(self, store: Store) -> None:
        accepted = await store.accept(message("/help"), key_of())
        session = (await store.open(opening())).session
        await store.delete(session.id)

        with pytest.raises(UnknownSession):
            await store.answer(accepted.id, session.id, entries=(), parts=())
        assert len(await store.inbox(InboxState.WAITING)) == 1


class TestAskingAgain:
    async def claim(
        self, store: Store, replacing: EntryId, policy: ResetPolicy | None = None
    ) -> Claim:
        accepted = await store.accept(message("/retry", id="again"), key_of())
        return Claim(
            inbox=(accepted.id,),
            opening=opening(policy=policy),
            entries=(user("hello"),),
            history=50,
            replacing=replacing,
        )

    async def test_the_new_question_takes_the_place_of_the_old_one_and_its_answer(
        self, store: Store
    ) -> None:
        await exchange(store, "first", id="1")
        session = await exchange(store, "hello", id="2", answer="wrong")
        asked = (await store.transcript(session.id)).entries[2]

        begun = await store.begin(await self.claim(store, asked.id))

        assert [entry.text for entry in begun.history] == ["first", "hi"]
        assert [entry.text for entry in begun.user_entries] == ["hello"]
        assert await texts(store, session) == ["first", "hi", "hello"]
        assert (await store.session(session.id)).messages == 3

    async def test_what_was_asked_again_survives_the_death_of_the_daemon(
        self, store: Store
    ) -> None:
        session = await exchange(store, "hello", id="1", answer="wrong")
        asked = (await store.transcript(session.id)).entries[0]
        claim = await self.claim(store, asked.id)
        await store.begin(claim)
        restart(store)

        begun = await store.begin(claim)

        assert begun.attempt == 2
        assert [entry.text for entry in begun.user_entries] == ["hello"]
        assert begun.history == ()

    async def test_an_entry_that_is_not_there_changes_nothing(
        self, store: Store, clock: FrozenClock
    ) -> None:
        session = await exchange(store, "hello", policy=IDLE)
        asked = (await store.transcript(session.id)).entries[0]
        clock.advance(hours=2)

        with pytest.raises(UnknownEntry):
            await store.begin(await self.claim(store, asked.id, IDLE))
        assert [each.id for each in await store.sessions()] == [session.id]
        assert await texts(store, session) == ["hello", "hi"]


class TestTurnsThatDie:
    async def test_a_turn_that_may_run_again_says_so_after_the_death_of_the_daemon(
        self, store: Store
    ) -> None:
        claim = await self.claim(store, repeatable=True)
        await store.begin(claim)
        restart(store)

        assert (await store.begin(claim)).repeatable

    async def test_a_turn_that_must_not_run_again_says_so(self, store: Store) -> None:
        claim = await self.claim(store, repeatable=False)
        await store.begin(claim)
        restart(store)

        assert not (await store.begin(claim)).repeatable

    async def test_a_tool_at_work_takes_the_permission_back(self, store: Store) -> None:
        claim = await self.claim(store, repeatable=True)
        begun = await store.begin(claim)
        await store.record_tool(begun.turn)
        restart(store)

        assert not (await store.begin(claim)).repeatable

    async def test_the_message_that_shows_a_preview_is_remembered(self, store: Store) -> None:
        claim = await self.claim(store)
        begun = await store.begin(claim)
        await store.record_preview(begun.turn, "m7")
        restart(store)

        assert (begun.preview, (await store.begin(claim)).preview) == (None, "m7")

    async def test_only_crashes_while_it_ran_alone_count(self, store: Store) -> None:
        """A crash beside other turns says nothing about any of them."""
        claim = await self.claim(store)
        await store.begin(claim)
        await store.count_crash(restart(store))
        beside_others = await store.begin(claim)
        await store.count_crash(restart(store))
        alone = await store.begin(replace(claim, alone=True))
        await store.count_crash(restart(store))
        after = await store.begin(replace(claim, alone=True))

        assert [each.alone_crashes for each in (beside_others, alone, after)] == [0, 0, 1]

    async def test_an_end_that_is_no_crash_counts_for_nothing(self, store: Store) -> None:
        claim = await self.claim(store)
        await store.begin(claim)
        restart(store)
        await store.begin(replace(claim, alone=True))
        restart(store)
        await store.count_crash(None)

        assert (await store.begin(claim)).alone_crashes == 0

    async def test_a_crash_after_it_was_cleared_counts_for_nothing(self, store: Store) -> None:
        claim = await self.claim(store)
        await store.begin(claim)
        restart(store)
        begun = await store.begin(replace(claim, alone=True))
        await store.end_alone(begun.turn)
        await store.count_crash(restart(store))

        assert (await store.begin(claim)).alone_crashes == 0

    async def test_a_crash_while_nothing_ran_clears_everything(self, store: Store) -> None:
        claim = await self.claim(store)
        await store.begin(claim)
        for _ in range(2):
            restart(store)
            await store.begin(replace(claim, alone=True))
            await store.count_crash(restart(store))
        await store.count_crash(restart(store))

        assert (await store.begin(claim)).alone_crashes == 0

    async def test_a_retry_by_the_operator_begins_to_count_again(self, store: Store) -> None:
        claim = await self.claim(store)
        await store.begin(claim)
        restart(store)
        await store.begin(replace(claim, alone=True))
        await store.count_crash(restart(store))
        begun = await store.begin(claim)
        await store.finish(begun.turn, Outcome(failure="it broke"))
        await store.requeue(claim.inbox[0])

        assert (await store.begin(claim)).alone_crashes == 0

    async def test_nothing_is_recorded_of_a_turn_that_is_over(self, store: Store) -> None:
        begun = await begin(store, message())
        await store.finish(begun.turn, Outcome())

        with pytest.raises(AlreadySettled):
            await store.record_tool(begun.turn)
        with pytest.raises(AlreadySettled):
            await store.record_preview(begun.turn, "m7")

    async def test_a_message_that_joins_a_turn_is_answered_with_it(self, store: Store) -> None:
        begun = await begin(store, message("first"))
        second = await store.accept(message("second", id="2"), key_of())
        await store.join(begun.turn, second.id, user("second"))
        await store.finish(begun.turn, Outcome(entries=(assistant("both"),)))

        assert [
            entry.text for entry in (await store.transcript(begun.opened.session.id)).entries
        ] == [
            "first",
            "second",
            "both",
        ]
        assert await store.inbox(InboxState.WAITING, InboxState.RUNNING) == []
        assert [each.step for each in (await store.trace(second.id)).steps][:3] == [
            "stored",
            "claimed",
            "joined",
        ]

    async def test_a_turn_that_begins_again_knows_what_joined_it_and_no_command(
        self, store: Store
    ) -> None:
        claim = await self.claim(store)
        begun = await store.begin(claim)
        await add_entries(
            store, begun.opened.session.id, (said(Role.USER, "/status", origin=Origin.COMMAND),)
        )
        second = await store.accept(message("second", id="2"), key_of())
        await store.join(begun.turn, second.id, user("second"))
        restart(store)

        again = await store.begin(replace(claim, inbox=(*claim.inbox, second.id)))

        assert [entry.text for entry in again.user_entries] == ["hello", "second"]
        assert [item.attempts for item in await store.inbox(InboxState.RUNNING)] == [2, 2]

    async def test_nothing_joins_a_turn_that_is_over_or_leaves_another(self, store: Store) -> None:
        over = await begin(store, message("first"))
        await store.finish(over.turn, Outcome())
        late = await store.accept(message("late", id="2"), key_of())
        with pytest.raises(AlreadySettled):
            await store.join(over.turn, late.id, user("late"))
        runs = await begin(store, message("third", id="3"))
        with pytest.raises(AlreadySettled):
            await store.join(
                runs.turn, (await store.inbox(InboxState.RUNNING))[0].id, user("third")
            )
        with pytest.raises(UnknownWork):
            await store.join(runs.turn, InboxId(9_999), user("nobody's"))

        assert [item.id for item in await store.inbox(InboxState.WAITING)] == [late.id]

    async def test_a_turn_that_died_for_good_leaves_a_dead_letter_with_its_words(
        self, store: Store
    ) -> None:
        begun = await begin(store, message("poison"))
        await store.finish(begun.turn, Outcome(failure="three times", dead=True))

        dead = await store.inbox(InboxState.DEAD)
        assert [(item.message.text, item.reason) for item in dead] == [("poison", "three times")]
        assert (await store.depth()).inbox_dead == 1

    async def test_the_depth_says_since_when_the_oldest_is_on_its_way(
        self, store: Store, clock: FrozenClock
    ) -> None:
        assert await store.depth() == Depth()
        first = clock.now()
        begun = await begin(store, message("first", id="1"))
        clock.advance(minutes=5)
        await store.accept(message("second", id="2"), key_of())
        waiting = await store.depth()
        assert (waiting.inbox_waiting, waiting.inbox_oldest, waiting.outbox_oldest) == (
            2,
            first,
            None,
        )

        answered = clock.now()
        (part,) = await store.finish(begun.turn, Outcome(parts=(Part(target=dm(), text="hi"),)))
        clock.advance(minutes=5)
        depth = await store.depth()
        assert (depth.inbox_oldest, depth.outbox_oldest) == (answered, answered)
        await store.record_sending(part.id)
        await store.record_unsent(part.id, "blocked", retry_at=None)
        over = await store.depth()
        assert (over.outbox_dead, over.outbox_oldest) == (1, None)

    async def claim(self, store: Store, *, repeatable: bool = True) -> Claim:
        accepted = await store.accept(message(), key_of())
        return Claim(
            inbox=(accepted.id,),
            opening=opening(),
            entries=(user("hello"),),
            history=50,
            repeatable=repeatable,
        )


class TestTakingBackToWork:
    async def test_a_failed_message_goes_on_with_its_turn_and_is_not_said_twice(
        self, store: Store
    ) -> None:
        begun = await begin(store, message("hello"))
        await store.finish(
            begun.turn, Outcome(failure="no", entries=(said(Role.ASSISTANT, "sorry"),))
        )
        row = (await store.inbox(InboxState.FAILED))[0]
        await exchange(store, "later", id="2")

        item = await store.requeue(row.id)
        again = await store.begin(
            Claim(inbox=(row.id,), opening=opening(), entries=(user("hello"),), history=50)
        )

        assert (item.state, item.reason, item.message.text) == (InboxState.RUNNING, None, "hello")
        assert (again.turn, again.attempt, [entry.text for entry in again.user_entries]) == (
            begun.turn,
            1,
            ["hello"],
        )
        assert again.history == ()
        session = await store.session(again.opened.session.id)
        assert await texts(store, session) == ["hello", "sorry", "later", "hi"]

    async def test_a_refused_message_waits_again(self, store: Store) -> None:
        accepted = await store.accept(message("one too many"), key_of())
        session = (await store.open(opening())).session
        parts = await store.refuse(
            [accepted.id],
            "too many",
            session=session.id,
            parts=(Part(target=dm(), text="too many"),),
        )
        refused = (await store.inbox(InboxState.REFUSED))[0]

        item = await store.requeue(accepted.id)

        assert [part.text for part in parts] == ["too many"]
        assert (refused.reason, refused.message.text) == ("too many", "one too many")
        assert (item.state, item.message.text) == (InboxState.WAITING, "one too many")
        assert len(await store.inbox(InboxState.WAITING)) == 1

    async def test_of_many_messages_those_are_refused_that_still_wait(self, store: Store) -> None:
        session = (await store.open(opening())).session
        rows = [
            (await store.accept(message("x", id=str(number)), key_of())).id for number in range(3)
        ]
        await store.begin(Claim(inbox=(rows[0],), opening=opening(), entries=(), history=0))
        notice = Part(target=dm(), text="too many")

        first = await store.refuse(rows, "too many", session=session.id, parts=(notice,))
        second = await store.refuse(rows, "again", session=session.id, parts=(notice,))

        assert (len(first), second) == (1, ())
        refused = await store.inbox(InboxState.REFUSED)
        assert [(item.id, item.reason) for item in refused] == [
            (row, "too many") for row in rows[1:]
        ]
        assert [item.id for item in await store.inbox(InboxState.RUNNING)] == rows[:1]

    @pytest.mark.parametrize("state", ["waiting", "running", "done"])
    async def test_what_waits_runs_or_was_answered_is_left_alone(
        self, store: Store, state: str
    ) -> None:
        accepted = await store.accept(message(), key_of())
        if state != "waiting":
            begun = await store.begin(
                Claim(inbox=(accepted.id,), opening=opening(), entries=(), history=0)
            )
            if state == "done":
                await store.finish(begun.turn, Outcome())

        with pytest.raises(AlreadySettled, match=state):
            await store.requeue(accepted.id)

    async def test_what_was_dropped_has_no_words_and_stays_dropped(self, store: Store) -> None:
        waiting = await store.accept(message("a", id="1"), key_of())
        begun = await begin(store, message("b", id="2"))
        await store.finish(begun.turn, Outcome(failure="no"))
        failed = (await store.inbox(InboxState.FAILED))[0]
        await store.drop(waiting.id, "dropped")
        await store.drop(failed.id, "dropped")

        items = await store.inbox(InboxState.REFUSED)
        assert [(item.reason, item.message.text) for item in items] == [
            ("dropped", ""),
            ("dropped", ""),
        ]
        with pytest.raises(AlreadySettled):
            await store.requeue(waiting.id)
        with pytest.raises(AlreadySettled):
            await store.drop(failed.id, "again")

    async def test_what_runs_cannot_be_dropped(self, store: Store) -> None:
        await begin(store, message())
        row = (await store.inbox(InboxState.RUNNING))[0]

        with pytest.raises(AlreadySettled, match="running"):
            await store.drop(row.id, "dropped")

    async def test_a_row_that_never_was_is_unknown(self, store: Store) -> None:
        for verb in (
            store.requeue(InboxId(99)),
            store.drop(InboxId(99), "x"),
            store.trace(InboxId(99)),
        ):
            with pytest.raises(UnknownWork):
                await verb
        for other in (store.requeue_part(PartId(99)), store.drop_part(PartId(99), "x")):
            with pytest.raises(UnknownWork):
                await other

    async def test_a_dead_part_is_sent_after_all(self, store: Store) -> None:
        await exchange(store)
        part = (await store.outbox(PartState.PENDING))[0]
        await store.record_sending(part.id)
        await store.record_unsent(part.id, "blocked", retry_at=None)

        again = await store.requeue_part(part.id)

        assert (again.state, again.text, again.not_before) == (PartState.PENDING, "hi", None)
        assert (await store.record_sending(part.id)).attempts == 2

    async def test_a_part_that_is_on_its_way_or_has_arrived_is_left_alone(
        self, store: Store
    ) -> None:
        await exchange(store)
        part = (await store.outbox(PartState.PENDING))[0]
        await store.record_sending(part.id)
        for verb in (store.requeue_part(part.id), store.drop_part(part.id, "x")):
            with pytest.raises(AlreadySettled, match="sending"):
                await verb
        await store.record_sent(part.id, Sent(message_id="m", at=NOON))
        with pytest.raises(AlreadySettled, match="sent"):
            await store.drop_part(part.id, "x")

    async def test_a_dropped_part_is_gone(self, store: Store) -> None:
        await exchange(store, id="1")
        await exchange(store, id="2")
        pending, dead = await store.outbox(PartState.PENDING)
        await store.record_sending(dead.id)
        await store.record_unsent(dead.id, "blocked", retry_at=None)
        await store.drop_part(pending.id, "x")
        await store.drop_part(dead.id, "x")

        assert await store.outbox(*PartState) == []


class TestTracing:
    async def test_a_part_whose_fate_is_unknown_stays_on_its_way(self, store: Store) -> None:
        await exchange(store)
        part = (await store.outbox(PartState.PENDING))[0]
        await store.record_sending(part.id)
        await store.record_unsent(part.id, "reset", retry_at=NOON + HOUR, in_doubt=True)

        doubtful = (await store.outbox(PartState.SENDING))[0]
        assert (doubtful.reason, doubtful.not_before, doubtful.text) == ("reset", NOON + HOUR, "hi")

    async def test_a_part_keeps_its_file_and_its_buttons(self, store: Store) -> None:
        begun = await begin(store, message())
        file = File(path="/srv/out/report.pdf", name="Bericht \u2014 M\u00e4rz.pdf")
        buttons = (Button(label="Ja", nonce="n1"), Button(label="Nein", nonce="n2"))
        parts = (
            Part(target=dm(), text="", file=file),
            Part(target=dm(), text="Really?", buttons=buttons),
        )
        made = await store.finish(begun.turn, Outcome(parts=parts))

        assert list(made) == await store.outbox(PartState.PENDING)
        assert [(part.file, part.buttons) for part in made] == [(file, ()), (None, buttons)]

    async def test_a_part_knows_its_session_and_what_it_edits(self, store: Store) -> None:
        begun = await begin(store, message())
        outcome = Outcome(parts=(Part(target=dm(), text="so", edits="m3"),))
        made = (await store.finish(begun.turn, outcome))[0]
        kept = (await store.outbox(PartState.PENDING))[0]

        assert made == kept
        assert (kept.session, kept.edits) == (begun.opened.session.id, "m3")

    async def test_the_depth_counts_what_is_on_its_way_and_what_was_given_up(
        self, store: Store
    ) -> None:
        await store.accept(message(id="1"), key_of())
        await begin(store, message(id="2"))
        await exchange(store, id="3")
        await exchange(store, id="4")
        part = (await store.outbox(PartState.PENDING))[0]
        await store.record_sending(part.id)
        await store.record_unsent(part.id, "no", retry_at=None)

        depth = replace(await store.depth(), inbox_oldest=None, outbox_oldest=None)
        assert depth == Depth(inbox_waiting=2, inbox_dead=0, outbox_waiting=1, outbox_dead=1)

    async def test_a_message_is_found_by_the_name_its_platform_gave_it(self, store: Store) -> None:
        first = await store.accept(message(id="77"), key_of())
        other = await store.accept(message(id="77", source=dm("9")), key_of(dm("9")))
        await store.accept(message(id="78"), key_of())

        assert await store.find("77") == [other.id, first.id]
        assert await store.find("none") == []

    async def test_the_life_of_a_message_is_told_step_by_step(
        self, store: Store, clock: FrozenClock
    ) -> None:
        accepted = await store.accept(message("hello"), key_of())
        clock.advance(seconds=1)
        claim = Claim(inbox=(accepted.id,), opening=opening(), entries=(user("hello"),), history=0)
        await store.begin(claim)
        restart(store)
        clock.advance(seconds=1)
        begun = await store.begin(claim)
        clock.advance(seconds=1)
        parts = await store.finish(begun.turn, Outcome(parts=(Part(target=dm(), text="hi"),)))
        clock.advance(seconds=1)
        await store.record_sending(parts[0].id)
        await store.record_unsent(parts[0].id, "a line\nbreak", retry_at=NOON)
        clock.advance(seconds=1)
        await store.record_sending(parts[0].id)
        await store.record_sent(parts[0].id, Sent(message_id="m9", at=clock.now()))

        trace = await store.trace(accepted.id)

        assert [(step.step, step.detail, (step.at - NOON).seconds) for step in trace.steps] == [
            ("stored", "", 0),
            ("claimed", "", 1),
            ("claimed again", "", 2),
            ("finished", "", 3),
            ("done", "", 3),
            ("sending", "", 4),
            ("failed", "a line break", 4),
            ("sending", "", 5),
            ("sent", "m9", 5),
        ]
        assert trace.item.state is InboxState.DONE
        assert trace.session == begun.opened.session.id
        assert [part.state for part in trace.parts] == [PartState.SENT]

    async def test_a_command_is_traced_to_what_it_said(self, store: Store) -> None:
        accepted = await store.accept(message("/help"), key_of())
        session = (await store.open(opening())).session
        await store.answer(
            accepted.id,
            session.id,
            entries=(),
            parts=(Part(target=dm(), text="so", reply_to=message().id),),
        )

        trace = await store.trace(accepted.id)

        assert [step.step for step in trace.steps] == ["stored", "done"]
        assert [part.text for part in trace.parts] == ["so"]

    async def test_a_store_that_takes_writes_says_so(self, store: Store) -> None:
        await store.probe()
        await store.probe()


def question(does: Does = Does.SAY, *, expires_at: datetime = NOON + timedelta(hours=1)) -> Part:
    about = Question(does=does, person="42", key=key_of(), expires_at=expires_at, ask="a1")
    buttons = (Button(label="Ja \u2705", nonce="n1"), Button(label="Nein", nonce="n2"))
    return Part(target=dm(), text="Wirklich?", buttons=buttons, question=about)


class TestMovingAChat:
    OLD = SessionSource(
        platform="telegram", chat_type=ChatType.GROUP, chat_id="-4001", user_id="42"
    )
    NEW = replace(OLD, chat_id="-1001234")

    async def test_its_sessions_and_their_words_are_found_under_the_new_id(
        self, store: Store
    ) -> None:
        bob = replace(self.OLD, user_id="7")
        session = await exchange(store, "hello", id="1", source=self.OLD)
        await exchange(store, "hi", id="2", source=bob)
        other = await exchange(
            store, "elsewhere", id="3", source=replace(self.OLD, chat_id="-4002")
        )
        same_id = await exchange(store, "x", id="4", source=replace(self.OLD, account="support"))

        assert await store.move_chat(self.OLD, "-1001234", build_session_key) == 2

        opened = await store.open(opening(self.NEW))
        assert (opened.session.id, opened.is_new) == (session.id, False)
        assert opened.session.origin.chat_id == "-1001234"
        assert await texts(store, opened.session) == ["hello", "hi"]
        assert not (await store.open(opening(replace(bob, chat_id="-1001234")))).is_new
        assert await store.current(key_of(self.OLD)) is None
        for left in (other, same_id):
            assert (await store.session(left.id)).origin == left.origin

    async def test_one_that_is_there_already_stays_and_the_old_one_can_be_resumed(
        self, store: Store
    ) -> None:
        old = await exchange(store, "hello", id="1", source=self.OLD)
        new = await exchange(store, "quick", id="2", source=self.NEW)

        await store.move_chat(self.OLD, "-1001234", build_session_key)

        assert (await store.current(key_of(self.NEW))).id == new.id  # type: ignore[union-attr]
        assert (await store.switch(key_of(self.NEW), old.id)).id == old.id

    async def test_told_twice_it_moves_once(self, store: Store) -> None:
        await exchange(store, source=self.OLD)

        assert await store.move_chat(self.OLD, "-1001234", build_session_key) == 1
        assert await store.move_chat(self.OLD, "-1001234", build_session_key) == 0


class TestQuestions:
    async def test_a_question_in_the_middle_of_a_turn_is_sent_and_open(self, store: Store) -> None:
        begun = await begin(store, message())
        (asked,) = await store.ask(begun.turn, question())

        assert [part.id for part in await store.outbox(PartState.PENDING)] == [asked.id]
        (open_,) = await store.questions()
        assert (open_.id, open_.state, open_.part) == (asked.id, QuestionState.OPEN, asked)
        assert (asked.turn, asked.session, asked.question) == (
            begun.turn,
            begun.opened.session.id,
            question().question,
        )

    async def test_one_that_comes_with_the_end_of_a_turn_is_open_too(self, store: Store) -> None:
        begun = await begin(store, message())
        await store.finish(
            begun.turn, Outcome(failure="interrupted", parts=(question(Does.RERUN),))
        )

        assert [asked.part.question for asked in await store.questions()] == [
            question(Does.RERUN).question
        ]

    async def test_it_is_answered_with_the_message_that_chooses_and_only_once(
        self, store: Store
    ) -> None:
        (asked,) = await store.ask((await begin(store, message())).turn, question())
        await store.record_sending(asked.id)
        await store.record_sent(asked.id, Sent(message_id="b7", at=NOON))
        first = await store.accept(
            message(id="2"), key_of(), choosing=Choice(question=asked.id, option=1)
        )
        second = await store.accept(
            message(id="3"), key_of(), choosing=Choice(question=asked.id, option=0)
        )

        assert await store.questions() == []
        found = await store.answered(first.id)
        assert found is not None
        assert (found.id, found.state, found.option, found.message_id) == (
            asked.id,
            QuestionState.ANSWERED,
            1,
            "b7",
        )
        assert found.part == asked
        assert await store.answered(second.id) is None

    async def test_a_choice_that_the_platform_repeats_is_the_first_one(self, store: Store) -> None:
        (asked,) = await store.ask((await begin(store, message())).turn, question())
        (other,) = await store.ask(
            (await begin(store, message(id="2", source=dm("7")))).turn, question()
        )
        press = message(id="3")
        await store.accept(press, key_of(), choosing=Choice(question=asked.id, option=0))
        again = await store.accept(press, key_of(), choosing=Choice(question=other.id, option=0))

        assert again.duplicate
        assert [each.id for each in await store.questions()] == [other.id]

    @pytest.mark.parametrize(("does", "left"), [(Does.ANSWER, 0), (Does.SAY, 1)])
    async def test_what_an_agent_waits_for_is_closed_with_its_turn(
        self, store: Store, does: Does, left: int
    ) -> None:
        begun = await begin(store, message())
        await store.ask(begun.turn, question(does))
        await store.finish(begun.turn, Outcome())

        assert len(await store.questions()) == left

    async def test_what_has_not_left_when_its_turn_is_over_is_not_asked(self, store: Store) -> None:
        begun = await begin(store, message())
        asked = [(await store.ask(begun.turn, question(Does.ANSWER)))[0] for _ in range(4)]
        pending, failed, sending, sent = (part.id for part in asked)
        for part in (failed, sending, sent):
            await store.record_sending(part)
        await store.record_unsent(failed, "slow down", retry_at=NOON + timedelta(minutes=1))
        await store.record_sent(sent, Sent(message_id="b7", at=NOON))
        await store.finish(begun.turn, Outcome())

        assert {part.id for part in await store.outbox(*PartState)} == {sending, sent}
        with pytest.raises(Refused):
            await store.record_sending(pending)

    async def test_a_question_may_come_in_several_parts(self, store: Store) -> None:
        begun = await begin(store, message())
        parts = await store.ask(begun.turn, Part(target=dm(), text="A long story."), question())

        assert [part.id for part in await store.outbox(PartState.PENDING)] == [
            part.id for part in parts
        ]
        assert [open_.id for open_ in await store.questions()] == [parts[1].id]

    async def test_a_turn_that_begins_again_asks_again(self, store: Store) -> None:
        accepted = await store.accept(message(), key_of())
        claim = Claim(inbox=(accepted.id,), opening=opening(), entries=(user("hello"),), history=50)
        begun = await store.begin(claim)
        await store.ask(begun.turn, question(Does.ANSWER))
        restart(store)
        await store.begin(claim)

        assert await store.questions() == []

    async def test_a_deleted_session_takes_its_questions_with_it(self, store: Store) -> None:
        begun = await begin(store, message())
        await store.ask(begun.turn, question())
        await store.delete(begun.opened.session.id)

        assert await store.questions() == []

    async def test_they_are_forgotten_some_time_after_they_expired(
        self, store: Store, clock: FrozenClock
    ) -> None:
        await store.ask((await begin(store, message())).turn, question())
        clock.advance(days=2)
        ages = {"empty_after": timedelta(days=1), "archive_after": timedelta(days=30)}
        await store.prune(**ages, forget_after=timedelta(days=7))
        assert len(await store.questions()) == 1
        clock.advance(days=7)
        await store.prune(**ages, forget_after=timedelta(days=7))

        assert await store.questions() == []

    async def test_nothing_is_asked_in_a_turn_that_is_over(self, store: Store) -> None:
        begun = await begin(store, message())
        await store.finish(begun.turn, Outcome())

        with pytest.raises(AlreadySettled):
            await store.ask(begun.turn, question())


class TestAccounts:
    async def test_an_account_that_was_never_heard_of_has_no_record(self, store: Store) -> None:
        assert await store.account("telegram", "main") == AccountRecord()

    async def test_the_last_message_of_an_account_is_remembered_by_the_platform_s_time(
        self, store: Store, clock: FrozenClock
    ) -> None:
        """Finding R4: our clock may have been ahead when it came."""
        clock.advance(minutes=15)
        await store.accept(message(id="1"), key_of())
        assert (await store.account("telegram", "main")).received_at == NOON

        await store.accept(replace(message(id="2"), sent_at=NOON + MINUTE), key_of())
        await store.accept(message(id="3"), key_of())

        assert (await store.account("telegram", "main")).received_at == NOON + MINUTE
        assert await store.account("telegram", "support") == AccountRecord()

    async def test_what_has_no_time_of_the_platform_does_not_count_as_the_last_message(
        self, store: Store
    ) -> None:
        pressed = replace(message(), kind=MessageKind.BUTTON, sent_at=NOON + MINUTE)
        await store.accept(pressed, key_of())

        assert await store.account("telegram", "main") == AccountRecord()

    async def test_a_last_message_from_the_future_is_corrected_by_a_catch_up(
        self, store: Store
    ) -> None:
        await store.accept(replace(message(id="1"), sent_at=NOON + 60 * MINUTE), key_of())
        await store.record_behind("telegram", "main", NOON)
        await store.accept(replace(message(id="2"), sent_at=NOON + MINUTE), key_of())

        assert (await store.account("telegram", "main")).received_at == NOON + MINUTE

    async def test_since_when_it_is_behind_is_remembered_until_it_has_caught_up(
        self, store: Store
    ) -> None:
        await store.accept(message(id="1"), key_of())
        await store.record_behind("telegram", "main", NOON)
        await store.accept(replace(message(id="2"), sent_at=NOON + 60 * MINUTE), key_of())
        behind = await store.account("telegram", "main")
        assert (behind.behind_since, behind.received_at) == (NOON, NOON + 60 * MINUTE)

        await store.record_caught_up("telegram", "main", NOON + 30 * MINUTE)
        assert await store.account("telegram", "main") == AccountRecord(
            received_at=NOON + 60 * MINUTE
        )
        await store.record_caught_up("telegram", "main", NOON + 120 * MINUTE)
        assert await store.account("telegram", "main") == AccountRecord(
            received_at=NOON + 120 * MINUTE
        )

    async def test_one_that_never_received_anything_has_caught_up_too(self, store: Store) -> None:
        await store.record_caught_up("telegram", "main", NOON)

        assert await store.account("telegram", "main") == AccountRecord(received_at=NOON)

    async def test_refusals_are_counted_until_the_account_is_welcome_again(
        self, store: Store
    ) -> None:
        await store.accept(message(), key_of())
        await store.record_refused("telegram", "main")
        record = await store.record_refused("telegram", "main")
        assert record == await store.account("telegram", "main")
        assert (record.refused, record.refused_at, record.received_at) == (2, NOON, NOON)

        await store.record_welcome("telegram", "main")
        await store.record_welcome("telegram", "never seen")

        assert await store.account("telegram", "main") == AccountRecord(received_at=NOON)

    async def test_something_nobody_asked_for_is_said_and_kept(self, store: Store) -> None:
        session = await exchange(store)
        parts = await store.tell(
            session.id, entries=(assistant("by the way"),), parts=(Part(target=dm(), text="btw"),)
        )

        assert await texts(store, session) == ["hello", "hi", "by the way"]
        assert [(part.text, part.session, part.turn) for part in parts] == [
            ("btw", session.id, None)
        ]
        assert (await store.session(session.id)).last_interaction_at == session.last_interaction_at


class TestOutbox:
    async def _part(self, store: Store) -> PartId:
        begun = await begin(store, message())
        (part,) = await store.finish(
            begun.turn, Outcome(parts=(Part(target=dm(), text="answer", reply_to="1"),))
        )
        return part.id

    async def test_a_part_goes_from_pending_through_sending_to_sent(self, store: Store) -> None:
        part = await self._part(store)
        sending = await store.record_sending(part)
        await store.record_sent(part, Sent(message_id="77", at=NOON))

        assert (sending.state, sending.attempts, sending.text, sending.reply_to) == (
            PartState.SENDING,
            1,
            "answer",
            "1",
        )
        (sent,) = await store.outbox(PartState.SENT)
        assert (sent.sent_id, sent.text) == ("77", "")

    async def test_a_part_that_failed_is_tried_again_at_its_time(self, store: Store) -> None:
        part = await self._part(store)
        await store.record_sending(part)
        await store.record_unsent(part, "no route", retry_at=NOON + HOUR)
        (failed,) = await store.outbox(PartState.FAILED)
        again = await store.record_sending(part)

        assert (failed.reason, failed.not_before) == ("no route", NOON + HOUR)
        assert again.attempts == 2

    async def test_a_part_nobody_takes_is_a_dead_letter_with_its_text(self, store: Store) -> None:
        part = await self._part(store)
        await store.record_unsent(part, "bot was blocked", retry_at=None)

        (dead,) = await store.outbox(PartState.DEAD)
        assert (dead.text, dead.reason) == ("answer", "bot was blocked")
        with pytest.raises(AlreadySettled):
            await store.record_sending(part)

    async def test_a_sent_part_is_never_sent_again(self, store: Store) -> None:
        part = await self._part(store)
        await store.record_sent(part, Sent(message_id="77", at=NOON))

        with pytest.raises(AlreadySettled):
            await store.record_sending(part)
        with pytest.raises(AlreadySettled):
            await store.record_sent(part, Sent(message_id="78", at=NOON))

    async def test_an_unknown_part_is_refused(self, store: Store) -> None:
        with pytest.raises(UnknownWork):
            await store.record_sending(PartId(4711))


class TestTranscript:
    async def test_text_that_looks_like_json_stays_text(self, store: Store) -> None:
        session = await exchange(store, LOOKS_LIKE_JSON, answer='{"role": "user"}')

        assert await texts(store, session) == [LOOKS_LIKE_JSON, '{"role": "user"}']
        begun = await begin(store, message(id="2"))
        assert begun.history[0].content == (Text(LOOKS_LIKE_JSON),)

    async def test_real_multimodal_content_and_every_fact_of_an_entry_come_back(
        self, store: Store
    ) -> None:
        session = (await store.open(opening())).session
        rich = [
            Entry(
                role=Role.USER,
                content=(
                    Text("look"),
                    Media(type=MediaType.IMAGE, path="in/1.png", mime="image/png", name="Ünï.png"),
                    Media(type=MediaType.AUDIO),
                    Media(type=MediaType.DOCUMENT),
                    Media(type=MediaType.FILE),
                ),
                at=NOON,
                sender="42",
                message_id="m1",
            ),
            Entry(
                role=Role.ASSISTANT,
                content=(),
                at=NOON,
                tool_calls=(ToolCall(id="c1", name="ls", arguments='{"path": "."}'),),
                reasoning=Reasoning(text="hm", signature="sig"),
                tokens=12,
                latency_ms=345,
                sets_aside=(EntryId("e1"), EntryId("e2")),
            ),
            Entry(role=Role.TOOL, content=(Text("a.txt"),), at=NOON, tool_call_id="c1"),
            Entry(role=Role.SYSTEM, content=(Text("a"), Text("b")), at=NOON, origin=Origin.SUMMARY),
        ]
        await add_entries(store, session.id, rich)

        stored = (await store.transcript(session.id)).entries
        assert [replace(entry, seq=0, id=EntryId("")) for entry in stored] == rich

    async def test_entries_have_growing_numbers_and_ids_of_their_own(self, store: Store) -> None:
        session = await exchange(store)
        entries = (await store.transcript(session.id)).entries

        assert entries[0].seq < entries[1].seq
        assert len({entry.id for entry in entries}) == 2

    async def test_the_last_few_can_be_read_alone(self, store: Store) -> None:
        session = (await store.open(opening())).session
        await add_entries(store, session.id, [user(str(number)) for number in range(10)])

        assert [entry.text for entry in (await store.transcript(session.id, last=3)).entries] == [
            "7",
            "8",
            "9",
        ]
        assert (await store.transcript(session.id, last=0)).entries == ()

    async def test_one_entry_can_be_edited(self, store: Store) -> None:
        session = await exchange(store, "teh", answer="?")
        old = (await store.transcript(session.id)).entries[0]
        new = await store.edit_entry(session.id, old.id, (Text("the"),))

        assert new == replace(old, content=(Text("the"),))
        assert await texts(store, session) == ["the", "?"]
        assert (await store.session(session.id)).preview == "the"

    async def test_an_edited_entry_is_what_the_next_turn_sees(self, store: Store) -> None:
        session = await exchange(store, "teh")
        await begin(store, message("warm", id="2"))
        old = (await store.transcript(session.id)).entries[0]
        await store.edit_entry(session.id, old.id, (Text("the"),))

        assert (await begin(store, message(id="3"))).history[0].text == "the"

    async def test_one_entry_can_be_deleted(self, store: Store) -> None:
        session = await exchange(store, "a", answer="b")
        await store.delete_entry(session.id, (await store.transcript(session.id)).entries[0].id)

        assert await texts(store, session) == ["b"]
        assert (await store.session(session.id)).messages == 1

    async def test_the_id_of_a_deleted_entry_never_means_another(self, store: Store) -> None:
        session = await exchange(store, "a", answer="b")
        last = (await store.transcript(session.id)).entries[-1]
        await store.delete_entry(session.id, last.id)
        await add_entries(store, session.id, [assistant("c")])

        with pytest.raises(UnknownEntry):
            await store.edit_entry(session.id, last.id, (Text("late"),))
        assert await texts(store, session) == ["a", "c"]

    async def test_an_entry_of_another_session_is_unknown(self, store: Store) -> None:
        mine = await exchange(store)
        other = await exchange(store, source=dm("7"))
        foreign = (await store.transcript(other.id)).entries[0]

        with pytest.raises(UnknownEntry):
            await store.delete_entry(mine.id, foreign.id)
        with pytest.raises(UnknownEntry):
            await store.edit_entry(mine.id, EntryId("nonsense"), (Text("x"),))

    @pytest.mark.parametrize(("keep", "left"), [(0, 0), (3, 3), (4, 4), (99, 4)])
    async def test_truncate_says_how_many_really_remain(
        self, store: Store, keep: int, left: int
    ) -> None:
        await exchange(store)
        session = await exchange(store, id="2")

        assert await store.truncate(session.id, keep) == left
        assert len(await texts(store, session)) == left
        assert (await store.session(session.id)).messages == left

    async def test_a_negative_truncate_is_refused(self, store: Store) -> None:
        session = await exchange(store)

        with pytest.raises(Refused, match="0 or more"):
            await store.truncate(session.id, -1)
        assert len(await texts(store, session)) == 2

    async def test_an_entry_that_kept_its_id_can_be_edited_under_it(self, store: Store) -> None:
        session = await exchange(store, "a", answer="b")
        first = (await store.transcript(session.id)).entries[0]
        await add_entries(store, session.id, [replace(first, id=EntryId("brought"))])
        await store.edit_entry(session.id, EntryId("brought"), (Text("changed"),))

        assert await texts(store, session) == ["a", "b", "changed"]

    async def test_truncating_to_nothing_drops_entries_mark_and_summary(self, store: Store) -> None:
        session = await exchange(store, "a", answer="b")
        old = (await store.transcript(session.id)).entries
        await store.summarise(
            session.id, said(Role.ASSISTANT, "summary", origin=Origin.SUMMARY), old, mark=0
        )
        await store.truncate(session.id, 0)

        after = await store.session(session.id)
        assert await texts(store, session) == []
        assert (after.messages, after.preview, after.consolidated_through, after.summary_seq) == (
            0,
            "",
            0,
            0,
        )
        assert (await begin(store, message(id="2"))).history == ()

    async def test_consolidated_entries_are_not_replayed_but_their_summary_is(
        self, store: Store
    ) -> None:
        session = await exchange(store, "old", answer="older")
        old = (await store.transcript(session.id)).entries
        await exchange(store, "new", id="2", answer="newer")
        await store.summarise(
            session.id, said(Role.ASSISTANT, "summary", origin=Origin.SUMMARY), old, mark=0
        )
        begun = await begin(store, message(id="3"))

        assert [entry.text for entry in begun.history] == ["summary", "new", "newer"]

    async def test_a_mark_whose_summary_is_deleted_is_taken_back(self, store: Store) -> None:
        session = await exchange(store, "old", answer="older")
        old = (await store.transcript(session.id)).entries
        await store.summarise(
            session.id, said(Role.ASSISTANT, "summary", origin=Origin.SUMMARY), old, mark=0
        )
        summary = (await store.transcript(session.id)).entries[-1]
        await store.delete_entry(session.id, summary.id)

        assert [entry.text for entry in (await begin(store, message(id="2"))).history] == [
            "old",
            "older",
        ]

    async def test_lone_surrogates_are_replaced_and_nul_is_kept(self, store: Store) -> None:
        session = await exchange(store, "a\ud800b", answer="x\0y")
        await store.rename(session.id, "t\udfff")

        assert await texts(store, session) == ["a\ufffdb", "x\0y"]
        assert (await store.session(session.id)).title == "t\ufffd"
        begun = await begin(store, message(id="2"))
        assert [entry.text for entry in begun.history] == ["a\ufffdb", "x\0y"]
        assert begun.opened.session.title == "t\ufffd"

    async def test_no_lone_surrogate_gets_past_any_verb(self, store: Store) -> None:
        bad = "x\ud83d"
        source = replace(dm(bad), user_name=bad, thread_id=bad)
        asked = replace(opening(source), owner=bad)
        await store.accept(
            replace(message(bad, id=bad, source=source), event_ids=(bad,)), asked.key
        )
        (item,) = await store.inbox(InboxState.WAITING)
        entry = Entry(role=Role.USER, content=(Text(bad),), at=NOON, sender=bad, message_id=bad)
        begun = await store.begin(
            Claim(inbox=(item.id,), opening=asked, entries=(entry,), history=5)
        )
        parts = await store.finish(
            begun.turn, Outcome(failure=bad, parts=(Part(target=source, text=bad, reply_to=bad),))
        )
        session = begun.opened.session
        await store.set_goal(session.id, bad)
        await store.rename(session.id, bad)
        await store.record_unsent(parts[0].id, bad, retry_at=NOON)
        fresh = await store.reset(session.key, title=bad)
        lines = [line.replace("\ufffd", "\\ud83d") async for line in store.export(session.id)]
        imported = await store.import_(lines)

        assert await store.outbox(PartState.FAILED) == [
            replace(parts[0], state=PartState.FAILED, reason="x\ufffd", not_before=NOON)
        ]
        assert (fresh.title, (await store.inbox(InboxState.FAILED))[0].reason) == (
            "x\ufffd",
            "x\ufffd",
        )
        assert imported.problems == ()
        assert imported.session is not None
        assert (await store.session(imported.session)).title == "x\ufffd"
        assert await store.search(bad) != []
        with pytest.raises(UnknownSession):
            await store.session(SessionId(bad))
        with pytest.raises(Refused):
            await store.edit_entry(session.id, EntryId(bad), (Text("x"),))
        assert not (await store.accept(message(id="fine"), key_of())).duplicate

    async def test_a_message_of_ten_megabytes_is_kept_whole(self, store: Store) -> None:
        text = "äb" * 5_000_000
        session = await exchange(store, text)

        assert (await texts(store, session))[0] == text


class TestGrowth:
    async def test_past_the_cap_the_oldest_are_archived_at_a_user_turn(self, store: Store) -> None:
        for number in range(CAP):
            session = await exchange(store, f"q{number}", id=str(number), answer=f"a{number}")
        live = (await store.transcript(session.id)).entries

        assert len(live) <= CAP
        assert (live[0].role, live[-1].text) == (Role.USER, f"a{CAP - 1}")
        assert session.messages == len(live)

    async def test_what_was_archived_stays_readable_searchable_and_exported(
        self, store: Store
    ) -> None:
        for number in range(CAP):
            session = await exchange(store, f"question{number}", id=str(number))
        everything = (await store.transcript(session.id, with_archived=True)).entries

        assert len(everything) == 2 * CAP
        assert [hit.entry.text for hit in await store.search("question0")] == ["question0"]
        assert len([line async for line in store.export(session.id)]) == 2 * CAP + 2

    async def test_what_was_archived_is_not_replayed(self, store: Store) -> None:
        for number in range(CAP):
            await exchange(store, f"q{number}", id=str(number))
        begun = await begin(store, message(id="last"))

        assert "q0" not in [entry.text for entry in begun.history]
        assert len(begun.history) <= CAP

    async def test_a_proactive_delivery_before_the_first_live_turn_stays_live(
        self, store: Store
    ) -> None:
        session = (await store.open(opening())).session
        talk = [
            entry
            for n in range(CAP)
            for entry in (said(Role.ASSISTANT, f"d{n}", origin=Origin.DELIVERY), user("u"))
        ]
        await add_entries(store, session.id, talk)

        assert (await store.transcript(session.id)).entries[0].origin is Origin.DELIVERY

    async def test_a_delivery_on_the_far_side_of_the_cut_is_archived(self, store: Store) -> None:
        session = (await store.open(opening())).session
        pair = (said(Role.ASSISTANT, "d", origin=Origin.DELIVERY), user("u"))
        await add_entries(store, session.id, [*(pair * (CAP // 2)), assistant("one too many")])

        live = (await store.transcript(session.id)).entries
        assert (live[0].role, len(live)) == (Role.USER, CAP - CAP // 10)

    async def test_where_nobody_ever_wrote_the_live_part_starts_at_no_tool_result(
        self, store: Store
    ) -> None:
        session = (await store.open(opening())).session
        await add_entries(
            store,
            session.id,
            [said(Role.TOOL, f"r{n}") for n in range(CAP)] + [assistant("a"), assistant("b")],
        )

        assert await texts(store, session) == ["a", "b"]

    async def test_a_cap_without_a_user_turn_in_reach_holds_all_the_same(
        self, store: Store
    ) -> None:
        """Finding C8."""
        session = (await store.open(opening())).session
        await add_entries(
            store, session.id, [user("do it"), *(assistant(f"step {n}") for n in range(2 * CAP))]
        )

        live = await texts(store, session)
        assert (live[-1], len(live)) == (f"step {2 * CAP - 1}", CAP - CAP // 10)

    async def test_the_mark_survives_archiving(self, store: Store) -> None:
        session = await exchange(store, "first", id="first")
        old = (await store.transcript(session.id)).entries
        mark = old[-1].seq
        await store.summarise(
            session.id, said(Role.ASSISTANT, "summary", origin=Origin.SUMMARY), old, mark=0
        )
        for number in range(CAP):
            session = await exchange(store, f"q{number}", id=str(number))

        assert session.consolidated_through == mark
        assert session.archived_through > mark


class TestListing:
    async def test_sessions_are_listed_newest_interaction_first(
        self, store: Store, clock: FrozenClock
    ) -> None:
        for user_id in ("1", "2", "3"):
            await exchange(store, source=dm(user_id))
            clock.advance(minutes=1)
        await exchange(store, id="again", source=dm("1"))

        assert [session.origin.user_id for session in await store.sessions()] == ["1", "3", "2"]
        assert len(await store.sessions(SessionFilter(limit=2))) == 2

    async def test_only_the_lately_active_are_listed(
        self, store: Store, clock: FrozenClock
    ) -> None:
        await exchange(store, source=dm("1"))
        clock.advance(hours=2)
        await exchange(store, source=dm("2"))

        active = await store.sessions(SessionFilter(active_within=HOUR))
        assert [session.origin.user_id for session in active] == ["2"]

    async def test_by_owner_by_key_archived_and_current(self, store: Store) -> None:
        mine = await exchange(store, source=dm("1"))
        await exchange(store, source=dm("2"))
        new = await store.reset(mine.key)
        await store.archive(mine.id)

        async def listed(wanted: SessionFilter) -> set[SessionId]:
            return {session.id for session in await store.sessions(wanted)}

        assert await listed(SessionFilter(owner="telegram:1")) == {mine.id, new.id}
        assert await listed(SessionFilter(key=mine.key, current_only=True)) == {new.id}
        assert await listed(SessionFilter(archived=True)) == {mine.id}
        assert mine.id not in await listed(SessionFilter(archived=False))

    async def test_the_preview_is_the_first_user_text_on_one_line(self, store: Store) -> None:
        session = (await store.open(opening())).session
        await add_entries(
            store,
            session.id,
            [said(Role.USER, "/help", origin=Origin.COMMAND), assistant("hello\n there")],
        )
        before = (await store.session(session.id)).preview
        await exchange(store, f"  many\n\n words {'x' * 200}")
        after = (await store.session(session.id)).preview

        assert before == "hello there"
        assert after == f"many words {'x' * 108}…"
        assert len(after) == 120

    async def test_a_rename_is_no_activity(self, store: Store, clock: FrozenClock) -> None:
        session = await exchange(store)
        clock.advance(hours=1)
        await store.rename(session.id, "Ideas")
        await store.mark_important(session.id)
        await store.set_goal(session.id, "ship it")
        await store.choose_agent(session.id, "coder")
        after = await store.session(session.id)

        assert (after.title, after.important, after.goal, after.agent) == (
            "Ideas",
            True,
            "ship it",
            "coder",
        )
        assert after.last_interaction_at == NOON
        assert after.updated_at == NOON + HOUR

    async def test_a_view_is_no_activity(self, store: Store, clock: FrozenClock) -> None:
        session = await exchange(store)
        clock.advance(hours=1)
        await store.session(session.id)
        await store.transcript(session.id)
        await store.search("hello")
        lines = [line async for line in store.export(session.id)]

        assert len(lines) == 4
        assert await store.session(session.id) == session

    async def test_archiving_can_be_taken_back(self, store: Store) -> None:
        session = await exchange(store)
        await store.archive(session.id)
        await store.archive(session.id, archived=False)

        assert not (await store.session(session.id)).archived


class TestDeleting:
    async def test_a_deleted_session_is_gone_with_all_it_held(self, store: Store) -> None:
        session = await exchange(store, "findme")
        await store.delete(session.id)

        assert await store.sessions() == []
        assert await store.current(session.key) is None
        assert await store.search("findme") == []
        assert await store.outbox(*PartState) == []
        with pytest.raises(UnknownSession):
            await store.session(session.id)

    async def test_the_next_message_starts_a_new_session(self, store: Store) -> None:
        session = await exchange(store)
        await store.delete(session.id)
        opened = await store.open(opening())

        assert opened.is_new
        assert opened.session.id != session.id

    async def test_a_late_answer_writes_nothing_and_brings_nothing_back(self, store: Store) -> None:
        begun = await begin(store, message())
        await store.delete(begun.opened.session.id)

        with pytest.raises(Refused):
            await store.finish(
                begun.turn,
                Outcome(entries=(assistant("late"),), parts=(Part(target=dm(), text="x"),)),
            )
        assert await store.sessions() == []
        assert await store.outbox(*PartState) == []

    async def test_the_message_of_a_deleted_session_ends_as_refused_without_its_words(
        self, store: Store
    ) -> None:
        begun = await begin(store, message("private"))
        await store.delete(begun.opened.session.id)

        (item,) = await store.inbox(*InboxState)
        assert (item.state, item.reason, item.message.text) == (
            InboxState.REFUSED,
            "its session was deleted",
            "",
        )
        assert (await store.accept(message("private"), key_of())).duplicate

    async def test_every_late_verb_is_refused(self, store: Store) -> None:
        session = await exchange(store)
        entry = (await store.transcript(session.id)).entries[0]
        await store.delete(session.id)
        late = [
            add_entries(store, session.id, [user("x")]),
            store.edit_entry(session.id, entry.id, (Text("x"),)),
            store.delete_entry(session.id, entry.id),
            store.truncate(session.id, 0),
            store.summarise(session.id, user("x"), [entry], mark=0),
            store.rename(session.id, "x"),
            store.archive(session.id),
            store.switch(session.key, session.id),
            store.transcript(session.id),
            store.delete(session.id),
        ]

        results = await asyncio.gather(*late, return_exceptions=True)
        assert [type(result) for result in results] == [UnknownSession] * len(late)
        assert await store.sessions() == []

    async def test_deleting_one_session_harms_no_other(self, store: Store) -> None:
        doomed = await exchange(store, "gone")
        other = await exchange(store, "kept", source=dm("2"))
        await store.delete(doomed.id)

        assert await texts(store, other) == ["kept", "hi"]
        assert len(await store.outbox(PartState.PENDING)) == 1


class TestPruning:
    EVER = timedelta(days=3650)

    async def test_an_empty_session_is_deleted_only_past_its_age(
        self, store: Store, clock: FrozenClock
    ) -> None:
        await store.open(opening())
        young = await store.prune(empty_after=HOUR, archive_after=self.EVER, forget_after=self.EVER)
        clock.advance(hours=2)
        old = await store.prune(empty_after=HOUR, archive_after=self.EVER, forget_after=self.EVER)

        assert (young.deleted, old.deleted) == (0, 1)
        assert await store.sessions() == []

    async def test_an_answer_still_to_be_sent_is_not_deleted_with_its_empty_session(
        self, store: Store, clock: FrozenClock
    ) -> None:
        begun = await store.begin(Claim(inbox=(), opening=opening(), entries=(), history=0))
        await store.finish(begun.turn, Outcome(parts=(Part(target=dm(), text="news"),)))
        clock.advance(days=1)
        await store.prune(empty_after=HOUR, archive_after=self.EVER, forget_after=self.EVER)

        assert [part.text for part in await store.outbox(PartState.PENDING)] == ["news"]

    async def test_old_sessions_are_archived_by_last_interaction(
        self, store: Store, clock: FrozenClock
    ) -> None:
        session = await exchange(store)
        clock.advance(days=40)
        await store.rename(session.id, "renamed lately")
        pruned = await store.prune(
            empty_after=HOUR, archive_after=timedelta(days=30), forget_after=self.EVER
        )

        assert pruned.archived == 1
        assert (await store.session(session.id)).archived

    async def test_important_and_busy_sessions_are_spared(
        self, store: Store, clock: FrozenClock
    ) -> None:
        important = (await store.open(opening(dm("1")))).session
        await store.mark_important(important.id)
        busy = (await begin(store, message(source=dm("2")))).opened.session
        clock.advance(days=400)
        pruned = await store.prune(empty_after=HOUR, archive_after=HOUR, forget_after=HOUR)

        assert (pruned.deleted, pruned.archived) == (0, 0)
        assert {session.id for session in await store.sessions()} == {important.id, busy.id}

    async def test_settled_work_is_forgotten_and_open_work_is_not(
        self, store: Store, clock: FrozenClock
    ) -> None:
        await exchange(store)
        (part,) = await store.outbox(PartState.PENDING)
        await store.record_sent(part.id, Sent(message_id="1", at=NOON))
        await exchange(store, id="2")
        await exchange(store, id="3")
        _, retried = await store.outbox(PartState.PENDING)
        await store.record_unsent(retried.id, "no route", retry_at=NOON)
        await store.accept(message(id="4"), key_of())
        clock.advance(days=8)
        await store.prune(empty_after=HOUR, archive_after=self.EVER, forget_after=timedelta(days=7))

        assert [item.message.id for item in await store.inbox(*InboxState)] == ["4"]
        assert [part.state for part in await store.outbox(*PartState)] == [
            PartState.PENDING,
            PartState.FAILED,
        ]

    async def test_a_message_that_still_waits_is_never_accepted_again(
        self, store: Store, clock: FrozenClock
    ) -> None:
        await store.accept(message(), key_of())
        clock.advance(days=8)
        await store.prune(empty_after=HOUR, archive_after=self.EVER, forget_after=timedelta(days=7))

        assert (await store.accept(message(), key_of())).duplicate

    async def test_a_forgotten_event_id_is_new_again(
        self, store: Store, clock: FrozenClock
    ) -> None:
        await exchange(store)
        clock.advance(days=8)
        still = await store.accept(message(), key_of())
        await store.prune(empty_after=HOUR, archive_after=self.EVER, forget_after=timedelta(days=7))

        assert still.duplicate
        assert not (await store.accept(message(), key_of())).duplicate


async def test_who_goes_on_talking_in_an_archived_session_takes_it_out(store: Store) -> None:
    """Finding C11."""
    session = await exchange(store, "old")
    await store.archive(session.id)
    begun = await begin(store, message(id="2"))

    assert begun.opened.session.id == session.id
    assert not (await store.session(session.id)).archived


class TestSearch:
    async def test_all_words_must_begin_a_word_of_the_entry(self, store: Store) -> None:
        await exchange(store, "The quick brown fox", answer="jumps over the lazy dog")

        async def found(query: str) -> list[str]:
            return [hit.entry.text for hit in await store.search(query)]

        assert await found("QUICK fox") == ["The quick brown fox"]
        assert await found("qui") == ["The quick brown fox"]
        assert await found("uick") == []
        assert await found("quick dog") == []
        assert await found("") == []
        assert await found('"*) OR (') == []

    async def test_accents_and_unspaced_scripts_are_found(self, store: Store) -> None:
        await exchange(store, "Größe naïve Ærø", answer="我想吃苹果")

        assert len(await store.search("grosse naive")) == 1
        assert len(await store.search("苹果")) == 1

    async def test_a_latin_word_inside_an_unspaced_script_is_found(self, store: Store) -> None:
        """Finding C15."""
        await exchange(store, "帮我总结一下OpenAI的最新计划", answer="GPT5很快")

        assert len(await store.search("OpenAI")) == 1
        assert len(await store.search("opena 总结")) == 1
        assert len(await store.search("OpenAI的")) == 1
        assert len(await store.search("gpt5")) == 1
        assert await store.search("penAI") == []

    async def test_newest_first_with_its_session(self, store: Store) -> None:
        first = await exchange(store, "apple one", source=dm("1"))
        second = await exchange(store, "apple two", source=dm("2"))

        hits = await store.search("apple")
        assert [(hit.session, hit.entry.text) for hit in hits] == [
            (second.id, "apple two"),
            (first.id, "apple one"),
        ]
        assert len(await store.search("apple", limit=1)) == 1

    async def test_words_inside_rich_content_are_found_but_not_its_structure(
        self, store: Store
    ) -> None:
        session = (await store.open(opening())).session
        content = (Text("caption"), Media(type=MediaType.IMAGE, name="photo.png"))
        await add_entries(store, session.id, [replace(user(""), content=content)])

        assert len(await store.search("caption")) == 1
        assert await store.search("content") == []
        assert await store.search("type") == []


class TestExport:
    async def _export(self, store: Store, session: SessionId) -> list[str]:
        return [line async for line in store.export(session)]

    async def test_an_import_of_an_export_gives_back_messages_and_totals(
        self, store: Store
    ) -> None:
        spent = Spent(tokens=Tokens(input=3, output=4), prompt_tokens=3)
        session = await exchange(store, LOOKS_LIKE_JSON, answer="ünï😀", spent=spent)
        await store.rename(session.id, "Ideas")
        lines = await self._export(store, session.id)
        await store.delete(session.id)
        imported = await store.import_(lines)

        assert imported.session is not None
        assert imported.problems == ()
        restored = await store.session(imported.session)
        assert await texts(store, restored) == [LOOKS_LIKE_JSON, "ünï😀"]
        assert (restored.tokens, restored.title, restored.key) == (
            spent.tokens,
            "Ideas",
            session.key,
        )

    async def test_an_import_never_brings_a_deleted_id_back(self, store: Store) -> None:
        session = await exchange(store)
        lines = await self._export(store, session.id)
        await store.delete(session.id)

        assert (await store.import_(lines)).session != session.id

    async def test_an_import_beside_the_original_is_not_current(self, store: Store) -> None:
        session = await exchange(store)
        imported = await store.import_(await self._export(store, session.id))

        assert imported.session is not None
        assert not (await store.session(imported.session)).current
        assert (await store.current(session.key)) == session
        assert (await store.switch(session.key, imported.session)).current

    async def test_marks_point_at_the_same_entries_after_an_import(self, store: Store) -> None:
        session = await exchange(store, "old", answer="older")
        old = (await store.transcript(session.id)).entries
        await exchange(store, "new", id="2", answer="newer")
        await store.summarise(
            session.id, said(Role.ASSISTANT, "summary", origin=Origin.SUMMARY), old, mark=0
        )
        lines = await self._export(store, session.id)
        await store.delete(session.id)
        imported = await store.import_(lines)
        begun = await begin(store, message(id="3"))

        assert begun.opened.session.id == imported.session
        assert [entry.text for entry in begun.history] == ["summary", "new", "newer"]

    async def test_a_mark_beyond_the_last_entry_hides_nothing(self, store: Store) -> None:
        """Finding C9."""
        session = await exchange(store, "old", answer="older")
        lines = await self._export(store, session.id)
        await store.delete(session.id)
        head = json.loads(lines[0])
        head["session"]["consolidated_through"] = 999
        await store.import_([json.dumps(head), *lines[1:]])
        begun = await begin(store, message(id="3"))

        assert [entry.text for entry in begun.history] == ["old", "older"]
        assert begun.opened.session.consolidated_through == 0

    async def test_archived_entries_stay_archived_through_an_import(self, store: Store) -> None:
        for number in range(CAP):
            session = await exchange(store, f"q{number}", id=str(number))
        imported = await store.import_(await self._export(store, session.id))

        assert imported.session is not None
        assert (await store.session(imported.session)).messages == session.messages
        assert (
            len((await store.transcript(imported.session, with_archived=True)).entries) == 2 * CAP
        )

    async def test_a_damaged_line_is_reported_and_every_other_is_kept(self, store: Store) -> None:
        session = await exchange(store, "a", answer="b")
        lines = await self._export(store, session.id)
        lines[1] = lines[1][:-7]
        imported = await store.import_(lines)

        assert imported.session is not None
        assert await texts(store, await store.session(imported.session)) == ["b"]
        assert [problem.split(":")[0] for problem in imported.problems] == [
            "line 2",
            "2 entries were exported, 1 could be read",
        ]

    async def test_entries_without_their_session_line_are_still_brought_in(
        self, store: Store
    ) -> None:
        session = await exchange(store, "a", answer="b")
        lines = (await self._export(store, session.id))[1:]
        imported = await store.import_(lines)

        assert imported.session is not None
        assert await texts(store, await store.session(imported.session)) == ["a", "b"]
        assert "describes the session is missing" in imported.problems[0]

    async def test_an_import_under_half_a_name_is_there_all_the_same(self, store: Store) -> None:
        session = await exchange(store)
        lines = [
            line.replace(session.id, "s_\\ud800") for line in await self._export(store, session.id)
        ]
        imported = await store.import_(lines)

        assert imported.session == "s_\ufffd"
        assert await texts(store, await store.session(imported.session)) == ["hello", "hi"]

    async def test_an_import_that_says_it_was_deleted_is_there_all_the_same(
        self, store: Store
    ) -> None:
        session = await exchange(store)
        await store.reset(session.key)
        lines = [
            line.replace('"end_reason":"reset"', '"end_reason":"deleted"')
            for line in await self._export(store, session.id)
        ]
        imported = await store.import_(lines)

        assert imported.session is not None
        assert (await store.session(imported.session)).end_reason is EndReason.SWITCH

    async def test_an_imported_entry_never_shares_its_id_with_a_later_one(
        self, store: Store
    ) -> None:
        session = await exchange(store, "a", answer="b")
        ahead = (await store.transcript(session.id)).entries[-1].seq + 12
        lines = [
            line.replace('"id":"e', f'"id":"e{ahead}')
            for line in await self._export(store, session.id)
        ]
        await store.delete(session.id)
        imported = await store.import_(lines)
        assert imported.session is not None
        for number in range(CAP):
            await exchange(store, f"q{number}", id=str(number + 2))
        entries = (await store.transcript(imported.session, with_archived=True)).entries

        assert len({entry.id for entry in entries}) == len(entries)

    async def test_a_second_session_in_one_file_is_not_mixed_with_the_first(
        self, store: Store
    ) -> None:
        mine = await exchange(store, "mine", source=dm("1"))
        other = await exchange(store, "not mine", source=dm("2"))
        lines = [*await self._export(store, mine.id), *await self._export(store, other.id)]
        imported = await store.import_(lines)

        assert imported.session is not None
        assert await texts(store, await store.session(imported.session)) == ["mine", "hi"]
        assert "another session begins" in imported.problems[0]

    @pytest.mark.parametrize(
        "rubbish",
        [
            "",
            "\0\0",
            "[]",
            "null",
            '{"type":"entry"}',
            '{"type":"session","format":99}',
            "[" * 10**5,
            '{"type":"end","entries":null}',
            '{"type":"end","entries":1e999}',
        ],
    )
    async def test_rubbish_brings_in_nothing_and_says_so(self, store: Store, rubbish: str) -> None:
        imported = await store.import_([rubbish])

        assert (imported.session, imported.entries) == (None, 0)
        assert imported.problems
        assert await store.sessions() == []

    async def test_an_export_torn_at_any_byte_keeps_every_whole_line(self, store: Store) -> None:
        session = await exchange(store, "erste ü", answer="zweite 😀")
        data = "\n".join(await self._export(store, session.id)).encode()
        whole = [json.loads(line)["type"] for line in data.split(b"\n")]
        for cut in range(len(data)):
            torn = data[:cut].split(b"\n")
            imported = await store.import_(torn)
            complete = [kind for line, kind in zip(torn, whole, strict=False) if _is_json(line)]
            assert imported.entries == complete.count("entry")
            assert imported.problems


def _is_json(line: bytes) -> bool:
    try:
        json.loads(line)
    except ValueError:
        return False
    return True


class TestManyAtOnce:
    async def test_a_thousand_conversations_never_mix(self, store: Store) -> None:
        async def talk(number: int) -> None:
            source = dm(f"user-{number}")
            for turn in range(2):
                canary = f"canary-{number}-{turn}"
                await exchange(store, canary, id=str(turn), source=source, answer=f"echo {canary}")

        await asyncio.gather(*(talk(number) for number in range(1000)))

        sessions = await store.sessions()
        assert len(sessions) == 1000
        for session in sessions:
            said_here = await texts(store, session)
            number = str(session.origin.user_id).split("-")[1]
            assert said_here == [
                text
                for turn in range(2)
                for text in (f"canary-{number}-{turn}", f"echo canary-{number}-{turn}")
            ]

    async def test_threads_and_tasks_writing_together_lose_nothing(self, store: Store) -> None:
        async def talk(thread: int, task: int) -> None:
            for turn in range(5):
                await exchange(
                    store, f"{thread}-{task}-{turn}", id=f"{turn}", source=dm(f"{thread}.{task}")
                )

        async def many(thread: int) -> None:
            await asyncio.gather(*(talk(thread, task) for task in range(8)))

        threads = [threading.Thread(target=lambda n=n: asyncio.run(many(n))) for n in range(8)]
        for thread in threads:
            thread.start()
        await asyncio.to_thread(lambda: [thread.join() for thread in threads])

        sessions = await store.sessions()
        assert len(sessions) == 64
        assert all(session.messages == 10 for session in sessions)
        for session in sessions:
            thread, task = str(session.origin.user_id).split(".")
            assert (await texts(store, session))[::2] == [
                f"{thread}-{task}-{turn}" for turn in range(5)
            ]

    async def test_a_refused_request_takes_no_neighbour_with_it(self, store: Store) -> None:
        session = await exchange(store)
        results = await asyncio.gather(
            store.rename(session.id, "fine"),
            store.rename(SessionId("s_nowhere"), "refused"),
            store.truncate(SessionId("s_nowhere"), 0),
            store.mark_important(session.id),
            return_exceptions=True,
        )

        assert [type(result) for result in results] == [
            type(None),
            UnknownSession,
            UnknownSession,
            type(None),
        ]
        after = await store.session(session.id)
        assert (after.title, after.important) == ("fine", True)
