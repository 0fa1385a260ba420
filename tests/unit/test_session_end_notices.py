"""
Agents hear of conversations that are over: at least once, three times at most, and nobody waits for
it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from datetime import timedelta
from pathlib import Path

import pytest

from tests.fakes import NOON, FrozenClock, ScriptedAgent, add_entries, dm, message, said
from tests.hurry import LoopClock, hurried, later
from tests.oracle_store import MemoryStore
from tests.talk import begin, exchange, key_of
from turngate.gateway.daemon.session_end_notices import SessionEndNotices
from turngate.gateway.domain.agent_events import AgentEvent, Turn
from turngate.gateway.domain.session import (
    EndReason,
    Session,
    SessionEnded,
)
from turngate.gateway.domain.transcript import (
    Entry,
    Origin,
    Role,
    Text,
)
from turngate.gateway.observability.observer import Observer
from turngate.gateway.rules.history_window import HistoryRules
from turngate.gateway.rules.policy import ConfiguredAgent, Policy
from turngate.gateway.rules.routing import Route
from turngate.gateway.stores.session_files import SessionFiles

KEY = bytes(32)


@pytest.fixture
def clock() -> FrozenClock:
    """Noon, until moved."""
    return FrozenClock()


class Listening(ScriptedAgent):
    """Keeps what it hears, after as many failures as it is told to have."""

    def __init__(self, *failures: BaseException) -> None:
        super().__init__()
        self.failures = list(failures)
        self.tried = 0
        self.heard: list[SessionEnded] = []

    async def session_end(self, ending: SessionEnded) -> None:
        self.tried += 1
        if self.failures:
            raise self.failures.pop(0)
        self.heard.append(ending)


class Stuck(Listening):
    """Never comes to an end."""

    async def session_end(self, ending: SessionEnded) -> None:
        self.tried += 1
        await asyncio.Event().wait()


class Deaf:
    """Answers, and that is all."""

    async def run(self, turn: Turn) -> AsyncGenerator[AgentEvent]:
        yield Text("hi")


class Lines(Observer):
    """Counts what would be logged."""

    def __init__(self) -> None:
        super().__init__()
        self.let_go: list[tuple[str, str, int]] = []

    def session_end_dropped(self, session: str, agent: str, tries: int) -> None:
        self.let_go.append((session, agent, tries))


def endings_of(
    store: MemoryStore,
    folder: Path,
    clock: FrozenClock | LoopClock,
    agent: object,
    **policy: object,
) -> SessionEndNotices:
    """Told to one agent, with the ids of people hidden."""
    configured = ConfiguredAgent(
        name="main", agent=agent, has_workdir=bool(policy.pop("has_workdir", False))
    )  # type: ignore[arg-type]
    agents = {"main": configured, **policy.pop("others", {})}  # type: ignore[dict-item]
    return SessionEndNotices(
        policy=Policy(agents=agents, privacy_key=KEY, **policy),  # type: ignore[arg-type]
        store=store,
        files=SessionFiles(folder / "files"),
        clock=clock,
        observer=Lines(),
    )


async def ended(
    store: MemoryStore, text: str = "call me at +49 30 1234567", **kwargs: object
) -> Session:
    """A conversation that somebody has put an end to."""
    session = await exchange(store, text, **kwargs)  # type: ignore[arg-type]
    await store.reset(session.key)
    return session


class TestTelling:
    async def test_the_agent_hears_once_what_was_said_and_why_it_is_over(
        self, tmp_path: Path, clock: FrozenClock
    ) -> None:
        store, agent = MemoryStore(clock), Listening()
        session = await exchange(store, "remember the milk", answer="I will")
        await store.rename(session.id, "Shopping")
        clock.advance(minutes=5)
        await store.reset(key_of())
        endings = endings_of(store, tmp_path, clock, agent)
        await endings.tell()
        await endings.tell()

        (heard,) = agent.heard
        assert (heard.id, heard.title, heard.reason) == (session.id, "Shopping", EndReason.RESET)
        assert (heard.started_at, heard.ended_at) == (NOON, NOON + timedelta(minutes=5))
        assert [(entry.role, entry.text) for entry in heard.history] == [
            (Role.USER, "remember the milk"),
            (Role.ASSISTANT, "I will"),
        ]

    async def test_nobody_s_id_or_number_is_in_it(self, tmp_path: Path, clock: FrozenClock) -> None:
        store, agent = MemoryStore(clock), Listening()
        session = await ended(
            store, "I am 4242424242, call +49 30 1234567", source=dm("4242424242")
        )
        await store.rename(session.id, "for <@4242424242>")
        await endings_of(store, tmp_path, clock, agent).tell()

        assert "4242424242" not in repr(agent.heard)
        assert "1234567" not in repr(agent.heard)
        assert agent.heard[0].history[0].text.startswith("I am user_")

    async def test_it_is_shown_no_more_than_a_turn_would_have_been(
        self, tmp_path: Path, clock: FrozenClock
    ) -> None:
        store, agent = MemoryStore(clock), Listening()
        for number in range(10):
            session = await exchange(store, f"word {number}", id=str(number))
        await add_entries(store, session.id, [said(Role.USER, "/help", origin=Origin.COMMAND)])
        await store.reset(key_of())
        await endings_of(store, tmp_path, clock, agent, history=HistoryRules(messages=4)).tell()

        assert [entry.text for entry in agent.heard[0].history] == ["word 9", "hi"]

    async def test_a_summary_stands_for_what_it_summarises(
        self, tmp_path: Path, clock: FrozenClock
    ) -> None:
        store, agent = MemoryStore(clock), Listening()
        session = await exchange(store, "long story")
        there = (await store.transcript(session.id)).entries
        summary = Entry(role=Role.USER, content=(Text("in short"),), at=NOON, origin=Origin.SUMMARY)
        await store.summarise(session.id, summary, there, mark=0)
        await exchange(store, "and then", id="2")
        await store.reset(key_of())
        await endings_of(store, tmp_path, clock, agent).tell()

        assert [entry.text for entry in agent.heard[0].history] == ["in short", "and then", "hi"]

    async def test_the_agent_that_was_chosen_hears_and_no_other(
        self, tmp_path: Path, clock: FrozenClock
    ) -> None:
        store, main, coder = MemoryStore(clock), Listening(), Listening()
        session = await exchange(store)
        await store.choose_agent(session.id, "coder")
        await store.reset(key_of())
        others = {"coder": ConfiguredAgent(name="coder", agent=coder)}
        await endings_of(
            store, tmp_path, clock, main, others=others, routes=[Route(agent="main")]
        ).tell()

        assert ([ending.id for ending in coder.heard], main.heard) == ([session.id], [])

    async def test_an_agent_that_does_not_listen_is_not_told(
        self, tmp_path: Path, clock: FrozenClock
    ) -> None:
        store = MemoryStore(clock)
        await ended(store)
        await endings_of(store, tmp_path, clock, Deaf()).tell()

        assert await store.endings() == []

    async def test_it_works_in_the_folder_of_the_conversation(
        self, tmp_path: Path, clock: FrozenClock
    ) -> None:
        store, agent = MemoryStore(clock), Listening()
        session = await ended(store)
        endings = endings_of(store, tmp_path, clock, agent, has_workdir=True)
        await endings.tell()

        assert agent.heard[0].workdir == endings.files.workdir(session.id)

    async def test_a_hundred_and_more_are_all_told(
        self, tmp_path: Path, clock: FrozenClock
    ) -> None:
        store, agent = MemoryStore(clock), Listening()
        for number in range(150):
            await ended(store, id=str(number), source=dm(str(number)))
        await endings_of(store, tmp_path, clock, agent).tell()

        assert len({ending.id for ending in agent.heard}) == 150


class TestFailures:
    async def test_one_that_fails_is_told_again_later(
        self, tmp_path: Path, clock: FrozenClock
    ) -> None:
        store, agent = MemoryStore(clock), Listening(RuntimeError("not now"))
        session = await ended(store)
        endings = endings_of(store, tmp_path, clock, agent)
        await endings.tell()
        await endings.tell()
        assert agent.tried == 1
        clock.advance(minutes=5)
        await endings.tell()

        assert [ending.id for ending in agent.heard] == [session.id]
        assert await store.endings() == []

    async def test_after_three_failures_it_is_let_go_with_one_line(
        self, tmp_path: Path, clock: FrozenClock
    ) -> None:
        store, agent = MemoryStore(clock), Listening(*(RuntimeError("no") for _ in range(9)))
        session = await ended(store)
        endings = endings_of(store, tmp_path, clock, agent)
        for _ in range(10):
            await endings.tell()
            clock.advance(hours=1)

        assert agent.tried == 3
        assert isinstance(endings.observer, Lines)
        assert endings.observer.let_go == [(session.id, "main", 3)]
        assert (await store.transcript(session.id)).entries

    @pytest.mark.parametrize("died", [1, 2, 3])
    async def test_tries_in_which_the_daemon_died_count(
        self, tmp_path: Path, clock: FrozenClock, died: int
    ) -> None:
        store, agent = MemoryStore(clock), Listening()
        session = await ended(store)
        for _ in range(died):
            await store.record_telling(session.id, retry_at=clock.now())
        endings = endings_of(store, tmp_path, clock, agent)
        await endings.tell()

        assert len(agent.heard) == (died < 3)
        assert isinstance(endings.observer, Lines)
        assert len(endings.observer.let_go) == (died == 3)
        assert await store.endings() == []

    async def test_one_that_was_deleted_while_it_waited_is_not_told(
        self, tmp_path: Path, clock: FrozenClock
    ) -> None:
        class Late(MemoryStore):
            async def record_telling(self, session: str, **when: object) -> bool:
                told = await super().record_telling(session, **when)  # type: ignore[arg-type]
                await self.delete(session)  # type: ignore[arg-type]
                return told

        store, agent = Late(clock), Listening()
        await ended(store)
        await endings_of(store, tmp_path, clock, agent).tell()

        assert (agent.tried, await store.endings()) == (0, [])


@hurried
class TestPatience:
    async def test_one_that_never_ends_is_given_a_minute_and_holds_up_no_turn(
        self, tmp_path: Path
    ) -> None:
        clock = LoopClock()
        store, agent = MemoryStore(clock), Stuck()
        await ended(store)
        telling = asyncio.create_task(endings_of(store, tmp_path, clock, agent).run())
        await later(30)
        assert (await begin(store, message(id="2"))).attempt == 1
        await later(50)
        assert agent.tried == 1
        await later(80 * 60)
        telling.cancel()

        assert agent.tried == 3
        assert await store.endings() == []
