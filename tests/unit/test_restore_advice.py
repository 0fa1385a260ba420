"""The command that restores a database, to be run as it is printed."""

from __future__ import annotations

from pathlib import Path

from turngate.gateway.stores.sqlite.restore_advice import cure_of, restore_command


def test_the_newest_backup_of_the_schedule_is_named(tmp_path: Path) -> None:
    backups = tmp_path / "backups"
    backups.mkdir()
    for name in (
        "turngate-20260102T000000Z.db",
        "turngate-20251231T235959Z.db",
        "turngate-99.db",
        "zz.db",
    ):
        (backups / name).touch()

    command = restore_command(tmp_path / "turngate.db")

    assert (
        command == f"turngate restore --state-dir {tmp_path} {backups}/turngate-20260102T000000Z.db"
    )
    assert cure_of(tmp_path / "turngate.db").endswith(f"Stop Turngate, then run: {command}")
    assert cure_of(tmp_path / "state" / "turngate.db", tmp_path / "backups").endswith(
        command.split()[-1]
    )


def test_a_folder_with_a_space_is_quoted_for_the_shell(tmp_path: Path) -> None:
    assert restore_command(tmp_path / "my state" / "turngate.db").endswith(
        f"'{tmp_path}/my state' FILE"
    )


def test_where_there_is_no_backup_that_is_said(tmp_path: Path) -> None:
    assert "there is no scheduled backup; FILE is one that you have made" in cure_of(
        tmp_path / "turngate.db"
    )
