"""One damaged row is one damaged row: all others go on, and it can be repaired (finding C3)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.at_work import at_work, policy_for
from tests.contracts.test_sqlite import asked, opened, tamper
from tests.fakes import NOON, FrozenClock, ScriptedAgent, dm, message
from tests.talk import begin, exchange, key_of, opening, texts
from turngate.gateway.daemon.control.repair import repair_requests
from turngate.gateway.daemon.control.requests import carry_out
from turngate.gateway.domain.agent_events import Done
from turngate.gateway.domain.errors import Refused, UnknownSession
from turngate.gateway.domain.messages import InboxState
from turngate.gateway.domain.outbox import Part, PartState
from turngate.gateway.domain.session import EndReason, Session
from turngate.gateway.domain.store_values import Outcome
from turngate.gateway.domain.transcript import Text
from turngate.gateway.rules.outcomes import given_up
from turngate.gateway.stores.sqlite import SqliteStore
from turngate.gateway.stores.sqlite.backup import back_up
from turngate.gateway.stores.sqlite.restore import restore

FORGED = "UPDATE sessions SET title = 'forged' WHERE n = 1"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "turngate.db"


async def repair(store: SqliteStore, *, apply: bool) -> list[dict[str, object]]:
    request = {"do": "repair", "args": {"apply": apply}}
    found = await carry_out(repair_requests(store), request, None)  # type: ignore[arg-type]
    assert isinstance(found, dict)
    assert found["applied"] is apply
    return found["damaged"]  # type: ignore[return-value]


async def two_sessions(path: Path) -> tuple[Session, Session]:
    async with opened(path) as store:
        first = await exchange(store, "one", source=dm("1"))
        return first, await exchange(store, "two", source=dm("2"))


async def test_a_damaged_session_starts_anew_and_all_others_go_on(path: Path) -> None:
    first, second = await two_sessions(path)
    tamper(path, FORGED)

    async with opened(path) as store:
        anew = await begin(store, message("again", id="8", source=dm("1")))
        other = await begin(store, message("again", id="9", source=dm("2")))

        assert (anew.opened.is_new, anew.history) == (True, ())
        assert anew.opened.session.notice is not None
        assert anew.opened.session.notice.reason is EndReason.DAMAGED
        assert anew.opened.session.notice.previous == first.id
        assert (other.opened.session.id, len(other.history)) == (second.id, 2)
        assert store.damage is None
        assert (await store.depth()).damaged_rows == 1


async def test_the_person_is_told_in_one_sentence(path: Path) -> None:
    await two_sessions(path)
    store = await SqliteStore.connect(path, FrozenClock())
    policy = policy_for(ScriptedAgent(Text("An answer."), Done()))
    async with at_work(policy, store, FrozenClock()) as work:
        await work.say("hello")
        await work.adapter.until_sent(1)
    await store.close()
    tamper(path, "UPDATE sessions SET title = 'forged'")

    store = await SqliteStore.connect(path, FrozenClock())
    async with at_work(policy, store, FrozenClock()) as work:
        await work.say("still there?", id="second")
        await work.adapter.until_sent(2)
        await work.say("and now?", id="third")
        await work.adapter.until_sent(3)
        told = work.adapter.texts
    await store.close()
    assert told[0].startswith("The conversation before this one was damaged on disk")
    assert told[1:] == ["An answer.", "An answer."]


async def test_what_is_damaged_while_it_is_remembered_is_written_again(path: Path) -> None:
    async with opened(path) as store:
        session = await exchange(store)
        tamper(path, FORGED)
        assert await store.sessions() == []

        assert (await store.open(opening())).session.id == session.id
        assert [found.id for found in await store.sessions()] == [session.id]


async def test_a_damaged_session_is_named_to_who_asks_for_it(path: Path) -> None:
    first, _ = await two_sessions(path)
    tamper(path, FORGED)

    async with opened(path) as store:
        with pytest.raises(UnknownSession, match="damaged on disk"):
            await store.session(first.id)
        with pytest.raises(UnknownSession, match="damaged on disk"):
            await store.rename(first.id, "x")


async def test_a_session_is_rebuilt_from_its_entries(path: Path) -> None:
    first, _ = await two_sessions(path)
    tamper(path, "UPDATE sessions SET messages = 77, preview = '?', preview_by = NULL WHERE n = 1")

    async with opened(path) as store:
        shown = await repair(store, apply=False)
        assert [(row["place"], row["row"]) for row in shown] == [("sessions", first.id)]
        assert (shown[0]["repairable"], shown[0]["repaired"]) == (True, False)
        assert [found.id for found in await store.sessions()] != [first.id]

        done = await repair(store, apply=True)
        assert done[0]["repaired"] is True
        found = await store.session(first.id)
        assert (found.messages, found.preview, found.current) == (2, "one", True)
        assert (await store.open(opening(dm("1")))).session.id == first.id
        assert await texts(store, found) == ["one", "hi"]
        assert await repair(store, apply=True) == []
        assert (await store.depth()).damaged_rows == 0


async def test_a_rebuilt_session_does_not_displace_the_new_one(path: Path) -> None:
    first, _ = await two_sessions(path)
    tamper(path, FORGED)

    async with opened(path) as store:
        anew = await exchange(store, "again", id="8", source=dm("1"))
        await repair(store, apply=True)

        assert (await store.open(opening(dm("1")))).session.id == anew.id
        assert (await store.switch(first.key, first.id)).id == first.id


async def test_an_origin_that_is_no_json_any_more_stops_nobody(path: Path) -> None:
    """An index reads it as JSON, so its row cannot even be changed."""
    await two_sessions(path)
    origin = b'{"platform":"telegram","chat_id":"1"'
    whole = path.read_bytes()
    assert origin in whole
    path.write_bytes(whole.replace(origin, b"[" + origin[1:], 1))

    async with opened(path) as store:
        await begin(store, message("again", id="8", source=dm("1")))
        await begin(store, message("again", id="9", source=dm("2")))
        (row,) = await repair(store, apply=True)
        assert "nobody knows whose it is" in str(row["advice"])
        assert len(await store.sessions()) == 2


@pytest.mark.parametrize(
    "tampering",
    [
        "UPDATE sessions SET key = replace(key, ':1', ':2'), current = 0 WHERE n = 1",
        "UPDATE sessions SET origin = replace(origin, '\"1\"', '\"2\"') WHERE n = 1",
    ],
)
async def test_a_session_that_may_be_somebody_elses_is_not_rebuilt(
    path: Path, tampering: str
) -> None:
    await two_sessions(path)
    tamper(path, tampering)

    async with opened(path) as store:
        (row,) = await repair(store, apply=True)
        assert (row["repairable"], row["repaired"]) == (False, False)
        assert "nobody knows whose it is" in str(row["advice"])
        assert len(await store.sessions()) == 1


async def test_a_damaged_message_is_a_dead_letter(path: Path) -> None:
    async with opened(path) as store:
        await store.accept(message("wait", id="1"), key_of())
        await store.accept(message("and this", id="2"), key_of())
    tamper(path, "UPDATE inbox SET message = replace(message, 'wait', 'flip')")

    async with opened(path) as store:
        assert [item.message.text for item in await store.inbox(InboxState.WAITING)] == ["and this"]
        await store.accept(message(id="3"), key_of())
        (dead,) = await store.inbox(InboxState.DEAD)
        assert (dead.reason, "flip" in (dead.message.raw or "")) == (
            "its row was damaged on disk",
            True,
        )
        with pytest.raises(Refused):
            await store.requeue(dead.id)


async def test_a_row_that_cannot_be_parsed_is_a_dead_letter_and_no_damage(path: Path) -> None:
    """Finding R6: an older version stored a value of the wrong type, with its checksum."""
    async with opened(path) as store:
        await store.accept(message("wait", id="1"), key_of())
        written = asked(path, "SELECT key, message FROM inbox")[0]
    from turngate.gateway.stores.sqlite.rows import checksum

    wrong = str(written[1]).replace('"wait"', "5")
    sum_ = checksum([written[0], wrong])
    tamper(path, f"UPDATE inbox SET message = '{wrong}', checksum = {sum_}")

    async with opened(path) as store:
        assert await store.inbox(InboxState.WAITING) == []
        await store.accept(message(id="2"), key_of())
        assert len(await store.inbox(InboxState.DEAD)) == 1
        assert store.damage is None


async def test_a_damaged_part_is_never_sent(path: Path) -> None:
    async with opened(path) as store:
        await store.say(Part(target=dm("1"), text="one"), Part(target=dm("2"), text="two"))
    tamper(path, "UPDATE outbox SET target = replace(target, '\"1\"', '\"2\"') WHERE n = 1")

    async with opened(path) as store:
        assert [part.text for part in await store.outbox(PartState.PENDING)] == ["two"]
        await store.accept(message(id="3"), key_of())
        (dead,) = await store.outbox(PartState.DEAD)
        with pytest.raises(Refused, match="damaged on disk"):
            await store.requeue_part(dead.id)
        await store.drop_part(dead.id, "dropped")


async def test_messages_of_a_damaged_turn_are_answered_in_another(path: Path) -> None:
    async with opened(path) as store:
        begun = await begin(store, message(source=dm("1")))
        await exchange(store, source=dm("2"), id="2")
    tamper(path, "UPDATE turns SET session = 2 WHERE n = 1")

    async with opened(path) as store:
        again = await begin(store, message(source=dm("1")))
        assert (again.turn != begun.turn, again.opened.session.id) == (
            True,
            begun.opened.session.id,
        )
        await store.finish(again.turn, Outcome())


async def test_an_open_turn_of_a_damaged_session_goes_on_in_the_new_one(path: Path) -> None:
    async with opened(path) as store:
        begun = await begin(store, message())
    tamper(path, FORGED)

    async with opened(path) as store:
        again = await begin(store, message())
        assert again.opened.session.id != begun.opened.session.id
        assert (again.attempt, [entry.text for entry in again.user_entries]) == (1, ["hello"])
        await store.finish(again.turn, Outcome())
        assert await store.inbox(InboxState.WAITING, InboxState.RUNNING) == []


@pytest.mark.parametrize("tampering", [FORGED, "UPDATE turns SET session = 2"])
async def test_a_lost_turn_that_must_not_run_again_is_told_of(path: Path, tampering: str) -> None:
    async with opened(path) as store:
        begun = await begin(store, message())
        await store.record_tool(begun.turn)
    tamper(path, tampering)

    async with opened(path) as store:
        again = await begin(store, message())
        assert (again.attempt, again.repeatable) == (2, False)
        assert given_up(again, message(), NOON) is not None


async def test_a_person_whose_row_is_damaged_is_let_in_no_more_and_named_in_no_reason(
    path: Path,
) -> None:
    async with opened(path):
        pass
    tamper(path, "INSERT INTO people VALUES ('telegram', 'main', '90210', 1, 'cli', 7)")

    async with opened(path) as store:
        assert await store.approved() == []
        (row,) = await repair(store, apply=True)
        assert (row["row"], row["advice"]) == (
            "telegram/main/90210",
            "this person has to be paired again",
        )
        assert "90210" not in str(row["reason"])


async def test_a_damaged_entry_is_left_out_of_the_history(path: Path) -> None:
    async with opened(path) as store:
        session = await exchange(store, "one", answer="two")
    tamper(path, "UPDATE entries SET text = CAST(x'ff6f' AS TEXT) WHERE text = 'one'")

    async with opened(path) as store:
        begun = await begin(store, message("three", id="3"))
        assert [entry.text for entry in begun.history] == ["two"]
        (row,) = await repair(store, apply=True)
        assert (row["place"], row["repaired"]) == ("entries", False)
        await store.delete(session.id)


async def test_a_backup_with_rows_that_were_set_aside_can_be_restored(
    path: Path, tmp_path: Path
) -> None:
    await two_sessions(path)
    tamper(path, FORGED)
    async with opened(path) as store:
        await begin(store, message("again", id="8", source=dm("1")))

    back_up(path, tmp_path / "backup.db")
    restore(tmp_path / "backup.db", path, NOON)
    async with opened(path) as store:
        assert [row["place"] for row in await repair(store, apply=False)] == ["sessions"]
