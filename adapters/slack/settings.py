"""What the config says about Slack: its accounts and its ids. Imports no SDK."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from turngate.adapters.slack.account import CLOUD, Account, Http
from turngate.gateway.domain.messages import MAIN_ACCOUNT
from turngate.gateway.domain.ports.adapter import MenuEntry
from turngate.gateway.domain.ports.platform import (
    Id,
    IdForm,
    Listen,
    Name,
    PlatformPackage,
    Secret,
    WebAddress,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Requests:
    """Where Slack's requests arrive, and the secret that signs them."""

    listen: Listen
    signing_secret: Secret


@dataclass(frozen=True, slots=True, kw_only=True)
class ByHttp:
    """Receiving events by HTTP instead of a socket."""

    http: Requests


@dataclass(frozen=True, slots=True, kw_only=True)
class SlackAccount:
    """One Slack workspace. Only Socket Mode needs the app token."""

    account: Name = MAIN_ACCOUNT
    bot_token: Secret
    app_token: Secret | None = None
    api_url: WebAddress = CLOUD
    receive: Literal["socket"] | ByHttp = "socket"
    dm_threads: bool = False
    follow_threads: bool = True
    home: Id | None = None


def _account(settings: SlackAccount, commands: tuple[MenuEntry, ...]) -> Account:
    http = None
    if not isinstance(settings.receive, str):
        written = settings.receive.http
        http = Http(
            host=written.listen.host,
            port=written.listen.port,
            signing_secret=written.signing_secret.get_secret_value(),
        )

    return Account(
        name=settings.account,
        bot_token=settings.bot_token.get_secret_value(),
        app_token=settings.app_token.get_secret_value() if settings.app_token else None,
        http=http,
        api_url=settings.api_url,
        dm_threads=settings.dm_threads,
        follow_threads=settings.follow_threads,
        commands=commands,
    )


def _needs_mention(settings: SlackAccount) -> bool:
    return not settings.follow_threads


def _no_app_token(written: Mapping[str, Any]) -> str | None:
    if written.get("app_token") is not None or written.get("receive") not in (None, "socket"):
        return None
    return (
        "lacks the key app_token, which Socket Mode needs; add it, or receive by HTTP: "
        "receive: {http: {listen: 127.0.0.1:3000, signing_secret: ...}}"
    )


PLATFORM = PlatformPackage(
    name="slack",
    settings=SlackAccount,
    plugin="turngate.adapters.slack.plugin",
    account=_account,
    ids={
        # A bot may have no user id; a user of another workspace has its id appended: U2.T9.
        "user": IdForm(pattern=r"[UWB][A-Z0-9]+(?:\.[TE][A-Z0-9]+)?", example="U2"),
        "chat": IdForm(pattern=r"[CDG][A-Z0-9]+", example="C1"),
        "team": IdForm(pattern=r"[TE][A-Z0-9]+", example="T1"),
    },
    id_hint="U and more capitals and digits (in the profile: Copy member ID)",
    ids_within="workspace",
    needs_mention=_needs_mention,
    find_problem=_no_app_token,
    note=(
        "Your answer may be Markdown: bold, italics, code, quotations, lists, headings, links and "
        "tables are shown. You see only what is in this conversation, no older messages of the "
        "channel."
    ),
    order=3,
)
