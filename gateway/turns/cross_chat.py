"""
Send an agent's message to another chat than the one it was asked in.

Only to a chat where the user may be answered: `authorize` decides, as for any message. The message
is added to the transcript of that chat, so that a reply to it has a context.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace

from turngate.gateway.domain.agent_events import Send
from turngate.gateway.domain.errors import Refused
from turngate.gateway.domain.messages import InboundMessage, MessageKind, SessionSource
from turngate.gateway.domain.outbox import Part
from turngate.gateway.domain.pairing_records import Person
from turngate.gateway.domain.ports.clock import Clock
from turngate.gateway.domain.ports.store import Store
from turngate.gateway.domain.transcript import Entry, Origin, Role, Text
from turngate.gateway.outbound.connected_accounts import ConnectedAccounts
from turngate.gateway.outbound.delivery import Delivery
from turngate.gateway.outbound.splitting import Splitter
from turngate.gateway.rules.authorization import authorize
from turngate.gateway.rules.delivery_targets import Target, read_target
from turngate.gateway.rules.policy import Policy


@dataclass(frozen=True, slots=True, kw_only=True)
class CrossChatSender:
    """Puts a message into the outbox and transcript of a chat. `approved`: the paired users."""

    policy: Policy
    store: Store
    clock: Clock
    accounts: ConnectedAccounts
    delivery: Delivery
    splitter: Splitter
    approved: Callable[[], Collection[Person]]

    async def send(self, message: InboundMessage, send: Send) -> None:
        """Send for the user who wrote `message`. Raises Refused with a reason they may read."""
        if not send.text.strip():
            raise Refused("there is nothing to say")

        target = read_target(send.target, message.source, self.policy.homes)
        chat = await self._chat_of(target, message)
        session = (await self.store.open(self.policy.opening(chat))).session
        words = Entry(
            role=Role.ASSISTANT,
            content=(Text(send.text),),
            at=self.clock.now(),
            origin=Origin.DELIVERY,
        )
        parts = await self.splitter.parts((Part(target=chat, text=send.text),), session.id)
        for part in await self.store.tell(session.id, entries=(words,), parts=parts):
            self.delivery.enqueue(part)

    async def _chat_of(
        self, target: Target | SessionSource, message: InboundMessage
    ) -> SessionSource:
        if isinstance(target, SessionSource):
            return target
        # Checked before the store is asked, so that a typo is answered with the real cause.
        if target.platform not in self.policy.connected:
            raise Refused(f"there is no account of {target.platform} here")

        direct = SessionSource(
            platform=target.platform, account=target.account, chat_id=target.chat
        )
        talk = await self.store.current(self.policy.key_of(direct))
        # A known conversation knows its kind of chat and its names; an id alone does not.
        if talk is not None:
            chat = replace(talk.origin, thread_id=target.thread)
        else:
            chat = self.accounts.locate_chat(
                target.platform, target.account, target.chat, target.thread
            )

        # The other chat is authorized as if the user had written there. A home chat need not be:
        # the operator named it in the config.
        asked = replace(
            message, source=chat, kind=MessageKind.NEW, addressed_to_bot=True, from_bot=False
        )
        refusal = authorize(asked, self.policy.access, self.approved()).refusal
        if refusal is None or target.is_home:
            return chat

        raise Refused("permission denied for that chat; the operator can allow it in access.allow")
