"""What is done at api.slack.com/apps, and what Slack does by itself."""

from __future__ import annotations

from typing import Any

from tests.simulators.common import Call, Json
from tests.simulators.slack import rules
from tests.simulators.slack.server import Deed, Server
from tests.simulators.slack.sockets import REASONS, Sockets
from tests.simulators.slack.webhooks import Webhooks
from tests.simulators.slack.world import Bot

_APP = {
    "token": str,
    "app_token": str,
    "secret": str,
    "scopes": list,
    "events": list,
    "socket_mode": bool,
    "url": str,
    "revoked": bool,
    "skew": float,
    "view": str,
}
_VIEWS = ("agent", "assistant", "none")
_SERVER = {
    "ack_within": float,
    "retries": list,
    "waits": float,
    "connections": int,
    "grace": float,
    "ping_every": float,
    "lifetime": float,
    "streaming": bool,
    "stream_lasts": float,
    "rates": bool,
    "minute": float,
    "echo": bool,
}


class Operating:
    """Whoever runs the app, and whoever runs Slack."""

    def __init__(self, server: Server, sockets: Sockets, webhooks: Webhooks) -> None:
        self._sockets = sockets
        self._webhooks = webhooks
        self.deeds = {
            "app": Deed(act=self._app, optional=_APP),
            "add_bot": Deed(
                act=self._add_bot,
                required={"name": str, "token": str, "app_token": str, "team": str},
            ),
            "server": Deed(act=self._set, optional=_SERVER),
            "disconnect": Deed(act=self._disconnect, required={"reason": str}),
            "cut": Deed(act=self._cut),
            "silence": Deed(act=self._silence),
            "later": Deed(act=self._later, required={"seconds": float}),
        }

    async def _app(self, server: Server, bot: Bot, call: Call) -> Json:
        """An address for events is only taken once it has proved itself; an empty one is none."""
        asked: dict[str, Any] = dict(call.parameters)
        bot.token = asked.get("token", bot.token)
        bot.scopes = set(asked.get("scopes", bot.scopes))
        bot.revoked = asked.get("revoked", bot.revoked)
        bot.app.token = asked.get("app_token", bot.app.token)
        bot.app.secret = asked.get("secret", bot.app.secret)
        bot.app.events = set(asked.get("events", bot.app.events))
        bot.app.socket_mode = asked.get("socket_mode", bot.app.socket_mode)
        bot.app.skew = asked.get("skew", bot.app.skew)
        if asked.get("view", bot.app.view) not in _VIEWS:
            raise rules.No(f"a view is one of {', '.join(_VIEWS)}", rules.PEOPLE)
        bot.app.view = asked.get("view", bot.app.view)
        if not bot.app.socket_mode:
            await self._sockets.disconnect(bot.app, "link_disabled")
        if asked.get("url"):
            await self._webhooks.verify(bot.app, asked["url"])
        bot.app.url = asked.get("url", bot.app.url) or None
        return {
            "app_id": bot.app.id,
            "team": bot.team,
            "user": bot.user,
            "bot_id": bot.bot_id,
            "token": bot.token,
            "app_token": bot.app.token,
            "secret": bot.app.secret,
        }

    async def _add_bot(self, server: Server, bot: Bot, call: Call) -> Json:
        asked = {name: str(value) for name, value in call.parameters.items() if name != "account"}
        added = server.add_bot(**asked)
        return {"user": added.user, "bot_id": added.bot_id}

    async def _set(self, server: Server, bot: Bot, call: Call) -> Json:
        for name, value in call.parameters.items():
            if name != "account":
                setattr(server.settings, name, tuple(value) if isinstance(value, list) else value)
        return {}

    async def _disconnect(self, server: Server, bot: Bot, call: Call) -> Json:
        """A disconnect frame on every connection of the app."""
        reason = str(call.parameters["reason"])
        if reason not in REASONS:
            raise rules.No(f"a reason is one of {', '.join(REASONS)}", rules.PEOPLE)
        return {"connections": await self._sockets.disconnect(bot.app, reason)}

    async def _cut(self, server: Server, bot: Bot, call: Call) -> Json:
        """Every connection of the app is reset."""
        return {"connections": self._sockets.break_all(bot.app, silently=False)}

    async def _silence(self, server: Server, bot: Bot, call: Call) -> Json:
        """Every connection of the app stays open and carries nothing any more."""
        return {"connections": self._sockets.break_all(bot.app, silently=True)}

    async def _later(self, server: Server, bot: Bot, call: Call) -> Json:
        server.clock.move_on(float(str(call.parameters["seconds"])))
        return {}
