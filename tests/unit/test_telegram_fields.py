"""Fields of Telegram's JSON: of the right type, or as if they were not there."""

from __future__ import annotations

from typing import Any

import pytest

from turngate.adapters.telegram.fields import flag, number, text, thing, things


@pytest.mark.parametrize("raw", [None, 7, "words", [], [{}], True, {}, {"a": None}, {"a": 1.5}])
def test_what_is_not_as_it_should_be_is_not_there(raw: Any) -> None:
    """Finding H2: an answer of another form is no bug of ours, and costs nobody the account."""
    assert (text(raw, "a"), number(raw, "a"), flag(raw, "a")) == ("", None, False)
    assert (thing(raw, "a"), things(raw, "a")) == ({}, [])


def test_what_is_as_it_should_be_is_taken() -> None:
    raw = {"t": "half \ud800", "n": 7, "f": True, "o": {"x": 1}, "l": [{"x": 2}, 3]}

    assert (text(raw, "t"), number(raw, "n"), flag(raw, "f")) == ("half ?", 7, True)
    assert (thing(raw, "o"), things(raw, "l")) == ({"x": 1}, [{"x": 2}])
    assert number(raw, "f") is None
