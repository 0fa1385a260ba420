"""
Fetch the files of messages before their turn begins, so that the transcript knows where they are.

A file that cannot be fetched does not fail the turn: the agent reads the reason in its place, and
so does the user.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain, repeat

from turngate.gateway.domain.errors import Refused, Retryable, Throttled, TurngateError
from turngate.gateway.domain.ids import SessionId
from turngate.gateway.domain.messages import Attachment, InboundMessage
from turngate.gateway.domain.ports.adapter import FetchesFiles
from turngate.gateway.domain.ports.store import Store
from turngate.gateway.domain.transcript import Entry
from turngate.gateway.observability.error_text import reason_of
from turngate.gateway.observability.observer import Observer
from turngate.gateway.outbound.connected_accounts import ConnectedAccounts
from turngate.gateway.rules.policy import Policy
from turngate.gateway.stores.session_files import SessionFiles, clean_name, too_large
from turngate.gateway.turns.batch import ActiveBatch

LONGEST_FETCH = 300.0
"""Seconds for all files of a turn together; what has not come by then is not waited for."""

_PAUSES = 0.5, 1.0
_BETWEEN = "\n\n"

_Found = Attachment | str


@dataclass(slots=True, kw_only=True)
class Attachments:
    """Fetches files through the account that a message came from."""

    files: SessionFiles
    policy: Policy
    store: Store
    accounts: ConnectedAccounts
    observer: Observer

    async def fetch(self, batch: ActiveBatch) -> list[InboundMessage]:
        """
        Return the messages of a batch with their files. A stop ends the fetching at once.

        For a turn that had begun before, the transcript has the files already.
        """
        messages = [stored.message for stored in batch.queued]
        if not any(message.attachments for message in messages) or batch.queued[0].turn is not None:
            return messages

        opening = self.policy.opening(messages[-1].source)
        found = list[_Found]()
        session = (await self.store.open(opening)).session.id
        # A task of its own, so that a stop or the time limit keeps what has arrived by then.
        fetching = asyncio.ensure_future(self._fetch_all(session, messages, found))
        batch.stoppable(lambda: _cut_off(fetching))
        try:
            await asyncio.wait({fetching}, timeout=LONGEST_FETCH)
        finally:
            fetching.cancel()

        # Until the cancelled task has ended, `found` may still grow.
        await asyncio.wait({fetching})
        # What was not reached in time is reported like any other failure. `zip` asks for the file
        # first, so the end of one message takes no answer that belongs to the next.
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
        """Fetch one file after the other, so that a cut-off keeps what has arrived."""
        for message in messages:
            fetcher = self.accounts.fetcher(message.source)
            for attachment in self._wanted(message):
                # Not lost when cut off.
                found.append(await self._fetch(session, attachment, fetcher))  # noqa: PERF401

    async def _fetch(
        self, session: SessionId, attachment: Attachment, fetcher: FetchesFiles | None
    ) -> _Found:
        """Return where the file is now, or why it could not be fetched."""
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
        """Retry a broken connection: a retry is cheap, and a missing file may spoil the answer."""
        # Two retries, then one last attempt whose error counts.
        for pause in _PAUSES:
            try:
                return await self.files.receive(session, attachment, fetcher.fetch(attachment))
            except Retryable as exc:
                # However long a platform asks for: LONGEST_FETCH ends the wait.
                await asyncio.sleep(exc.retry_after if isinstance(exc, Throttled) else pause)
        return await self.files.receive(session, attachment, fetcher.fetch(attachment))


def not_fetched(recorded: Sequence[Entry], batch: ActiveBatch) -> list[str]:
    """
    Return what users should read before the answer: which of their files the agent does not have.

    Derived from the recorded text after what the user wrote, so that it survives a crash.
    """
    written = {
        stored.message.id: stored.message.text
        for stored in batch.queued
        if stored.message.attachments
    }
    added = [
        _added(entry.text, written[entry.message_id])
        for entry in recorded
        if entry.message_id in written
    ]
    # Each is "[file NAME could not be fetched: WHY]"; users read it as a sentence.
    stand_ins = filter(None, _BETWEEN.join(added).split(_BETWEEN))
    told = [f"{each[1].upper()}{each[2:-1]}." for each in stand_ins]

    return ["\n".join(told)] if told else []


def _added(text: str, written: str) -> str:
    return text.removeprefix(written) if text.startswith(written) else ""


def _with_files(
    message: InboundMessage, results: Iterable[tuple[Attachment, _Found]]
) -> InboundMessage:
    """Attach the files that were fetched; the text says why for the others."""
    came = []
    stand_ins = []
    looked_at = 0
    for attachment, found in results:
        looked_at += 1
        if isinstance(found, Attachment):
            came.append(found)
        else:
            stand_ins.append(f"[file {_name(attachment)} could not be fetched: {found}]")

    # Files beyond the limit are mentioned as well, or the user would expect them to be read.
    if more := len(message.attachments) - looked_at:
        stand_ins.append(
            f"[{more} more of the files were not fetched: {looked_at} are the most with one "
            "message]"
        )

    text = _BETWEEN.join(filter(None, (message.text, *stand_ins)))
    return replace(message, text=text, attachments=tuple(came))


def _name(attachment: Attachment) -> str:
    return clean_name(attachment.name or attachment.type.value)


def _cut_off(fetching: asyncio.Future[None]) -> None:
    fetching.cancel()
