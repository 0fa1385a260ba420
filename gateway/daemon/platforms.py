"""
The accounts of the config, as adapters.

A platform's SDK takes seconds to import, so its plugin is imported by name, and only if there is an
account on it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from importlib import import_module
from typing import cast

from turngate.config.platforms import PLATFORMS
from turngate.config.schema import Config
from turngate.gateway.commands import COMMANDS
from turngate.gateway.domain.errors import ConfigError
from turngate.gateway.domain.ports.adapter import (
    Adapter,
    CatchUpChats,
    Finding,
    MenuEntry,
    no_chats,
)
from turngate.gateway.domain.ports.clock import Clock
from turngate.gateway.domain.ports.platform import AccountSettings, PlatformPlugin
from turngate.gateway.rules.context_prompt import HomeChannel

AccountName = tuple[str, str]
ChatsOf = Callable[[str, str], CatchUpChats]


def _no_chats_of(platform: str, account: str) -> CatchUpChats:
    return no_chats


@asynccontextmanager
async def connected(
    config: Config, clock: Clock, chats_of: ChatsOf = _no_chats_of
) -> AsyncIterator[dict[AccountName, Adapter]]:
    """
    Yield the adapters by platform and account, and close them at the end. They send and receive
    nothing before `run`.
    """
    async with AsyncExitStack() as opened:
        adapters: dict[AccountName, Adapter] = {}
        for platform, settings in config.platforms.accounts():
            plugin, account = _load(platform, settings)
            adapter = plugin.connect(account, chats_of(platform, settings.account), clock)
            opened.push_async_callback(adapter.close)
            adapters[platform, settings.account] = adapter
        yield adapters


def check_libraries(config: Config) -> None:
    """Raise ConfigError if the library of a platform with an account is missing."""
    for platform, settings in config.platforms.accounts():
        _load(platform, settings)


async def examined(config: Config) -> AsyncIterator[tuple[AccountName, Sequence[Finding]]]:
    """Check the accounts online, one after the other, and yield the findings for each."""
    for platform, settings in config.platforms.accounts():
        plugin, account = _load(platform, settings)
        yield (platform, settings.account), await plugin.examine(account)


def platforms_of(config: Config) -> tuple[str, ...]:
    """Return the platforms with an account, each once."""
    return tuple(dict.fromkeys(platform for platform, _ in config.platforms.accounts()))


def homes_of(config: Config) -> Iterator[HomeChannel]:
    """Yield the chats that get deliveries without an address."""
    for platform, settings in config.platforms.accounts():
        if settings.home is not None:
            yield HomeChannel(platform=platform, account=settings.account, chat_id=settings.home)


def accounts_called_each_time(config: Config) -> Iterator[AccountName]:
    """Yield the accounts that must be mentioned again in a thread they take part in."""
    for platform, settings in config.platforms.accounts():
        if PLATFORMS[platform].needs_mention(settings):
            yield platform, settings.account


def _menu() -> tuple[MenuEntry, ...]:
    """
    Return the commands to offer to users, and those that are only understood: aliases, and what
    most users may not do.
    """
    return tuple(
        MenuEntry(
            name=name,
            summary=command.summary,
            argument=command.argument,
            offered=name == command.name and command.is_listed and not command.admins_only,
        )
        for command in COMMANDS.commands
        for name in (command.name, *command.aliases)
    )


def _load(platform: str, settings: AccountSettings) -> tuple[PlatformPlugin, object]:
    """Return the plugin and its description of the account. Raises ConfigError."""
    package = PLATFORMS[platform]
    try:
        plugin = cast(PlatformPlugin, import_module(package.plugin))
    except ModuleNotFoundError as exc:
        # The SDKs of our own platforms are extras of this distribution.
        is_ours = package.plugin.startswith("turngate.")
        cure = f"install turngate[{platform}]" if is_ours else "install what its package needs"
        raise ConfigError(
            f"platforms.{platform}: its library {exc.name} is not installed; {cure}"
        ) from exc

    return plugin, package.account(settings, _menu())
