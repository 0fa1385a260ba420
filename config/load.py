"""Find the config file and load it. The environment is read in this module only."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import get_args

from turngate.config.document import Document, dotted
from turngate.config.fields import is_zone
from turngate.config.problems import (
    Position,
    Problem,
    config_error,
    located,
    one_of,
    quoted,
)
from turngate.config.schema import (
    DEFAULT_STATE_DIR,
    Config,
    LogLevel,
)
from turngate.config.secrets import Environment, credentials_in
from turngate.config.unsupported import NOT_BUILT_YET
from turngate.config.validate import validate
from turngate.config.warnings import find_warnings, has_literal_secret
from turngate.config.yaml_reader import LARGEST_FILE, read_yaml
from turngate.gateway.domain.errors import ConfigError

_FILE_NAME = "turngate.yaml"
_FOR_EVERY_PROGRAM = ("PATH", "HOME", "LANG", "TZ")


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """
    The effective config and the file it came from (None: the defaults).

    `agents` are the positions of the agents in the file, `credentials` the names of the systemd
    credentials it refers to.
    """

    config: Config
    file: Path | None
    agents: Mapping[str, Position] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    credentials: tuple[str, ...] = ()

    def located(self, error: ConfigError) -> ConfigError:
        """
        Add the position in the file to an error that only shows when an agent is made. Such an
        error begins with the agent's key.
        """
        text = str(error)
        position = self.agents.get(text.partition(":")[0])
        return (
            error
            if position is None
            else ConfigError(located(str(self.file), Problem(position, text)), words=error.words)
        )


def load(
    file: Path | None = None,
    state_dir: Path | None = None,
    *,
    environment: Mapping[str, str] | None = None,
    not_built: Iterable[str] = NOT_BUILT_YET,
    secrets: bool = True,
) -> Loaded:
    """
    Load the config of this installation. Without a file the defaults are in effect.

    `secrets=False` looks none up: for commands that need none, where only the service can read
    them. Raises ConfigError with every problem as `file:line:column: what is wrong; what to do`.
    """
    env = dict(os.environ) if environment is None else environment
    found, content = _find(file, env)
    folder = found.parent if found else Path()
    context = Environment(
        environment=env, folder=folder, zone=host_zone(env), without_secrets=not secrets
    )

    document = read_yaml(content)
    config = validate(document, context, not_built)
    if not isinstance(config, Config):
        raise config_error(str(found), config)

    return Loaded(
        config=_with_overrides(config, document, context, state_dir),
        file=found,
        agents={
            dotted(path): position
            for path, position in document.values.items()
            if path[:1] == ("agents",)
        },
        warnings=(
            *(located(str(found), warning) for warning in find_warnings(document)),
            *_mode_warnings(found, document),
            *_unit_warnings(config, env),
        ),
        credentials=tuple(dict.fromkeys(credentials_in(document.data))),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """
    What a service manager passes to a service: its notify socket, the watchdog's timeout, and the
    device and inode of its journal.
    """

    notify_socket: str | None = None
    watchdog: timedelta | None = None
    journal: str | None = None


def service(environment: Mapping[str, str] | None = None, *, pid: int | None = None) -> Service:
    """
    Read what the service manager passed. All fields are None if there is none.
    """
    env = os.environ if environment is None else environment
    # The watchdog may be meant for another process: the variables are inherited.
    is_watched = env.get("WATCHDOG_PID", str(pid or os.getpid())) == str(pid or os.getpid())
    limit = env.get("WATCHDOG_USEC", "")

    return Service(
        notify_socket=env.get("NOTIFY_SOCKET") or None,
        watchdog=timedelta(microseconds=int(limit)) if limit.isdigit() and is_watched else None,
        journal=env.get("JOURNAL_STREAM") or None,
    )


def wants_colours(environment: Mapping[str, str] | None = None) -> bool:
    """Whether the terminal shows colours and the user wants them (https://no-color.org)."""
    env = os.environ if environment is None else environment
    return not env.get("NO_COLOR") and env.get("TERM", "dumb") != "dumb"


def program_environment() -> dict[str, str]:
    """The variables that every program of an agent gets, whatever its config says."""
    return {name: os.environ[name] for name in _FOR_EVERY_PROGRAM if name in os.environ}


def config_home(environment: Mapping[str, str] | None = None) -> Path:
    """The folder of the user's configs. Raises ConfigError without a home folder."""
    env = os.environ if environment is None else environment
    if env.get("XDG_CONFIG_HOME"):
        return Path(env["XDG_CONFIG_HOME"])
    if env.get("HOME"):
        return Path(env["HOME"], ".config")
    raise ConfigError("$HOME is not set, so the folder of your units is unknown; pass --into")


def strict_unit_warnings(config: Config) -> tuple[str, ...]:
    """Warn of agents that the strict systemd unit may keep from working."""
    cure = "`turngate service install --run-as USER` adds what it needs"
    return tuple(
        f"warning: agents.{name}: under the strict unit, where many programs cannot run or find "
        f"their logins; {cure}"
        for name in config.programs()
    )


def candidates(env: Mapping[str, str]) -> Iterator[Path]:
    """The paths that are tried, in this order, if no file is named."""
    yield Path(_FILE_NAME)
    if env.get("XDG_CONFIG_HOME"):
        yield Path(env["XDG_CONFIG_HOME"], "turngate", _FILE_NAME)
    elif env.get("HOME"):
        yield Path(env["HOME"], ".config", "turngate", _FILE_NAME)
    yield Path("/etc/turngate", _FILE_NAME)


def _find(file: Path | None, env: Mapping[str, str]) -> tuple[Path | None, bytes]:
    named = file or (Path(env["TURNGATE_CONFIG"]) if env.get("TURNGATE_CONFIG") else None)
    if named:
        content = _read(named)
        if content is None:
            asked_by = "--config" if file else "$TURNGATE_CONFIG"
            raise ConfigError(f"{named}: there is no such file; correct {asked_by}")
        return named, content

    for path in candidates(env):
        content = _read(path)
        if content is not None:
            return path, content
    return None, b""


def _read(path: Path) -> bytes | None:
    try:
        with path.open("rb") as file:
            # One byte more than allowed is enough to see that the file is too large.
            return file.read(LARGEST_FILE + 1)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as exc:
        reason = exc.strerror if isinstance(exc, OSError) else "not a path"
        raise ConfigError(
            f"{path}: cannot be read ({reason}); check the path and its permissions"
        ) from None


def _with_overrides(
    config: Config, document: Document, context: Environment, state_dir: Path | None
) -> Config:
    """Apply the command line and the environment, which win over the file."""
    env = context.environment
    folder = state_dir or _systemd_folder(env)
    if folder is None and "state_dir" in document.data:
        folder = config.state_dir

    level = env.get("TURNGATE_LOG_LEVEL") or config.log.level
    if level not in get_args(LogLevel):
        cure = one_of(level, get_args(LogLevel), instead="write one of")
        raise ConfigError(f"$TURNGATE_LOG_LEVEL: {quoted(level)} is not a level; {cure}")

    update = {
        "state_dir": folder or _default_state_dir(context),
        "log": config.log.model_copy(update={"level": level}),
    }
    return config.model_copy(update=update)


def _mode_warnings(file: Path | None, document: Document) -> tuple[str, ...]:
    """Return a warning if others can read a file that holds secrets."""
    if file is None or not has_literal_secret(document):
        return ()
    mode = stat.S_IMODE(file.stat().st_mode)
    if not mode & (stat.S_IRGRP | stat.S_IROTH):
        return ()
    return (
        f"{file}: warning: other users can read the secrets in this file (mode {mode:04o}); "
        f"run: chmod 600 {file}",
    )


def _unit_warnings(config: Config, env: Mapping[str, str]) -> tuple[str, ...]:
    return strict_unit_warnings(config) if env.get("TURNGATE_UNIT") == "strict" else ()


def _systemd_folder(env: Mapping[str, str]) -> Path | None:
    # A unit with several state folders has them separated by colons.
    first = env.get("STATE_DIRECTORY", "").partition(":")[0]
    return Path(first) if first else None


def _default_state_dir(context: Environment) -> Path:
    try:
        return context.path(str(DEFAULT_STATE_DIR))
    except ValueError:
        raise ConfigError(
            "state_dir: $HOME is not set, so there is no default; pass --state-dir"
        ) from None


def host_zone(env: Mapping[str, str], etc: Path = Path("/etc")) -> str:
    """
    The name of the host's time zone, which the reset rules need; UTC if it cannot be found.
    """
    # `localtime` is a link to the zone of that name. In many images it is a copy without a name;
    # Debian then has the name in `timezone`.
    names = [env.get("TZ", "").removeprefix(":"), str((etc / "localtime").resolve())]
    with suppress(OSError, UnicodeDecodeError):
        names.append((etc / "timezone").read_text().strip())

    bare = (name.rpartition("zoneinfo/")[2] for name in names)
    return next((name for name in bare if name and is_zone(name)), "UTC")
