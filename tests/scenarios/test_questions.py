"""
Questions with buttons: asked in a turn, answered once, by whom they were put to, where they stand,
in time.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager, closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from tests.at_work import AtWork, at_desk, at_work, policy_for
from tests.fakes import NOON, RecordingAdapter, ScriptedAgent
from tests.hurry import LoopClock, hurried, later
from tests.oracle_store import MemoryStore
from turngate.gateway.agents.fallback import FallbackAgent, Link
from turngate.gateway.daemon.system_clock import SystemClock
from turngate.gateway.domain.agent_events import (
    AgentEvent,
    Ask,
    Tool,
    ToolStatus,
    Turn,
)
from turngate.gateway.domain.errors import AgentUnavailable, StoreUnavailable
from turngate.gateway.domain.ids import TurnId
from turngate.gateway.domain.messages import (
    ChatType,
    InboundMessage,
    InboxState,
    MessageKind,
    SessionSource,
)
from turngate.gateway.domain.outbox import Part, Sent
from turngate.gateway.domain.ports.store import Store
from turngate.gateway.domain.store_values import QuestionState
from turngate.gateway.domain.transcript import Origin, Text
from turngate.gateway.rules.policy import Policy
from turngate.gateway.stores.sqlite import SqliteStore
from turngate.gateway.turns.questions import (
    LONGEST_LABEL,
    MOST_OPTIONS,
    RUN_AGAIN,
)

DEPLOY = Ask(id="a1", text="Deploy now?", options=("Yes", "No"))


class Buttoned(RecordingAdapter):
    """Shows buttons."""

    def __init__(self, *outcomes: BaseException | None) -> None:
        super().__init__(*outcomes)
        self.questions: list[Part] = []

    async def ask(self, part: Part) -> Sent:
        self.questions.append(part)
        return await self.send(part)


class Editing(Buttoned):
    """Edits too."""

    def __init__(self) -> None:
        super().__init__()
        self.edits: list[tuple[str, Part]] = []

    async def edit(self, part: Part, message_id: str) -> Sent:
        self.edits.append((message_id, part))
        return Sent(message_id=message_id, at=NOON)


class Asking:
    """An agent that asks, waits for the answers, and says what it was told."""

    def __init__(self, *asks: Ask) -> None:
        self.asks = asks
        self.told: list[tuple[str, str | None]] = []
        self.news = asyncio.Condition()
        self.turns: list[Turn] = []

    async def run(self, turn: Turn) -> AsyncGenerator[AgentEvent]:
        self.turns.append(turn)
        for ask in self.asks:
            yield ask
        async with self.news:
            await self.news.wait_for(lambda: len(self.told) == len(self.asks))
        yield Text(", ".join(str(option) for _, option in self.told))

    async def answer(self, turn: TurnId, ask: str, option: str | None) -> None:
        assert turn == self.turns[-1].id
        async with self.news:
            self.told.append((ask, option))
            self.news.notify_all()


def press(nonce: str, *, source: SessionSource | None = None, id: str = "p1") -> InboundMessage:  # noqa: A002
    """Somebody presses a button."""
    source = source or at_desk()
    event = f"press:{id}"
    return InboundMessage(
        id=id, event_ids=(event,), source=source, text=nonce, sent_at=NOON, kind=MessageKind.BUTTON
    )


async def asked(work: AtWork, count: int = 1) -> Part:
    """The question, once it is there."""
    assert isinstance(work.adapter, Buttoned)
    async with work.adapter.arrived:
        await work.adapter.arrived.wait_for(lambda: len(work.adapter.questions) >= count)  # type: ignore[attr-defined]
    return work.adapter.questions[count - 1]


@asynccontextmanager
async def talking(agent: object, adapter: RecordingAdapter | None = None) -> AsyncIterator[AtWork]:
    clock = LoopClock()
    policy = policy_for(agent, idle_timeout=timedelta(minutes=5))  # type: ignore[arg-type]
    async with at_work(policy, MemoryStore(clock), clock, adapter=adapter or Buttoned()) as work:
        yield work


@hurried
class TestAnswering:
    async def test_the_agent_is_told_what_was_pressed_and_goes_on(self) -> None:
        agent = Asking(DEPLOY)
        async with talking(agent) as work:
            await work.say("ship it")
            question = await asked(work)
            await work.pipeline.receive(press(question.buttons[1].nonce))
            await later()

            assert agent.told == [("a1", "No")]
            assert work.adapter.texts[-1] == "No"
            assert (question.text, [button.label for button in question.buttons]) == (
                "Deploy now?",
                ["Yes", "No"],
            )

    async def test_a_number_answers_where_there_are_buttons_too(self) -> None:
        agent = Asking(DEPLOY)
        async with talking(agent) as work:
            await work.say("ship it")
            await asked(work)
            await work.say("2")
            await later()

            assert agent.told == [("a1", "No")]

    async def test_other_words_are_kept_and_told_once_that_a_question_is_open(self) -> None:
        agent = Asking(DEPLOY)
        async with talking(agent) as work:
            await work.say("ship it")
            question = await asked(work)
            await work.say("what for")
            await work.say("tell me")
            await later()

            hints = [text for text in work.adapter.texts if "still open" in text]
            assert len(hints) == 1
            assert agent.told == []

            await work.pipeline.receive(press(question.buttons[0].nonce))
            await later()
            assert [message.text for message in agent.turns[-1].messages] == ["what for", "tell me"]

    async def test_one_that_stands_in_for_another_is_told_too(self) -> None:
        agent, away = Asking(DEPLOY), ScriptedAgent(AgentUnavailable("nobody answers there"))
        links = [Link(name="main", agent=away), Link(name="other", agent=agent)]
        async with talking(FallbackAgent(links, lambda *_, again: None)) as work:
            await work.say("ship it")
            await work.pipeline.receive(press((await asked(work)).buttons[1].nonce))
            await later()

            assert work.adapter.texts[-1] == "No"

    async def test_its_message_then_shows_the_choice_and_no_buttons(self) -> None:
        adapter = Editing()
        async with talking(Asking(DEPLOY), adapter) as work:
            await work.say("ship it")
            question = await asked(work)
            await work.pipeline.receive(press(question.buttons[0].nonce))
            await later()

            (message_id, part), *_ = adapter.edits
            assert (message_id, part.text, part.buttons) == (
                f"p{question.id}",
                "Deploy now?\n\n→ Yes",
                (),
            )

    async def test_who_chose_what_is_kept_in_the_transcript_and_shown_to_no_agent(self) -> None:
        async with talking(Asking(DEPLOY)) as work:
            await work.say("ship it")
            await work.pipeline.receive(press((await asked(work)).buttons[0].nonce))
            await later()

            kept = [(each.text, each.origin, each.sender) for each in await work.entries()]
            assert ("Yes", Origin.COMMAND, "ann") in kept
            assert ("Deploy now?\n\n→ Yes", Origin.COMMAND, None) in kept

    async def test_a_button_carries_128_random_bits_and_nothing_else(self) -> None:
        async with talking(Asking(DEPLOY, replace(DEPLOY, id="a2"))) as work:
            await work.say("ship it")
            await asked(work, 2)

            nonces = {button.nonce for part in work.adapter.questions for button in part.buttons}  # type: ignore[attr-defined]
            assert len(nonces) == 4
            assert all(len(bytes.fromhex(nonce)) == 16 for nonce in nonces)

    async def test_several_questions_are_open_at_once(self) -> None:
        agent = Asking(DEPLOY, Ask(id="a2", text="And tell Bob?", options=("Sure", "Never")))
        async with talking(agent) as work:
            await work.say("ship it")
            second = await asked(work, 2)
            first = await asked(work, 1)
            await work.pipeline.receive(press(second.buttons[0].nonce, id="p1"))
            await work.pipeline.receive(press(first.buttons[0].nonce, id="p2"))
            await later()

            assert agent.told == [("a2", "Sure"), ("a1", "Yes")]

    async def test_an_agent_that_waits_may_be_silent_for_as_long_as_people_may_think(self) -> None:
        agent = Asking(DEPLOY)
        async with talking(agent) as work:
            await work.say("ship it")
            question = await asked(work)
            await later(50 * 60)
            await work.pipeline.receive(press(question.buttons[0].nonce))
            await later()

            assert work.adapter.texts[-1] == "Yes"

    async def test_nobody_answering_in_time_is_an_answer_too(self) -> None:
        agent = Asking(DEPLOY)
        async with talking(agent) as work:
            await work.say("ship it")
            question = await asked(work)
            await later(61 * 60)

            assert (agent.told, work.adapter.texts[-1]) == ([("a1", None)], "None")
            await work.pipeline.receive(press(question.buttons[0].nonce))
            await later()
            assert work.adapter.texts[-1] == "This question is no longer open."

    async def test_where_there_are_no_buttons_a_number_or_the_words_are_as_good(self) -> None:
        for answer in ("2", "2.", " no "):
            agent = Asking(DEPLOY)
            async with talking(agent, RecordingAdapter()) as work:
                await work.say("ship it")
                await later(1)
                assert work.adapter.texts == [
                    "Deploy now?\n\n1. Yes\n2. No\n\nAnswer with the number."
                ]
                await work.say(answer)
                await later()

                assert agent.told == [("a1", "No")]
                assert len(agent.turns) == 1

    async def test_other_words_are_no_answer_but_the_next_message(self) -> None:
        agent = Asking(DEPLOY)
        async with talking(agent, RecordingAdapter()) as work:
            await work.say("ship it")
            await later(1)
            await work.say("what does it cost?")
            await work.say("3")
            await work.say("1", source=at_desk("elsewhere"))
            await later(1)

            assert agent.told == []

    async def test_to_an_agent_that_takes_no_answers_the_choice_is_the_next_message(self) -> None:
        agent = ScriptedAgent(DEPLOY, Text("Tell me."))
        async with talking(agent) as work:
            await work.say("ship it")
            question = await asked(work)
            await later(1)
            await work.pipeline.receive(press(question.buttons[0].nonce))
            await later()

            assert [turn.messages[-1].text for turn in agent.turns] == ["ship it", "Yes"]

    async def test_an_option_that_looks_like_a_command_is_none(self) -> None:
        agent = ScriptedAgent(Ask(id="a", text="?", options=("/new", "ok")))
        async with talking(agent) as work:
            await work.say("hello")
            question = await asked(work)
            before = (await work.session()).id
            await work.pipeline.receive(press(question.buttons[0].nonce))
            await later()

            assert (await work.session()).id == before
            assert agent.turns[-1].messages[-1].text == "“/new”"

    @pytest.mark.parametrize("options", [(), tuple(str(n) for n in range(MOST_OPTIONS + 1))])
    async def test_a_question_without_options_or_with_too_many_fails_its_turn(
        self, options: tuple[str, ...]
    ) -> None:
        async with talking(ScriptedAgent(Ask(id="a", text="?", options=options))) as work:
            await work.say("hello")
            await later()

            assert "a question needs options" in work.adapter.texts[0]

    async def test_labels_are_one_short_line(self) -> None:
        async with talking(
            ScriptedAgent(Ask(id="a", text="?", options=("two\nlines", "x" * 500, "")))
        ) as work:
            await work.say("hello")

            labels = [button.label for button in (await asked(work)).buttons]
            assert labels[0] == "two lines"
            assert len(labels[1]) == LONGEST_LABEL
            assert labels[2]


@hurried
class TestWhoAndWhen:
    @pytest.mark.parametrize(
        ("source", "word"),
        [
            (at_desk(user="mallory"), "for another user"),
            (at_desk("another room"), "for another user"),
            (replace(at_desk(), thread_id="7"), "for another user"),
            (
                replace(at_desk(), chat_type=ChatType.DM, user_id="ann2", user_name="ann"),
                "for another user",
            ),
        ],
    )
    async def test_a_foreign_press_is_told_so_and_changes_nothing(
        self, source: SessionSource, word: str
    ) -> None:
        agent = Asking(DEPLOY)
        async with talking(agent) as work:
            await work.say("ship it")
            question = await asked(work)
            await work.pipeline.receive(press(question.buttons[0].nonce, source=source))
            await later(1)
            assert agent.told == []
            assert word in work.adapter.texts[-1]

            await work.pipeline.receive(press(question.buttons[1].nonce, id="p2"))
            await later(1)
            assert agent.told == [("a1", "No")]

    async def test_a_second_press_is_too_late_whichever_button_it_is(self) -> None:
        agent = Asking(DEPLOY)
        async with talking(agent) as work:
            await work.say("ship it")
            yes, no = (await asked(work)).buttons
            await asyncio.gather(
                work.pipeline.receive(press(yes.nonce, id="p1")),
                work.pipeline.receive(press(no.nonce, id="p2")),
                work.pipeline.receive(press(yes.nonce, id="p3")),
            )
            await later()

            assert agent.told == [("a1", "Yes")]
            assert work.adapter.texts.count("This question is no longer open.") == 2

    async def test_the_same_press_delivered_again_is_one_press(self) -> None:
        agent = Asking(DEPLOY)
        async with talking(agent) as work:
            await work.say("ship it")
            question = await asked(work)
            for _ in range(3):
                await work.pipeline.receive(press(question.buttons[0].nonce))
            await later()

            assert agent.told == [("a1", "Yes")]
            assert "This question is no longer open." not in work.adapter.texts

    async def test_guesses_open_nothing(self) -> None:
        agent = Asking(DEPLOY)
        async with talking(agent) as work:
            await work.say("ship it")
            question = await asked(work)
            for number, guess in enumerate(
                ("", "1", "a1", "Yes", question.buttons[0].nonce[:-1], "0" * 32)
            ):
                await work.pipeline.receive(press(guess, id=f"g{number}"))
            await later(1)

            assert agent.told == []

    async def test_a_turn_that_is_over_waits_for_nothing(self) -> None:
        agent = Asking(DEPLOY)
        async with talking(agent) as work:
            await work.say("ship it")
            question = await asked(work)
            await work.say("/stop")
            await later(1)
            await work.pipeline.receive(press(question.buttons[0].nonce))
            await later(1)

            assert agent.told == []
            assert work.adapter.texts[-1] == "This question is no longer open."

    async def test_a_press_that_could_not_be_stored_can_be_made_again(self) -> None:
        agent = Asking(DEPLOY)
        async with talking(agent) as work:
            await work.say("ship it")
            question = await asked(work)
            store = work.pipeline.store
            accept, store.accept = store.accept, full  # type: ignore[method-assign]
            with pytest.raises(StoreUnavailable):
                await work.pipeline.receive(press(question.buttons[0].nonce))
            store.accept = accept  # type: ignore[method-assign]
            await work.pipeline.receive(press(question.buttons[0].nonce))
            await later(1)

            assert agent.told == [("a1", "Yes")]

    async def test_an_agent_that_breaks_on_the_answer_breaks_nothing_else(self) -> None:
        class Broken(Asking):
            async def answer(self, turn: TurnId, ask: str, option: str | None) -> None:
                raise RuntimeError("a bug")

        async with talking(Broken(DEPLOY)) as work:
            await work.say("ship it")
            await work.pipeline.receive(press((await asked(work)).buttons[0].nonce))
            await later(1)
            await work.say("/stop")
            await later(1)

            assert "Stopped." in work.adapter.texts


async def full(*_: object, **__: object) -> None:
    raise StoreUnavailable("the disk is full")


@asynccontextmanager
async def life(
    folder: Path, policy: Policy, adapter: Buttoned | None = None
) -> AsyncIterator[AtWork]:
    """One run of the daemon on a real file; it ends as in a crash."""
    store = await SqliteStore.connect(folder / "turngate.db", SystemClock())
    try:
        async with at_work(policy, store, SystemClock(), adapter=adapter or Buttoned()) as work:
            await work.delivery.recover()
            await work.pipeline.recover()
            yield work
    finally:
        await store.close()


def cautious(agent: object) -> Policy:
    """An agent that must not be asked twice."""
    policy = policy_for(agent)  # type: ignore[arg-type]
    return replace(policy, agents={"main": replace(policy.agents["main"], repeatable=False)})


async def settled(store: Store, state: InboxState) -> None:
    while not await store.inbox(state):
        await asyncio.sleep(0.01)


def previews_on_disk(folder: Path) -> list[str]:
    with closing(sqlite3.connect(folder / "turngate.db")) as db:
        return [preview for (preview,) in db.execute("SELECT preview FROM turns") if preview]


class TestAcrossRestarts:
    async def test_a_question_that_was_open_is_still_open(self, tmp_path: Path) -> None:
        async with life(tmp_path, policy_for(ScriptedAgent(DEPLOY, Text("Tell me.")))) as work:
            await work.say("ship it")
            question = await asked(work)
            await work.adapter.until_sent(2)

        agent = ScriptedAgent(Text("All right."))
        async with life(tmp_path, policy_for(agent)) as work:
            await work.pipeline.receive(press(question.buttons[0].nonce))
            await work.adapter.until_sent(1)
            assert agent.turns[0].messages[-1].text == "Yes"
            await work.pipeline.receive(press(question.buttons[0].nonce, id="p2"))
            await work.adapter.until_sent(2)
            assert work.adapter.texts == ["All right.", "This question is no longer open."]

    async def test_a_turn_that_died_asks_again_and_the_old_buttons_do_nothing(
        self, tmp_path: Path
    ) -> None:
        async with life(tmp_path, policy_for(Asking(DEPLOY))) as work:
            await work.say("ship it")
            old = await asked(work)
            await work.adapter.until_sent(1)

        agent, adapter = Asking(DEPLOY), Editing()
        async with life(tmp_path, policy_for(agent), adapter) as work:
            new = await asked(work)
            # Finding C18: the old one says that it is closed, so that no two look open.
            (_, closed), *_ = adapter.edits
            assert (closed.text.split("\n\n")[0], closed.buttons) == (old.text, ())
            assert "closed: I was interrupted" in closed.text
            await work.pipeline.receive(press(old.buttons[1].nonce))
            await work.adapter.until_sent(2)
            assert (agent.told, work.adapter.texts[-1]) == ([], "This question is no longer open.")
            await work.pipeline.receive(press(new.buttons[0].nonce, id="p2"))
            await work.adapter.until_sent(3)
            assert agent.told == [("a1", "Yes")]

    async def test_a_press_that_was_stored_when_the_daemon_died_is_told_that_nobody_waits(
        self, tmp_path: Path
    ) -> None:
        async with life(tmp_path, cautious(Asking(DEPLOY))) as work:
            await work.say("ship it")
            question = await asked(work)
            await work.adapter.until_sent(1)
            (open_,) = await work.store.questions()
            work.pipeline.lanes._closing.set()
            heard = work.pipeline.questions.interpret(
                press(question.buttons[0].nonce), open_.part.question.key
            )  # type: ignore[union-attr]
            await work.store.accept(heard.message, open_.part.question.key, choosing=heard.choosing)  # type: ignore[union-attr]

        async with life(tmp_path, cautious(Asking(DEPLOY))) as work:
            await work.adapter.until_sent(2)
            assert "The agent no longer waits for an answer to this." in work.adapter.texts

    async def test_what_must_not_run_again_by_itself_has_a_button_that_runs_it(
        self, tmp_path: Path
    ) -> None:
        tool = Tool(id="t", name="pay", status=ToolStatus.STARTED)
        async with life(tmp_path, cautious(ScriptedAgent(tool, 1e9))) as work:
            await work.say("pay the bill")
            await settled(work.store, InboxState.RUNNING)
            await asyncio.sleep(0.05)

        async with life(tmp_path, cautious(ScriptedAgent())) as work:
            notice = await asked(work)
            await work.adapter.until_sent(1)
            assert [button.label for button in notice.buttons] == [RUN_AGAIN]

        agent = ScriptedAgent(Text("Paid."))
        async with life(tmp_path, cautious(agent)) as work:
            await work.pipeline.receive(press(notice.buttons[0].nonce))
            await work.adapter.until_sent(2)

            assert sorted(work.adapter.texts) == ["It runs again.", "Paid."]
            assert [turn.messages[-1].text for turn in agent.turns] == ["pay the bill"]
            await work.pipeline.receive(press(notice.buttons[0].nonce, id="p2"))
            await work.adapter.until_sent(3)
            assert len(agent.turns) == 1

    async def test_the_button_stands_where_the_turn_was_shown(self, tmp_path: Path) -> None:
        tool = Tool(id="t", name="pay", status=ToolStatus.STARTED)
        async with life(tmp_path, cautious(ScriptedAgent(tool, 1e9)), Editing()) as work:
            await work.say("pay the bill")
            await work.adapter.until_sent(1)
            while not previews_on_disk(tmp_path):
                await asyncio.sleep(0.01)

        adapter = Editing()
        async with life(tmp_path, cautious(ScriptedAgent()), adapter) as work:
            while not adapter.edits:
                await asyncio.sleep(0.01)
            (_, part), *_ = adapter.edits
            assert [button.label for button in part.buttons] == [RUN_AGAIN]

    async def test_what_became_of_it_is_on_record(self, tmp_path: Path) -> None:
        async with life(tmp_path, policy_for(Asking(DEPLOY))) as work:
            await work.say("ship it")
            question = await asked(work)
            await work.pipeline.receive(press(question.buttons[1].nonce))
            await work.adapter.until_sent(2)
            (row,) = await work.store.find("p1")
            record = await work.store.answered(row)

            assert record is not None
            assert (record.state, record.option, record.part.text) == (
                QuestionState.ANSWERED,
                1,
                "Deploy now?",
            )
