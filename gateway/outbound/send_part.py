"""
Send one part through an adapter, in the way it was meant: a new message, an edit, a file, buttons.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from datetime import datetime

from turngate.gateway.domain.agent_events import File
from turngate.gateway.domain.errors import Undeliverable
from turngate.gateway.domain.outbox import Part, Sent
from turngate.gateway.domain.ports.adapter import (
    Adapter,
    AsksWithButtons,
    EditsMessages,
    FindsSent,
    SendsFiles,
)
from turngate.gateway.domain.ports.capability import can
from turngate.gateway.stores.session_files import is_there

REPEAT_MARK = "(possible repeat)\n\n"
ROOM_FOR_MARK = 2 * len(REPEAT_MARK)
"""A part leaves this much of its platform's limit free, for the mark it may be sent with."""


async def send_part(adapter: Adapter, part: Part, *, in_doubt: bool, since: datetime) -> Sent:
    """
    Send a part as meant: in place of its preview, or as a new message.

    An edit needs no check for duplicates: made twice, it is still one message. If that message is
    gone, a new one is sent.
    """
    if part.file is not None:
        return await _send_file(adapter, part, part.file, in_doubt=in_doubt, since=since)

    if part.edits is not None and can(adapter, EditsMessages):
        # The message may have been deleted by the user: then the answer is sent as a new one.
        with suppress(Undeliverable):
            return await adapter.edit(part, part.edits)

    if in_doubt:
        return await _send_again(adapter, part, since)

    return await _send(adapter, part)


async def _send(adapter: Adapter, part: Part) -> Sent:
    if part.buttons and can(adapter, AsksWithButtons):
        return await adapter.ask(part)
    return await adapter.send(part)


async def _send_file(
    adapter: Adapter, part: Part, file: File, *, in_doubt: bool, since: datetime
) -> Sent:
    """Send a file with its caption, or as text where files cannot be sent."""
    # Look for it first: a file that is sent twice is worse than a question to the platform.
    if in_doubt and can(adapter, FindsSent):
        found = await adapter.find_sent(part, since)
        if found is not None:
            return found
    elif in_doubt:
        part = replace(part, text=(REPEAT_MARK + part.text).rstrip())

    if not can(adapter, SendsFiles):
        return await adapter.send(_as_text(part, file))
    # The copy may have been deleted by hand or by a restore of another machine.
    if not await is_there(file):
        raise Undeliverable("its file is no longer there")

    return await adapter.send_file(part)


def _as_text(part: Part, file: File) -> Part:
    words = f"(a file was made here: {file.name or 'without a name'}; this platform cannot show it)"
    return replace(part, text=f"{part.text}\n\n{words}".strip(), file=None)


async def _send_again(adapter: Adapter, part: Part, since: datetime) -> Sent:
    """Look for a part that may have arrived, or send it marked as a possible repeat."""
    finder: object = adapter
    if can(finder, FindsSent):
        return await finder.find_sent(part, since) or await _send(adapter, part)
    return await _send(adapter, replace(part, text=REPEAT_MARK + part.text))
