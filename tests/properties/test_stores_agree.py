"""
Two stores that were written apart do the same, whatever is asked of them and in whatever order.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fakes import NOON, FrozenClock, add_entries, assistant, dm, message, said
from tests.full_length import examples
from tests.oracle_store import MemoryStore
from tests.talk import begin, exchange, key_of, opening, texts
from turngate.gateway.domain.errors import Refused
from turngate.gateway.domain.ids import EntryId
from turngate.gateway.domain.messages import InboxState
from turngate.gateway.domain.outbox import (
    Part,
    PartState,
    Sent,
)
from turngate.gateway.domain.pairing_records import (
    Approval,
    Invitation,
    Person,
)
from turngate.gateway.domain.ports.store import Store
from turngate.gateway.domain.session import ResetPolicy
from turngate.gateway.domain.store_values import (
    Claim,
    Outcome,
    SessionFilter,
)
from turngate.gateway.domain.transcript import (
    Entry,
    Media,
    MediaType,
    Origin,
    Role,
    Text,
)
from turngate.gateway.domain.usage import (
    By,
    Cost,
    CostStatus,
    Payer,
    Spent,
    Tokens,
)
from turngate.gateway.stores.sqlite import SqliteStore

IDLE = ResetPolicy(idle_after=timedelta(hours=1))
CAP = 8

Ask = Callable[[Store], Awaitable[object]]


class World:
    """A store, its clock, and what the outside needs to remember to talk to it."""

    def __init__(self, store: Store, clock: FrozenClock) -> None:
        self.store = store
        self.clock = clock
        self.messages = 0
        self.exports: list[list[str]] = []
        self.codes: list[str] = []

    def next_id(self) -> str:
        """A message id that was never used."""
        self.messages += 1
        return str(self.messages)

    async def do(self, name: str, which: int, number: int, entries: list[Entry]) -> object:
        """One request; what it answers, in words that do not depend on the store's own numbers."""
        try:
            return await getattr(self, name)(which, number, entries)
        except Refused as refused:
            return type(refused).__name__

    async def _pick(self, which: int) -> object:
        sessions = await self.store.sessions()
        return sessions[which % len(sessions)].id if sessions else "s_none"

    async def talk(self, which: int, number: int, entries: list[Entry]) -> object:
        source = dm(str(which % 3))
        session = await exchange(
            self.store, f"q{number}", id=self.next_id(), source=source, policy=IDLE
        )
        return session.messages

    async def leave_a_turn_open(self, which: int, number: int, entries: list[Entry]) -> object:
        begun = await begin(
            self.store,
            message(f"open {number}", id=self.next_id(), source=dm(str(which % 3))),
            IDLE,
        )
        return [entry.text for entry in begun.history]

    async def pay_for_a_turn(self, which: int, number: int, entries: list[Entry]) -> object:
        begun = await begin(
            self.store,
            message(f"paid {number}", id=self.next_id(), source=dm(str(which % 3))),
            IDLE,
        )
        payer = Payer(
            day=f"2026-05-0{number}",
            platform="telegram",
            user=f"{which % 3}\ud83d",
            agent=f"a{number % 2}",
        )
        cost = Cost(usd=number / 4, status=list(CostStatus)[which % 4]) if which else None
        spent = Spent(
            tokens=Tokens(input=number, output=which), estimated=bool(number % 2), cost=cost
        )
        refused = "too poor" if number == 7 else None
        if number == 6:
            await self.store.delete(begun.opened.session.id)
            await self.store.charge(begun.opened.session.id, spent, payer)
        return await self.store.finish(
            begun.turn,
            Outcome(
                entries=tuple(entries), spent=spent, payer=payer, failure=refused, refused=True
            ),
        )

    async def fail_a_turn(self, which: int, number: int, entries: list[Entry]) -> object:
        begun = await begin(
            self.store, message(f"bad {number}", id=self.next_id(), source=dm(str(which % 3))), IDLE
        )
        parts = (Part(target=dm(), text="sorry"),)
        stored = await self.store.finish(
            begun.turn, Outcome(failure=f"broken \ud83d {number}", parts=parts)
        )
        return [(part.text, part.state, part.created_at) for part in stored]

    async def answer_a_command(self, which: int, number: int, entries: list[Entry]) -> object:
        source = dm(str(which % 3))
        opened = await self.store.open(opening(source, IDLE))
        accepted = await self.store.accept(
            message("/help", id=self.next_id(), source=source), key_of(source)
        )
        parts = (Part(target=source, text="help"),)
        stored = await self.store.answer(
            accepted.id, opened.session.id, entries=entries, parts=parts
        )
        return [(part.text, part.turn, part.state) for part in stored]

    async def ask_again(self, which: int, number: int, entries: list[Entry]) -> object:
        source = dm(str(which % 3))
        session = await self.store.current(key_of(source))
        there = (await self.store.transcript(session.id)).entries if session else ()
        accepted = await self.store.accept(
            message("/retry", id=self.next_id(), source=source), key_of(source)
        )
        begun = await self.store.begin(
            Claim(
                inbox=(accepted.id,),
                opening=opening(source, IDLE),
                entries=(said(Role.USER, f"again {number}"),),
                history=50,
                replacing=there[number % len(there)].id if there else EntryId("e_none"),
            )
        )
        await self.store.finish(begun.turn, Outcome(entries=tuple(entries)))
        return [entry.text for entry in begun.history], [entry.text for entry in begun.user_entries]

    async def refuse_a_message(self, which: int, number: int, entries: list[Entry]) -> object:
        source = dm(str(which % 3))
        opened = await self.store.open(opening(source, IDLE))
        accepted = await self.store.accept(
            message("many", id=self.next_id(), source=source), key_of(source)
        )
        return len(
            await self.store.refuse([accepted.id], "many", session=opened.session.id, parts=())
        )

    async def work_on_what_was_given_up(
        self, which: int, number: int, entries: list[Entry]
    ) -> object:
        items = await self.store.inbox(*InboxState)
        if not items:
            return None
        item = items[number % len(items)]
        if which % 2:
            await self.store.drop(item.id, "dropped")
        else:
            again = await self.store.requeue(item.id)
            return again.state, again.message.text
        return None

    async def work_on_a_part(self, which: int, number: int, entries: list[Entry]) -> object:
        parts = await self.store.outbox(*PartState)
        if not parts:
            return None
        part = parts[number % len(parts)]
        if which % 2:
            return await self.store.drop_part(part.id, "dropped")
        return (await self.store.requeue_part(part.id)).state

    async def repeat_a_message(self, which: int, number: int, entries: list[Entry]) -> object:
        source = dm(str(which % 3))
        return (
            await self.store.accept(message(id=str(number), source=source), key_of(source))
        ).duplicate

    async def turn_somebody_away(self, which: int, number: int, entries: list[Entry]) -> object:
        stranger = message(f"strange {number}", id=str(number), source=dm(str(which)))
        return (
            await self.store.reject(stranger, key_of(dm(str(which))), f"nobody \ud83d {number}")
        ).duplicate

    async def amend(self, which: int, number: int, entries: list[Entry]) -> object:
        items = await self.store.inbox(*InboxState, with_settled=bool(which % 2))
        return [
            await self.store.amend(item.id, f"amended \ud83d {number}")
            for item in items[: number % 3]
        ]

    async def invite(self, which: int, number: int, entries: list[Entry]) -> object:
        self.codes.append(f"code {len(self.codes)}")
        person = Person(platform="telegram", account=f"a{which % 2}", id=str(number))
        words = Part(target=dm(str(number)), text="a code")
        invitation = Invitation(
            person=person,
            digest=self.codes[-1],
            words=words,
            valid_for=timedelta(hours=1),
            most_pending=3,
        )
        return [
            (part.text, part.target, part.session) for part in await self.store.invite(invitation)
        ]

    async def approve(self, which: int, number: int, entries: list[Entry]) -> object:
        codes = [*self.codes, "wrong"]
        approval = Approval(
            digest=codes[(which * 8 + number) % len(codes)],
            way=f"way {which % 2}",
            by=f"by \ud83d {which}",
            words="welcome",
            most_wrong=2,
            locked_for=timedelta(hours=1),
        )
        judged = await self.store.approve(approval)
        return (
            judged.guess,
            judged.person,
            judged.locked_until,
            [part.target for part in judged.parts],
        )

    async def revoke(self, which: int, number: int, entries: list[Entry]) -> object:
        return await self.store.revoke("telegram", (None, "a0", "a1")[which % 3], str(number))

    async def append(self, which: int, number: int, entries: list[Entry]) -> object:
        session = await self._pick(which)
        await add_entries(self.store, session, entries)
        return len((await self.store.transcript(session)).entries)

    async def edit(self, which: int, number: int, entries: list[Entry]) -> object:
        session = await self._pick(which)
        there = (await self.store.transcript(session)).entries
        id_ = there[number % len(there)].id if there else "e_none"
        return (await self.store.edit_entry(session, id_, (Text(f"edited {number}"),))).text

    async def delete_entry(self, which: int, number: int, entries: list[Entry]) -> object:
        session = await self._pick(which)
        there = (await self.store.transcript(session, with_archived=True)).entries
        return await self.store.delete_entry(
            session, there[number % len(there)].id if there else "e_none"
        )

    async def truncate(self, which: int, number: int, entries: list[Entry]) -> object:
        return await self.store.truncate(await self._pick(which), number)

    async def summarise(self, which: int, number: int, entries: list[Entry]) -> object:
        session = await self.store.session(await self._pick(which))
        mark = session.consolidated_through
        there = [
            entry for entry in (await self.store.transcript(session.id)).entries if entry.seq > mark
        ]
        if entries:
            await self.edit(which, number, entries)
        summary = said(Role.USER, f"summary {number}", origin=Origin.SUMMARY)
        old = there[: number % (len(there) + 1)]
        return await self.store.summarise(
            session.id, summary, old, mark=mark if number else mark + 1
        )

    async def reset(self, which: int, number: int, entries: list[Entry]) -> object:
        return (await self.store.reset(key_of(dm(str(which % 3))), title=f"t{number}")).title

    async def switch(self, which: int, number: int, entries: list[Entry]) -> object:
        return (
            await self.store.switch(key_of(dm(str(number % 3))), await self._pick(which))
        ).preview

    async def sweep(self, which: int, number: int, entries: list[Entry]) -> object:
        return await self.store.end_if_due(await self._pick(which), opening(policy=IDLE))

    async def delete(self, which: int, number: int, entries: list[Entry]) -> object:
        return await self.store.delete(await self._pick(which))

    async def mark(self, which: int, number: int, entries: list[Entry]) -> object:
        session = await self._pick(which)
        await self.store.rename(session, f"n{number}")
        await self.store.archive(session, archived=bool(number % 2))
        await self.store.set_goal(session, f"g\ud83d{number}")
        await self.store.choose_agent(session, f"a{number}")
        return await self.store.mark_important(session, important=number % 3 == 0)

    async def deliver(self, which: int, number: int, entries: list[Entry]) -> object:
        waiting = await self.store.outbox(PartState.PENDING, PartState.FAILED, PartState.SENDING)
        for part in waiting[: number % 4]:
            await self.store.record_sending(part.id)
            if which % 3 == 0:
                await self.store.record_sent(part.id, Sent(message_id="m", at=NOON))
            elif which % 3 == 1:
                await self.store.record_unsent(part.id, "no", retry_at=NOON if number % 2 else None)
        return len(waiting)

    async def export(self, which: int, number: int, entries: list[Entry]) -> object:
        lines = [line async for line in self.store.export(await self._pick(which))]
        self.exports.append(lines)
        return len(lines)

    async def bring_in(self, which: int, number: int, entries: list[Entry]) -> object:
        if not self.exports:
            return None
        lines = list(self.exports[which % len(self.exports)])
        if number % 2:
            lines[number % len(lines)] = lines[number % len(lines)][: number + 5]
        imported = await self.store.import_(lines)
        return imported.entries, len(imported.problems)

    async def prune(self, which: int, number: int, entries: list[Entry]) -> object:
        day = timedelta(days=1)
        keep = timedelta(days=number % 3) if number > 3 else None
        pruned = await self.store.prune(
            empty_after=timedelta(hours=1), archive_after=day, forget_after=day, keep=keep
        )
        return pruned.deleted, pruned.archived, pruned.entries

    async def look_for_due(self, which: int, number: int, entries: list[Entry]) -> object:
        found = [
            session.origin.chat_id
            async for session in self.store.due(lambda platform, chat_type: IDLE)
        ]
        return sorted(filter(None, found))

    async def tell_of_ending(self, which: int, number: int, entries: list[Entry]) -> object:
        for ending in (await self.store.endings())[: number % 3]:
            retry_at = self.clock.now() + timedelta(minutes=number)
            await self.store.record_telling(ending.session.id, retry_at=retry_at)
            if which % 2:
                await self.store.record_told(ending.session.id)
        told = [(ending.session.preview, ending.attempts) for ending in await self.store.endings()]
        return sorted(told)

    async def wait(self, which: int, number: int, entries: list[Entry]) -> object:
        self.clock.advance(minutes=(number - 3) * 40)
        return None


