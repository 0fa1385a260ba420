"""
Everything that goes out as a message: answers, edits, questions with buttons, status and reactions.

A message goes once. If Slack finds fault with a part of it that can be left out (the formatting, a thread that is gone)
it was not sent, and goes without that. Whoever may not write in a chat answers a command where the command says.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from turngate.adapters.slack.api import (
    Api,
    FormattingRefused,
    NotThere,
    ThreadGone,
    our_errors,
    word,
)
from turngate.adapters.slack.cache import Memory
from turngate.adapters.slack.emoji import name_of
from turngate.adapters.slack.markup import (
    LARGEST_MARKDOWN,
    LARGEST_UPDATE,
    marked,
    plain,
    question,
    size,
)
from turngate.adapters.slack.part_metadata import metadata_of
from turngate.gateway.domain.errors import Undeliverable, Unreachable
from turngate.gateway.domain.messages import Part, Sent, SessionSource
from turngate.gateway.domain.ports.adapter import Clock

_STATUS = "is working on it…"


class Sender:
    """Of one bot."""

    def __init__(self, api: Api, memory: Memory, clock: Clock) -> None:
        self._api = api
        self._memory = memory
        self._clock = clock

    async def send(self, part: Part) -> Sent:
        """As a message of its own, with its buttons if it has any."""
        _check(part)
        try:
            sent = await self._posted(part)
        except NotThere:
            url = self._memory.response_urls.get(part.reply_to)
            if url is None:
                raise
            return await self._respond(part, url)
        self._memory.join(part.target.chat_id, part.target.thread_id)
        return sent

    async def edit(self, part: Part, message_id: str) -> Sent:
        """In place. A stream that somebody else has begun takes no edit until it is ended."""
        _check(part)
        try:
            return await self._updated(part, message_id)
        except Undeliverable as exc:
            try:
                await self.stop(part, message_id)
            except Undeliverable:
                raise exc from None
            return await self._updated(part, message_id)

    async def stop(self, part: Part, message_id: str, **more: Any) -> None:
        """No more is added to a stream. Undeliverable if it is none, or none any more."""
        asking = self._api.client.chat_stopStream(
            channel=chat_of(part.target), ts=message_id, metadata=metadata_of(part), **more
        )
        await self._api.answer(asking)

    async def show_status(self, target: SessionSource, status: str = _STATUS) -> None:
        """Below what is being answered. Only a thread has a place for that; an empty one takes it away."""
        if target.thread_id is not None:
            asking = self._api.client.assistant_threads_setStatus(
                channel_id=chat_of(target), thread_ts=target.thread_id, status=status
            )
            await self._api.answer(asking)

    async def react(self, target: SessionSource, message_id: str, emoji: str) -> None:
        """A message that is gone, or that has this sign already, needs none."""
        with suppress(Undeliverable):
            asking = self._api.client.reactions_add(
                channel=chat_of(target), timestamp=message_id, name=name_of(emoji)
            )
            await self._api.answer(asking)

    async def _posted(self, part: Part) -> Sent:
        try:
            return await self._post(part, _formatted(part))
        except FormattingRefused:
            return await self._post(part, _unformatted(part))

    async def _post(self, part: Part, words: Mapping[str, Any]) -> Sent:
        where = {"channel": chat_of(part.target), "unfurl_links": False, "unfurl_media": False}
        what = {**where, "metadata": metadata_of(part), **words}
        try:
            answer = await self._api.answer(
                self._api.client.chat_postMessage(**what, thread_ts=part.target.thread_id)
            )
        except ThreadGone:
            answer = await self._api.answer(self._api.client.chat_postMessage(**what))
        return Sent(message_id=word(answer, "ts"), at=self._clock.now())

    async def _updated(self, part: Part, message_id: str) -> Sent:
        try:
            return await self._update(part, message_id, _edited(part))
        except FormattingRefused:
            return await self._update(part, message_id, _edited_plainly(part))

    async def _update(self, part: Part, message_id: str, words: Mapping[str, Any]) -> Sent:
        answer = await self._api.answer(
            self._api.client.chat_update(
                channel=chat_of(part.target), ts=message_id, metadata=metadata_of(part), **words
            )
        )
        return Sent(message_id=word(answer, "ts"), at=self._clock.now())

    async def _respond(self, part: Part, url: str) -> Sent:
        """For the one who gave the command alone. Slack says no name for it, and nobody can look for it."""
        said = {"text": plain(part.text), "response_type": "ephemeral"}
        with our_errors():
            async with self._api.session.post(url, json=said, allow_redirects=False) as response:
                status = response.status
        if status >= 500:
            raise Unreachable("Slack has trouble of its own")
        if status != 200:
            raise NotThere(
                "the bot may not write there, and the command was given too long ago to be answered"
            )
        return Sent(message_id=f"response-{part.id}", at=self._clock.now())


def chat_of(target: SessionSource) -> str:
    """Where to write."""
    if not target.chat_id:
        raise Undeliverable("there is no chat to write to")
    return target.chat_id


def _check(part: Part) -> None:
    """Slack would cut it."""
    if size(part.text) > LARGEST_MARKDOWN:
        raise Undeliverable("it is too long for Slack")


def _formatted(part: Part) -> Mapping[str, Any]:
    """Markdown as it is; beside buttons it stands in a block, and the text is for notifications."""
    if not part.buttons:
        return {"markdown_text": marked(part.text)}
    return {"blocks": question(part.text, part.buttons), "text": plain(part.text)}


def _unformatted(part: Part) -> Mapping[str, Any]:
    if not part.buttons:
        return {"text": plain(part.text), "mrkdwn": False}
    return {"blocks": question(part.text, part.buttons, plainly=True), "text": plain(part.text)}


def _edited(part: Part) -> Mapping[str, Any]:
    """Never as text alone: blocks that an edit does not mention stay then, buttons with them."""
    if not part.buttons:
        return {"markdown_text": marked(part.text)}
    return {"blocks": question(part.text, part.buttons), "text": plain(part.text)[:LARGEST_UPDATE]}


def _edited_plainly(part: Part) -> Mapping[str, Any]:
    blocks = question(part.text, part.buttons, plainly=True)
    return {"blocks": blocks, "text": plain(part.text)[:LARGEST_UPDATE]}
