"""
The gateway put together: from a config to an answer, over a stop and a start, and with the doors
shut.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from tests.configs import config_of
from tests.fakes import NOON, RecordingAdapter
from turngate.config.schema import Config
from turngate.gateway.daemon.app import running
from turngate.gateway.daemon.gateway import Gateway
from turngate.gateway.daemon.state_dir import take_lock
from turngate.gateway.domain.errors import Refused
from turngate.gateway.domain.messages import (
    ChatType,
    InboundMessage,
    InboxState,
    SessionSource,
)
from turngate.gateway.domain.ports.adapter import Receive

HERE = SessionSource.browser("desk")


@pytest.fixture
def config(tmp_path: Path) -> Config:
    return config_of(
        f"state_dir: {tmp_path / 'state'}\nturns:\n  debounce: 10ms\nweb:\n  listen: null\n"
    )


@asynccontextmanager
async def gateway(config: Config, *, doors: bool = False) -> AsyncIterator[Gateway]:
    with take_lock(config.state_dir) as lock:
        async with running(config, lock, doors=doors) as open_gateway:
            yield open_gateway


def said(text: str, number: int = 1) -> InboundMessage:
    return InboundMessage(
        id=f"m{number}", event_ids=(f"e{number}",), source=HERE, text=text, sent_at=NOON
    )


async def settled(at: Gateway) -> None:
    while await at.store.inbox(InboxState.WAITING, InboxState.RUNNING):
        await asyncio.sleep(0.01)


async def transcript(at: Gateway) -> list[str]:
    session = await at.store.current(at.pipeline.policy.key_of(HERE))
    assert session is not None
    return [entry.text for entry in (await at.store.transcript(session.id)).entries]


async def test_a_message_is_answered_and_is_still_there_after_a_restart(config: Config) -> None:
    async with gateway(config) as at:
        await at.pipeline.receive(said("hello"))
        await settled(at)
    async with gateway(config) as at:
        await at.pipeline.receive(said("again", 2))
        await settled(at)

        question, answer, _, second = await transcript(at)
        assert question == "hello"
        assert answer.startswith("Turn 1 of session")
        assert answer.endswith("You said:\n\nhello")
        assert second.startswith("Turn 2 of session")


async def test_leaving_finishes_what_runs(config: Config) -> None:
    async with gateway(config) as at:
        await at.pipeline.receive(said("hello"))
        while at.health.last_known().lanes_busy == 0:
            await asyncio.sleep(0.01)
    async with gateway(config) as at:
        assert (await transcript(at))[1].endswith("hello")


async def test_leaving_in_a_hurry_leaves_the_rest_for_the_next_start(config: Config) -> None:
    async with gateway(config) as at:
        await at.pipeline.receive(said("word " * 500))
        while at.health.last_known().lanes_busy == 0:
            await asyncio.sleep(0.01)
        at.hurry.set()
    async with gateway(config) as at:
        await settled(at)

        assert len(await transcript(at)) == 2


async def test_what_the_config_calls_not_repeatable_is_not_run_again_after_a_crash(
    config: Config,
) -> None:
    careful = config_of(
        f"state_dir: {config.state_dir}\nagents:\n  main:\n    repeatable: no\nturns:\n  "
        "debounce: 10ms\n"
    )
    async with gateway(careful) as at:
        await at.pipeline.receive(said("word " * 500))
        while not await at.store.inbox(InboxState.RUNNING):
            await asyncio.sleep(0.01)
        at.hurry.set()
    async with gateway(careful) as at:
        await settled(at)

        _, notice = await transcript(at)
        assert notice.startswith("I was interrupted while working on this")


async def test_it_says_how_it_is(config: Config) -> None:
    async with gateway(config) as at:
        assert (await at.health.readiness()).ready
        assert at.health.last_known().ready
        assert b"turngate_lanes_busy 0.0" in await at.metrics_snapshot.text()


async def test_a_gap_is_told_once_in_each_chat_of_that_account(config: Config) -> None:
    def in_group(user: str, chat: str = "g", platform: str = "telegram") -> SessionSource:
        return SessionSource(
            platform=platform, chat_type=ChatType.GROUP, chat_id=chat, user_id=user
        )

    adapter = RecordingAdapter(platform="telegram")
    with take_lock(config.state_dir) as lock:
        async with running(
            config, lock, doors=False, accounts={("telegram", "main"): adapter}
        ) as at:
            for source in (
                in_group("ann"),
                in_group("bob"),
                in_group("ann", "h"),
                in_group("ann", platform="slack"),
            ):
                await at.store.open(at.pipeline.policy.opening(source))

            await at.tell_of_gap("telegram", "main", NOON)
            await adapter.until_sent(2)

            assert sorted(str(part.target.chat_id) for part in adapter.tried) == ["g", "h"]
            assert set(adapter.texts) == {
                "I was away, and what was written here since 2026-05-04 12:00 UTC may not have "
                "reached me."
            }


async def test_a_door_that_is_open_to_everybody_is_told_of_at_every_start(tmp_path: Path) -> None:
    config = config_of(
        f"state_dir: {tmp_path / 'state'}\naccess: {{direct: open-dangerously}}\nweb: {{listen: "
        "null}\n"
    )
    for doors in (True, True, False):
        with capture_logs() as lines:
            async with gateway(config, doors=doors):
                pass
        warnings = [line["event"] for line in lines if line["log_level"] == "warning"]
        assert [words.startswith("DANGER: anyone who finds the bot") for words in warnings] == [
            True
        ] * doors


async def test_with_the_doors_shut_there_is_no_link(config: Config) -> None:
    async with gateway(config) as at:
        assert at.web is None
        with pytest.raises(Refused, match="there is no web server"):
            await at.link({}, None)  # type: ignore[arg-type]


async def test_an_error_comes_out_as_itself_and_everything_is_closed(config: Config) -> None:
    with pytest.raises(ZeroDivisionError):
        async with gateway(config):
            raise ZeroDivisionError

    async with gateway(config) as at:
        assert at.health.last_known().ready


class Follower(RecordingAdapter):
    """A screen that remembers what it was shown."""

    def __init__(self) -> None:
        super().__init__()
        self.shown: list[str] = []

    async def run(self, receive: Receive) -> None:
        await asyncio.Event().wait()

    def turn_began(self, *_: object) -> None:
        self.shown.append("began")

    def turn_event(self, *_: object) -> None:
        self.shown.append("event")

    def settled(self, *_: object) -> None:
        self.shown.append("settled")


@pytest.mark.parametrize(
    ("stream", "shown"), [("true", {"began", "event", "settled"}), ("false", {"began", "settled"})]
)
async def test_the_config_decides_whether_answers_are_shown_while_they_grow(
    tmp_path: Path, stream: str, shown: set[str]
) -> None:
    config = config_of(
        f"state_dir: {tmp_path / 'state'}\nweb:\n  listen: null\ndelivery:\n  stream: {stream}\n"
    )
    screen = Follower()
    with take_lock(config.state_dir) as lock:
        async with running(config, lock, doors=False, accounts={("web", "main"): screen}) as at:
            await at.pipeline.receive(said("hello"))
            await settled(at)
            await screen.until_sent(1)

    assert set(screen.shown) == shown
