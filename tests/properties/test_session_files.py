"""Names and paths of files: whatever people and agents write, nothing leaves its folder."""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from turngate.gateway.domain.errors import Refused
from turngate.gateway.domain.ids import SessionId
from turngate.gateway.stores.safe_open import opened_inside
from turngate.gateway.stores.session_files import SessionFiles, clean_name

STEPS = st.sampled_from(
    ["..", ".", "", "work", "a", "link", "up", "secret", "/", "~", "\x00", "é", " "]
)
PATHS = st.one_of(st.lists(STEPS, max_size=8).map("/".join), st.text(max_size=40))


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """With links out of it; all that may be read inside says "inside"."""
    with TemporaryDirectory() as made:
        folder = Path(made).resolve() / "session"
        (folder / "work" / "a").mkdir(parents=True)
        (folder.parent / "secret").write_bytes(b"outside")
        (folder / "work" / "a" / "secret").write_bytes(b"inside")
        (folder / "work" / "link").symlink_to(folder.parent / "secret")
        (folder / "work" / "up").symlink_to(folder.parent)
        yield folder


@given(PATHS, st.booleans())
@example("a/secret", False)
@example("up/secret", False)
def test_whatever_is_named_only_what_is_inside_is_read(
    folder: Path, named: str, from_top: bool
) -> None:
    try:
        with opened_inside(
            folder, f"{folder}/{named}" if from_top else named, start="work"
        ) as descriptor:
            content = os.read(descriptor, 100)
    except Refused:
        return

    assert content == b"inside"


@given(st.text(max_size=400))
@example("a/\u2215..\\b")
def test_a_clean_name_is_one_visible_name_of_bounded_length_and_stays_itself(text: str) -> None:
    name = clean_name(text)

    assert 1 <= len(name) <= 128
    assert not {"/", "\\", "\x00", "\n"} & set(name)
    assert name not in (".", "..")
    assert all(unicodedata.category(char) not in ("Cc", "Cf", "Cs") for char in name)
    assert clean_name(name) == name


@given(st.text(min_size=1, max_size=20), st.text(min_size=1, max_size=20))
def test_two_sessions_never_share_a_folder_and_each_is_found_again(one: str, two: str) -> None:
    files = SessionFiles(Path("/files"))
    folders = {files._folder(SessionId(each)) for each in (one, two)}

    assert len(folders) == len({one, two})
    assert all(
        folder.parent == Path("/files") and folder.name not in (".", "..") for folder in folders
    )
