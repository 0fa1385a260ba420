"""
Button presses and slash commands: Discord wants a first answer within three seconds and accepts
more for 15 minutes.

The first answer is a placeholder, which the answer to a command then replaces. Where others read
along, only the user sees both. After 15 minutes, or a restart, the answer is an ordinary message.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from dataclasses import dataclass, field
from enum import IntEnum

from turngate.adapters.discord.api import Api
from turngate.adapters.discord.channels import is_among_others
from turngate.adapters.discord.json_fields import (
    Payload,
    id_in,
    number_in,
    object_in,
    text_in,
)
from turngate.gateway.domain.outbox import Part

DEFER_AFTER = 2.0
"""Seconds after which the placeholder is sent, whether the command is stored or not."""

_OPEN_FOR = 14 * 60.0
_MOST_OPEN = 1000
_EPHEMERAL = 1 << 6
_PRESS = 3
_COMPLETION = 4
_PREVIEW = "preview"


class _Answer(IntEnum):
    """https://docs.discord.com/developers/interactions/receiving-and-responding"""

    MESSAGE = 4
    MESSAGE_LATER = 5
    CHANGE_LATER = 6
    CHOICES = 8


@dataclass(slots=True, kw_only=True)
class Interaction:
    """
    An open interaction. `taken_by` is the nonce of the part that answers it in place of the
    placeholder. Answers to one that `is_private` are seen by its user alone. A completion asks what
    could be typed.
    """

    id: str
    application: str
    token: str = field(repr=False)
    is_press: bool
    is_private: bool
    is_completion: bool
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
        self._answers: OrderedDict[str, Interaction] = OrderedDict()

    def begin(self, payload: Payload, me: str) -> Interaction | None:
        """
        Register an interaction; None if it cannot be answered. An application and its bot usually
        share one id.
        """
        id_ = id_in(payload, "id")
        token = text_in(payload, "token")
        if id_ is None or token is None:
            return None

        kind = number_in(payload, "type")
        message = object_in(payload, "message")
        is_seen_by_one = bool((number_in(message, "flags") or 0) & _EPHEMERAL)
        has_readers = id_in(payload, "guild_id") is not None or is_among_others(payload)
        interaction = Interaction(
            id=id_,
            application=id_in(payload, "application_id") or me,
            token=token,
            is_press=kind == _PRESS,
            is_private=is_seen_by_one if kind == _PRESS else has_readers,
            is_completion=kind == _COMPLETION,
            until=asyncio.get_running_loop().time() + _OPEN_FOR,
        )
        # A press of a button that one user sees is answered for that user too.
        answered = id_ if kind != _PRESS else id_in(message, "id") if is_seen_by_one else None
        if answered is not None and not interaction.is_completion:
            _put(self._open, answered, interaction)

        return interaction

    async def defer(self, interaction: Interaction) -> None:
        """Send the placeholder of a command, or acknowledge a press; once per interaction."""
        async with interaction.deferring:
            if not interaction.is_deferred:
                interaction.is_deferred = True
                await self._call_back(interaction, _placeholder(interaction))

    async def decline(self, interaction: Interaction, words: str) -> None:
        """Tell only the user why nothing is done."""
        self.forget(interaction)
        data = {"content": words, "flags": _EPHEMERAL}
        answer: Payload = {"type": _Answer.MESSAGE, "data": data}
        if interaction.is_completion:
            answer = {"type": _Answer.CHOICES, "data": {"choices": []}}

        async with interaction.deferring:
            if not interaction.is_deferred:
                interaction.is_deferred = True
                return await self._call_back(interaction, answer)

        if interaction.is_press:
            await self._api.call("POST", FOLLOW_UP, interaction.hook, body=data)
        else:
            await self._api.call("PATCH", ORIGINAL, interaction.hook, body={"content": words})

        return None

    def answered_by(self, part: Part, nonce: str | None) -> Interaction | None:
        """
        Return the command that a part answers, if it is open. One that others see is answered by
        one part; what comes after it is a message like any other.
        """
        interaction = self._open.get(part.reply_to or "")
        name = nonce or _PREVIEW
        if interaction is None:
            return None
        if asyncio.get_running_loop().time() > interaction.until:
            self.forget(interaction)
            return None
        if not interaction.is_private:
            return interaction if self._takes(interaction, name) else None

        # A turn is for all who read along.
        return interaction if part.turn is None else None

    def replaces_placeholder(self, interaction: Interaction, nonce: str | None) -> bool:
        """Check whether this part is the first answer; others follow up."""
        return not interaction.is_press and self._takes(interaction, nonce or _PREVIEW)

    async def clear(self, part: Part) -> None:
        """Remove the placeholder of a command that is answered by a message for all."""
        interaction = self._open.get(part.reply_to or "")
        if interaction is None or not interaction.is_private or interaction.is_press:
            return
        if part.turn is not None and interaction.taken_by is None:
            self.forget(interaction)
            await self.defer(interaction)
            await self._api.call("DELETE", ORIGINAL, interaction.hook)

    def note_answer(self, message: str, interaction: Interaction) -> None:
        """Note which interaction made a message: only through it can a private one be edited."""
        if interaction.is_private:
            _put(self._answers, message, interaction)

    def behind(self, message: str) -> Interaction | None:
        """Return the interaction that made a private message."""
        return self._answers.get(message)

    @staticmethod
    def _takes(interaction: Interaction, name: str) -> bool:
        if interaction.taken_by not in (None, name):
            return False
        interaction.taken_by = name
        return True

    def is_one(self, message: str | None) -> bool:
        """Check whether an id is an open command and not a message."""
        return message in self._open

    def forget(self, interaction: Interaction) -> None:
        """Drop an interaction that can no longer be answered."""
        for answered in [key for key, each in self._open.items() if each is interaction]:
            del self._open[answered]

    async def _call_back(self, interaction: Interaction, payload: Payload) -> None:
        path = "/interactions/{interaction_id}/{webhook_token}/callback"
        where = {"interaction_id": interaction.id, "webhook_token": interaction.token}
        await self._api.call("POST", path, where, body=payload)


FOLLOW_UP = "/webhooks/{webhook_id}/{webhook_token}"
ORIGINAL = FOLLOW_UP + "/messages/@original"
ANSWER = FOLLOW_UP + "/messages/{message_id}"
PRIVATE = {"flags": _EPHEMERAL}
"""What makes a message visible to one user."""


def _placeholder(interaction: Interaction) -> Payload:
    if interaction.is_press:
        return {"type": _Answer.CHANGE_LATER}
    if interaction.is_private:
        return {"type": _Answer.MESSAGE_LATER, "data": PRIVATE}
    return {"type": _Answer.MESSAGE_LATER}


def _put(notes: OrderedDict[str, Interaction], key: str, interaction: Interaction) -> None:
    notes[key] = interaction
    notes.move_to_end(key)
    if len(notes) > _MOST_OPEN:
        notes.popitem(last=False)
