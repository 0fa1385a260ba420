"""The agent that needs nothing: what it says back, and in how many pieces."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.fakes import NOON, assistant, dm, message, said, user
from tests.hurry import hurried
from turngate.gateway.agents import AgentSpec, load_agent
from turngate.gateway.domain.agent_events import (
    Done,
    Turn,
    Usage,
)
from turngate.gateway.domain.errors import ConfigError
from turngate.gateway.domain.ids import (
    SessionId,
    SessionKey,
    TurnId,
)
from turngate.gateway.domain.messages import Attachment
from turngate.gateway.domain.session import Session
from turngate.gateway.domain.transcript import (
    MediaType,
    Origin,
    Role,
    Text,
)

SESSION = Session(
    id=SessionId("s1"),
    key=SessionKey("k"),
    origin=dm(),
    started_at=NOON,
    last_interaction_at=NOON,
    updated_at=NOON,
)
TURN = Turn(id=TurnId(1), session=SESSION, source=dm(), messages=(message("hello there"),))


async def events(turn: Turn) -> list[object]:
    return [event async for event in load_agent(AgentSpec(name="main")).run(turn)]


async def answer(turn: Turn) -> str:
    return "".join(event.text for event in await events(turn) if isinstance(event, Text))


@hurried
class TestEcho:
    async def test_it_says_what_it_heard_and_where(self) -> None:
        assert await answer(TURN) == "Turn 1 of session `s1`. You said:\n\nhello there"

    async def test_it_says_which_files_came(self) -> None:
        photo = Attachment(
            type=MediaType.IMAGE, path="/x", name="photo.jpg", mime="image/jpeg", size=12_000
        )
        voice = Attachment(type=MediaType.AUDIO)

        one = await answer(
            replace(TURN, messages=(replace(message("look"), attachments=(photo,)),))
        )
        two = await answer(
            replace(TURN, messages=(replace(message(""), attachments=(photo, voice)),))
        )

        assert "session `s1`. (1 file: photo.jpg, image/jpeg, 12 kB) You said:\n\nlook" in one
        assert (
            "(2 files: photo.jpg, image/jpeg, 12 kB; audio) You said:\n\n(nothing in words)" in two
        )

    async def test_it_names_the_session_by_its_title(self) -> None:
        assert "session `s1` “Plans”." in await answer(
            replace(TURN, session=replace(SESSION, title="Plans"))
        )

    async def test_it_counts_the_turns_it_was_shown(self) -> None:
        command = said(Role.USER, "/help", origin=Origin.COMMAND)
        history = (
            user("a"),
            user("b"),
            assistant("ab"),
            command,
            user("c"),
            said(Role.TOOL, "t"),
            assistant("c"),
        )

        assert (await answer(replace(TURN, history=history))).startswith(
            "Turn 3 of session `s1`. I remember 2 before it."
        )

    async def test_it_streams_in_a_bounded_number_of_pieces_that_are_the_whole(self) -> None:
        text = "word \n" * 5000
        heard = await events(replace(TURN, messages=(message(text),)))

        pieces = [event.text for event in heard if isinstance(event, Text)]
        assert 10 < len(pieces) <= 61
        assert "".join(pieces).endswith(text)

    async def test_it_reports_its_usage_and_that_it_is_done(self) -> None:
        *_, usage, done = await events(TURN)

        assert isinstance(usage, Usage)
        assert usage.input == 2
        assert done == Done()

    @pytest.mark.parametrize("text", ["", " ", "\n"])
    async def test_it_has_something_to_say_to_nothing(self, text: str) -> None:
        assert "You said:" in await answer(replace(TURN, messages=(message(text),)))


def test_an_unknown_kind_of_agent_cannot_be_loaded() -> None:
    with pytest.raises(ConfigError, match="there is no kind oracle"):
        load_agent(AgentSpec(name="main", kind="oracle"))
