"""
Outgoing messages: answers, edits, questions with buttons, status and reactions.

A message is sent once. If Slack rejects an optional part of it (the formatting, a deleted thread),
it was not sent and is sent again without that part. A slash command in a channel is answered for
its user only, through its response URL where the bot cannot write.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from turngate.adapters.slack.api import (
    Api,
    ChatNotWritable,
    FormattingRefused,
    ThreadGone,
    required_text,
    translated_errors,
)
from turngate.adapters.slack.app.slash import hint_for
from turngate.adapters.slack.cache import Cache
from turngate.adapters.slack.emoji import name_of
from turngate.adapters.slack.markup import (
    LARGEST_MARKDOWN,
    LARGEST_UPDATE,
    marked,
    plain,
    question_blocks,
    size,
)
from turngate.adapters.slack.normalise import SLASH_COMMAND
from turngate.adapters.slack.part_metadata import metadata_of
from turngate.adapters.slack.threads import Threads
from turngate.gateway.domain.errors import Undeliverable, Unreachable
from turngate.gateway.domain.messages import ChatType, SessionSource
from turngate.gateway.domain.outbox import Part, Sent
from turngate.gateway.domain.ports.clock import Clock

_STATUS = "is working on it…"


class Sender:
    """Sends messages of one bot."""

    def __init__(self, api: Api, cache: Cache, threads: Threads, clock: Clock) -> None:
        self._api = api
        self._cache = cache
        self._threads = threads
        self._clock = clock

    async def send(self, part: Part) -> Sent:
        """Send the part as a new message, with its buttons if it has any."""
        _check_size(part)
        is_private = _is_private(part)
        if is_private:
            part = self._with_hint(part)

        try:
            sent = await (self._whispered(part) if is_private else self._posted(part))
        except ChatNotWritable:
            url = self._cache.response_urls.get(part.reply_to)
            if url is None:
                raise
            return await self._respond(part, url)

        self._cache.join(part.target.chat_id, part.target.thread_id)
        return sent

    async def edit(self, part: Part, message_id: str) -> Sent:
        """
        Replace a message. A stream started by another process has to be stopped before it can be
        edited.
        """
        _check_size(part)

        try:
            return await self._updated(part, message_id)
        except Undeliverable as exc:
            try:
                await self.stop(part, message_id)
            except Undeliverable:
                raise exc from None
            return await self._updated(part, message_id)

    async def stop(self, part: Part, message_id: str, **more: Any) -> None:
        """Stop a stream. Raises Undeliverable if the message is not an open stream."""
        request = self._api.client.chat_stopStream(
            channel=chat_of(part.target), ts=message_id, metadata=metadata_of(part), **more
        )
        await self._api.answer(request)

    async def show_status(self, target: SessionSource, status: str = _STATUS) -> None:
        """Show a status in a thread (chats have none)."""
        thread = self._threads.newest(target)
        if thread is not None:
            self._cache.statuses.put(target.chat_id, thread)
            await self._set_status(target, thread, status)

    async def remove_status(self, target: SessionSource) -> None:
        """Remove the status from the thread in which it was shown."""
        shown_in = self._cache.statuses.take(target.chat_id)
        thread = target.thread_id or shown_in
        if thread is not None:
            await self._set_status(target, thread, "")

    async def react(self, target: SessionSource, message_id: str, emoji: str) -> None:
        """Add a reaction. A deleted message and a duplicate reaction are ignored."""
        with suppress(Undeliverable):
            request = self._api.client.reactions_add(
                channel=chat_of(target), timestamp=message_id, name=name_of(emoji)
            )
            await self._api.answer(request)

    async def _set_status(self, target: SessionSource, thread: str, status: str) -> None:
        request = self._api.client.assistant_threads_setStatus(
            channel_id=chat_of(target), thread_ts=thread, status=status
        )
        await self._api.answer(request)

    async def _posted(self, part: Part) -> Sent:
        thread = await self._threads.of(part)
        try:
            sent = await self._post(part, thread, _formatted(part))
        except FormattingRefused:
            # Nothing was sent, so sending it again as plain text cannot repeat it.
            sent = await self._post(part, thread, _unformatted(part))

        self._threads.note_sent(part, thread, sent)
        return sent

    async def _post(self, part: Part, thread: str | None, words: Mapping[str, Any]) -> Sent:
        where = {"channel": chat_of(part.target), "unfurl_links": False, "unfurl_media": False}
        what = {**where, "metadata": metadata_of(part), **words}
        try:
            answer = await self._api.answer(
                self._api.client.chat_postMessage(**what, thread_ts=thread)
            )
        except ThreadGone:
            # Nothing was posted: post to the chat itself.
            answer = await self._api.answer(self._api.client.chat_postMessage(**what))
        return Sent(message_id=required_text(answer, "ts"), at=self._clock.now())

    async def _updated(self, part: Part, message_id: str) -> Sent:
        try:
            return await self._update(part, message_id, _edited(part))
        except FormattingRefused:
            return await self._update(part, message_id, _edited_as_plain(part))

    async def _update(self, part: Part, message_id: str, words: Mapping[str, Any]) -> Sent:
        answer = await self._api.answer(
            self._api.client.chat_update(
                channel=chat_of(part.target), ts=message_id, metadata=metadata_of(part), **words
            )
        )
        return Sent(message_id=required_text(answer, "ts"), at=self._clock.now())

    def _with_hint(self, part: Part) -> Part:
        """Say in a channel that the command concerned no thread."""
        hint = hint_for(self._cache.commands.get(part.reply_to) or "stop")
        if part.target.chat_type is not ChatType.CHANNEL or part.ordinal or not hint:
            return part
        text = f"{part.text}\n\n{hint}"
        return replace(part, text=text) if size(text) <= LARGEST_MARKDOWN else part

    async def _whispered(self, part: Part) -> Sent:
        """Post for one user only. It cannot be edited and is in no history."""
        try:
            return await self._whisper(part, _formatted(part))
        except FormattingRefused:
            return await self._whisper(part, _unformatted(part))

    async def _whisper(self, part: Part, words: Mapping[str, Any]) -> Sent:
        text = {name: value for name, value in words.items() if name != "mrkdwn"}
        request = self._api.client.chat_postEphemeral(
            channel=chat_of(part.target), user=part.target.user_id or "", **text
        )
        answer = await self._api.answer(request)
        message_id = f"ephemeral-{required_text(answer, 'message_ts')}"
        return Sent(message_id=message_id, at=self._clock.now())

    async def _respond(self, part: Part, url: str) -> Sent:
        """
        Answer a command through its response URL, visible to its user only.

        Slack returns no message id, so the answer cannot be found again.
        """
        body = {"text": plain(part.text), "response_type": "ephemeral"}
        with translated_errors():
            async with self._api.session.post(url, json=body, allow_redirects=False) as response:
                status = response.status

        if status >= 500:
            raise Unreachable("Slack reported an internal error")
        if status != 200:
            raise ChatNotWritable(
                "the bot may not write there, and the response URL of the command has expired"
            )

        return Sent(message_id=f"response-{part.id}", at=self._clock.now())


def chat_of(target: SessionSource) -> str:
    """Return the chat to send to."""
    if not target.chat_id:
        raise Undeliverable("there is no chat to write to")
    return target.chat_id


def _is_private(part: Part) -> bool:
    """
    Whether the part answers a slash command where others read along. A question is posted: its
    message is edited once it was answered.
    """
    return (
        (part.reply_to or "").startswith(SLASH_COMMAND)
        and part.target.chat_type is not ChatType.DM
        and part.target.user_id is not None
        and not part.buttons
    )


def _check_size(part: Part) -> None:
    """Reject text that Slack would truncate."""
    if size(part.text) > LARGEST_MARKDOWN:
        raise Undeliverable("it is too long for Slack")


def _formatted(part: Part) -> Mapping[str, Any]:
    """Return Markdown; with buttons it goes into a block, and `text` is for notifications."""
    if not part.buttons:
        return {"markdown_text": marked(part.text)}
    return {"blocks": question_blocks(part.text, part.buttons), "text": plain(part.text)}


def _unformatted(part: Part) -> Mapping[str, Any]:
    if not part.buttons:
        return {"text": plain(part.text), "mrkdwn": False}
    return {
        "blocks": question_blocks(part.text, part.buttons, as_plain=True),
        "text": plain(part.text),
    }


def _edited(part: Part) -> Mapping[str, Any]:
    """
    Return the fields of an edit. Text alone would leave the old blocks, and their buttons, in
    place.
    """
    if not part.buttons:
        return {"markdown_text": marked(part.text)}
    return {
        "blocks": question_blocks(part.text, part.buttons),
        "text": plain(part.text)[:LARGEST_UPDATE],
    }


def _edited_as_plain(part: Part) -> Mapping[str, Any]:
    blocks = question_blocks(part.text, part.buttons, as_plain=True)
    return {"blocks": blocks, "text": plain(part.text)[:LARGEST_UPDATE]}
