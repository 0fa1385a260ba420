"""
Apply what a platform reports about messages and chats that exist already: an edit, a moved chat.

None of it begins a turn.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from turngate.gateway.domain.ids import InboxId, SessionKey
from turngate.gateway.domain.messages import InboundMessage, MessageKind
from turngate.gateway.domain.outbox import Part
from turngate.gateway.domain.ports.store import Store
from turngate.gateway.observability.logs import Action
from turngate.gateway.observability.observer import Observer
from turngate.gateway.rules.authorization import authorize
from turngate.gateway.rules.policy import Policy

AmendQueued = Callable[[SessionKey, InboundMessage], InboxId | None]
"""Change a message that still waits in its lane. Returns its row, or None if there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Edits:
    """Applies edits to waiting messages and moves the sessions of a chat that got a new id."""

    policy: Policy
    store: Store
    observer: Observer
    amend_queued: AmendQueued
    enqueue: Callable[[Part], None]

    async def apply(self, key: SessionKey, message: InboundMessage) -> None:
        """
        Apply an edit, a moved chat or another event that is not answered.

        An edit changes a message that waits for its turn. One that is being answered, or was,
        stays as it was asked.
        """
        amended = False
        if message.kind is MessageKind.MOVED:
            await self._move_chat(message)
        elif message.kind is MessageKind.EDIT:
            amended = await self._amend(key, message)

        self.observer.received(message.source, Action.AMENDED if amended else Action.NOTED)

    async def _amend(self, key: SessionKey, edit: InboundMessage) -> bool:
        # The queue first, without an await: a turn that begins now already has the new text.
        row = self.amend_queued(key, edit)
        return row is not None and await self.store.amend(row, edit.text)

    async def _move_chat(self, message: InboundMessage) -> None:
        """
        Move the sessions of a chat to its new id, which is the text of the message.

        The new id may not be allowed by the config yet. The notice says which entry to add.
        """
        await self.store.move_chat(message.source, message.text, self.policy.key_of)

        here = replace(message.source.nameless, chat_id=message.text)
        decision = authorize(replace(message, source=here), self.policy.access)
        if decision.refusal is None:
            return

        entry = f"{here.platform}:chat:{here.chat_id}"
        notice = (
            f'This chat has a new id. To go on here, put "{entry}" into access.allow '
            "and restart me."
        )
        for part in await self.store.say(Part(target=here, text=notice)):
            self.enqueue(part)
