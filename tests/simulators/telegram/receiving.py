"""
Methods about the bot itself and what it hears: https://core.telegram.org/bots/api#getting-updates
"""

from __future__ import annotations

import math
import re
from typing import Any
from urllib.parse import urlsplit

from tests.simulators.common import Call, Json, Refusal
from tests.simulators.telegram import rules
from tests.simulators.telegram.posting import has_fault
from tests.simulators.telegram.server import Asked, Server
from tests.simulators.telegram.world import Bot

LONGEST_POLL = 50
MOST_AT_ONCE = 100
AWAY = 600.0
_PORTS = (443, 80, 88, 8443)
_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_SECRET = re.compile(r"[A-Za-z0-9_-]{1,256}")


async def get_me(server: Server, bot: Bot, call: Call) -> Json:
    """https://core.telegram.org/bots/api#getme"""
    return {
        **bot.user,
        "can_join_groups": True,
        "can_read_all_group_messages": not bot.privacy,
        "supports_inline_queries": False,
        "can_connect_to_business": False,
        "has_main_web_app": False,
        "has_topics_enabled": bot.topics_in_private,
    }


async def get_updates(server: Server, bot: Bot, call: Call) -> Json:
    """https://core.telegram.org/bots/api#getupdates"""
    if bot.webhook.url:
        told = (
            "can't use getUpdates method while webhook is active; use deleteWebhook to "
            "delete the webhook first"
        )
        raise rules.conflict(told, rules.WEBHOOK_OR_POLLING)
    asked = call.parameters
    bot.queue.allow(asked.get("allowed_updates"))
    limit = max(1, min(_number(asked.get("limit", MOST_AT_ONCE)), MOST_AT_ONCE))
    timeout = max(0, min(_number(asked.get("timeout", 0)), LONGEST_POLL))
    updates = await bot.queue.poll(_number(asked.get("offset", 0)), limit, timeout)
    if has_fault(call, "duplicate"):
        updates += [again for again in map(bot.queue.again, updates) if again is not None]
    if has_fault(call, "reorder"):
        updates.reverse()
    return [update.as_json() for update in updates]


async def set_webhook(server: Server, bot: Bot, call: Call) -> Json:
    """https://core.telegram.org/bots/api#setwebhook"""
    asked = call.parameters
    url, secret = str(asked["url"]), str(asked.get("secret_token", ""))
    if not url:
        return await delete_webhook(server, bot, call)
    _check_address(server, url)
    if secret and not _SECRET.fullmatch(secret):
        told = (
            "secret token is too long"
            if len(secret) > 256
            else "secret token contains unallowed characters"
        )
        raise rules.bad(told, rules.SECRET)
    bot.queue.allow(asked.get("allowed_updates"))
    bot.queue.end_poll(rules.conflict("terminated by setWebhook request", rules.WEBHOOK_OR_POLLING))
    if asked.get("drop_pending_updates"):
        bot.queue.drop()
    webhook = bot.webhook
    webhook.url, webhook.secret, webhook.last_error = url, secret, None
    webhook.max_connections = _number(asked.get("max_connections", 40))
    webhook.ip_address = str(asked["ip_address"]) if "ip_address" in asked else None
    server.news.set()
    return True


async def delete_webhook(server: Server, bot: Bot, call: Call) -> Json:
    """https://core.telegram.org/bots/api#deletewebhook"""
    if call.parameters.get("drop_pending_updates"):
        bot.queue.drop()
    bot.webhook.url, bot.webhook.last_error = "", None
    return True


async def get_webhook_info(server: Server, bot: Bot, call: Call) -> Json:
    """https://core.telegram.org/bots/api#getwebhookinfo"""
    webhook, allowed = bot.webhook, bot.queue.allowed_by_name
    told: dict[str, Any] = {
        "url": webhook.url,
        "has_custom_certificate": False,
        "pending_update_count": len(bot.queue.pending),
        **({"allowed_updates": allowed} if allowed else {}),
    }
    if webhook.url:
        told |= {
            "max_connections": webhook.max_connections,
            "ip_address": webhook.ip_address or "127.0.0.1",
        }
    if webhook.last_error is not None:
        at, message = webhook.last_error
        told |= {"last_error_date": int(at), "last_error_message": message}
    return told


async def log_out(server: Server, bot: Bot, call: Call) -> Json:
    """https://core.telegram.org/bots/api#logout"""
    bot.logged_out_until = server.clock.now() + AWAY
    bot.queue.end_poll(rules.logged_out())
    return True


async def close(server: Server, bot: Bot, call: Call) -> Json:
    """https://core.telegram.org/bots/api#close"""
    left = bot.launched_at + AWAY - server.clock.now()
    if left > 0:
        raise rules.slow_down(math.ceil(left))
    bot.launched_at = server.clock.now()
    bot.queue.end_poll(Refusal(500, "Internal Server Error: restart", rule=rules.GONE_AWAY))
    return True


def _check_address(server: Server, url: str) -> None:
    """
    Where Telegram delivers. A local server takes any, and here so does loopback, or nothing could
    be tested.
    """
    parts = urlsplit(url)
    if parts.hostname is None or parts.scheme not in ("http", "https"):
        raise rules.bad("invalid webhook URL specified", rules.WEBHOOK_URL)
    if server.local or parts.hostname in _LOOPBACK:
        return
    if parts.scheme != "https":
        raise rules.bad("bad webhook: An HTTPS URL must be provided for webhook", rules.WEBHOOK_URL)
    if parts.port not in (None, *_PORTS):
        told = "bad webhook: Webhook can be set up only on ports 80, 88, 443 or 8443"
        raise rules.bad(told, rules.WEBHOOK_URL)


def _number(value: object) -> int:
    assert isinstance(value, int)
    return value


METHODS: Asked = {
    "getMe": (get_me, None),
    "getUpdates": (get_updates, "receive"),
    "setWebhook": (set_webhook, None),
    "deleteWebhook": (delete_webhook, None),
    "getWebhookInfo": (get_webhook_info, None),
    "logOut": (log_out, None),
    "close": (close, None),
}
