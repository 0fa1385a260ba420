"""What the config says about Discord: its accounts and its ids. Imports no SDK."""

from __future__ import annotations

from dataclasses import dataclass

from turngate.adapters.discord.account import API, CDN, Account
from turngate.gateway.domain.messages import MAIN_ACCOUNT
from turngate.gateway.domain.ports.adapter import MenuEntry
from turngate.gateway.domain.ports.platform import (
    Id,
    IdForm,
    Name,
    PlatformPackage,
    Secret,
    SocketAddress,
    WebAddress,
)

_NUMBER = r"[0-9]{1,30}"


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscordAccount:
    """One Discord bot."""

    account: Name = MAIN_ACCOUNT
    token: Secret
    api_url: WebAddress = API
    gateway_url: SocketAddress | None = None
    cdn_url: WebAddress = CDN
    threads: bool = False
    home: Id | None = None


def _account(settings: DiscordAccount, commands: tuple[MenuEntry, ...]) -> Account:
    return Account(
        name=settings.account,
        token=settings.token.get_secret_value(),
        api_url=settings.api_url,
        gateway_url=settings.gateway_url,
        cdn_url=settings.cdn_url,
        threads=settings.threads,
        commands=commands,
    )


PLATFORM = PlatformPackage(
    name="discord",
    settings=DiscordAccount,
    plugin="turngate.adapters.discord.plugin",
    account=_account,
    ids={
        "user": IdForm(pattern=_NUMBER, example="678"),
        "chat": IdForm(pattern=_NUMBER, example="123"),
        "guild": IdForm(pattern=_NUMBER, example="9"),
    },
    id_hint="a number such as 678 (Developer Mode on, then Copy User ID)",
    note=(
        "Your answer may be Markdown: bold, italics, code, quotations, lists, headings and links "
        "are shown, tables as code, pictures as links. You see only what is in this conversation, "
        "no older messages of the channel."
    ),
    order=2,
)
