"""
What the mark beside a database says of its log, after everything that may have happened to both.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from turngate.gateway.domain.errors import StoreDamaged
from turngate.gateway.stores.sqlite.log_index import LogEnd
from turngate.gateway.stores.sqlite.wal_mark import (
    Left,
    WalMark,
    identity,
    mark_of,
    refuse_lost_commits,
)

SALT = bytes.fromhex("ffffffff01020304")
NEXT_SALT = bytes.fromhex(
    "0000000055667788"
)  # one more, round the corner, and the other half is random


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """
    A database whose log had forty frames, ten of them in it already, when the mark was written.
    """
    path = tmp_path / "turngate.db"
    path.write_bytes(b"pages")
    mark = WalMark(mark_of(path))
    mark.note(Left(identity(path.stat()), LogEnd(SALT, 40, 10)))
    mark.close()
    return path


@pytest.mark.parametrize(
    "log",
    [
        pytest.param(LogEnd(SALT, 40, 10), id="as it was left"),
        pytest.param(LogEnd(SALT, 55, 10), id="a power cut took back the mark"),
        pytest.param(
            LogEnd(NEXT_SALT, 3, 0),
            id="a power cut took back the mark and the time of the last change",
        ),
    ],
)
def test_a_log_that_went_on_is_no_loss(database: Path, log: LogEnd) -> None:
    refuse_lost_commits(database, log)


@pytest.mark.parametrize(
    "log",
    [
        pytest.param(None, id="gone"),
        pytest.param(LogEnd(SALT, 39, 10), id="cut"),
        pytest.param(LogEnd(b"\0" * 8, 0, 0), id="emptied"),
        pytest.param(LogEnd(bytes.fromhex("7a81c29301020304"), 60, 0), id="another one"),
        pytest.param(LogEnd(bytes.fromhex("fffffffe01020304"), 60, 0), id="an older one"),
    ],
)
def test_a_log_that_lacks_what_was_committed_is_a_loss(database: Path, log: LogEnd | None) -> None:
    with pytest.raises(StoreDamaged, match="was cut, damaged or lost: of 40 pages"):
        refuse_lost_commits(database, log)


def test_a_mark_that_is_a_link_leaves_its_target_as_it_is(tmp_path: Path) -> None:
    """Finding R25."""
    precious = tmp_path / "precious"
    precious.write_text("do not lose this")
    mark_of(tmp_path / "turngate.db").symlink_to(precious)

    with pytest.raises(OSError, match="symbolic links"):
        WalMark(mark_of(tmp_path / "turngate.db"))

    assert precious.read_text() == "do not lose this"
