"""The verbs over sessions, on every store: what they answer, and in which shape."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import cast

import pytest

from tests.fakes import NOON, FrozenClock, add_entries, dm, message
from tests.talk import begin, exchange, key_of
from turngate.gateway.daemon.control.requests import Requests, carry_out
from turngate.gateway.daemon.control.sessions import session_requests
from turngate.gateway.daemon.control.status import (
    AccountStatus,
    BackupStatus,
    DaemonStatus,
    StoreStatus,
    status_requests,
)
from turngate.gateway.domain.errors import (
    MalformedRecord,
    Refused,
    UnknownEntry,
    UnknownSession,
)
from turngate.gateway.domain.ids import SessionKey
from turngate.gateway.domain.ports.store import Store
from turngate.gateway.domain.serialization import Json
from turngate.gateway.domain.transcript import (
    Entry,
    Role,
    ToolCall,
)
from turngate.gateway.domain.usage import (
    Cost,
    CostStatus,
    Spent,
    Tokens,
)
from turngate.gateway.stores.session_files import SessionFiles

SESSION = {
    *(
        "id",
        "key",
        "title",
        "preview",
        "started_at",
        "last_interaction_at",
        "updated_at",
        "messages",
        "archived",
    ),
    *(
        "important",
        "goal",
        "owner",
        "current",
        "tokens",
        "tokens_estimated",
        "cost_usd",
        "cost_status",
        "model",
    ),
}
TOKENS = {"input", "output", "cache_read", "cache_write", "total"}
ENTRY = {"seq", "id", "role", "content", "at", "origin"}
STATUS = {"ready", "since", "pid", "accounts", "lanes", "inbox", "outbox", "store", "backup"}
ACCOUNT = {"platform", "account", "state", "reason", "last_progress_at"}


class Heard:
    """Collects what a verb says on its way."""

    def __init__(self) -> None:
        self.items: list[Json] = []

    async def item(self, value: Json) -> None:
        self.items.append(value)

    async def next(self) -> dict[str, Json] | None:
        return None


async def ask(
    requests: Requests, do: str, **args: Json
) -> tuple[list[dict[str, Json]], dict[str, Json]]:
    heard = Heard()
    result = await carry_out(requests, {"do": do, "args": args}, heard)
    json.dumps([heard.items, result], allow_nan=False)
    return cast(list[dict[str, Json]], heard.items), cast(dict[str, Json], result)


async def test_a_listing_has_the_shape_of_the_contract(store: Store) -> None:
    spent = Spent(
        tokens=Tokens(input=5, output=2, cache_read=1),
        cost=Cost(usd=0.25, status=CostStatus.REPORTED),
    )
    session = await exchange(store, "how are you", spent=spent)

    listed, _ = await ask(session_requests(store), "sessions.list")

    assert [set(one) for one in listed] == [SESSION]
    assert listed[0]["id"] == session.id
    assert listed[0]["key"] == "agent:main:telegram:dm:42"
    assert listed[0]["preview"] == "how are you"
    assert listed[0]["title"] is None
    assert listed[0]["started_at"] == "2026-05-04T12:00:00+00:00"
    assert listed[0]["messages"] == 2
    assert listed[0]["owner"] == "telegram:42"
    assert (listed[0]["archived"], listed[0]["important"], listed[0]["current"]) == (
        False,
        False,
        True,
    )
    assert listed[0]["tokens"] == {
        "input": 5,
        "output": 2,
        "cache_read": 1,
        "cache_write": 0,
        "total": 8,
    }
    assert listed[0]["cost_usd"] == 0.25


async def test_a_listing_can_be_narrowed(store: Store, clock: FrozenClock) -> None:
    old = await exchange(store, id="1", source=dm("1"))
    clock.advance(hours=3)
    new = await exchange(store, id="2", source=dm("2"))
    await store.archive(new.id)
    requests = session_requests(store)

    async def ids(**args: Json) -> list[Json]:
        return [one["id"] for one in (await ask(requests, "sessions.list", **args))[0]]

    assert await ids() == [new.id, old.id]
    assert await ids(limit=1) == [new.id]
    assert await ids(active_within=3600) == [new.id]
    assert await ids(archived=False) == [old.id]
    assert await ids(key=old.key) == [old.id]
    assert await ids(owner="telegram:2") == [new.id]


async def test_a_session_is_shown_with_its_entries(store: Store) -> None:
    session = await exchange(store, "how are you", answer="fine")

    entries, shown = await ask(session_requests(store), "sessions.show", id=session.id)

    assert set(shown) == SESSION
    assert [set(entry) for entry in entries] == [ENTRY, ENTRY]
    assert [(entry["role"], entry["content"]) for entry in entries] == [
        ("user", [{"type": "text", "text": "how are you"}]),
        ("assistant", [{"type": "text", "text": "fine"}]),
    ]
    assert entries[0]["at"] == "2026-05-04T12:00:00+00:00"
    assert entries[0]["origin"] == "chat"


async def test_who_spoke_and_which_tools_were_called_are_added_where_they_are_known(
    store: Store,
) -> None:
    session = await exchange(store)
    call = ToolCall(id="c1", name="look", arguments='{"at": 1}')
    await add_entries(
        store,
        session.id,
        [Entry(role=Role.ASSISTANT, content=(), at=NOON, tool_calls=(call,), sender="Ann")],
    )

    entries, _ = await ask(session_requests(store), "sessions.show", id=session.id, last=1)

    assert set(entries[0]) == ENTRY | {"sender", "tool_calls"}
    assert entries[0]["tool_calls"] == [{"id": "c1", "name": "look", "arguments": '{"at": 1}'}]


async def test_the_last_entries_alone_can_be_shown(store: Store) -> None:
    session = await exchange(store, "how are you", answer="fine")
    requests = session_requests(store)

    assert [
        entry["role"] for entry in (await ask(requests, "sessions.show", id=session.id, last=1))[0]
    ] == ["assistant"]
    assert (await ask(requests, "sessions.show", id=session.id, last=0))[0] == []


async def test_the_beginning_of_an_id_is_enough_if_it_is_the_only_one(store: Store) -> None:
    session = await exchange(store)

    _, shown = await ask(session_requests(store), "sessions.show", id=session.id[:6])

    assert shown["id"] == session.id


async def test_a_beginning_that_several_have_names_them(store: Store) -> None:
    sessions = [await exchange(store, id=str(n), source=dm(str(n))) for n in range(12)]

    with pytest.raises(Refused) as caught:
        await ask(session_requests(store), "sessions.show", id="s_")

    told = str(caught.value)
    assert told.startswith("12 sessions begin with s_: ")
    assert told.endswith(" and 2 more; write more of the id")
    named = told.removeprefix("12 sessions begin with s_: ").partition(" and ")[0].split(", ")
    assert len(set(named) & {session.id for session in sessions}) == 10


@pytest.mark.parametrize("written", ["", "s_nobody", "%", "_", "\ud800"])
async def test_a_session_that_is_not_there_is_told(store: Store, written: str) -> None:
    await exchange(store)

    with pytest.raises(UnknownSession):
        await ask(session_requests(store), "sessions.show", id=written)


async def test_words_are_found_with_the_session_they_belong_to(store: Store) -> None:
    session = await exchange(store, "where is the green bottle")
    await store.rename(session.id, "Bottles")

    hits, _ = await ask(session_requests(store), "sessions.search", words="green bottle")

    assert [set(hit) for hit in hits] == [{"session", "title", "entry"}]
    assert (hits[0]["session"], hits[0]["title"]) == (session.id, "Bottles")
    assert set(cast(dict[str, Json], hits[0]["entry"])) == ENTRY


async def test_an_export_can_be_imported_again(store: Store) -> None:
    session = await exchange(store, "how are you", answer="fine")

    lines, _ = await ask(session_requests(store), "sessions.export", id=session.id)
    await store.delete(session.id)
    imported = await store.import_(cast(list[str], lines))

    assert (imported.entries, imported.problems) == (2, ())


async def test_a_title_is_set_and_taken_away(store: Store) -> None:
    session = await exchange(store)
    requests = session_requests(store)

    assert (await ask(requests, "sessions.rename", id=session.id, title="Plans"))[1][
        "title"
    ] == "Plans"
    assert (await ask(requests, "sessions.rename", id=session.id))[1]["title"] is None


async def test_a_session_is_put_away_and_taken_back(store: Store) -> None:
    session = await exchange(store)
    requests = session_requests(store)

    assert (await ask(requests, "sessions.archive", id=session.id))[1]["archived"] is True
    assert (await ask(requests, "sessions.archive", id=session.id, undo=True))[1][
        "archived"
    ] is False


async def test_a_session_gets_a_goal_and_is_marked_as_important(store: Store) -> None:
    """Finding C7: built in the store, and reachable by nobody."""
    session = await exchange(store)
    requests = session_requests(store)

    aimed = (await ask(requests, "sessions.goal", id=session.id, goal="Ship it"))[1]
    marked = (await ask(requests, "sessions.important", id=session.id))[1]
    assert (aimed["goal"], marked["important"], marked["goal"]) == ("Ship it", True, "Ship it")

    freed = (await ask(requests, "sessions.goal", id=session.id, goal=""))[1]
    unmarked = (await ask(requests, "sessions.important", id=session.id, undo=True))[1]
    assert (freed["goal"], unmarked["important"]) == (None, False)


async def test_one_message_is_edited_and_deleted(store: Store) -> None:
    """Finding C7."""
    session = await exchange(store, "one", answer="two")
    requests = session_requests(store)
    first, second = (await store.transcript(session.id)).entries

    edited = await ask(requests, "sessions.edit", id=session.id, entry=first.id, text="uno")
    assert (edited[1]["preview"], edited[1]["messages"]) == ("uno", 2)
    deleted = await ask(requests, "sessions.delete-entry", id=session.id, entry=str(second.seq))
    assert deleted[1]["messages"] == 1
    assert [entry.text for entry in (await store.transcript(session.id)).entries] == ["uno"]


async def test_a_message_that_is_not_there_or_would_be_empty_is_refused(store: Store) -> None:
    """Finding C7."""
    session = await exchange(store)
    requests = session_requests(store)
    first = (await store.transcript(session.id)).entries[0]

    with pytest.raises(UnknownEntry, match="has no message e99"):
        await ask(requests, "sessions.delete-entry", id=session.id, entry="e99")
    with pytest.raises(Refused, match="needs a text"):
        await ask(requests, "sessions.edit", id=session.id, entry=first.id, text=" ")


async def test_the_files_of_a_session_go_with_it_and_only_then(
    store: Store, tmp_path: Path
) -> None:
    files = SessionFiles(tmp_path / "files")
    requests = session_requests(store, forget=files.forget)
    session, other = await exchange(store), await exchange(store, id="2", source=dm("2"))
    for each in (session, other):
        files.workdir(each.id)

    await ask(requests, "sessions.reset", id=session.id)
    assert len(await files.sessions()) == 2
    await ask(requests, "sessions.delete", id=session.id)

    assert await files.sessions() == [other.id]


async def test_reset_and_resume_and_delete_end_a_running_turn_first(store: Store) -> None:
    stopped: list[tuple[str, SessionKey]] = []
    doing = ""

    async def stop(key: SessionKey) -> None:
        stopped.append((doing, key))

    requests = session_requests(store, stop)
    session = await exchange(store)

    doing = "reset"
    _, fresh = await ask(requests, "sessions.reset", id=session.id)
    doing = "resume"
    _, resumed = await ask(requests, "sessions.resume", id=session.id)
    doing = "resume again"
    await ask(requests, "sessions.resume", id=session.id)
    doing = "delete another"
    await ask(requests, "sessions.delete", id=fresh["id"])
    doing = "delete"
    _, deleted = await ask(requests, "sessions.delete", id=session.id)

    assert fresh["id"] != session.id
    assert (resumed["id"], resumed["current"]) == (session.id, True)
    assert deleted["id"] == session.id
    assert stopped == [("reset", session.key), ("resume", session.key), ("delete", session.key)]
    assert await store.sessions() == []


async def test_pruning_tells_what_it_did(store: Store, clock: FrozenClock) -> None:
    await exchange(store)
    await store.reset(key_of())
    clock.advance(days=40)

    _, pruned = await ask(
        session_requests(store),
        "sessions.prune",
        empty_after=3600,
        archive_after=30 * 86400,
        forget_after=7 * 86400,
    )

    assert (pruned["deleted"], pruned["archived"]) == (1, 1)
    assert set(pruned) == {"deleted", "archived", "entries", "forgotten"}


@pytest.mark.parametrize(
    ("do", "args"),
    [
        ("sessions.show", {}),
        ("sessions.show", {"id": [7]}),
        ("sessions.show", {"id": "s_", "last": "many"}),
        ("sessions.list", {"limit": 1.5}),
        ("sessions.list", {"active_within": "2h"}),
        ("sessions.prune", {"empty_after": "1h"}),
    ],
)
async def test_arguments_of_the_wrong_kind_are_refused(
    store: Store, do: str, args: dict[str, Json]
) -> None:
    with pytest.raises(MalformedRecord):
        await ask(session_requests(store), do, **args)


async def test_without_a_daemon_the_status_comes_from_the_store(store: Store) -> None:
    await exchange(store)
    await store.accept(message("waits", id="2"), key_of())

    _, status = await ask(status_requests(store), "status")

    assert set(status) == STATUS
    assert (status["ready"], status["since"], status["pid"], status["accounts"]) == (
        False,
        None,
        None,
        [],
    )
    assert status["lanes"] == {"busy": 0, "waiting": 0}
    assert status["inbox"] == {"waiting": 1, "dead": 0}
    assert status["outbox"] == {"waiting": 1, "dead": 0}
    assert (status["store"]["ok"], status["store"]["reason"]) == (True, None)


async def test_a_daemon_adds_what_only_it_knows(store: Store) -> None:
    account = AccountStatus(
        platform="telegram", account="main", state="receiving", last_progress_at=NOON
    )
    daemon = DaemonStatus(
        ready=True,
        since=NOON,
        pid=7,
        accounts=(account,),
        lanes_busy=2,
        lanes_waiting=3,
        backup=BackupStatus(folder="/backups", last_at=NOON, failure="no room"),
    )

    _, status = await ask(status_requests(store, partial(known, daemon)), "status")

    assert set(status) == STATUS
    assert (status["ready"], status["since"], status["pid"]) == (
        True,
        "2026-05-04T12:00:00+00:00",
        7,
    )
    assert status["accounts"] == [
        {
            "platform": "telegram",
            "account": "main",
            "state": "receiving",
            "reason": None,
            "last_progress_at": "2026-05-04T12:00:00+00:00",
        }
    ]
    assert status["lanes"] == {"busy": 2, "waiting": 3}
    assert (status["store"]["ok"], status["store"]["reason"]) == (True, None)
    assert status["backup"] == {
        "folder": "/backups",
        "last_at": "2026-05-04T12:00:00+00:00",
        "reason": "no room",
    }


async def test_a_store_that_takes_no_writes_is_not_ready_and_says_why(store: Store) -> None:
    daemon = DaemonStatus(ready=False, pid=7, store=StoreStatus(reason="the disk is full"))

    _, status = await ask(status_requests(store, partial(known, daemon)), "status")

    found = status["store"]
    assert (status["ready"], found["ok"], found["reason"]) == (False, False, "the disk is full")


async def known(daemon: DaemonStatus) -> DaemonStatus:
    """What a daemon says of itself."""
    return daemon


async def test_a_message_that_is_being_answered_waits_until_it_is_settled(store: Store) -> None:
    await begin(store, message())

    _, status = await ask(status_requests(store), "status")

    assert status["inbox"] == {"waiting": 1, "dead": 0}
