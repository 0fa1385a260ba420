"""
systemd units: the templates in `gateway/daemon/units` with the paths and times of this
installation.

Only lines that differ between machines are changed, so the templates show what runs.
"""

import re
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from pathlib import Path

from turngate.gateway.domain.errors import Refused

SYSTEM_FOLDER = Path("/etc/systemd/system")
AGENTS = "agents.conf"
STRICT = "TURNGATE_UNIT=strict"

# Closing takes up to five seconds after the drain; systemd must not kill the daemon before that.
_CLOSE_TIME = timedelta(seconds=10)
# ProtectHome= hides the first three, PrivateTmp= the others. `hidden` depends on this order.
_HIDDEN = ("/home", "/root", "/run/user", "/tmp", "/var/tmp")  # noqa: S108 - paths to compare with
_UNITS_FOLDER = Path(__file__).parents[1] / "daemon" / "units"
_CREDENTIALS = re.compile(r"^#LoadCredential=.*\n", re.MULTILINE)
_WRITTEN_BY = (
    "# Written by `turngate service install`; local changes belong into a drop-in "
    "(systemctl edit).\n"
)


class Flavour(StrEnum):
    """Kind of unit, by its template file."""

    SYSTEM = "turngate.service"
    INSTANCES = "turngate@.service"
    USER = "user.service"

    @property
    def file_name(self) -> str:
        """The unit's file name for systemd."""
        return Flavour.SYSTEM.value if self is Flavour.USER else self.value


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """
    One unit of this machine. Without `state_dir`, systemd creates a state folder for it.

    `run_as`: the user whose logins program agents use; None if there are no such agents.
    `credentials`: names of secrets in the config, and the files that hold them.
    """

    flavour: Flavour
    drain: timedelta
    config: Path | None = None
    state_dir: Path | None = None
    run_as: str | None = None
    credentials: Mapping[str, Path] = field(default_factory=dict)

    def text(self) -> str:
        """Return the unit file."""
        changes = {
            "ExecStart": f"{_program()} run{self._options()}",
            "ExecReload": f"{shutil.which('kill') or '/bin/kill'} -HUP $MAINPID",
            "TimeoutStopSec": str(round((self.drain + _CLOSE_TIME).total_seconds())),
        }
        text = _CREDENTIALS.sub(self._load_credentials, _changed(self.flavour.value, changes))
        if self.state_dir is None or self.flavour is Flavour.USER:
            return text
        # ProtectSystem=strict makes this folder read-only; only one that systemd creates is exempt.
        return text.replace("\nUMask=", f"\nReadWritePaths={_quoted(str(self.state_dir))}\nUMask=")

    def drop_in(self) -> str | None:
        """Return the drop-in that program agents need, if any."""
        return None if self.run_as is None else _changed(AGENTS, {"User": self.run_as})

    def hidden(self, python: Path = Path(sys.executable)) -> list[Path]:
        """Return the needed paths that the unit's sandbox hides."""
        if self.flavour is Flavour.USER:
            return []
        # The drop-in for program agents turns ProtectHome= off; /tmp stays private.
        hiding = _HIDDEN if self.run_as is None else _HIDDEN[3:]
        # A virtual environment links to a Python that may be in a home folder; so may the package.
        program = (python, python.resolve(), _UNITS_FOLDER.resolve().parent)
        needed = dict.fromkeys(filter(None, (*program, self.config, self.state_dir)))
        return [path for path in needed if any(path.is_relative_to(folder) for folder in hiding)]

    def _options(self) -> str:
        config, state_dir = (
            _quoted(str(path)) if path else None for path in (self.config, self.state_dir)
        )
        # %i is the instance name, expanded by systemd, so it must not go through `_quoted`.
        if self.flavour is Flavour.INSTANCES:
            config = "/etc/turngate/%i.yaml"
            state_dir = f"{state_dir}/%i" if state_dir else None
        options = (("--config", config), ("--state-dir", state_dir))
        return "".join(f" {name} {value}" for name, value in options if value)

    def _load_credentials(self, example: re.Match[str]) -> str:
        """Replace the template's example, if there are credentials."""
        lines = [
            f"LoadCredential={name}:{str(path).replace('%', '%%')}\n"
            for name, path in self.credentials.items()
        ]
        return "".join(lines) or example[0]


def install(unit: Unit, folder: Path) -> list[Path]:
    """
    Write the unit and return the written files. Raises Refused if a file of another origin is in
    the way.
    """
    path = folder / unit.flavour.file_name
    drop_in = _drop_in_path(path)
    extra = unit.drop_in()

    # Check both before the first write, or a refusal would leave half an installation.
    for each in (path, drop_in):
        if not _is_ours(each):
            raise Refused(
                f"{each} was not written by `turngate service install`; move it away first"
            )

    _write(path, unit.text())
    # A drop-in of an earlier installation would loosen the sandbox.
    if extra is None:
        drop_in.unlink(missing_ok=True)
        return [path]

    _write(drop_in, extra)
    return [path, drop_in]


def uninstall(flavour: Flavour, folder: Path) -> list[Path]:
    """
    Remove what `install` wrote, and the links of `systemctl enable`. Returns the removed files.
    """
    path = folder / flavour.file_name
    drop_in = _drop_in_path(path)
    removed = [each for each in (path, drop_in) if each.exists() and _is_ours(each)]

    if path in removed:
        # An enabled template has one link per instance: turngate@NAME.service.
        removed += folder.glob(f"*.wants/{path.name.replace('@', '@*')}")

    for each in removed:
        each.unlink()

    if drop_in.parent.is_dir() and not any(drop_in.parent.iterdir()):
        drop_in.parent.rmdir()

    return removed


def is_strict(config: Path, folder: Path = SYSTEM_FOLDER) -> bool:
    """Whether a strict unit is installed for this config."""
    path = folder / Flavour.SYSTEM.file_name
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return False
    names_config = any(
        line.startswith("ExecStart=") and _quoted(str(config)) in line for line in lines
    )
    # The drop-in loosens the sandbox, so with it the unit is not strict.
    return names_config and not _drop_in_path(path).exists()


def _drop_in_path(unit: Path) -> Path:
    return unit.with_name(f"{unit.name}.d") / AGENTS


def _is_ours(path: Path) -> bool:
    """Whether the file is ours or does not exist."""
    return not path.exists() or path.read_text().startswith(_WRITTEN_BY)


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(_WRITTEN_BY + text)
    except OSError as exc:
        raise Refused(f"{path} cannot be written ({exc.strerror}); use sudo, or --user") from exc


def _changed(name: str, changes: dict[str, str]) -> str:
    lines = (_UNITS_FOLDER / name).read_text().splitlines()
    return "".join(f"{_line(line, changes)}\n" for line in lines)


def _line(line: str, changes: dict[str, str]) -> str:
    key, is_setting, _ = line.partition("=")
    return f"{key}={changes[key]}" if is_setting and key in changes else line


def _program() -> str:
    """Return the command beside this Python, or the package if there is none."""
    command = Path(sys.executable).with_name("turngate")
    return _quoted(str(command)) if command.exists() else f"{_quoted(sys.executable)} -m turngate"


def _quoted(path: str) -> str:
    """Quote a path for systemd: `%` and `$` are special, and blanks separate words."""
    escaped = path.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return f'"{escaped}"' if re.search(r"[\s\"'\\]", path) else escaped
