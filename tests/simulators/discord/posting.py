"""
How a message of a bot comes to be, wherever it was asked for: in a channel, as a forum's post, in
an answer.
"""

from __future__ import annotations

import itertools
import mimetypes
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.simulators.common import PARAMETERS
from tests.simulators.discord import mentions, permissions, shapes
from tests.simulators.discord.checking import check_components, check_embeds, check_words
from tests.simulators.discord.rules import (
    ACCESS,
    ARCHIVED,
    FILES,
    LOCKED,
    NOT_EMPTY,
    OPEN_DMS,
    PERMISSIONS,
    REFERENCE,
    REPLY,
    STICKERS,
    Refused,
    invalid,
    snowflake,
    unknown,
)
from tests.simulators.discord.rules import (
    FORUM as FORUM_RULE,
)
from tests.simulators.discord.sessions import Sessions
from tests.simulators.discord.world import DM, FORUM, Bot, Channel, File, Message, Payload, World

LARGEST_FILE = 10 * 1024 * 1024
FILE_FIELDS = tuple(f"files[{number}]" for number in range(10))
BODY: dict[str, type] = {
    "content": object,
    "tts": bool,
    "embeds": list,
    "allowed_mentions": dict,
    "components": list,
    "attachments": list,
    "flags": int,
    "filenames": list,
    **dict.fromkeys(FILE_FIELDS, bytes),
}
"""What any message may be made of, as parameters."""


@dataclass(slots=True, kw_only=True)
class Draft:
    """A message that was asked for, checked as far as its own fields go."""

    content: str = ""
    embeds: list[Payload] = field(default_factory=list)
    components: list[Payload] = field(default_factory=list)
    files: list[File] = field(default_factory=list)
    stickers: list[Payload] = field(default_factory=list)
    flags: int = 0
    allowed: mentions.Allowed = field(default_factory=mentions.Allowed)


