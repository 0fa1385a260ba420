"""What the config says about Telegram: its accounts and its ids. Imports no SDK."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Literal

from turngate.adapters.telegram.account import CLOUD, Account
from turngate.adapters.telegram.account import Webhook as WebhookAddress
from turngate.gateway.domain.messages import MAIN_ACCOUNT
from turngate.gateway.domain.ports.adapter import MenuEntry
from turngate.gateway.domain.ports.platform import (
    Folder,
    Id,
    IdForm,
    Listen,
    Name,
    PlatformPackage,
    Secret,
    WebAddress,
)


def _sendable(secret: Secret) -> Secret:
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,256}", secret.get_secret_value()):
        raise ValueError(
            "Telegram takes letters, digits, _ and -, at most 256 of them; write another secret"
        )
    return secret


@dataclass(frozen=True, slots=True, kw_only=True)
class Webhook:
    """Where Telegram sends updates, and where they arrive here."""

    url: WebAddress
    listen: Listen
    secret: Annotated[Secret, _sendable]


@dataclass(frozen=True, slots=True, kw_only=True)
class ByWebhook:
    """Receiving updates by webhook instead of polling."""

    webhook: Webhook


@dataclass(frozen=True, slots=True, kw_only=True)
class TelegramAccount:
    """One Telegram bot."""

    account: Name = MAIN_ACCOUNT
    token: Secret
    api_url: WebAddress = CLOUD
    files_dir: Folder | None = None
    receive: Literal["polling"] | ByWebhook = "polling"
    home: Id | None = None


def _account(settings: TelegramAccount, commands: tuple[MenuEntry, ...]) -> Account:
    webhook = None
    if not isinstance(settings.receive, str):
        written = settings.receive.webhook
        webhook = WebhookAddress(
            url=written.url,
            host=written.listen.host,
            port=written.listen.port,
            secret=written.secret.get_secret_value(),
        )

    return Account(
        name=settings.account,
        token=settings.token.get_secret_value(),
        api_url=settings.api_url,
        files_dir=settings.files_dir,
        webhook=webhook,
        commands=commands,
    )


# https://core.telegram.org/bots/api#reactiontypeemoji
_REACTIONS = (
    "❤ 👍 👎 🔥 🥰 👏 😁 🤔 🤯 😱 🤬 😢 🎉 🤩 🤮 💩 🙏 👌 🕊 🤡 🥱 🥴 😍 🐳 ❤‍🔥 🌚 🌭 💯 🤣 "
    "⚡ 🍌 🏆 💔 🤨 😐 🍓 🍾 💋 🖕 😈 😴 😭 🤓 👻 👨‍💻 👀 🎃 🙈 😇 😨 🤝 ✍ 🤗 🫡 🎅 🎄 ☃ 💅 "
    "🤪 🗿 🆒 💘 🙉 🦄 😘 💊 🙊 😎 👾 🤷‍♂ 🤷 🤷‍♀ 😡"
)


PLATFORM = PlatformPackage(
    name="telegram",
    settings=TelegramAccount,
    plugin="turngate.adapters.telegram.plugin",
    account=_account,
    ids={
        "user": IdForm(pattern=r"[0-9]{1,30}", example="12345"),
        "chat": IdForm(pattern=r"-?[0-9]{1,30}", example="-100123"),
    },
    id_hint="a number such as 12345",
    reactions=frozenset(_REACTIONS.split()),
    order=1,
)
