"""What neither bots nor people do: setting up bots and the server, and letting time pass."""

from __future__ import annotations

from tests.simulators.common import Call, Json
from tests.simulators.telegram import rules
from tests.simulators.telegram.server import Server
from tests.simulators.telegram.world import Bot


async def bot(server: Server, mine: Bot, call: Call) -> Json:
    """What BotFather does: another token, privacy mode, topics in private chats, revoking."""
    asked = call.parameters
    if "token" in asked:
        server.add_bot(mine.account, str(asked["token"]))
    if "username" in asked:
        mine.username = str(asked["username"])
    mine.privacy = bool(asked.get("privacy", mine.privacy))
    mine.topics_in_private = bool(asked.get("topics", mine.topics_in_private))
    mine.revoked = bool(asked.get("revoked", mine.revoked))
    if "token" in asked or mine.revoked:
        mine.queue.end_poll(rules.unauthorized())
    return {"id": mine.id, "token": mine.token, "username": mine.username}


async def add_bot(server: Server, mine: Bot, call: Call) -> Json:
    """One more account."""
    made = server.add_bot(str(call.parameters["name"]), str(call.parameters["token"]))
    return {"id": made.id, "token": made.token, "username": made.username}


async def server(server: Server, mine: Bot, call: Call) -> Json:
    """How it is set up from now on."""
    for name, value in call.parameters.items():
        if name != "account":
            setattr(server, name, value)
    return {name: getattr(server, name) for name in ("local", "rich", "rates", "webhook_pause")}


async def later(server: Server, mine: Bot, call: Call) -> Json:
    """As if so many seconds had passed; `stop` lets no more of them pass by themselves."""
    seconds = call.parameters["seconds"]
    assert isinstance(seconds, int | float)
    server.clock.move_on(seconds)
    if call.parameters.get("stop"):
        server.clock.stop()
    return {"now": server.clock.now()}
