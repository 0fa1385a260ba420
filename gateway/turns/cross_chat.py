"""
What an agent sends to another place than the one it was asked from.

It goes where a person could have been answered, and nowhere else: `authorize` decides, as for everybody. What was sent
stands in the transcript of the place it went to, so that a reply to it has a context.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace

from turngate.gateway.domain.errors import Refused
from turngate.gateway.domain.messages import (
    Entry,
    InboundMessage,
    MessageKind,
    Origin,
    Part,
    Role,
    Send,
    SessionSource,
    Text,
)
from turngate.gateway.domain.pairing_records import Person
from turngate.gateway.domain.ports.adapter import Clock
from turngate.gateway.domain.ports.store import Store
from turngate.gateway.observability.observer import Observer
from turngate.gateway.outbound.delivery import Delivery
from turngate.gateway.outbound.splitting import Splitter
from turngate.gateway.rules.authorization import authorize
from turngate.gateway.rules.delivery_targets import Target, read_target
from turngate.gateway.rules.policy import Policy
from turngate.gateway.stores.waiting_store import until_stored


@dataclass(frozen=True, slots=True, kw_only=True)
class Elsewhere:
    """Puts what is to be sent into the outbox and the transcript there. `approved` are those who were paired."""

    policy: Policy
    store: Store
    observer: Observer
    clock: Clock
    delivery: Delivery
    fitting: Splitter
    approved: Callable[[], Collection[Person]]

    async def send(self, message: InboundMessage, send: Send) -> None:
        """On behalf of whoever wrote that message. Raises Refused with a reason that he may read."""
        if not send.text.strip():
            raise Refused("there is nothing to say")
        place = await self._place(
            read_target(send.target, message.source, self.policy.homes), message
        )
        opening = self.policy.opening(place)
        session = (await until_stored(lambda: self.store.open(opening), self.observer)).session
        words = Entry(
            role=Role.ASSISTANT,
            content=(Text(send.text),),
            at=self.clock.now(),
            origin=Origin.DELIVERY,
        )
        parts = await self.fitting.parts((Part(target=place, text=send.text),), session.id)
        telling = self.store.tell
        for part in await until_stored(
            lambda: telling(session.id, entries=(words,), parts=parts), self.observer
        ):
            self.delivery.take_up(part)

    async def _place(
        self, target: Target | SessionSource, message: InboundMessage
    ) -> SessionSource:
        if isinstance(target, SessionSource):
            return target
        if target.platform not in self.policy.connected:
            raise Refused(f"there is no account of {target.platform} here")
        direct = SessionSource(
            platform=target.platform, account=target.account, chat_id=target.chat
        )
        talk = await self.store.current(self.policy.key_of(direct))
        if talk is not None:
            place = replace(talk.origin, thread_id=target.thread)
        else:
            place = self.delivery.place(target.platform, target.account, target.chat, target.thread)
        asked = replace(
            message, source=place, kind=MessageKind.NEW, addressed_to_bot=True, from_bot=False
        )
        if (
            not target.is_home
            and authorize(asked, self.policy.access, self.approved()).refusal is not None
        ):
            raise Refused(
                "nobody may be written to there; the operator can allow it in access.allow"
            )
        return place
