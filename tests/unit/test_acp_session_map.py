"""What is remembered of a session that an agent holds, and what that agent has not heard."""

from __future__ import annotations

import os
import stat
from dataclasses import replace
from pathlib import Path

import pytest

from tests.fakes import assistant, said, user
from turngate.gateway.agents.acp.session_map import (
    Held,
    SessionMap,
    is_rewound,
    unheard,
)
from turngate.gateway.domain.transcript import (
    Entry,
    Origin,
    Role,
)

HELD = Held(session="x", through=2, asked=1, context="c", cost=0.5)


def numbered(*entries: Entry) -> tuple[Entry, ...]:
    return tuple(replace(entry, seq=number) for number, entry in enumerate(entries, start=1))


BEFORE = user("zero"), assistant("nothing")


class TestMemory:
    def test_what_is_kept_is_recalled_by_the_next_one(self, tmp_path: Path) -> None:
        SessionMap(str(tmp_path), "main").keep(HELD)

        assert SessionMap(str(tmp_path), "main").recall() == HELD
        assert [stat.S_IMODE(file.stat().st_mode) for file in tmp_path.iterdir()] == [0o600]

    def test_every_agent_has_its_own_whatever_it_is_called(self, tmp_path: Path) -> None:
        SessionMap(str(tmp_path), "../main").keep(HELD)

        assert SessionMap(str(tmp_path), "main").recall() is None
        assert SessionMap(str(tmp_path), "../main").recall() == HELD
        assert len(list(tmp_path.iterdir())) == 1

    def test_what_is_forgotten_is_gone(self, tmp_path: Path) -> None:
        memory = SessionMap(str(tmp_path), "main")
        memory.forget()
        memory.keep(HELD)
        memory.forget()

        assert memory.recall() is None
        assert list(tmp_path.iterdir()) == []

    @pytest.mark.parametrize(
        "content", [b"", b"{", b"[]", b"5", b'{"session": 5}', b"\xff", b"[" * 9000, b'{"a":1}']
    )
    def test_what_makes_no_sense_is_nothing(self, content: bytes, tmp_path: Path) -> None:
        (tmp_path / ".acp-session-main").write_bytes(content)

        assert SessionMap(str(tmp_path), "main").recall() is None

    def test_no_link_is_followed_and_no_pipe_waited_for(self, tmp_path: Path) -> None:
        memory = SessionMap(str(tmp_path), "main")
        memory.keep(HELD)
        (tmp_path / ".acp-session-main").rename(tmp_path / "elsewhere")
        (tmp_path / ".acp-session-main").symlink_to(tmp_path / "elsewhere")
        through_link = memory.recall()
        memory.keep(replace(HELD, session="y"))
        (tmp_path / ".acp-session-piped").unlink(missing_ok=True)
        os.mkfifo(tmp_path / ".acp-session-piped")

        assert through_link is None
        assert SessionMap(str(tmp_path), "piped").recall() is None
        assert '"x"' in (tmp_path / "elsewhere").read_text()

    def test_where_nothing_can_be_kept_nothing_is(self, tmp_path: Path) -> None:
        for memory in (SessionMap(str(tmp_path / "missing"), "main"), SessionMap(None, "main")):
            memory.keep(HELD)
            assert memory.recall() is None
            memory.forget()


class TestWhatWasNotHeard:
    def test_its_own_turn_is_known(self) -> None:
        history = numbered(*BEFORE, user("one"), assistant("first"), assistant("second"))

        assert unheard(HELD, history) == ()
        assert not is_rewound(HELD, history)

    def test_a_turn_of_another_is_not(self) -> None:
        history = numbered(
            *BEFORE, user("one"), assistant("first"), user("two"), assistant("by another")
        )

        assert [entry.text for entry in unheard(HELD, history)] == ["two", "by another"]

    def test_several_messages_of_one_turn_are_known(self) -> None:
        history = numbered(*BEFORE, user("one"), user("two"), assistant("both"))

        assert unheard(replace(HELD, asked=2), history) == ()

    def test_a_delivery_is_not(self) -> None:
        delivered = said(Role.ASSISTANT, "good morning", origin=Origin.DELIVERY)
        history = numbered(*BEFORE, user("one"), assistant("first"), delivered)

        assert [entry.text for entry in unheard(HELD, history)] == ["good morning"]

    def test_a_summary_of_what_it_knows_is_no_news(self) -> None:
        summary = said(Role.SYSTEM, "they talked", origin=Origin.SUMMARY)

        assert unheard(HELD, numbered(*BEFORE, user("one"), assistant("first"), summary)) == ()

    @pytest.mark.parametrize("left", [0, 1, 2])
    def test_what_was_taken_back_is_seen(self, left: int) -> None:
        assert is_rewound(HELD, numbered(*BEFORE)[:left])