ACTIONS = sorted(
    name for name in vars(World) if not name.startswith("_") and name not in ("do", "next_id")
)


async def seen(store: Store) -> object:
    """Everything the outside can see, without the numbers that each store makes for itself."""
    sessions = []
    for session in await store.sessions():
        live = (await store.transcript(session.id)).entries
        everything = (await store.transcript(session.id, with_archived=True)).entries
        facts = (
            *(session.goal, session.agent, session.owner),
            *(
                session.key,
                session.title,
                session.preview,
                session.messages,
                session.archived,
                session.important,
            ),
            *(
                session.end_reason,
                session.current,
                session.tokens,
                session.notice and session.notice.reason,
            ),
            *(session.tokens_estimated, session.cost),
            *(session.last_interaction_at, session.updated_at, session.ended_at),
            [entry.text for entry in live],
            [(entry.role, entry.origin, entry.content) for entry in everything],
            sum(entry.seq <= session.consolidated_through for entry in everything),
            [entry.text for entry in everything if entry.seq == session.summary_seq],
        )
        sessions.append(facts)
    inbox = [
        (item.key, item.message, item.state, item.attempts, item.reason)
        for item in await store.inbox(*InboxState)
    ]
    outbox = [
        (part.text, part.state, part.attempts, part.reason)
        for part in await store.outbox(*PartState)
    ]
    found = [
        hit.entry.text
        for word in ("q1", "edited", "summary", "w")
        for hit in await store.search(word, limit=5)
    ]
    owned = len(
        await store.sessions(
            SessionFilter(owner="telegram:1", active_within=timedelta(hours=2), limit=2)
        )
    )
    steps = [
        [(step.at, step.step, step.detail) for step in (await store.trace(item.id)).steps]
        for item in await store.inbox(*InboxState)
    ]
    people = await store.approved(), await store.pending()
    usage = [await store.usage(by, since=since) for by in By for since in ("", "2026-05-03")]
    return sessions, inbox, outbox, found, owned, steps, people, usage, await store.depth()


