"""Finds the config file and makes a Config of it. The only place where the environment is read."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import get_args

from turngate.config.document import Document, dotted
from turngate.config.fields import is_zone
from turngate.config.problems import Place, Problem, located, one_of, quoted, refusal
from turngate.config.schema import DEFAULT_STATE_DIR, Config, LogLevel
from turngate.config.secrets import Environment, credentials_in
from turngate.config.unsupported import NOT_BUILT_YET
from turngate.config.validate import validate
from turngate.config.warnings import find_doubts
from turngate.config.yaml_reader import LARGEST_FILE, read_yaml
from turngate.gateway.domain.errors import ConfigError

_FILE_NAME = "turngate.yaml"
_FOR_EVERY_PROGRAM = ("PATH", "HOME", "LANG", "TZ")


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """The effective config, the file it came from (none: the defaults), where agents stand in it, and warnings."""

    config: Config
    file: Path | None
    agents: Mapping[str, Place] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    credentials: tuple[str, ...] = ()
    """The names of those that a service manager has to hand over."""

    def located(self, error: ConfigError) -> ConfigError:
        """What only shows when an agent is made, with its place in the file. Such an error begins with its key."""
        text = str(error)
        place = self.agents.get(text.partition(":")[0])
        return (
            error
            if place is None
            else ConfigError(located(str(self.file), Problem(place, text)), words=error.words)
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
    The config of this installation. No file at all is fine: the defaults work.

    Without `secrets` they are not looked up: for commands that need none, where only the service can read them.
    Raises ConfigError with every mistake as `file:line:column: what is wrong; what to do`.
    """
    env = dict(os.environ) if environment is None else environment
    found, content = _find(file, env)
    folder = found.parent if found else Path()
    surroundings = Environment(
        environment=env, folder=folder, zone=host_zone(env), keeps_secrets=not secrets
    )
    document = read_yaml(content)
    config = validate(document, surroundings, not_built)
    if not isinstance(config, Config):
        raise refusal(str(found), config)
    return Loaded(
        config=_with_overrides(config, document, surroundings, state_dir),
        file=found,
        agents={
            dotted(path): place
            for path, place in document.values.items()
            if path[:1] == ("agents",)
        },
        warnings=(
            *(located(str(found), doubt) for doubt in find_doubts(document)),
            *_doubts_of_unit(config, env),
        ),
        credentials=tuple(dict.fromkeys(credentials_in(document.data))),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """
    What a service manager tells those it starts: where it listens, after which silence it takes us for dead, and by
    which device and inode to know its journal.
    """

    notify_socket: str | None = None
    watchdog: timedelta | None = None
    journal: str | None = None


def service(environment: Mapping[str, str] | None = None, *, pid: int | None = None) -> Service:
    """Nothing in it if nobody started us as a service. A watchdog may be meant for another process than this one."""
    env = os.environ if environment is None else environment
    is_watched = env.get("WATCHDOG_PID", str(pid or os.getpid())) == str(pid or os.getpid())
    limit = env.get("WATCHDOG_USEC", "")
    return Service(
        notify_socket=env.get("NOTIFY_SOCKET") or None,
        watchdog=timedelta(microseconds=int(limit)) if limit.isdigit() and is_watched else None,
        journal=env.get("JOURNAL_STREAM") or None,
    )


def likes_colours(environment: Mapping[str, str] | None = None) -> bool:
    """Of a terminal: whether it can show them, and whoever sits there wants them (https://no-color.org)."""
    env = os.environ if environment is None else environment
    return not env.get("NO_COLOR") and env.get("TERM", "dumb") != "dumb"


def given_to_programs() -> dict[str, str]:
    """What every program of an agent sees of the environment, whatever its config says."""
    return {name: os.environ[name] for name in _FOR_EVERY_PROGRAM if name in os.environ}


def config_home(environment: Mapping[str, str] | None = None) -> Path:
    """Where this user's configs are. Raises ConfigError if he has no home."""
    env = os.environ if environment is None else environment
    if env.get("XDG_CONFIG_HOME"):
        return Path(env["XDG_CONFIG_HOME"])
    if env.get("HOME"):
        return Path(env["HOME"], ".config")
    raise ConfigError("$HOME is not set, so nobody knows where your units are; pass --into")


def too_strict(config: Config) -> tuple[str, ...]:
    """What to say of the agents of a config that runs under the strict unit."""
    cure = "`turngate service install --run-as USER` adds what it needs"
    return tuple(
        f"warning: agents.{name}: under the strict unit, where many programs cannot run or find their logins; {cure}"
        for name in config.programs()
    )


def candidates(env: Mapping[str, str]) -> Iterator[Path]:
    """Where a file is looked for when nobody names one."""
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
    """One byte more than allowed is enough to know that there are too many."""
    try:
        with path.open("rb") as file:
            return file.read(LARGEST_FILE + 1)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as exc:
        reason = exc.strerror if isinstance(exc, OSError) else "not a path"
        raise ConfigError(
            f"{path}: cannot be read ({reason}); check the path and its permissions"
        ) from None


def _with_overrides(
    config: Config, document: Document, surroundings: Environment, state_dir: Path | None
) -> Config:
    """What the command line and the environment say counts more than the file."""
    env = surroundings.environment
    folder = state_dir or _systemd_folder(env)
    if folder is None and "state_dir" in document.data:
        folder = config.state_dir
    level = env.get("TURNGATE_LOG_LEVEL") or config.log.level
    if level not in get_args(LogLevel):
        cure = one_of(level, get_args(LogLevel), instead="write one of")
        raise ConfigError(f"$TURNGATE_LOG_LEVEL: {quoted(level)} is no level; {cure}")
    update = {
        "state_dir": folder or _default_state_dir(surroundings),
        "log": config.log.model_copy(update={"level": level}),
    }
    return config.model_copy(update=update)


def _doubts_of_unit(config: Config, env: Mapping[str, str]) -> tuple[str, ...]:
    return too_strict(config) if env.get("TURNGATE_UNIT") == "strict" else ()


def _systemd_folder(env: Mapping[str, str]) -> Path | None:
    """A unit with several state folders has them separated by colons."""
    first = env.get("STATE_DIRECTORY", "").partition(":")[0]
    return Path(first) if first else None


def _default_state_dir(surroundings: Environment) -> Path:
    try:
        return surroundings.path(str(DEFAULT_STATE_DIR))
    except ValueError:
        raise ConfigError(
            "state_dir: $HOME is not set, so there is no default; pass --state-dir"
        ) from None


def host_zone(env: Mapping[str, str], etc: Path = Path("/etc")) -> str:
    """
    By its name, which is what the reset rules take; UTC where the host has none that is known.

    `localtime` is a link to the zone of that name, or, in many images, a copy that has none; then Debian has noted it.
    """
    names = [env.get("TZ", "").removeprefix(":"), str((etc / "localtime").resolve())]
    with suppress(OSError, UnicodeDecodeError):
        names.append((etc / "timezone").read_text().strip())
    bare = (name.rpartition("zoneinfo/")[2] for name in names)
    return next((name for name in bare if name and is_zone(name)), "UTC")
