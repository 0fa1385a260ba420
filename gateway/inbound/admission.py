"""
Admission: who may use the bot, what unknown users get, and what is kept of refused messages.

`check` awaits nothing, so that messages keep their order. A refusal costs no turn. It leaves an
inbox row without text, so that `trace` can say why there was no answer, and at most a fixed number
of rows per minute.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from turngate.gateway.domain.errors import Refused, StoreError
from turngate.gateway.domain.ids import SessionKey
from turngate.gateway.domain.messages import AccountKey, ChatType, InboundMessage
from turngate.gateway.domain.ports.clock import Clock
from turngate.gateway.domain.ports.store import Store
from turngate.gateway.domain.store_values import Accepted
from turngate.gateway.inbound.background_messages import BackgroundMessages
from turngate.gateway.inbound.bot_loop_guard import BotLoopGuard
from turngate.gateway.inbound.pairing import Pairing
from turngate.gateway.observability.observer import Observer
from turngate.gateway.rules.authorization import (
    LONGEST_TEXT,
    TALK_KINDS,
    Refusal,
    authorize,
)
from turngate.gateway.rules.policy import Policy

MOST_ROWS_A_MINUTE = 60
"""For each account, directly and in chats. What is more is counted and not written down."""

NOT_CONVERTED = "this version cannot read it"
WRONG_TYPE = "a value in it has the wrong type"

_MINUTE = 60.0
_Account = tuple[AccountKey, bool]
Accept = Callable[[], Awaitable[Accepted]]


@dataclass(slots=True, kw_only=True)
class Admission:
    """Applies the authorization rules. Refusals and bot loops are counted in memory only."""

    policy: Policy
    store: Store
    observer: Observer
    clock: Clock
    pairing: Pairing
    background: BackgroundMessages
    _bot_loops: BotLoopGuard = field(default_factory=BotLoopGuard)
    _rows: dict[_Account, tuple[float, int]] = field(default_factory=dict)

    def check(self, message: InboundMessage) -> Refusal | None:
        """Return why a message is refused, without the store. Raises Refused if it is too long."""
        refusal = authorize(message, self.policy.access, self.pairing.approved).refusal
        # A person wrote: a loop between bots is interrupted, even if the message was not for us.
        if not message.from_bot and refusal in (None, Refusal.UNADDRESSED):
            self._bot_loops.person_spoke(message.source)

        may_take_part = _may_take_part(message, refusal)
        # Only what would be accepted: unknown users learn nothing about limits.
        if (refusal is None or may_take_part) and len(message.text) > LONGEST_TEXT:
            raise Refused(
                f"a message of {len(message.text):,} characters is too long; {LONGEST_TEXT:,} is "
                "the most"
            )

        return None if may_take_part else refusal or self._silence(message)

    async def admit(
        self, message: InboundMessage, key: SessionKey, accept: Accept
    ) -> Accepted | None:
        """Accept a message that passed `check`; None if it is not for the bot after all."""
        access = self.policy.access
        approved = self.pairing.approved
        refusal = authorize(message, access, approved).refusal
        # Whether the bot has a session in this thread only the store knows, so it is decided here
        # and not in `check`.
        if _may_take_part(message, refusal):
            takes_part = await self.store.current(key) is not None
            refusal = authorize(
                message, access, approved, takes_part=takes_part
            ).refusal or self._silence(message)

        if refusal is not None:
            await self.reject(message, refusal)
            return None

        try:
            return await accept()
        except StoreError as exc:
            # Raised to the adapter: it must not acknowledge the message, so that it is redelivered.
            self.observer.store_failed(exc)
            raise

    def may_keep(self, event: InboundMessage, refusal: Refusal | None) -> bool:
        """
        Return whether an event that could not be converted may be kept with its raw form.

        Not if its source could be read and is refused. Of unknown sources a fixed number a minute
        is kept.
        """
        if refusal is None:
            return True
        source = event.source
        in_direct_chat = source.chat_type is ChatType.DM
        is_known = source.participant_id is not None if in_direct_chat else bool(source.chat_id)
        return not is_known and self._has_room(event)

    async def set_aside(self, event: InboundMessage, reason: str) -> None:
        """Keep an event that could not be converted, as a dead letter."""
        try:
            accepted = await self.store.set_aside(event, self.policy.key_of(event.source), reason)
        except StoreError as exc:
            self.observer.store_failed(exc)
            raise
        self.observer.unreadable(event.source, accepted)

    async def reject(self, message: InboundMessage, refusal: Refusal) -> None:
        """Record a refused message without its text; an unknown user gets a pairing code."""
        self.observer.message_rejected(message.source, refusal.name.lower())
        # Not stored and not answered, but kept in memory as context for the next turn.
        if refusal is Refusal.UNADDRESSED:
            return self.background.add(message)
        if self._is_talk_among_others(message, refusal) or not self._has_room(message):
            return None

        reason = message.unanswerable or refusal.value
        await self.store.reject(message, self.policy.key_of(message.source), reason)
        # A code is sent for a message, not for a reaction or an edit.
        if refusal is Refusal.UNPAIRED and message.kind in TALK_KINDS:
            await self.pairing.invite(message.source, message.id)

        return None

    def _silence(self, message: InboundMessage) -> Refusal | None:
        """Refuse a bot's message if bots have been answering each other for too long."""
        stands = message.from_bot and self._bot_loops.bot_spoke(
            message.source, self.clock.monotonic()
        )
        return Refusal.STANDOFF if stands else None

    def _is_talk_among_others(self, message: InboundMessage, refusal: Refusal) -> bool:
        """Return whether a message in an allowed chat is not for the bot: it is not recorded."""
        in_chat = message.source.chat_type is not ChatType.DM
        return (
            in_chat
            and refusal in (Refusal.BOT, Refusal.OFF)
            and not self.policy.access.is_addressed(message)
        )

    def _has_room(self, message: InboundMessage) -> bool:
        """Return whether another refusal may be recorded this minute."""
        source = message.source
        now = self.clock.monotonic()
        # Direct messages are limited apart: a noisy group must not keep users from getting a code.
        account = source.account_key, source.chat_type is ChatType.DM
        since, count = self._rows.get(account, (now, 0))
        # A new minute begins with the first refusal after the last one.
        if now - since >= _MINUTE:
            since = now
            count = 0

        self._rows[account] = since, count + 1
        return count < MOST_ROWS_A_MINUTE


def _may_take_part(message: InboundMessage, refusal: Refusal | None) -> bool:
    """Return whether a message may be accepted if the bot has a session in its thread."""
    return (
        refusal is Refusal.UNADDRESSED
        and message.source.thread_id is not None
        and message.kind in TALK_KINDS
    )
