"""
Everything that is sent: messages, edits, questions with buttons, files, typing, reactions.

A message is sent once. If Telegram rejects an optional part of it (the formatting, a deleted topic)
or reports the new id of its chat, it was not sent, and is sent again without that part or to that
id.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from aiogram.methods import (
    EditEphemeralMessageText,
    EditMessageText,
    SendChatAction,
    SendMessage,
    SendMessageDraft,
    SendRichMessage,
    SendRichMessageDraft,
    SetMessageReaction,
)
from aiogram.types import (
    InlineKeyboardButton,
    InlineKeyboardMarkup,
    LinkPreviewOptions,
    ReactionTypeEmoji,
)

from turngate.adapters.telegram.api import (
    Api,
    ChatMoved,
    FileRefused,
    FormattingRefused,
    NothingChanged,
    Result,
    RichUnknown,
    ThreadGone,
)
from turngate.adapters.telegram.cache import Cache, Ephemeral
from turngate.adapters.telegram.fields import Raw, number, thing
from turngate.adapters.telegram.markup import (
    LARGEST_CAPTION,
    LARGEST_TEXT,
    Marked,
    marked,
    plain,
)
from turngate.adapters.telegram.normalise import DIRECT_TOPIC
from turngate.adapters.telegram.outgoing import Outgoing
from turngate.adapters.telegram.rich_markup import rich_of
from turngate.adapters.telegram.uploads import MakeRequest, requests_for
from turngate.gateway.domain.errors import Undeliverable, Unreachable
from turngate.gateway.domain.messages import ChatType, SessionSource
from turngate.gateway.domain.outbox import Part, Sent
from turngate.gateway.domain.ports.clock import Clock

# The general topic has the id 1, which Telegram does not accept in requests.
_GENERAL = "1"
_MOST_REPAIRS = 5
_LONGEST_ROW = 24
_NO_PREVIEW = LinkPreviewOptions(is_disabled=True)


class Sender:
    """Sends for one bot."""

    def __init__(self, api: Api, cache: Cache, clock: Clock) -> None:
        self._api = api
        self._cache = cache
        self._clock = clock
        self._knows_rich = True

    async def send(self, part: Part) -> Sent:
        """Send a message, with its buttons if it has any."""
        out = await self._converted(part, LARGEST_TEXT)
        return self._sent(await self._repaired(out, partial(self._send, _keyboard(part))))

    async def edit(self, part: Part, message_id: str) -> Sent:
        """Edit a message. Its topic and the message it replies to stay."""
        out = await self._converted(part, LARGEST_TEXT)
        if ephemeral := Ephemeral.of(message_id):
            attempt = partial(self._edit_ephemeral, _keyboard(part), ephemeral)
        else:
            attempt = partial(self._edit, _keyboard(part), _number(message_id))
        with suppress(NothingChanged):
            await self._repaired(out, attempt)
        return Sent(message_id=message_id, at=self._clock.now())

    async def send_file(self, part: Part) -> Sent:
        """
        Send a file as photo, voice or video if Telegram accepts that, otherwise as a document.
        """
        if part.file is None:
            raise Undeliverable("this part has no file")

        path = Path(part.file.path)
        if not await asyncio.to_thread(path.is_file):
            raise Undeliverable("the file cannot be read")

        size = (await asyncio.to_thread(path.stat)).st_size
        out = await self._converted(part, LARGEST_CAPTION)
        *closer, as_document = requests_for(path, part.file.name, size)
        for make in closer:
            with suppress(FileRefused):
                return self._sent(await self._repaired(out, partial(self._upload, make)))

        return self._sent(await self._repaired(out, partial(self._upload, as_document)))

    async def draft(self, part: Part) -> None:
        """Show a draft with a stop button. Telegram identifies drafts by a number: the turn's."""
        attempt = partial(self._draft, part.turn or 1)
        await self._repaired(await self._converted(part, LARGEST_TEXT), attempt)

    async def type(self, target: SessionSource) -> None:
        """Show typing for five seconds or until a message is sent."""
        thread = _thread(target)
        await self._api.call(
            SendChatAction(
                chat_id=self._cache.chat(target), action="typing", message_thread_id=thread
            )
        )

    async def react(self, target: SessionSource, message_id: str, emoji: str) -> None:
        """React. A deleted message or a refused emoji is not an error."""
        with suppress(Undeliverable):
            await self._api.call(
                SetMessageReaction(
                    chat_id=self._cache.chat(target),
                    message_id=_number(message_id),
                    reaction=[ReactionTypeEmoji(emoji=emoji)],
                )
            )

    async def _send(self, keyboard: InlineKeyboardMarkup | None, out: Outgoing) -> Any:
        if out.rich is not None:
            return await self._api.call(
                SendRichMessage(rich_message=out.rich_message, reply_markup=keyboard, **out.place)
            )

        return await self._api.call(
            SendMessage(
                text=out.words.text,
                entities=out.entities,
                link_preview_options=_NO_PREVIEW,
                reply_markup=keyboard,
                **out.place,
            )
        )

    async def _edit(self, keyboard: InlineKeyboardMarkup | None, number: int, out: Outgoing) -> Any:
        edit = EditMessageText(chat_id=out.chat, message_id=number, reply_markup=keyboard)
        if out.rich is not None:
            return await self._api.call(edit.model_copy(update={"rich_message": out.rich_message}))

        content = {
            "text": out.words.text,
            "entities": out.entities,
            "link_preview_options": _NO_PREVIEW,
        }
        return await self._api.call(edit.model_copy(update=content))

    async def _edit_ephemeral(
        self, keyboard: InlineKeyboardMarkup | None, message: Ephemeral, out: Outgoing
    ) -> Any:
        return await self._api.call(
            EditEphemeralMessageText(
                chat_id=out.chat,
                receiver_user_id=message.user,
                ephemeral_message_id=message.number,
                text=None if out.rich else out.words.text,
                entities=None if out.rich else out.entities,
                rich_message=out.rich_message if out.rich else None,
                link_preview_options=None if out.rich else _NO_PREVIEW,
                reply_markup=keyboard,
            )
        )

    async def _draft(self, number: int, out: Outgoing) -> Any:
        where: dict[str, Any] = {
            "chat_id": int(out.chat),
            "draft_id": number,
            "message_thread_id": out.thread,
            "can_stop": True,
        }
        if out.rich is not None:
            return await self._api.call(
                SendRichMessageDraft(rich_message=out.rich_message, **where)
            )
        return await self._api.call(
            SendMessageDraft(text=out.words.text, entities=out.entities, **where)
        )

    async def _upload(self, make: MakeRequest, out: Outgoing) -> Any:
        return await self._api.call(make(out), upload=True)

    async def _converted(self, part: Part, largest: int) -> Outgoing:
        """Convert the text; a long one beside the event loop, which has others to serve."""
        if len(part.text) <= LARGEST_TEXT:
            return self._outgoing(part, largest)
        return await asyncio.to_thread(self._outgoing, part, largest)

    def _outgoing(self, part: Part, largest: int) -> Outgoing:
        words = marked(part.text, self._cache.name_of)
        unmarked = plain(part.text)
        if unmarked.size > largest:
            unmarked = Marked(words.text)

        return Outgoing(
            chat=self._cache.chat(part.target),
            words=words,
            unmarked=unmarked,
            rich=rich_of(part.text) if largest == LARGEST_TEXT and self._knows_rich else None,
            thread=_thread(part.target),
            direct_topic=_direct_topic(part.target),
            answers=self._answered(part),
            only_for=self._asker(part),
            is_secret=Ephemeral.of(part.reply_to or "") is not None,
        )

    def _answered(self, part: Part) -> int | None:
        """
        Return the message to reply to. In a direct chat the newest message needs no quotation.
        """
        if part.reply_to is None or not part.reply_to.isdecimal():
            return None
        is_plain = part.target.chat_type is ChatType.DM and self._cache.is_newest(
            part.target, part.reply_to
        )
        return None if is_plain else _number(part.reply_to)

    def _asker(self, part: Part) -> int | None:
        """
        Return the user who alone is to see it: what answers a command in a group, and whatever
        answers what only the bot could see.
        """
        asked = part.reply_to or ""
        if ephemeral := Ephemeral.of(asked):
            return ephemeral.user
        # The answer of a command is of no turn. A question is for whoever may press.
        if part.turn is not None or part.file is not None or part.buttons:
            return None
        return self._cache.asker(part.target, asked, self._clock.now())

    async def _repaired(
        self, out: Outgoing, attempt: Callable[[Outgoing], Awaitable[Result]]
    ) -> Result:
        for _ in range(_MOST_REPAIRS):
            try:
                return await attempt(out)
            except FormattingRefused as exc:
                less = out.less_marked
                if less is None:
                    raise
                # Asked once and not for every preview; the next start asks again.
                if out.rich is not None and isinstance(exc, RichUnknown):
                    self._knows_rich = False
                out = less
            except ThreadGone:
                if out.thread is None:
                    raise
                out = replace(out, thread=None)
            except ChatMoved as exc:
                self._cache.moved(out.chat, exc.to)
                out = replace(out, chat=exc.to, thread=None, answers=None)
            except NothingChanged:
                raise
            except Undeliverable:
                # Not in every chat, not by every server, and not to whom has left.
                if out.only_for is not None and not out.is_secret:
                    out = replace(out, only_for=None)
                    continue
                # It may be too much for a rich message: too many blocks, or columns.
                if out.rich is None:
                    raise
                out = replace(out, rich=None)

        return await attempt(out)

    def _sent(self, message: Raw) -> Sent:
        """Take the id, which is all that is needed of the answer."""
        message_id = number(message, "message_id")
        if message_id is None:
            raise Unreachable("Telegram does not say how the message is called")

        ephemeral = number(message, "ephemeral_message_id")
        user = number(thing(message, "receiver_user"), "id")
        shown = str(message_id)
        if not message_id and ephemeral is not None and user is not None:
            shown = Ephemeral(user=user, number=ephemeral).id
        return Sent(message_id=shown, at=self._clock.now())


def _number(message_id: str) -> int:
    if not message_id.isdecimal():
        raise Undeliverable("Telegram has no message of this name")
    return int(message_id)


def _thread(target: SessionSource) -> int | None:
    thread = target.thread_id
    return int(thread) if thread is not None and thread.isdecimal() and thread != _GENERAL else None


def _direct_topic(target: SessionSource) -> int | None:
    """Return the topic of a channel's direct messages, without which Telegram takes nothing."""
    thread = target.thread_id or ""
    topic = thread.removeprefix(DIRECT_TOPIC)
    return int(topic) if topic != thread and topic.isdecimal() else None


def _keyboard(part: Part) -> InlineKeyboardMarkup | None:
    """
    Build the buttons: short labels in one row, long ones below each other. A button carries only
    its nonce.
    """
    buttons = [
        InlineKeyboardButton(text=each.label, callback_data=each.nonce) for each in part.buttons
    ]
    if not buttons:
        return None

    in_one_row = sum(len(each.label) for each in part.buttons) <= _LONGEST_ROW

    return InlineKeyboardMarkup(
        inline_keyboard=[buttons] if in_one_row else [[each] for each in buttons]
    )
