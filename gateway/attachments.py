"""
What came with messages, fetched before their turn begins, so that the transcript knows where it is.

A file that cannot be had spoils no turn: the agent reads in its place why not, and so does whoever sent it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain, repeat

from gateway.delivery import Delivery
from gateway.errors import Refused, Retryable, Throttled, TurngateError
from gateway.files import Files, clean_name, too_large
from gateway.lanes import Running
from gateway.model import Attachment, InboundMessage, SessionId
from gateway.observe import Observer, reason_of
from gateway.patience import until_stored
from gateway.policy import Policy
from gateway.ports import FetchesFiles
from gateway.storing import Store

LONGEST_FETCH = 300.0
"""Seconds for all files of a turn together; what has not come by then is not waited for."""

_PAUSES = 0.5, 1.0
_NOT_IN_TIME = "it took too long"

_Found = Attachment | str


@dataclass(frozen=True, slots=True, kw_only=True)
class Gathered:
    """The messages with what could be fetched, and what their sender should know of the rest."""

    messages: list[InboundMessage]
    words: list[str]


@dataclass(slots=True, kw_only=True)
class Attachments:
    """Fetches through whichever account a message came from."""

    files: Files
    policy: Policy
    store: Store
    delivery: Delivery
    observer: Observer

    async def gather(self, running: Running) -> Gathered:
        """
        Before the turn of a batch begins; a turn that had begun before has the paths in its transcript.

        Being stopped ends it at once.
        """
        messages = [stored.message for stored in running.batch]
        if not any(message.attachments for message in messages) or running.batch[0].turn is not None:
            return Gathered(messages=messages, words=[])
        opening = self.policy.opening(messages[-1].source)
        session = (await until_stored(lambda: self.store.open(opening), self.observer)).session.id
        found: list[_Found] = []
        fetching = asyncio.ensure_future(self._fetch_all(session, messages, found))
        running.stoppable(lambda: _cut_off(fetching))
        try:
            await asyncio.wait({fetching}, timeout=LONGEST_FETCH)
        finally:
            fetching.cancel()
        await asyncio.wait({fetching})
        return _gathered(messages, found)

    async def _fetch_all(self, session: SessionId, messages: Sequence[InboundMessage], found: list[_Found]) -> None:
        """One after the other, so that what has come is there whenever this is cut off."""
        for message in messages:
            fetcher = self.delivery.fetcher(message.source)
            for at, attachment in enumerate(message.attachments):
                found.append(await self._fetch(session, attachment, fetcher, at))

    async def _fetch(self, session: SessionId, attachment: Attachment, fetcher: FetchesFiles | None, at: int) -> _Found:
        """Where it is now, or why it is not here."""
        try:
            self._check(attachment, at)
            if fetcher is None:
                raise Refused("files cannot be taken from there")
            return await self._until_it_came(session, attachment, fetcher)
        except TurngateError as exc:
            self.observer.file_refused(exc)
            return reason_of(exc)
        except Exception as exc:  # noqa: BLE001 - an adapter's bug costs this file, never the turn
            self.observer.bug(exc)
            return "something went wrong here"

    def _check(self, attachment: Attachment, at: int) -> None:
        rules = self.files.rules
        if at >= rules.per_message:
            raise Refused(f"{rules.per_message} files are the most with one message")
        if attachment.size is not None and attachment.size > rules.largest:
            raise Refused(too_large(attachment.size, rules.largest))

    async def _until_it_came(self, session: SessionId, attachment: Attachment, fetcher: FetchesFiles) -> Attachment:
        """A connection may break: another try costs little, and a file that is missing may cost the answer."""
        for pause in _PAUSES:
            try:
                return await self.files.receive(session, attachment, fetcher.fetch(attachment))
            except Retryable as exc:
                await asyncio.sleep(exc.retry_after if isinstance(exc, Throttled) else pause)
        return await self.files.receive(session, attachment, fetcher.fetch(attachment))


def _cut_off(fetching: asyncio.Future[None]) -> None:
    fetching.cancel()


def _gathered(messages: Sequence[InboundMessage], found: Sequence[_Found]) -> Gathered:
    answers, whole, words = chain(found, repeat(_NOT_IN_TIME)), [], list[str]()
    for message in messages:
        results = list(zip(message.attachments, answers, strict=False))  # the answers go on with the next message
        missing = [_missing(attachment, why) for attachment, why in results if isinstance(why, str)]
        text = "\n\n".join(filter(None, (message.text, *(f"[{each}]" for each in missing))))
        came = tuple(each for _, each in results if isinstance(each, Attachment))
        whole.append(replace(message, text=text, attachments=came))
        words += [f"{each[0].upper()}{each[1:]}." for each in missing]
    return Gathered(messages=whole, words=words)


def _missing(attachment: Attachment, why: str) -> str:
    name = clean_name(attachment.name or attachment.type.value)
    return f"file {name} could not be fetched: {why}"