ENTRIES = st.lists(
    st.one_of(
        st.builds(
            said,
            st.sampled_from(Role),
            st.sampled_from(["w", "ü", "", "w\ud83d"]),
            origin=st.sampled_from(Origin),
        ),
        st.just(Entry(role=Role.USER, content=(Text("w"), Media(type=MediaType.IMAGE)), at=NOON)),
        st.just(assistant("w")),
    ),
    max_size=4,
)
# Conversations must grow before anything that happens to them is interesting.
STEP = st.tuples(
    st.sampled_from(["talk", "append", "append"] * 5 + ACTIONS),
    st.integers(0, 5),
    st.integers(0, 7),
    ENTRIES,
)
STEPS = st.lists(STEP, min_size=20, max_size=40)


@settings(max_examples=examples(60), deadline=None)
@given(steps=STEPS)
def test_every_sequence_of_requests_has_the_same_effect_on_both(
    steps: list[tuple[str, int, int, list[Entry]]],
) -> None:
    async def compare(folder: Path) -> None:
        clocks = FrozenClock(), FrozenClock()
        sqlite = await SqliteStore.connect(folder / "turngate.db", clocks[0], live_entries=CAP)
        worlds = (
            World(sqlite, clocks[0]),
            World(MemoryStore(clocks[1], live_entries=CAP), clocks[1]),
        )
        try:
            for name, which, number, entries in steps:
                answers = [await world.do(name, which, number, entries) for world in worlds]
                assert answers[0] == answers[1], name
                views = [await seen(world.store) for world in worlds]
                assert views[0] == views[1], name
        finally:
            await sqlite.close()

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(compare(Path(folder)))


async def test_the_texts_of_a_session_are_what_was_said(tmp_path: Path) -> None:
    """The comparison above would hold for two stores that both do nothing."""
    store = await SqliteStore.connect(tmp_path / "turngate.db", FrozenClock(), live_entries=CAP)
    world = World(store, FrozenClock())
    answers = [
        await world.do(name, 0, 1, [assistant("w")])
        for name in ACTIONS
        if name not in ("delete", "bring_in")
    ]
    await world.do("talk", 0, 1, [])
    session = (await store.sessions())[0]
    assert "q1" in await texts(store, session)
    assert any(answer not in (None, "UnknownSession") for answer in answers)
    await store.close()
