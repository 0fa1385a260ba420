"""
Slash commands in Discord's menu. Changes per day are limited, so only differences are sent.

They are offered in servers and in the bot's direct chats. By default Discord would offer them in
users' chats with others too, once the bot can be installed by users.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from turngate.adapters.discord.api import Api
from turngate.adapters.discord.json_fields import Payload, objects_in
from turngate.gateway.domain.ports.adapter import MenuEntry

MOST = 100
"""One more, and Discord refuses all of them."""

_CHAT_INPUT = 1
_TEXT = 3
_LONGEST = 100
_NAME = re.compile(r"[-_\w]{1,32}")
# https://docs.discord.com/developers/interactions/application-commands
_CONTEXTS = [0, 1]  # servers, direct chats with the bot
_INSTALLED_BY = [0]  # servers
_PATH = "/applications/{application_id}/commands"


async def offer(api: Api, application: str, entries: Sequence[MenuEntry]) -> None:
    """Make Discord offer exactly these commands."""
    wanted = [
        _command(entry)
        for entry in entries
        if entry.offered and _NAME.fullmatch(entry.name.lower())
    ][:MOST]
    where = {"application_id": application}
    offered = await api.objects("GET", _PATH, where)
    if sorted(map(_essence, offered)) != sorted(map(_essence, wanted)):
        await api.objects("PUT", _PATH, where, body=wanted)


def _command(entry: MenuEntry) -> dict[str, Any]:
    command: dict[str, Any] = {
        "name": entry.name.lower(),
        "description": entry.summary[:_LONGEST] or entry.name,
        "type": _CHAT_INPUT,
        "contexts": _CONTEXTS,
        "integration_types": _INSTALLED_BY,
    }
    if entry.argument:
        command["options"] = [
            {"type": _TEXT, "name": "text", "description": entry.argument[:_LONGEST]}
        ]
    return command


def _essence(command: Payload) -> str:
    """Return what users see and where, without fields that Discord adds."""
    options = [
        (each.get("type"), each.get("name"), each.get("description"))
        for each in objects_in(command, "options")
    ]
    return repr(
        (
            command.get("type", _CHAT_INPUT),
            command.get("name"),
            command.get("description"),
            command.get("contexts"),
            command.get("integration_types"),
            options,
        )
    )
