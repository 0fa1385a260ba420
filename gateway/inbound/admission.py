"""
The doorkeeper: who is let in, what strangers are told, and what is left of those who were not.

Judging waits for nothing, so that nobody who comes later gets in front. A refusal costs no turn; it leaves a row
without words, so that `trace` can say why nobody answered, and never more rows than a minute has room for.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from turngate.gateway.domain.errors import Refused, StoreError
from turngate.gateway.domain.messages import ChatType, InboundMessage, Part, SessionKey
from turngate.gateway.domain.ports.adapter import Clock
from turngate.gateway.domain.ports.store import Accepted, Store
from turngate.gateway.inbound.background_messages import BackgroundMessages
from turngate.gateway.inbound.bot_loop_guard import BotLoopGuard
from turngate.gateway.inbound.pairing import Pairing
from turngate.gateway.observability.observer import Observer
from turngate.gateway.rules.authorization import LONGEST_TEXT, SAID, Refusal, authorize
from turngate.gateway.rules.policy import Policy

MOST_ROWS_A_MINUTE = 60
"""For each account, directly and in chats. What is more is counted and not written down."""

_MINUTE = 60.0
_Account = tuple[str, str, bool]
Accept = Callable[[], Awaitable[Accepted]]


@dataclass(slots=True)
class Admission:
    """Knows who was let in, and remembers in memory alone what was said to others and how long bots were alone."""

    policy: Policy
    store: Store
    observer: Observer
    clock: Clock
    send_on: Callable[[Part], None]
    pairing: Pairing = field(init=False)
    overheard: BackgroundMessages = field(init=False)
    _standoff: BotLoopGuard = field(default_factory=BotLoopGuard)
    _rows: dict[_Account, tuple[float, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.pairing = Pairing(self.store, self.policy.pairing_key, self.send_on)
        self.overheard = BackgroundMessages(lambda: self.policy.access.background)

    def judge(self, message: InboundMessage) -> Refusal | None:
        """Why it is not let in. At once: what only the store can say is left to `admit`. Raises Refused if too long."""
        refusal = authorize(message, self.policy.access, self.pairing.approved).refusal
        if not message.from_bot and refusal in (None, Refusal.UNADDRESSED):
            self._standoff.person_spoke(message.source)
        may_take_part = _may_take_part(message, refusal)
        if (refusal is None or may_take_part) and len(message.text) > LONGEST_TEXT:
            raise Refused(
                f"a message of {len(message.text):,} characters is too long; {LONGEST_TEXT:,} is the most"
            )
        return None if may_take_part else refusal or self._silence(message)

    async def admit(
        self, message: InboundMessage, key: SessionKey, accept: Accept
    ) -> Accepted | None:
        """Accept what was judged well. None for talk to others in a thread that the bot takes no part in."""
        access, approved = self.policy.access, self.pairing.approved
        refusal = authorize(message, access, approved).refusal
        if _may_take_part(message, refusal):
            takes_part = await self.store.current(key) is not None
            refusal = authorize(
                message, access, approved, takes_part=takes_part
            ).refusal or self._silence(message)
        if refusal is not None:
            await self.turn_away(message, refusal)
            return None
        try:
            return await accept()
        except StoreError as exc:
            self.observer.store_failed(
                exc
            )  # whoever sent it is not told that we have it, and sends it again
            raise

    async def turn_away(self, message: InboundMessage, refusal: Refusal) -> None:
        """Count it, write it down without its words, and tell a stranger how he gets in."""
        self.observer.turned_away(message.source, refusal.name.lower())
        if refusal is Refusal.UNADDRESSED:
            return self.overheard.add(message)
        if self._is_talk_among_others(message, refusal) or not self._has_room(message):
            return None
        await self.store.turn_away(message, self.policy.key_of(message.source), refusal.value)
        if refusal is Refusal.UNPAIRED and message.kind in SAID:
            await self.pairing.invite(message.source, message.id)
        return None

    def _silence(self, message: InboundMessage) -> Refusal | None:
        """For one bot too many, of those that would be answered."""
        stands = message.from_bot and self._standoff.bot_spoke(
            message.source, self.clock.monotonic()
        )
        return Refusal.STANDOFF if stands else None

    def _is_talk_among_others(self, message: InboundMessage, refusal: Refusal) -> bool:
        """What goes on in an allowed chat, and is none of the bot's business, is not to be written down."""
        in_chat = message.source.chat_type is not ChatType.DM
        return (
            in_chat
            and refusal in (Refusal.BOT, Refusal.OFF)
            and not self.policy.access.is_addressed(message)
        )

    def _has_room(self, message: InboundMessage) -> bool:
        """Direct messages have room of their own: a noisy group must not keep strangers from getting a code."""
        source, now = message.source, self.clock.monotonic()
        account = source.platform, source.account, source.chat_type is ChatType.DM
        since, count = self._rows.get(account, (now, 0))
        if now - since >= _MINUTE:
            since, count = now, 0
        self._rows[account] = since, count + 1
        return count < MOST_ROWS_A_MINUTE


def _may_take_part(message: InboundMessage, refusal: Refusal | None) -> bool:
    """Whether it could be let in without an address, if the bot has a conversation in its thread."""
    return (
        refusal is Refusal.UNADDRESSED
        and message.source.thread_id is not None
        and message.kind in SAID
    )
