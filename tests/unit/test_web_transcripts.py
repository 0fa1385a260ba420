"""Which entries a page of the chat must be shown next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tests.fakes import said
from turngate.gateway.domain.ids import EntryId, SessionId
from turngate.gateway.domain.transcript import (
    Entry,
    Role,
    Text,
)
from turngate.gateway.web.transcript_cursor import (
    CHARACTERS_A_PAGE,
    ENTRIES_A_PAGE,
    Seen,
    _last_page,
)

SESSION = SessionId("s")


def entries(*numbers: int) -> list[Entry]:
    return [replace(said(Role.USER, f"text {n}"), seq=n, id=EntryId(f"e{n}")) for n in numbers]


def numbers(found: Sequence[Entry] | None) -> list[int] | None:
    return None if found is None else [entry.seq for entry in found]


def test_what_was_added_is_new() -> None:
    assert numbers(Seen.of(SESSION, entries(1, 2)).added(entries(1, 2, 3, 4))) == [3, 4]


def test_nothing_is_new_when_nothing_was_added() -> None:
    assert numbers(Seen.of(SESSION, entries(1, 2)).added(entries(1, 2))) == []


def test_everything_is_new_to_an_empty_page() -> None:
    assert numbers(Seen.of(SESSION, []).added(entries(1, 2))) == [1, 2]


def test_the_window_may_move_on() -> None:
    assert numbers(Seen.of(SESSION, entries(1, 2, 3)).added(entries(2, 3, 4))) == [4]


def test_an_entry_that_was_taken_back_means_starting_anew() -> None:
    seen = Seen.of(SESSION, entries(1, 2, 3))

    assert seen.added(entries(1, 2)) is None
    assert seen.added(entries(1, 3)) is None
    assert seen.added(entries(1, 2, 4)) is None
    assert seen.added([]) is None


def test_an_entry_that_says_something_else_means_starting_anew() -> None:
    one, two = entries(1, 2)

    assert Seen.of(SESSION, [one, two]).added([replace(one, content=(Text("other"),)), two]) is None


def test_what_was_sent_has_been_seen() -> None:
    seen = Seen.of(SESSION, entries(1)).grown(entries(2, 3))

    assert numbers(seen.added(entries(1, 2, 3, 4))) == [4]


def test_a_page_remembers_no_more_than_a_page() -> None:
    seen = Seen.of(SESSION, entries(*range(1000))).grown(entries(*range(1000, 1500)))

    assert len(seen.marks) == ENTRIES_A_PAGE


def test_a_page_says_whether_there_is_more_before_it() -> None:
    page, earlier = _last_page(entries(*range(ENTRIES_A_PAGE)))
    assert (len(page), earlier) == (ENTRIES_A_PAGE, "none")

    page, earlier = _last_page(entries(*range(ENTRIES_A_PAGE + 1)))
    assert (len(page), page[0].seq, earlier) == (ENTRIES_A_PAGE, 1, "more")


def test_a_page_is_never_empty_and_never_too_large() -> None:
    huge = [
        said(Role.USER, "x" * CHARACTERS_A_PAGE),
        said(Role.USER, "y"),
        said(Role.USER, "z" * (CHARACTERS_A_PAGE + 1)),
    ]

    assert _last_page(huge) == (huge[2:], "more")
    assert _last_page(huge[:2]) == (huge[1:2], "more")
