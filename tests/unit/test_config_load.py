"""Where the file is found, and what counts more than it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from turngate.config.load import (
    candidates,
    host_zone,
    load,
)
from turngate.config.schema import Config
from turngate.gateway.domain.errors import ConfigError


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder, and an empty folder to stand in."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path


def write(file: Path, text: str = "turns: {concurrent: 7}\n") -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


def test_no_file_at_all_means_the_defaults(home: Path) -> None:
    loaded = load(environment={"HOME": str(home), "TZ": "Asia/Tokyo"})

    assert loaded.file is None
    assert loaded.config == Config(timezone="Asia/Tokyo", state_dir=home / ".local/state/turngate")


def test_the_places_are_looked_at_in_order(home: Path) -> None:
    assert [str(path) for path in candidates({"XDG_CONFIG_HOME": "/x", "HOME": "/h"})] == [
        "turngate.yaml",
        "/x/turngate/turngate.yaml",
        "/etc/turngate/turngate.yaml",
    ]
    assert Path("/h/.config/turngate/turngate.yaml") in candidates({"HOME": "/h"})


def test_the_nearer_file_wins(home: Path) -> None:
    env = {"HOME": str(home)}
    in_home = write(home / ".config/turngate/turngate.yaml")
    assert load(environment=env).file == in_home
    write(home / "here/turngate.yaml")
    assert load(environment=env).file == Path("turngate.yaml")
    named = write(home / "named.yaml")
    assert load(environment=env | {"TURNGATE_CONFIG": str(named)}).file == named
    asked = write(home / "asked.yaml")
    assert load(asked, environment=env | {"TURNGATE_CONFIG": str(named)}).file == asked


def test_a_file_that_was_asked_for_must_exist(home: Path) -> None:
    with pytest.raises(ConfigError, match=r"^x\.yaml: there is no such file; correct --config$"):
        load(Path("x.yaml"), environment={"HOME": str(home)})
    with pytest.raises(
        ConfigError, match=r"^y\.yaml: there is no such file; correct \$TURNGATE_CONFIG$"
    ):
        load(environment={"HOME": str(home), "TURNGATE_CONFIG": "y.yaml"})


def test_a_folder_is_no_file(home: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot be read \(Is a directory\); check the path"):
        load(home, environment={"HOME": str(home)})


def test_a_path_that_cannot_be_one_is_refused(home: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        load(Path("a\0b"), environment={"HOME": str(home)})


def test_an_endless_file_is_not_read_to_its_end(home: Path) -> None:
    with pytest.raises(ConfigError, match=r"^/dev/zero:1:1: the file is larger than 1 MiB"):
        load(Path("/dev/zero"), environment={"HOME": str(home)})


@pytest.mark.parametrize(
    ("option", "systemd", "written", "folder"),
    [
        ("/option", "/systemd", "/written", "/option"),
        (None, "/systemd:/second", "/written", "/systemd"),
        (None, "", "/written", "/written"),
        (None, None, None, "/home/ann/.local/state/turngate"),
    ],
)
def test_the_state_folder_is_the_option_s_else_systemd_s_else_the_file_s(
    home: Path, option: str | None, systemd: str | None, written: str | None, folder: str
) -> None:
    env = {"HOME": "/home/ann"} | ({} if systemd is None else {"STATE_DIRECTORY": systemd})
    file = write(home / "a.yaml", f"state_dir: {written}" if written else "")

    loaded = load(file, Path(option) if option else None, environment=env)

    assert loaded.config.state_dir == Path(folder)


def test_without_a_home_the_state_folder_must_be_named(home: Path) -> None:
    with pytest.raises(
        ConfigError,
        match=r"^state_dir: \$HOME is not set, so there is no default; pass --state-dir$",
    ):
        load(environment={})
    assert load(None, home, environment={}).config.state_dir == home


def test_the_environment_s_log_level_counts_more(home: Path) -> None:
    file = write(home / "a.yaml", "log: {level: error}")

    assert load(file, home, environment={}).config.log.level == "error"
    assert load(file, home, environment={"TURNGATE_LOG_LEVEL": "debug"}).config.log.level == "debug"
    with pytest.raises(
        ConfigError, match=r'^\$TURNGATE_LOG_LEVEL: "debgu" is not a level; did you mean debug\?$'
    ):
        load(file, home, environment={"TURNGATE_LOG_LEVEL": "debgu"})


def test_the_host_s_zone_is_what_the_environment_or_a_link_or_a_note_says(tmp_path: Path) -> None:
    assert host_zone({}, tmp_path) == "UTC"
    (tmp_path / "timezone").write_text("Asia/Tokyo\n")
    assert host_zone({}, tmp_path) == "Asia/Tokyo"
    (tmp_path / "localtime").write_bytes(b"TZif: a copy knows no name")
    assert host_zone({}, tmp_path) == "Asia/Tokyo"
    (tmp_path / "localtime").unlink()
    (tmp_path / "localtime").symlink_to("/usr/share/zoneinfo/Europe/Berlin")
    assert host_zone({}, tmp_path) == "Europe/Berlin"
    assert (
        host_zone({"TZ": ":/usr/share/zoneinfo/America/New_York"}, tmp_path) == "America/New_York"
    )


@pytest.mark.parametrize(
    "zone", ["", ":Asia/Tokyo", "CET-1CEST,M3.5.0,M10.5.0/3", "../../etc/passwd"]
)
def test_the_host_s_zone_has_a_name(home: Path, zone: str) -> None:
    config = load(None, home, environment={"TZ": zone}).config

    assert config.reset_policies().default.zone == config.timezone
    assert config.timezone == "Asia/Tokyo" or "Tokyo" not in zone


def test_the_real_environment_is_the_default(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = write(home / "a.yaml")
    monkeypatch.setitem(os.environ, "TURNGATE_CONFIG", str(file))

    assert load().file == file
    assert load().config.turns.concurrent == 7
