"""Labels that somebody else wrote, made safe to stand in a line of ours."""

from __future__ import annotations

import pytest

from turngate.gateway.domain.text import (
    LONGEST_LABEL,
    clean_label,
    cut,
    folded,
)


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("Plans", "Plans"),
        ("  Plans \n\t for\r\nMay ", "Plans for May"),
        ("a\x00b\x1b[31mc\x07", "ab[31mc"),
        ("a\u202eb\u2066c\u200bd\ufeff", "abcd"),
        ("x\ufe0fy\u034fz\U000e0041", "xyz"),
        ("\ud800x", "x"),
        ("\u3164\u115f", ""),
        ("a\u2028b\u00a0c", "a b c"),
        ("Größe 王 🎉", "Größe 王 🎉"),
    ],
)
def test_a_label_is_one_line_of_what_can_be_seen(written: str, shown: str) -> None:
    assert folded(written) == clean_label(written) == shown


def test_a_long_label_is_cut_with_an_ellipsis() -> None:
    assert clean_label("x" * 1000) == "x" * (LONGEST_LABEL - 1) + "…"
    assert cut("one two", 5) == "one…"
    assert cut("12345", 5) == "12345"