class Posting:
    """What all that posts has in common."""

    def __init__(self, world: World, sessions: Sessions) -> None:
        self._world = world
        self._sessions = sessions

    def place(self, bot: Bot, id_: object, *needs: str) -> Channel:
        """The channel, if the bot may see it and has these permissions there. Raises Refused."""
        channel = self._world.find(bot, snowflake(id_, "channel"))
        if channel is None:
            raise unknown("Channel")
        if channel.guild is None:
            return channel
        may = self._world.allowed(bot.id, channel)
        if not permissions.has(may, "view_channel") or channel.blocked:
            raise Refused(403, 50001, "Missing Access", rule=ACCESS)
        if not all(permissions.has(may, name) for name in needs):
            raise Refused(403, 50013, "Missing Permissions", rule=PERMISSIONS)
        return channel

    def writable(self, bot: Bot, id_: object) -> Channel:
        """The channel, if the bot may write there. Raises Refused."""
        channel = self.place(bot, id_)
        if channel.kind == DM and channel.blocked:
            raise Refused(403, 50007, "Cannot send messages to this user", rule=OPEN_DMS)
        if channel.kind == FORUM:
            raise Refused(400, 50008, "Cannot send messages in a non-text channel", rule=FORUM_RULE)
        if channel.guild is not None:
            self.place(
                bot, id_, "send_messages_in_threads" if channel.is_thread else "send_messages"
            )
        if channel.locked and not permissions.has(
            self._world.allowed(bot.id, channel), "manage_threads"
        ):
            raise Refused(403, 160005, "Thread is locked", rule=LOCKED)
        return channel

    def check_not_archived(self, place: Channel) -> None:
        """
        Raises Refused: what is in an archived thread stays as it is until somebody writes there.
        """
        if place.archived:
            raise Refused(400, 50083, "Thread is archived", rule=ARCHIVED)

    def drafted(self, asked: Mapping[str, Any]) -> Draft:
        """Raises Refused for what no message may be made of."""
        draft = Draft(
            content=str(asked.get("content") or "").strip(),
            embeds=objects(asked, "embeds"),
            components=numbered(objects(asked, "components")),
            files=self.uploaded(asked),
            stickers=[
                {"id": str(id_), "name": f"sticker {id_}", "format_type": 1}
                for id_ in asked.get("sticker_ids", [])
            ],
            flags=asked.get("flags", 0),
            allowed=mentions.allowed(asked.get("allowed_mentions")),
        )
        check_words(str(asked.get("content") or ""))
        check_embeds(draft.embeds)
        check_components(draft.components)
        if len(draft.stickers) > 3:
            raise invalid("sticker_ids", "more than 3", STICKERS)
        return draft

    def uploaded(self, asked: Mapping[str, Any]) -> list[File]:
        """The files of a form, each described in `attachments` if at all."""
        described = {str(each.get("id")): each for each in objects(asked, "attachments")}
        files = []
        for number, name in enumerate(asked.get("filenames", [])):
            content = asked.get(f"files[{number}]", b"")
            if len(content) > LARGEST_FILE:
                raise Refused(413, 40005, "Request entity too large", rule=FILES)
            about = described.get(str(number), {})
            name = about.get("filename", name)
            mime = mimetypes.guess_type(name)[0] or "application/octet-stream"
            file = File(id=self._world.clock.new_id(), name=name, mime=mime, content=content)
            file.description = about.get("description")
            files.append(file)
        return files

    def check_draft(self, bot: Bot, place: Channel, draft: Draft) -> None:
        """It says something, and its files are allowed there. Raises Refused."""
        _check_not_empty(draft.content, draft.embeds, draft.files, draft.stickers, draft.components)
        if place.guild is not None and draft.files:
            self.place(bot, place.id, "attach_files")

    def replied_to(self, place: Channel, reference: Payload | None) -> Message | None:
        """What a reply is to; None if that is gone and need not be there. Raises Refused."""
        if reference is None:
            return None
        strange = sorted(set(reference) - _REFERENCE)
        if strange or reference.get("type", 0) != 0:
            raise invalid("message_reference", f"a reply is wanted, without {strange}", REFERENCE)
        if snowflake(reference.get("channel_id", place.id), "message_reference") != place.id:
            raise invalid(
                "message_reference", "Cannot reply to a message of another channel", REPLY
            )
        original = place.messages.get(snowflake(reference.get("message_id"), "message_reference"))
        if original is not None and not original.deleted:
            return original
        if reference.get("fail_if_not_exists", True):
            raise invalid(
                "message_reference", "Unknown message", REPLY, reason="REPLIES_UNKNOWN_MESSAGE"
            )
        return None

    def post(self, bot: Bot, place: Channel, draft: Draft, **more: Any) -> Message:
        """Everybody sees it from now on, and an archived thread opens again."""
        replied_to: Message | None = more.pop("replied_to", None)
        now = self._world.clock.now()
        said = Message(
            id=more.pop("id", None) or self._world.clock.new_id(),
            channel=place,
            author=bot.person,
            content=draft.content,
            at=now,
            flags=draft.flags,
            files=draft.files,
            embeds=draft.embeds,
            components=draft.components,
            stickers=draft.stickers,
            **more,
        )
        if replied_to is not None:
            said.kind, said.reference = 19, reference_to(replied_to)
        author = replied_to.author.id if replied_to else None
        mentions.call(self._world, said, draft.allowed, replied_to=author)
        self._world.said[bot.account].append(said)
        self.put(said)
        return said

    def put(self, said: Message) -> None:
        """Into its channel, for all to see; its files can be fetched."""
        self._world.files |= {file.id: file for file in said.files}
        place = said.channel
        place.messages[said.id] = said
        if place.is_thread:
            self.reopen(place)
            place.members.add(said.author.id)
        if said.only_for is None:
            self.tell_of(said, "MESSAGE_CREATE")

    def reopen(self, thread: Channel) -> None:
        """Writing in an archived thread opens it."""
        if thread.archived and not thread.locked:
            thread.archived = False
            self._sessions.tell_place(
                thread, "THREAD_UPDATE", lambda bot, _: shapes.thread(thread, bot), kind=None
            )

    def tell_of(self, said: Message, event: str) -> None:
        """To all bots that see it, each in its own way."""

        def told(bot: Bot, readable: bool) -> Payload:
            payload = shapes.message(self._world, said, bot, readable=readable, told=True)
            if event == "MESSAGE_CREATE" and said.nonce is not None:
                payload["nonce"] = said.nonce
            guild = said.channel.guild
            if guild is None:
                return payload | {"channel_type": DM}
            payload |= {"guild_id": str(guild.id), "channel_type": said.channel.kind}
            return (
                payload
                if said.webhook
                else payload | {"member": shapes.member(guild, said.author.id)}
            )

        self._sessions.tell_place(said.channel, event, told)

    def edit(self, said: Message, asked: Mapping[str, Any]) -> None:
        """Only what is named changes. Raises Refused."""
        before = {"content": said.content, "embeds": said.embeds, "components": said.components}
        draft = self.drafted({**before, **asked})
        kept = {str(each.get("id")) for each in objects(asked, "attachments")}
        files = [
            file for file in said.files if "attachments" not in asked or str(file.id) in kept
        ] + draft.files
        _check_not_empty(draft.content, draft.embeds, files, said.stickers, draft.components)
        said.edits.append(said.content)
        said.content, said.embeds, said.components, said.files = (
            draft.content,
            draft.embeds,
            draft.components,
            files,
        )
        said.edited_at = self._world.clock.now()
        self._world.files |= {file.id: file for file in files}
        mentions.call(self._world, said, draft.allowed)
        if said.only_for is None:
            self.tell_of(said, "MESSAGE_UPDATE")

    def remove(self, said: Message) -> None:
        """Nobody sees it any more."""
        said.deleted = True
        place = said.channel
        told: Payload = {"id": str(said.id), "channel_id": str(place.id)}
        told |= {"guild_id": str(place.guild.id)} if place.guild else {}
        if said.only_for is None:
            self._sessions.tell_place(place, "MESSAGE_DELETE", lambda _bot, _readable: told)


_REFERENCE = {"type", "message_id", "channel_id", "guild_id", "fail_if_not_exists"}


def numbered(components: list[Payload]) -> list[Payload]:
    """With an id for each, as Discord gives them, in the order in which they stand."""
    ids = itertools.count(1)

    def with_id(component: Payload) -> Payload:
        found = {"id": next(ids), **component}
        if "components" in found:
            found["components"] = [with_id(each) for each in found["components"]]
        return found

    return [with_id(each) for each in components]


def reference_to(original: Message, kind: int = 0) -> Payload:
    """As a reply or a forward names it."""
    told: Payload = {
        "type": kind,
        "message_id": str(original.id),
        "channel_id": str(original.channel.id),
    }
    return told | ({"guild_id": str(original.channel.guild.id)} if original.channel.guild else {})


def objects(asked: Mapping[str, Any], name: str) -> list[Payload]:
    """A list of them, empty if it is not named. Raises Refused if there is anything else in it."""
    given = list(asked.get(name) or [])
    if not all(isinstance(each, dict) for each in given):
        raise invalid(name, "Only dictionaries may be used in a DictType", PARAMETERS)
    return given


def _check_not_empty(*parts: object) -> None:
    if not any(parts):
        raise Refused(400, 50006, "Cannot send an empty message", rule=NOT_EMPTY)
