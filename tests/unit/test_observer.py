"""
What operators see: words that are ours, numbers under our name, and nothing of what people said or
are called.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Iterator
from io import StringIO

import pytest
import structlog

from tests.at_work import at_work, numbers, policy_for
from tests.fakes import NOON, RecordingAdapter, ScriptedAgent
from tests.hurry import LoopClock, hurried, later
from tests.oracle_store import MemoryStore
from turngate.gateway.domain.agent_events import (
    AgentEvent,
    Done,
    Turn,
)
from turngate.gateway.domain.errors import (
    AgentError,
    AgentUnavailable,
    NotSent,
    Refused,
    StoreUnavailable,
    Undeliverable,
)
from turngate.gateway.domain.messages import (
    ChatType,
    InboundMessage,
    SessionSource,
)
from turngate.gateway.domain.outbox import Part
from turngate.gateway.domain.transcript import Text
from turngate.gateway.observability.error_text import (
    code_location,
    reason_of,
    whole_reason,
)
from turngate.gateway.observability.logs import (
    Action,
    Log,
    configure_logging,
)
from turngate.gateway.observability.observer import Observer

CANARY = "canary"
WHERE = SessionSource(
    platform="web",
    chat_type=ChatType.GROUP,
    chat_id="chat-canary",
    user_id="user-canary",
    user_id_alt="alt-canary",
    thread_id="thread-canary",
    scope="scope-canary",
    chat_name="Canary club",
    user_name="Ann Canary",
    chat_topic="canaries",
)


@pytest.fixture
def log() -> Iterator[StringIO]:
    """Everything that would be logged, down to debug."""
    lines, root = StringIO(), logging.getLogger()
    handlers, level = list(root.handlers), root.level
    configure_logging("debug", lines)
    yield lines
    structlog.reset_defaults()
    logging.basicConfig(handlers=handlers, level=level, force=True)


def message(text: str, number: int) -> InboundMessage:
    return InboundMessage(
        id=f"message-canary-{number}",
        event_ids=(f"event-canary-{number}",),
        source=WHERE,
        text=text,
        sent_at=NOON,
    )


async def failing(agent: ScriptedAgent, adapter: RecordingAdapter | None = None) -> None:
    clock = LoopClock()
    async with at_work(policy_for(agent), MemoryStore(clock), clock, adapter=adapter) as work:
        await work.pipeline.receive(message("my canary", 1))
        await later()


@hurried
class TestNobodysWords:
    async def test_a_whole_talk_leaves_no_word_name_or_id_in_the_log(self, log: StringIO) -> None:
        async def answer(turn: Turn) -> AsyncIterator[AgentEvent]:
            yield Text("a canary sings")
            yield Done()

        clock = LoopClock()
        async with at_work(
            policy_for(ScriptedAgent(answer=answer)), MemoryStore(clock), clock
        ) as work:
            texts = [
                "my canary",
                "/title Canary",
                "/canary",
                "/new canary",
                "again canary",
                "/resume canary",
                "/retry",
            ]
            for number, text in enumerate([*texts, "/undo", "/sessions", "/stop canary"]):
                await work.pipeline.receive(message(text, number))
                await work.pipeline.receive(message(text, number))
                await later()

        lines = log.getvalue()
        assert len(lines.splitlines()) > 20
        assert CANARY not in lines.lower()
        for action in (Action.ACCEPTED, Action.DUPLICATE, Action.TURN, Action.COMMAND, Action.SENT):
            assert f"action={action}" in lines

    @pytest.mark.parametrize(
        "error",
        [
            RuntimeError("the canary said"),
            AgentError("the canary said"),
            KeyError("canary"),
            SystemExit("canary"),
        ],
        ids=lambda error: type(error).__name__,
    )
    async def test_neither_does_an_agent_whose_error_quotes_people(
        self, log: StringIO, error: BaseException
    ) -> None:
        await failing(ScriptedAgent(Text("a canary"), error))

        assert CANARY not in log.getvalue().lower()
        assert "a turn failed" in log.getvalue()

    async def test_neither_does_an_adapter_that_breaks_down(self, log: StringIO) -> None:
        await failing(ScriptedAgent(Text("a canary")), RecordingAdapter(ValueError("canary")))

        assert CANARY not in log.getvalue().lower()
        assert "action=unsent" in log.getvalue()

    async def test_nor_do_libraries_that_warn(self, log: StringIO) -> None:
        library = logging.getLogger("some.library")
        library.debug("canary debug")
        library.info("canary info")
        library.warning("canary %s", "warning")
        try:
            raise ValueError("canary in a traceback")
        except ValueError:
            library.exception("canary error")

        lines = log.getvalue().splitlines()
        assert len(lines) == 2
        assert CANARY not in log.getvalue()
        assert all("some.library" in line for line in lines)
        assert "test_observer.py:" in lines[1]

    async def test_our_own_adapters_keep_their_fixed_sentences_and_nothing_that_was_put_in(
        self, log: StringIO
    ) -> None:
        logging.getLogger("turngate.adapters.discord.intake").warning(
            "switch on the Message Content Intent"
        )
        logging.getLogger("turngate.adapters.discord.intake").warning("somebody said %s", "canary")
        logging.getLogger("turngate.adapters.slack.api.library").warning(
            "a library of theirs says: canary"
        )

        assert "switch on the Message Content Intent" in log.getvalue()
        assert CANARY not in log.getvalue()

    async def test_a_field_that_is_on_no_list_is_dropped(self, log: StringIO) -> None:
        structlog.get_logger().info("words", action=Action.TURN, text="canary", chat_id="canary")

        assert "action=turn" in log.getvalue()
        assert CANARY not in log.getvalue()


class TestLines:
    def test_below_the_level_nothing_is_said(self, log: StringIO) -> None:
        configure_logging("warning", log)
        Observer().started(address=None, version="1", pid=1)

        assert log.getvalue() == ""

    def test_a_line_is_one_line_with_its_time_level_and_action(self, log: StringIO) -> None:
        Observer().store_failed(StoreUnavailable("the disk\nis full"))

        (line,) = log.getvalue().splitlines()
        assert line.startswith("timestamp=")
        assert "level=error" in line
        assert "action=store" in line

    def test_of_a_bug_the_place_is_told(self, log: StringIO) -> None:
        try:
            {}["canary"]
        except KeyError as exc:
            Observer().bug(exc)

        assert "reason=KeyError" in log.getvalue()
        assert "test_observer.py:" in log.getvalue()

    def test_an_error_without_a_place_has_none(self) -> None:
        assert code_location(ValueError("x")) == "unknown"

    def test_our_own_reasons_are_repeated_and_those_of_others_are_not(self) -> None:
        assert reason_of(Undeliverable("blocked")) == "blocked"
        assert reason_of(ValueError("blocked")) == "ValueError"

    def test_what_a_model_server_said_is_told_to_nobody_who_did_not_ask_for_quotes(
        self, log: StringIO
    ) -> None:
        Observer().agent_unavailable(
            "main", AgentUnavailable("no answer (500)", words="a canary"), again=True
        )

        assert 'reason="no answer (500)"' in log.getvalue()
        assert CANARY not in log.getvalue()

    def test_and_to_those_who_did(self, log: StringIO) -> None:
        Log(lambda line: log.write(f"{line}\n")).configure("debug", quote=True)
        Observer().agent_unavailable(
            "main", AgentUnavailable("no answer (500)", words="a\ncanary"), again=True
        )

        assert 'said="a canary"' in log.getvalue()

    def test_the_outbox_keeps_what_a_platform_said_and_the_log_does_not(
        self, log: StringIO
    ) -> None:
        refusal = Undeliverable("not taken (400)", words="chat canary not found")
        Observer().unsent(Part(target=WHERE, text="canary"), refusal, dead=True)

        assert whole_reason(refusal) == "not taken (400): chat canary not found"
        assert 'reason="not taken (400)"' in log.getvalue()
        assert CANARY not in log.getvalue()

    def test_work_that_nobody_waits_for_is_no_bug(self, log: StringIO) -> None:
        Observer().dropped(Refused("its session was deleted"))

        assert "level=info" in log.getvalue()

    @pytest.mark.parametrize("error", [NotSent("no route"), ValueError("a canary")])
    def test_a_hint_that_was_not_shown_is_told_to_whoever_looks_closely(
        self, log: StringIO, error: Exception
    ) -> None:
        Observer().hint_failed(WHERE, error)

        assert "level=debug" in log.getvalue()
        assert "action=preview" in log.getvalue()
        assert CANARY not in log.getvalue()


class TestMetrics:
    def test_every_number_has_our_prefix(self) -> None:
        observer = Observer()
        observer.received(WHERE, Action.ACCEPTED)
        observer.bug(ValueError())

        names = {
            line.split("{")[0].split(" ")[0] for line in shown(observer) if not line.startswith("#")
        }
        assert names
        assert all(name.startswith("turngate_") for name in names)

    def test_they_count_what_happened(self) -> None:
        observer = Observer()
        observer.received(WHERE, Action.ACCEPTED)
        observer.received(WHERE, Action.ACCEPTED)
        observer.bug(ValueError())
        observer.unsent(Part(target=WHERE, text="canary"), NotSent("no route"), dead=False)
        observer.agent_unavailable("main", AgentUnavailable("busy"), again=True)
        observer.agent_unavailable("main", AgentUnavailable("busy"), again=False)

        lines = shown(observer)
        assert 'turngate_messages_total{outcome="accepted",platform="web"} 2.0' in lines
        assert "turngate_unexpected_errors_total 1.0" in lines
        assert 'turngate_retries_total{what="send"} 1.0' in lines
        assert 'turngate_retries_total{what="agent"} 1.0' in lines
        assert 'turngate_retries_total{what="account"} 0.0' in lines
        assert CANARY not in "".join(lines)

    def test_two_observers_do_not_share_their_numbers(self) -> None:
        Observer().bug(ValueError())

        assert "turngate_unexpected_errors_total 0.0" in shown(Observer())


def test_the_end_of_a_trouble_of_the_store_is_told_once(log: StringIO) -> None:
    observer = Observer()
    for _ in range(1000):
        observer.store_failed(StoreUnavailable("the disk is full"))
    for _ in range(10):
        observer.store_works()

    told = [line for line in log.getvalue().splitlines() if "action=store" in line]
    assert len(told) == 2
    assert 'reason="the disk is full"' in told[0]
    assert "the store takes writes again" in told[1]


def shown(observer: Observer) -> list[str]:
    return numbers(observer).decode().splitlines()
