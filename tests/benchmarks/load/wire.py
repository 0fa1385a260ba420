"""
A platform that costs next to nothing: lines of JSON over a socket, one adapter at the gateway's
end.

The driver says `{"say": [[id, chat, text], ...]}` and hears `{"stored": count}` when all of it is
on disk; what is sent comes as `{"sent": chat, "text": ...}`. `{"tasks": true}` is answered with how
many there are.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from turngate.gateway.domain.errors import Refused
from turngate.gateway.domain.messages import (
    ChatType,
    InboundMessage,
    SessionSource,
)
from turngate.gateway.domain.outbox import Part, Sent
from turngate.gateway.domain.ports.adapter import Limits, Receive

PLATFORM = "telegram"
"""By name only: these are the chats that `population.py` can fill beforehand."""

_LONGEST_LINE = 1 << 26


class LoadAdapter:
    """
    Stores what comes in the order in which it comes, side by side; types, sends and edits at once.
    """

    def __init__(self, socket: Path) -> None:
        self.platform = PLATFORM
        self.limits = Limits(largest_part=4000, measure=len, edit_every=timedelta(seconds=1))
        self._socket = socket
        self._writer: asyncio.StreamWriter | None = None
        self._said = 0

    async def run(self, receive: Receive) -> None:
        """Until the driver hangs up."""
        reader, self._writer = await asyncio.open_unix_connection(self._socket, limit=_LONGEST_LINE)
        async with asyncio.TaskGroup() as storing:
            async for line in reader:
                asked = json.loads(line)
                if "say" in asked:
                    storing.create_task(self._store(asked["say"], receive))
                else:
                    self._tell({"tasks": len(asyncio.all_tasks())})
        await asyncio.Event().wait()

    async def _store(self, said: Sequence[tuple[str, str, str]], receive: Receive) -> None:
        now = datetime.now(UTC)
        await asyncio.gather(*(_taken(receive, _message(*each, now)) for each in said))
        self._tell({"stored": len(said)})

    async def send(self, part: Part) -> Sent:
        """At once."""
        self._said += 1
        if part.id:
            self._tell({"sent": part.target.chat_id, "text": part.text})
        return Sent(message_id=str(self._said), at=datetime.now(UTC))

    async def edit(self, part: Part, message_id: str) -> Sent:
        """As good as sent."""
        return await self.send(part)

    async def show_typing(self, target: SessionSource) -> None:
        """Nobody sees it."""

    def _tell(self, what: dict[str, object]) -> None:
        if self._writer is not None:
            self._writer.write(json.dumps(what).encode() + b"\n")


async def _taken(receive: Receive, message: InboundMessage) -> None:
    try:
        await receive(message)
    except Refused:
        return


def _message(id_: str, chat: str, text: str, now: datetime) -> InboundMessage:
    source = SessionSource(
        platform=PLATFORM, chat_type=ChatType.DM, chat_id=chat, user_id=chat, user_name="Ann"
    )
    return InboundMessage(id=id_, event_ids=(f"load:{id_}",), source=source, text=text, sent_at=now)
