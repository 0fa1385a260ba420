"""
Button presses and slash commands: Discord wants a first answer within three seconds and accepts
more for 15 minutes.

The first answer is a placeholder, which the answer to a command then replaces; after 15 minutes, or
a restart, the answer is an ordinary message.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from dataclasses import dataclass, field
from enum import IntEnum

from turngate.adapters.discord.api import Api
from turngate.adapters.discord.channels import Payload
from turngate.gateway.domain.outbox import Part

DEFER_AFTER = 2.0
"""Seconds after which the placeholder is sent, whether the command is stored or not."""

_OPEN_FOR = 14 * 60.0
_MOST_OPEN = 1000
_EPHEMERAL = 1 << 6
_PRESS = 3
_PREVIEW = "preview"


class _Answer(IntEnum):
    """https://docs.discord.com/developers/interactions/receiving-and-responding"""

    MESSAGE = 4
    MESSAGE_LATER = 5
    CHANGE_LATER = 6


@dataclass(slots=True, kw_only=True)
class Interaction:
    """An open interaction. `taken_by` is the nonce of the part that answers it."""

    id: str
    application: str
    token: str = field(repr=False)
    is_press: bool
    until: float
    taken_by: str | None = None
    is_deferred: bool = False
    deferring: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def hook(self) -> dict[str, str]:
        """Path parameters for its later answers."""
        return {"webhook_id": self.application, "webhook_token": self.token}


class Interactions:
    """The open interactions, bounded."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._open: OrderedDict[str, Interaction] = OrderedDict()

    def begin(self, payload: Payload, me: str) -> Interaction:
        """Register an interaction. An application and its bot usually share one id."""
        until = asyncio.get_running_loop().time() + _OPEN_FOR
        interaction = Interaction(
            id=str(payload["id"]),
            application=str(payload.get("application_id") or me),
            token=str(payload["token"]),
            is_press=payload["type"] == _PRESS,
            until=until,
        )
        if not interaction.is_press:
            self._open[interaction.id] = interaction
            if len(self._open) > _MOST_OPEN:
                self._open.popitem(last=False)

        return interaction

    async def defer(self, interaction: Interaction) -> None:
        """Send the placeholder of a command, or acknowledge a press; once per interaction."""
        async with interaction.deferring:
            if not interaction.is_deferred:
                interaction.is_deferred = True
                await self._call_back(interaction, {"type": _later(interaction)})

    async def decline(self, interaction: Interaction, words: str) -> None:
        """Tell only the user why nothing is done."""
        self._open.pop(interaction.id, None)
        data = {"content": words, "flags": _EPHEMERAL}

        async with interaction.deferring:
            if not interaction.is_deferred:
                interaction.is_deferred = True
                return await self._call_back(interaction, {"type": _Answer.MESSAGE, "data": data})

        if interaction.is_press:
            await self._api.call(
                "POST", "/webhooks/{webhook_id}/{webhook_token}", interaction.hook, body=data
            )
        else:
            await self._api.call("PATCH", ORIGINAL, interaction.hook, body={"content": words})

        return None

    def answered_by(self, part: Part, nonce: str | None) -> Interaction | None:
        """Return the command that a part answers, if it is open and not taken by another part."""
        interaction = self._open.get(part.reply_to or "")
        name = nonce or _PREVIEW
        if interaction is None or interaction.taken_by not in (None, name):
            return None
        if asyncio.get_running_loop().time() > interaction.until:
            del self._open[interaction.id]
            return None

        interaction.taken_by = name
        return interaction

    def is_one(self, message: str | None) -> bool:
        """Check whether an id is an open command and not a message."""
        return message in self._open

    def forget(self, interaction: Interaction) -> None:
        """Drop an interaction that can no longer be answered."""
        self._open.pop(interaction.id, None)

    async def _call_back(self, interaction: Interaction, payload: Payload) -> None:
        path = "/interactions/{interaction_id}/{webhook_token}/callback"
        where = {"interaction_id": interaction.id, "webhook_token": interaction.token}
        await self._api.call("POST", path, where, body=payload)


ORIGINAL = "/webhooks/{webhook_id}/{webhook_token}/messages/@original"


def _later(interaction: Interaction) -> _Answer:
    return _Answer.CHANGE_LATER if interaction.is_press else _Answer.MESSAGE_LATER
