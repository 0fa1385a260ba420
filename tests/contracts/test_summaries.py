"""
What every store promises about summaries: they count only if nothing has happened to what they
stand for.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from tests.fakes import message, said, user
from tests.talk import begin, exchange, key_of, opening
from turngate.gateway.domain.errors import UnknownSession
from turngate.gateway.domain.ids import EntryId
from turngate.gateway.domain.ports.store import Store
from turngate.gateway.domain.session import Session
from turngate.gateway.domain.store_values import Claim
from turngate.gateway.domain.transcript import (
    Entry,
    Origin,
    Role,
    Text,
)

SUMMARY = said(Role.USER, "it was about fish", origin=Origin.SUMMARY)


async def talked(store: Store, *questions: str) -> tuple[Session, tuple[Entry, ...]]:
    """A conversation, and all that it holds."""
    for number, question in enumerate(questions):
        session = await exchange(
            store, question, id=f"{question}{number}", answer=f"about {question}"
        )
    return session, (await store.transcript(session.id)).entries


async def shown(store: Store, id: str = "next") -> list[str]:  # noqa: A002
    """What the next turn is shown of the past."""
    return [entry.text for entry in (await begin(store, message(id=id))).history]


async def test_a_summary_stands_before_what_came_after_it(store: Store) -> None:
    session, entries = await talked(store, "cod", "eel")

    assert await store.summarise(session.id, SUMMARY, entries[:2], mark=0)
    assert await shown(store) == ["it was about fish", "eel", "about eel"]


async def test_what_it_stands_for_stays_to_be_read_and_searched(store: Store) -> None:
    session, entries = await talked(store, "cod", "eel")
    await store.summarise(session.id, SUMMARY, entries[:2], mark=0)

    texts = [entry.text for entry in (await store.transcript(session.id)).entries]
    assert texts == ["cod", "about cod", "eel", "about eel", "it was about fish"]
    assert [hit.entry.text for hit in await store.search("cod")] == ["about cod", "cod"]


async def test_a_newer_summary_takes_the_place_of_the_older(store: Store) -> None:
    session, entries = await talked(store, "cod", "eel", "ray")
    await store.summarise(session.id, SUMMARY, entries[:2], mark=0)
    newer = said(Role.USER, "cod and eel", origin=Origin.SUMMARY)

    assert await store.summarise(session.id, newer, entries[2:4], mark=entries[1].seq)
    assert await shown(store) == ["cod and eel", "ray", "about ray"]


async def edited(store: Store, session: Session, entry: Entry) -> None:
    await store.edit_entry(session.id, entry.id, (Text("nothing"),))


async def deleted(store: Store, session: Session, entry: Entry) -> None:
    await store.delete_entry(session.id, entry.id)


async def truncated(store: Store, session: Session, entry: Entry) -> None:
    await store.truncate(session.id, 1)


async def summarised(store: Store, session: Session, entry: Entry) -> None:
    assert await store.summarise(
        session.id, said(Role.USER, "quicker", origin=Origin.SUMMARY), [entry], mark=0
    )


@pytest.mark.parametrize("happened", [edited, deleted, truncated, summarised])
async def test_a_summary_of_what_has_changed_meanwhile_changes_nothing(
    store: Store, happened: Callable[[Store, Session, Entry], Awaitable[None]]
) -> None:
    session, entries = await talked(store, "cod", "eel")
    await happened(store, session, entries[0])
    before = await store.session(session.id), (await store.transcript(session.id)).entries

    assert not await store.summarise(session.id, SUMMARY, entries[:2], mark=0)
    assert (await store.session(session.id), (await store.transcript(session.id)).entries) == before


async def test_a_summary_of_nothing_changes_nothing(store: Store) -> None:
    session, _ = await talked(store, "cod")

    assert not await store.summarise(session.id, SUMMARY, (), mark=0)
    assert await shown(store) == ["cod", "about cod"]


async def test_a_late_summary_brings_no_deleted_session_back(store: Store) -> None:
    session, entries = await talked(store, "cod", "eel")
    await store.delete(session.id)

    with pytest.raises(UnknownSession):
        await store.summarise(session.id, SUMMARY, entries[:2], mark=0)
    assert await store.sessions() == []


async def test_what_is_said_meanwhile_is_kept(store: Store) -> None:
    session, entries = await talked(store, "cod", "eel")
    await exchange(store, "ray", id="9", answer="about ray")

    assert await store.summarise(session.id, SUMMARY, entries[:2], mark=0)
    assert await shown(store) == ["it was about fish", "eel", "about eel", "ray", "about ray"]


async def test_a_session_that_was_left_can_be_summarised_and_resumed(store: Store) -> None:
    session, entries = await talked(store, "cod", "eel")
    await store.reset(key_of())

    assert await store.summarise(session.id, SUMMARY, entries[:2], mark=0)
    await store.switch(key_of(), session.id)
    assert await shown(store) == ["it was about fish", "eel", "about eel"]


async def test_taking_back_what_came_after_it_spares_the_summary(store: Store) -> None:
    session, entries = await talked(store, "cod", "eel", "ray")
    await store.summarise(session.id, SUMMARY, entries[:2], mark=0)

    assert await store.truncate(session.id, 4) == 5
    assert (await store.session(session.id)).messages == 5
    assert await shown(store) == ["it was about fish", "eel", "about eel"]


async def test_taking_back_what_it_stands_for_takes_the_summary_too(store: Store) -> None:
    session, entries = await talked(store, "cod", "eel", "ray")
    await store.summarise(session.id, SUMMARY, entries[:4], mark=0)

    assert await store.truncate(session.id, 2) == 2
    assert await shown(store) == ["cod", "about cod"]


async def test_asking_the_last_thing_again_spares_the_summary(store: Store) -> None:
    session, entries = await talked(store, "cod", "eel")
    await store.summarise(session.id, SUMMARY, entries[:2], mark=0)
    accepted = await store.accept(message(id="again"), key_of())
    claim = Claim(
        inbox=(accepted.id,),
        opening=opening(),
        entries=(user("eel"),),
        history=50,
        replacing=EntryId(entries[2].id),
    )

    assert [entry.text for entry in (await store.begin(claim)).history] == ["it was about fish"]
    assert (await store.session(session.id)).consolidated_through == entries[1].seq
