"""
What a platform exports, and the kinds of values its account settings may have.

A platform is found by name: `PLATFORM` in `turngate.adapters.<name>.settings`, or the object that
another package names in the entry point group `turngate.platforms`. Its module is imported whenever
a config is read, so it imports no SDK; `plugin` names the module that does.

The settings of an account are a frozen dataclass. The config reads and checks it from its field
types, so a platform needs neither our config nor pydantic to describe what an operator may write.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Protocol

from turngate.gateway.domain.ports.adapter import Adapter, CatchUpChats, Finding, MenuEntry
from turngate.gateway.domain.ports.clock import Clock

ENTRY_POINTS = "turngate.platforms"

# The kinds of settings, beside bool, Literal, `X | None`, and a dataclass for a nested section. A
# function in Annotated checks further: it returns the value, or raises ValueError with the remedy.
Count = Annotated[int, "count"]
Folder = Annotated[Path, "folder"]
Id = Annotated[str, "id"]
Name = Annotated[str, "name"]
SocketAddress = Annotated[str, "socket address"]
Text = Annotated[str, "text"]
WebAddress = Annotated[str, "web address"]


class Secret(Protocol):
    """A setting that is written `${NAME}` and never printed."""

    def get_secret_value(self) -> str:
        """Return the secret itself."""


class Listen(Protocol):
    """A loopback address to listen on, written `127.0.0.1:8765`."""

    @property
    def host(self) -> str:
        """A name or an address, without brackets."""

    @property
    def port(self) -> int:
        """0 takes any free port."""


class AccountSettings(Protocol):
    """What the settings of every platform's account have in common."""

    @property
    def account(self) -> str:
        """The account's name; `main` by default."""

    @property
    def home(self) -> str | None:
        """The chat for deliveries that name the platform only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IdForm:
    """How an id looks: a regular expression for the whole of it, and an example."""

    pattern: str
    example: str


class ConnectedAdapter(Adapter, Protocol):
    """An adapter that can be closed."""

    async def close(self) -> None:
        """Close every connection. Called once, after `run` has ended."""


class PlatformPlugin(Protocol):
    """The module that `PlatformPackage.plugin` names."""

    def connect(self, account: Any, chats: CatchUpChats, clock: Clock) -> ConnectedAdapter:
        """Return the adapter of an account. Nothing is sent or received before `run`."""

    async def examine(self, account: Any) -> Sequence[Finding]:
        """Return what `turngate check --online` reports about an account."""


def _as_configured(settings: Any, commands: tuple[MenuEntry, ...]) -> object:
    return settings


def _no_mention_needed(settings: Any) -> bool:
    return False


def _no_problem(written: Mapping[str, Any]) -> str | None:
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlatformPackage:
    """
    What a platform exports.

    `settings` is the dataclass of one account in the config. `plugin` is the module with `connect`
    and `examine`, which may import an SDK. `account` makes what these two receive, out of the
    settings and the commands to offer to users; by default the settings themselves.

    `ids` are the forms of ids that `access` accepts, by what they name: user, chat, guild or team.
    `id_hint` says in an error where users find theirs. `ids_within`: ids are unique inside one
    account only, and this is the platform's word for it (workspace).

    `needs_mention`: whether the account answers in a thread only when it is mentioned each time.
    `find_problem` looks at an account as it is written, for what no single key shows.

    `reactions` are the emoji that a bot may react with there; None: any, as far as is known.

    `order` sorts platforms in lists and in the schema; equal ones are sorted by name.
    """

    name: str
    settings: type[Any]
    plugin: str
    ids: Mapping[str, IdForm]
    id_hint: str
    ids_within: str | None = None
    account: Callable[[Any, tuple[MenuEntry, ...]], object] = _as_configured
    needs_mention: Callable[[Any], bool] = _no_mention_needed
    find_problem: Callable[[Mapping[str, Any]], str | None] = _no_problem
    reactions: frozenset[str] | None = None
    order: int = 100
