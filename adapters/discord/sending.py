"""
Everything that is sent: messages, edits, questions with buttons, files, typing, reactions.

A message is sent with a nonce: sending it again within a few minutes returns the first one. Where
Discord names an obstacle (missing thread, forum, archive), nothing was sent, and another request is
made.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta

from turngate.adapters.discord.api import (
    Api,
    Archived,
    ChannelGone,
    Forbidden,
    HasThread,
    MessageGone,
    NeedsTag,
    OnlyPosts,
)
from turngate.adapters.discord.cache import Cache
from turngate.adapters.discord.channels import Channel
from turngate.adapters.discord.directory import Directory
from turngate.adapters.discord.ids import (
    checked,
    id_at,
    is_id,
    time_of,
)
from turngate.adapters.discord.interactions import (
    ANSWER,
    FOLLOW_UP,
    ORIGINAL,
    PRIVATE,
    Interaction,
    Interactions,
)
from turngate.adapters.discord.json_fields import (
    Payload,
    author_of,
    id_in,
    is_set,
    needed_id,
    number_of,
    object_in,
    objects_in,
)
from turngate.adapters.discord.mentions import without_ids
from turngate.adapters.discord.normalise import sent_at
from turngate.adapters.discord.outgoing import (
    Body,
    body_of,
    matches,
    nonce_of,
    reference_to,
)
from turngate.adapters.discord.uploads import Upload, open_upload
from turngate.gateway.domain.errors import TurngateError, Undeliverable
from turngate.gateway.domain.messages import ChatType, SessionSource
from turngate.gateway.domain.outbox import Part, Sent
from turngate.gateway.domain.ports.clock import Clock
from turngate.gateway.domain.text import cut

_MESSAGES = "/channels/{channel_id}/messages"
_MESSAGE = _MESSAGES + "/{message_id}"
_LONGEST_TITLE = 90
_NAMELESS = "Conversation"
_MARKS = " #*_`>-|"
# Discord keeps a nonce for some minutes, without saying how many.
_NONCE_HOLDS = timedelta(minutes=2)
_CLOCKS_DIFFER = timedelta(seconds=1)
_PAGE = 100
_UNFINISHED = "…"
_MOST_PAGES = 20


class Sender:
    """Sends for one bot."""

    def __init__(
        self, api: Api, directory: Directory, cache: Cache, interactions: Interactions, clock: Clock
    ) -> None:
        self._api = api
        self._directory = directory
        self._cache = cache
        self._interactions = interactions
        self._clock = clock

    async def send(self, part: Part) -> Sent:
        """Send a message, with its buttons if it has any."""
        return await self._send(part, self._body(part))

    async def send_file(self, part: Part) -> Sent:
        """Send the file with the part's text."""
        channel = await self._channel(part.target)
        async with open_upload(part, self._directory.largest_file(channel)) as upload:
            return await self._send(part, self._body(part), upload)

    async def edit(self, part: Part, message_id: str) -> Sent:
        """Edit a message; an archived thread is reopened first."""
        interaction = self._interactions.behind(message_id)
        if interaction is not None:
            there = {**interaction.hook, "message_id": checked(message_id)}
            await self._api.call("PATCH", ANSWER, there, body=self._body(part))
            return Sent(message_id=message_id, at=self._clock.now())

        channel = self._cache.channel_of(message_id) or await self._channel(part.target)
        where = {"channel_id": channel, "message_id": checked(message_id)}
        body = self._body(part)
        with _name_permission("Send Messages", part.target):
            try:
                await self._api.call("PATCH", _MESSAGE, where, body=body)
            except Archived:
                await self._api.call(
                    "PATCH", "/channels/{channel_id}", where, body={"archived": False}
                )
                await self._api.call("PATCH", _MESSAGE, where, body=body)

        return Sent(message_id=message_id, at=self._clock.now())

    async def type(self, target: SessionSource) -> None:
        """
        Show typing for ten seconds or until a message is sent; in the parent channel while the
        thread is missing.
        """
        path = "/channels/{channel_id}/typing"
        try:
            await self._api.call("POST", path, {"channel_id": await self._channel(target)})
        except ChannelGone:
            if target.thread_id is None:
                raise
            await self._api.call("POST", path, {"channel_id": checked(target.chat_id)})

    async def react(self, target: SessionSource, message_id: str, emoji: str) -> None:
        """React. A deleted message or a refused emoji is not an error."""
        if not is_id(message_id) or self._interactions.is_one(message_id):
            return

        # The message that started a thread is in the parent channel.
        is_first = message_id == target.thread_id and target.chat_id is not None
        channel = checked(target.chat_id) if is_first else await self._channel(target)
        path = _MESSAGE + "/reactions/{emoji}/@me"
        with suppress(Undeliverable):
            await self._api.call(
                "PUT", path, {"channel_id": channel, "message_id": message_id, "emoji": emoji}
            )

    async def find_sent(self, part: Part, since: datetime) -> Sent | None:
        """
        Find the part among the bot's messages since then.

        Discord does not return nonces later. A part that another process tried a moment ago is not
        looked for: sending it again with its nonce is more reliable. Forum posts have no nonce.
        """
        nonce = nonce_of(part) or ""
        now = self._clock.now()
        after = id_at(since - _CLOCKS_DIFFER)
        is_remembered = timedelta(0) <= now - since < _NONCE_HOLDS

        try:
            forum = await self._forum(part.target)
            if forum is None and not self._cache.was_tried(nonce) and is_remembered:
                return None
            history = (
                self._posts_in(forum, after)
                if forum
                else self._own_messages_in(await self._channel(part.target), after)
            )
            async for message in history:
                if self._is_it(part, message, nonce):
                    self._cache.sent(str(message["id"]), message.get("channel_id"), nonce)
                    return Sent(message_id=str(message["id"]), at=now)
        except ChannelGone:
            # The part itself would have created the thread.
            pass
        except Undeliverable:
            if not is_remembered:
                raise

            # The history is not readable, but the nonce still dedupes a second send.
        return None

    async def find_preview(self, part: Part) -> Sent | None:
        """
        Find the bot's unfinished reply to that message.

        If it arrives after this check, the next send has the same nonce and returns it.
        """
        channel = await self._channel(part.target)
        nonce = nonce_of(part) or ""
        async for message in self._own_messages_in(channel, int(checked(part.reply_to))):
            answered = id_in(object_in(message, "message_reference"), "message_id")
            is_answer = answered == part.reply_to or (
                answered is None and part.target.chat_type is ChatType.DM
            )
            is_begun = str(message.get("content") or "").endswith(_UNFINISHED)
            if is_answer and is_begun and not self._cache.is_another(str(message["id"]), nonce):
                return Sent(message_id=str(message["id"]), at=self._clock.now())

        return None

    async def _forum(self, target: SessionSource) -> Channel | None:
        if target.chat_type is not ChatType.GROUP or target.thread_id is not None:
            return None
        chat = await self._directory.find(checked(target.chat_id))
        return chat if chat.takes_only_posts else None

    def _is_it(self, part: Part, message: Payload, nonce: str) -> bool:
        return matches(part, message, self._body(part)) and not self._cache.is_another(
            message["id"], nonce
        )

    async def _own_messages_in(self, channel: str, after: int) -> AsyncIterator[Payload]:
        """Yield the bot's messages there, oldest first."""
        me = (await self._api.me())["id"]
        for number in range(_MOST_PAGES):
            query = {"after": after, "limit": _PAGE}
            page = await self._api.objects("GET", _MESSAGES, {"channel_id": channel}, query=query)
            if number == 0 and not page:
                page = await self._newest_in(channel, time_of(after))

            for message in reversed(page):
                if number_of(message) and author_of(message) == str(me):
                    yield message

            if len(page) < _PAGE:
                return

            after = max(map(number_of, page))

    async def _newest_in(self, channel: str, since: datetime) -> list[Payload]:
        """Filter the newest page by timestamps, on servers whose ids contain no time."""
        page = await self._api.objects(
            "GET", _MESSAGES, {"channel_id": channel}, query={"limit": _PAGE}
        )
        return [message for message in page if sent_at(message) >= since]

    async def _posts_in(self, forum: Channel, after: int) -> AsyncIterator[Payload]:
        """Yield the first messages of the bot's own posts."""
        me = (await self._api.me())["id"]
        answer = await self._api.call(
            "GET", "/guilds/{guild_id}/threads/active", {"guild_id": forum.guild or ""}
        )

        for thread in objects_in(answer or {}, "threads"):
            is_own = (thread.get("parent_id"), thread.get("owner_id")) == (forum.channel, me)
            if is_own and number_of(thread) > after:
                with suppress(MessageGone):
                    where = {"channel_id": thread["id"], "message_id": thread["id"]}
                    yield await self._api.object("GET", _MESSAGE, where)

    def _body(self, part: Part) -> Body:
        return body_of(part, self._directory.names(part.target.scope))

    async def _send(self, part: Part, body: Body, upload: Upload | None = None) -> Sent:
        nonce = nonce_of(part)
        interaction = self._interactions.answered_by(part, nonce)
        if nonce is not None:
            self._cache.tried(nonce)
        with _name_permission(_needed(upload), part.target):
            message = await self._answer(interaction, body, nonce, upload) if interaction else None
            if message is None:
                message = await self._post(part, body, nonce, upload)
                with suppress(TurngateError):
                    await self._interactions.clear(part)
        self._cache.sent(str(message["id"]), message.get("channel_id"), nonce)
        return Sent(message_id=str(message["id"]), at=self._clock.now())

    async def _answer(
        self, interaction: Interaction, body: Body, nonce: str | None, upload: Upload | None
    ) -> Payload | None:
        """
        Replace the placeholder of a command, or add to what did; None if that is no longer
        possible.
        """
        is_first = self._interactions.replaces_placeholder(interaction, nonce)
        whole = body if is_first else {**body, **PRIVATE}
        verb, path = ("PATCH", ORIGINAL) if is_first else ("POST", FOLLOW_UP)
        try:
            await self._interactions.defer(interaction)
            message = await self._api.object(
                verb, path, interaction.hook, **_content(whole, upload)
            )
        except Undeliverable:
            self._interactions.forget(interaction)
            return None

        self._interactions.note_answer(str(message["id"]), interaction)
        return message

    async def _post(
        self, part: Part, body: Body, nonce: str | None, upload: Upload | None
    ) -> Payload:
        channel = await self._channel(part.target)
        target = part.target
        whole = body | ({} if nonce is None else {"nonce": nonce, "enforce_nonce": True})
        if part.reply_to is not None and self._is_quoted(part.reply_to, target, channel):
            whole["message_reference"] = reference_to(part.reply_to)

        try:
            return await self._api.object(
                "POST", _MESSAGES, {"channel_id": channel}, **_content(whole, upload)
            )
        except OnlyPosts:
            return await self._post_in_forum(channel, body, upload)
        except ChannelGone:
            if target.thread_id is None or target.chat_id is None:
                raise
            await self._begin_thread(checked(target.chat_id), channel)
            return await self._api.object(
                "POST", _MESSAGES, {"channel_id": channel}, **_content(whole, upload)
            )

    def _is_quoted(self, message: str, target: SessionSource, channel: str) -> bool:
        """
        Check whether to reply to the message: not to a command, nor to the message that started the
        thread, which is in another channel.

        In a direct chat the newest message needs no quotation.
        """
        if not is_id(message) or self._interactions.is_one(message) or message == target.thread_id:
            return False
        return target.chat_type is not ChatType.DM or int(message) != self._cache.newest_in(channel)

    async def _begin_thread(self, channel: str, message: str) -> None:
        """Create the thread of a message, named after its text. It has the message's id."""
        where = {"channel_id": channel, "message_id": message}
        try:
            asked = await self._api.object("GET", _MESSAGE, where)
        except MessageGone as exc:
            raise ChannelGone("the message that was to be answered in a thread is gone") from exc
        title = _titled(str(asked.get("content") or ""))
        with _name_permission("Create Public Threads", None), suppress(HasThread):
            await self._api.object("POST", _MESSAGE + "/threads", where, body={"name": title})

    async def _post_in_forum(self, forum: str, body: Body, upload: Upload | None) -> Payload:
        """Create a post; its first message has its id. Where a tag is required, it gets one."""
        post: Body = {"name": _titled(body["content"]), "message": body}
        path = "/channels/{channel_id}/threads"
        where = {"channel_id": forum}
        try:
            thread = await self._api.object("POST", path, where, **_content(post, upload))
        except NeedsTag:
            post["applied_tags"] = [await self._tag_of(forum)]
            thread = await self._api.object("POST", path, where, **_content(post, upload))
        return {"id": thread["id"], "channel_id": thread["id"]}

    async def _tag_of(self, forum: str) -> str:
        """Return the forum's first tag, if possible one that everybody may set."""
        channel = await self._api.object("GET", "/channels/{channel_id}", {"channel_id": forum})
        tags = [each for each in objects_in(channel, "available_tags") if id_in(each, "id")]
        tags.sort(key=lambda tag: is_set(tag, "moderated"))
        if not tags:
            raise Undeliverable("posts in this forum need a tag, and it has none")
        return needed_id(tags[0], "id")

    async def _channel(self, target: SessionSource) -> str:
        """Return the channel to send to. For a user who never wrote only the user id is known."""
        if target.thread_id is not None or target.chat_id is not None or target.user_id is None:
            return checked(target.thread_id or target.chat_id)
        return await self.direct_with(checked(target.user_id))

    async def direct_with(self, person: str) -> str:
        """Return the direct chat with a user; open it if needed."""
        known = self._cache.direct_with(person)
        if known is None:
            opened = await self._api.object(
                "POST", "/users/@me/channels", body={"recipient_id": person}
            )
            known = str(opened["id"])
            self._cache.opened(person, known)
        return known


def _content(body: Body, upload: Upload | None) -> Mapping[str, object]:
    return {"body": body} if upload is None else {"form": upload.form(body)}


def _needed(upload: Upload | None) -> str:
    return "Send Messages" if upload is None else "Attach Files"


def _titled(words: str) -> str:
    """Return the first line with text, shortened; a thread must have a name."""
    lines = (line.strip(_MARKS) for line in without_ids(words).splitlines())
    line = next(filter(None, lines), _NAMELESS)
    return cut(line, _LONGEST_TITLE)


@contextmanager
def _name_permission(permission: str, target: SessionSource | None) -> Iterator[None]:
    """Name the missing permission in the error."""
    try:
        yield
    except Forbidden as exc:
        needed = permission if exc.sees else "View Channel"
        if target is not None and target.thread_id is not None and needed == "Send Messages":
            needed = "Send Messages in Threads"
        raise Undeliverable(f'the bot needs the permission "{needed}" in this channel') from exc
