"""Checks of one bot for `turngate check --online`."""

from __future__ import annotations

from collections.abc import AsyncIterator

from aiogram.methods import GetMe, GetUpdates, GetWebhookInfo

from turngate.adapters.telegram.account import Account, Timeouts
from turngate.adapters.telegram.api import Api, Conflict
from turngate.adapters.telegram.fields import flag, number, text
from turngate.adapters.telegram.normalise import HANDLED
from turngate.gateway.domain.errors import TurngateError
from turngate.gateway.domain.ports.adapter import Finding

# Another polling program repeats its request within this time, and Telegram then reports the
# conflict to one of the two.
_POLL_SECONDS = 3


# The default is frozen.
async def examine(account: Account, timeouts: Timeouts = Timeouts()) -> list[Finding]:  # noqa: B008
    """Check everything that needs neither receiving nor sending messages."""
    api = Api(account, timeouts)
    try:
        return [finding async for finding in _findings(api, account)]
    except TurngateError as exc:
        return [Finding(words=str(exc), is_error=True)]
    finally:
        await api.close()


async def _findings(api: Api, account: Account) -> AsyncIterator[Finding]:
    me = await api.call(GetMe())
    name = text(me, "username")
    yield Finding(words=f"the token is right: this is @{name}, id {number(me, 'id')}")
    if not flag(me, "can_read_all_group_messages"):
        cure = (
            "for groups: all, switch it off with /setprivacy at BotFather and add the bot to "
            "the group again"
        )
        yield Finding(
            words="privacy mode is on: in groups it hears only commands, mentions and answers; "
            f"{cure}"
        )

    webhook = await api.call(GetWebhookInfo())
    url = text(webhook, "url")
    if account.webhook is None:
        yield await _polled(api, url)
    elif url not in ("", account.webhook.url):
        yield Finding(
            words="another address is set as its webhook; a start of the gateway replaces it"
        )

    waiting = number(webhook, "pending_update_count")
    error = text(webhook, "last_error_message")
    if account.webhook is not None and error and waiting:
        words = f"Telegram could not deliver to the webhook lately: {error}"
        yield Finding(words=words, is_error=True)

    if waiting:
        yield Finding(words=f"{waiting} updates wait to be received")


async def _polled(api: Api, webhook: str) -> Finding:
    """Poll without an offset, which confirms nothing: the updates are delivered again."""
    if webhook:
        return Finding(
            words="a webhook is left over from elsewhere; a start of the gateway removes it"
        )

    try:
        request = GetUpdates(limit=1, timeout=_POLL_SECONDS, allowed_updates=list(HANDLED))
        await api.call(request, wait=_POLL_SECONDS)
    except Conflict:
        words = (
            "another program receives with this token; unless that is your running gateway, stop it"
        )
        return Finding(words=words, is_error=True, is_conflict=True)

    return Finding(words="updates can be received by polling")
