"""What Telegram says of a bot before anything depends on it: for `turngate check --online`."""

from __future__ import annotations

from collections.abc import AsyncIterator

from aiogram.methods import GetMe, GetWebhookInfo

from turngate.adapters.telegram.account import Account, Patience
from turngate.adapters.telegram.api import Api, Conflict
from turngate.adapters.telegram.normalise import HANDLED
from turngate.adapters.telegram.polling import GetRawUpdates
from turngate.adapters.telling import Finding
from turngate.gateway.domain.errors import TurngateError

# Another program that polls comes back within this time, and Telegram then lets one of us know of the other.
_TO_MEET_ANOTHER = 3


async def examine(account: Account, patience: Patience = Patience()) -> list[Finding]:  # noqa: B008 - frozen
    """Everything that can be found out without receiving or sending anything."""
    api = Api(account, patience)
    try:
        return [finding async for finding in _findings(api, account)]
    except TurngateError as exc:
        return [Finding(words=str(exc), is_error=True)]
    finally:
        await api.close()


async def _findings(api: Api, account: Account) -> AsyncIterator[Finding]:
    me = await api.call(GetMe())
    yield Finding(words=f"the token is right: this is @{me.username}, id {me.id}")
    if not me.can_read_all_group_messages:
        cure = "for groups: all, switch it off with /setprivacy at BotFather and add the bot to the group again"
        yield Finding(
            words=f"privacy mode is on: in groups it hears only commands, mentions and answers; {cure}"
        )
    webhook = await api.call(GetWebhookInfo())
    if account.webhook is None:
        yield await _polled(api, webhook.url)
    elif webhook.url not in ("", account.webhook.url):
        yield Finding(
            words="another address is set as its webhook; a start of the gateway replaces it"
        )
    if account.webhook is not None and webhook.last_error_message and webhook.pending_update_count:
        words = f"Telegram could not deliver to the webhook lately: {webhook.last_error_message}"
        yield Finding(words=words, is_error=True)
    if webhook.pending_update_count:
        yield Finding(words=f"{webhook.pending_update_count} updates wait to be received")


async def _polled(api: Api, webhook: str) -> Finding:
    """Nothing is confirmed by this: what is read here is handed out again."""
    if webhook:
        return Finding(
            words="a webhook is left over from elsewhere; a start of the gateway removes it"
        )
    try:
        asking = GetRawUpdates(limit=1, timeout=_TO_MEET_ANOTHER, allowed_updates=list(HANDLED))
        await api.call(asking, wait=_TO_MEET_ANOTHER)
    except Conflict:
        words = (
            "another program receives with this token; unless that is your running gateway, stop it"
        )
        return Finding(words=words, is_error=True)
    return Finding(words="updates can be received by polling")
