"""
Presses and slash commands: Discord wants a first answer within three seconds, and takes more for a quarter of an hour.

The first answer says that one is on its way. What then answers a command takes the place of that; after the quarter of
an hour, or a restart, it is a message like any other.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from dataclasses import dataclass, field
from enum import IntEnum

from turngate.adapters.discord.api import Api
from turngate.adapters.discord.channels import Payload
from turngate.gateway.domain.messages import Part

TOO_LATE = 2.0
"""Seconds after which an answer is on its way, whether the question is stored or not."""

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
    """One that waits. `taken_by` is what answers it."""

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
        """Where its later answers go."""
        return {"webhook_id": self.application, "webhook_token": self.token}


class Interactions:
    """All that are open, the last so many."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._open: OrderedDict[str, Interaction] = OrderedDict()

    def begin(self, told: Payload, me: str) -> Interaction:
        """Somebody pressed something or used a command. An application and its bot mostly have one id."""
        until = asyncio.get_running_loop().time() + _OPEN_FOR
        interaction = Interaction(
            id=str(told["id"]),
            application=str(told.get("application_id") or me),
            token=str(told["token"]),
            is_press=told["type"] == _PRESS,
            until=until,
        )
        if not interaction.is_press:
            self._open[interaction.id] = interaction
            if len(self._open) > _MOST_OPEN:
                self._open.popitem(last=False)
        return interaction

    async def defer(self, interaction: Interaction) -> None:
        """Say that an answer is on its way; of a press, that it was noticed. Once, whoever asks for it."""
        async with interaction.deferring:
            if not interaction.is_deferred:
                interaction.is_deferred = True
                await self._call_back(interaction, {"type": _later(interaction)})

    async def decline(self, interaction: Interaction, words: str) -> None:
        """Nothing comes of it; only the person concerned reads why."""
        self._open.pop(interaction.id, None)
        said = {"content": words, "flags": _EPHEMERAL}
        async with interaction.deferring:
            if not interaction.is_deferred:
                interaction.is_deferred = True
                return await self._call_back(interaction, {"type": _Answer.MESSAGE, "data": said})
        if interaction.is_press:
            await self._api.call(
                "POST", "/webhooks/{webhook_id}/{webhook_token}", interaction.hook, body=said
            )
        else:
            await self._api.call("PATCH", ORIGINAL, interaction.hook, body={"content": words})
        return None

    def answered_by(self, part: Part, nonce: str | None) -> Interaction | None:
        """The command that a part answers, if it still waits for that or this part had it before."""
        interaction, name = self._open.get(part.reply_to or ""), nonce or _PREVIEW
        if interaction is None or interaction.taken_by not in (None, name):
            return None
        if asyncio.get_running_loop().time() > interaction.until:
            del self._open[interaction.id]
            return None
        interaction.taken_by = name
        return interaction

    def is_one(self, message: str | None) -> bool:
        """Whether this is no message but a command."""
        return message in self._open

    def forget(self, interaction: Interaction) -> None:
        """It can no longer be answered."""
        self._open.pop(interaction.id, None)

    async def _call_back(self, interaction: Interaction, answer: Payload) -> None:
        path = "/interactions/{interaction_id}/{webhook_token}/callback"
        where = {"interaction_id": interaction.id, "webhook_token": interaction.token}
        await self._api.call("POST", path, where, body=answer)


ORIGINAL = "/webhooks/{webhook_id}/{webhook_token}/messages/@original"


def _later(interaction: Interaction) -> _Answer:
    return _Answer.CHANGE_LATER if interaction.is_press else _Answer.MESSAGE_LATER
