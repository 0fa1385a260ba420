"""
The accounts of the config, as adapters.

Each platform's SDK takes seconds to import, so it is imported here, by name, and only for those who have an account
there.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from importlib import import_module
from types import ModuleType
from typing import Protocol

from turngate.adapters.telling import Finding, MenuEntry
from turngate.config.schema import (
    ByHttp,
    ByWebhook,
    Config,
    DiscordAccount,
    SlackAccount,
    TelegramAccount,
)
from turngate.gateway.commands import COMMANDS
from turngate.gateway.domain.errors import ConfigError
from turngate.gateway.domain.ports.adapter import Adapter, Clock, Places, nowhere
from turngate.gateway.rules.context_prompt import HomeChannel

AccountName = tuple[str, str]
AnyAccount = TelegramAccount | DiscordAccount | SlackAccount


class _Line(Adapter, Protocol):
    """An adapter that can hang up."""

    async def close(self) -> None: ...


PlacesOf = Callable[[str, str], Places]


def _nowhere_of(platform: str, account: str) -> Places:
    return nowhere


@asynccontextmanager
async def connected(
    config: Config, clock: Clock, places_of: PlacesOf = _nowhere_of
) -> AsyncIterator[dict[AccountName, Adapter]]:
    """By platform and name. Nothing is sent or received yet; leaving hangs up."""
    async with AsyncExitStack() as opened:
        adapters: dict[AccountName, Adapter] = {}
        for platform, account in _accounts(config):
            adapter: _Line = _load(platform).connect(
                _described(platform, account), places_of(platform, account.account), clock
            )
            opened.push_async_callback(adapter.close)
            adapters[platform, account.account] = adapter
        yield adapters


async def examined(config: Config) -> AsyncIterator[tuple[AccountName, Sequence[Finding]]]:
    """Every account in turn, with what its platform says of it."""
    for platform, account in _accounts(config):
        yield (
            (platform, account.account),
            await _load(platform).examine(_described(platform, account)),
        )


def platforms_of(config: Config) -> tuple[str, ...]:
    """Those with an account."""
    return tuple(dict.fromkeys(platform for platform, _ in _accounts(config)))


def homes_of(config: Config) -> Iterator[HomeChannel]:
    """Where deliveries without an address go."""
    for platform, account in _accounts(config):
        if account.home is not None:
            yield HomeChannel(platform=platform, account=account.account, chat_id=account.home)


def accounts_called_each_time(config: Config) -> Iterator[AccountName]:
    """The accounts that follow no thread."""
    yield from (
        ("slack", account.account)
        for account in config.platforms.slack
        if not account.follow_threads
    )


def _accounts(config: Config) -> Iterator[tuple[str, AnyAccount]]:
    yield from (("telegram", account) for account in config.platforms.telegram)
    yield from (("discord", account) for account in config.platforms.discord)
    yield from (("slack", account) for account in config.platforms.slack)


def _described(platform: str, account: AnyAccount) -> object:
    """The account in its adapter's own words."""
    module = _load(platform)
    match account:
        case TelegramAccount():
            return _telegram(module, account)
        case DiscordAccount():
            return _discord(module, account)
        case SlackAccount():
            return _slack(module, account)


def _telegram(telegram: ModuleType, account: TelegramAccount) -> object:
    receive = account.receive
    webhook = None
    if isinstance(receive, ByWebhook):
        webhook = telegram.Webhook(
            url=receive.webhook.url,
            host=receive.webhook.listen.host,
            port=receive.webhook.listen.port,
            secret=receive.webhook.secret.get_secret_value(),
        )
    return telegram.Account(
        name=account.account,
        token=account.token.get_secret_value(),
        api_url=account.api_url,
        webhook=webhook,
        commands=_menu(),
    )


def _slack(slack: ModuleType, account: SlackAccount) -> object:
    receive = account.receive
    http = None
    if isinstance(receive, ByHttp):
        http = slack.Http(
            host=receive.http.listen.host,
            port=receive.http.listen.port,
            signing_secret=receive.http.signing_secret.get_secret_value(),
        )
    return slack.Account(
        name=account.account,
        bot_token=account.bot_token.get_secret_value(),
        app_token=None if account.app_token is None else account.app_token.get_secret_value(),
        http=http,
        api_url=account.api_url,
        dm_threads=account.dm_threads,
        follow_threads=account.follow_threads,
        commands=_menu(),
    )


def _discord(discord: ModuleType, account: DiscordAccount) -> object:
    return discord.Account(
        name=account.account,
        token=account.token.get_secret_value(),
        api_url=account.api_url,
        gateway_url=account.gateway_url,
        cdn_url=account.cdn_url,
        threads=account.threads,
        commands=_menu(),
    )


def _menu() -> tuple[MenuEntry, ...]:
    """What people can be offered, and every other name of it."""
    return tuple(
        MenuEntry(
            name=name,
            summary=command.summary,
            argument=command.argument,
            offered=name == command.name,
        )
        for command in COMMANDS.commands
        for name in (command.name, *command.aliases)
    )


def _load(platform: str) -> ModuleType:
    try:
        return import_module(f"turngate.adapters.{platform}")
    except ModuleNotFoundError as exc:
        cure = f"install turngate[{platform}]"
        raise ConfigError(
            f"platforms.{platform}: its library {exc.name} is not installed; {cure}"
        ) from exc
