"""`turngate pair` as an operator meets it, through the daemon and without one."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from tests.commands import daemon, in_terminal, turngate
from tests.fakes import dm
from turngate.gateway.daemon.state_dir import read_or_make_key, take_lock
from turngate.gateway.daemon.system_clock import SystemClock
from turngate.gateway.domain.outbox import PartState
from turngate.gateway.inbound.pairing import MOST_WRONG, Pairing
from turngate.gateway.stores.sqlite import SqliteStore


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """A state folder that is not there yet."""
    return tmp_path / "state"


def asked_for_a_code(state: Path, user: str = "12345") -> str:
    """Let a stranger have been given one."""

    async def work() -> str:
        with take_lock(state) as lock:
            store = await SqliteStore.connect(lock.state.database, SystemClock())
            await Pairing(store, read_or_make_key(lock.state.privacy_key)).invite(dm(user), "m1")
            part = (await store.outbox(PartState.PENDING))[-1]
            await store.close()
            return re.findall(r"`([A-Z0-9]{8})`", part.text)[0]

    return asyncio.run(work())


@pytest.fixture(params=["alone", "daemon"])
def code(request: pytest.FixtureRequest, state: Path) -> Iterator[str]:
    """With a daemon and without, over a folder in which one stranger waits."""
    given = asked_for_a_code(state)
    with daemon(state) if request.param == "daemon" else nullcontext():
        yield given


def document(state: Path, *arguments: str) -> dict[str, list[dict[str, Any]]]:
    """What `--json` says: one document, and nothing else anywhere."""
    result = turngate(state, *arguments, "--json")
    assert (result.returncode, result.stderr) == (0, "")
    found = json.loads(result.stdout)
    assert isinstance(found, dict)
    return found


def refusal(state: Path, *arguments: str) -> str:
    result = turngate(state, *arguments)
    assert (result.returncode, result.stdout) == (1, "")
    return result.stderr


def test_it_is_shown_that_strangers_use_up_the_codes_and_the_operator_can_allow_more(
    state: Path,
) -> None:
    """Finding R30: three strangers keep everybody else from getting a code, and nobody saw it."""
    for user in ("1", "2", "3"):
        asked_for_a_code(state, user)

    (exhausted,) = document(state, "pair", "list")["exhausted"]
    assert (exhausted["platform"], exhausted["account"], exhausted["codes"]) == (
        "telegram",
        "main",
        3,
    )
    assert "all 3 codes are in use" in turngate(state, "pair", "list").stdout

    (state.parent / "turngate.yaml").write_text("access: {pairing_codes: 4}\n")
    assert document(state, "pair", "list")["exhausted"] == []


def test_a_person_is_seen_approved_and_revoked(state: Path, code: str) -> None:
    listed = document(state, "pair", "list")
    (waiting,) = listed["pending"]
    assert set(waiting) == {"who", "platform", "account", "id", "asked_at", "until"}
    assert (waiting["who"], listed["approved"]) == ("telegram:12345", [])
    assert code not in json.dumps(listed)

    assert document(state, "pair", "approve", code.lower())["who"] == "telegram:12345"
    listed = document(state, "pair", "list")
    (person,) = listed["approved"]
    assert set(person) == {"who", "platform", "account", "id", "at", "by"}
    assert (person["by"], listed["pending"]) == ("command line", [])
    assert "used already" in refusal(state, "pair", "approve", code)

    assert document(state, "pair", "revoke", "telegram/main:12345")["revoked"][0]["id"] == "12345"
    assert document(state, "pair", "list") == {"approved": [], "pending": [], "exhausted": []}
    assert "telegram:12345 was not paired" in refusal(state, "pair", "revoke", "telegram:12345")
    assert "PLATFORM:ID" in refusal(state, "pair", "revoke", "ann")


def test_five_wrong_codes_lock_the_command_line_with_or_without_a_daemon(
    state: Path, code: str
) -> None:
    for _ in range(MOST_WRONG):
        assert "there is no such code" in refusal(state, "pair", "approve", "AAAAAAAA")

    assert "no code is taken here until" in refusal(state, "pair", "approve", code)


def test_people_read_sentences_and_a_table(state: Path, code: str) -> None:
    head, row = turngate(state, "pair", "list").stdout.splitlines()
    assert head.split() == ["WHO", "STATE", "SINCE", "BY"]
    assert row.startswith("telegram:12345  pending")
    said = turngate(state, "pair", "approve", code).stdout
    assert said == "telegram:12345 may now talk to the bot in direct messages, and is notified.\n"
    assert (
        turngate(state, "pair", "revoke", "telegram:12345").stdout
        == "Access revoked: telegram:12345.\n"
    )
    assert turngate(state, "pair", "list").stdout == "No paired users and no pending requests.\n"


def test_an_id_that_would_harm_a_terminal_does_not_reach_it(state: Path) -> None:
    asked_for_a_code(state, "\x1b]0;owned\x07red\u202egnp.exe")

    with in_terminal(state, "pair", "list") as terminal:
        terminal.end()

    assert "\x1b]0;" not in terminal.output
    assert "\u202e" not in terminal.output
