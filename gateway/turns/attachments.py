"""
What came with messages, fetched before their turn begins, so that the transcript knows where it is.

A file that cannot be had spoils no turn: the agent reads in its place why not, and so does whoever sent it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain, repeat

from turngate.gateway.domain.errors import Refused, Retryable, Throttled, TurngateError
from turngate.gateway.domain.messages import Attachment, Entry, InboundMessage, SessionId
from turngate.gateway.domain.ports.adapter import FetchesFiles
from turngate.gateway.domain.ports.store import Store
from turngate.gateway.observability.error_text import reason_of
from turngate.gateway.observability.observer import Observer
from turngate.gateway.outbound.delivery import Delivery
from turngate.gateway.rules.policy import Policy
from turngate.gateway.stores.session_files import Files, clean_name, too_large
from turngate.gateway.stores.waiting_store import until_stored
from turngate.gateway.turns.batch import ActiveBatch

LONGEST_FETCH = 300.0
"""Seconds for all files of a turn together; what has not come by then is not waited for."""

_PAUSES = 0.5, 1.0
_BETWEEN = "\n\n"

_Found = Attachment | str


@dataclass(slots=True, kw_only=True)
class Attachments:
    """Fetches through whichever account a message came from."""

    files: Files
    policy: Policy
    store: Store
    delivery: Delivery
    observer: Observer

    async def gather(self, running: ActiveBatch) -> list[InboundMessage]:
        """
        The messages of a batch with their files, before its turn begins. Being stopped ends it at once.

        Of a turn that had begun before, the transcript has the files.
        """
        messages = [stored.message for stored in running.batch]
        if (
            not any(message.attachments for message in messages)
            or running.batch[0].turn is not None
        ):
            return messages
        opening, found = self.policy.opening(messages[-1].source), list[_Found]()
        session = (await until_stored(lambda: self.store.open(opening), self.observer)).session.id
        fetching = asyncio.ensure_future(self._fetch_all(session, messages, found))
        running.stoppable(lambda: _cut_off(fetching))
        try:
            await asyncio.wait({fetching}, timeout=LONGEST_FETCH)
        finally:
            fetching.cancel()
        await asyncio.wait({fetching})
        answers = chain(found, repeat("it took too long"))
        return [
            _with_files(message, zip(self._wanted(message), answers, strict=False))
            for message in messages
        ]

    def _wanted(self, message: InboundMessage) -> Sequence[Attachment]:
        return message.attachments[: self.files.rules.per_message]

    async def _fetch_all(
        self, session: SessionId, messages: Sequence[InboundMessage], found: list[_Found]
    ) -> None:
        """One after the other, so that what has come is there whenever this is cut off."""
        for message in messages:
            fetcher = self.delivery.fetcher(message.source)
            for attachment in self._wanted(message):
                found.append(await self._fetch(session, attachment, fetcher))  # noqa: PERF401 - not lost when cut off

    async def _fetch(
        self, session: SessionId, attachment: Attachment, fetcher: FetchesFiles | None
    ) -> _Found:
        """Where it is now, or why it is not here."""
        try:
            if attachment.size is not None and attachment.size > self.files.rules.largest:
                raise Refused(too_large(attachment.size, self.files.rules.largest))
            if fetcher is None:
                raise Refused("files cannot be taken from there")
            return await self._until_it_came(session, attachment, fetcher)
        except TurngateError as exc:
            self.observer.file_refused(exc)
            return reason_of(exc)
        except Exception as exc:  # noqa: BLE001 - an adapter's bug costs this file, never the turn
            self.observer.bug(exc)
            return "something went wrong here"

    async def _until_it_came(
        self, session: SessionId, attachment: Attachment, fetcher: FetchesFiles
    ) -> Attachment:
        """A connection may break: another try costs little, and a file that is missing may cost the answer."""
        for pause in _PAUSES:
            try:
                return await self.files.receive(session, attachment, fetcher.fetch(attachment))
            except Retryable as exc:
                await asyncio.sleep(exc.retry_after if isinstance(exc, Throttled) else pause)
        return await self.files.receive(session, attachment, fetcher.fetch(attachment))


def not_fetched(said: Sequence[Entry], running: ActiveBatch) -> list[str]:
    """
    What the senders of a batch should know before the answer: which of their files the agent does not have.

    Found in what was said, after what they wrote themselves, so that a crash cannot swallow it.
    """
    written = {
        stored.message.id: stored.message.text
        for stored in running.batch
        if stored.message.attachments
    }
    added = [
        _added(entry.text, written[entry.message_id])
        for entry in said
        if entry.message_id in written
    ]
    stand_ins = filter(None, _BETWEEN.join(added).split(_BETWEEN))
    told = [f"{each[1].upper()}{each[2:-1]}." for each in stand_ins]
    return ["\n".join(told)] if told else []


def _added(said: str, written: str) -> str:
    return said.removeprefix(written) if said.startswith(written) else ""


def _with_files(
    message: InboundMessage, results: Iterable[tuple[Attachment, _Found]]
) -> InboundMessage:
    """What could be fetched stays with the message; of the rest its text says why."""
    came, stand_ins, looked_at = [], [], 0
    for attachment, found in results:
        looked_at += 1
        if isinstance(found, Attachment):
            came.append(found)
        else:
            stand_ins.append(f"[file {_name(attachment)} could not be fetched: {found}]")
    if more := len(message.attachments) - looked_at:
        stand_ins.append(
            f"[{more} more of the files were not fetched: {looked_at} are the most with one message]"
        )
    text = _BETWEEN.join(filter(None, (message.text, *stand_ins)))
    return replace(message, text=text, attachments=tuple(came))


def _name(attachment: Attachment) -> str:
    return clean_name(attachment.name or attachment.type.value)


def _cut_off(fetching: asyncio.Future[None]) -> None:
    fetching.cancel()
