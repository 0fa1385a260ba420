"""A part as a request body, and the nonce that identifies a repeated send."""

from __future__ import annotations

import hashlib
import re
from pathlib import PurePath
from typing import Any

from turngate.adapters.discord.channels import Names
from turngate.adapters.discord.ids import is_id
from turngate.adapters.discord.json_fields import (
    Payload,
    id_in,
    object_in,
    objects_in,
    text_in,
)
from turngate.adapters.discord.markup import LARGEST_TEXT, marked
from turngate.adapters.discord.mentions import linked
from turngate.gateway.domain.agent_events import File
from turngate.gateway.domain.errors import Undeliverable
from turngate.gateway.domain.outbox import Button, Part

Body = dict[str, Any]

# Discord's numbers for components and the secondary button style.
_ROW = 1
_BUTTON = 2
_GREY = 2

_PER_ROW = 5
_MOST_BUTTONS = 25
_LONGEST_LABEL = 80
_LONGEST_NONCE = 25
_LONGEST_NAME = 128
_CHANNEL = re.compile(r"<#\d+>|#[\w-]{1,100}")


def body_of(part: Part, names: Names) -> Body:
    """Build content, allowed mentions and buttons; an edit removes what is missing here."""
    words = marked(part.text)
    if len(words.text) > LARGEST_TEXT:
        raise Undeliverable("this is longer than a message of Discord can be")
    return {
        "content": linked(words.text, names, LARGEST_TEXT),
        "allowed_mentions": {"parse": [], "users": list(words.users), "replied_user": False},
        "components": _rows(part.buttons[:_MOST_BUTTONS]),
    }


def reference_to(message: str) -> Body:
    """Build a reply reference; a deleted message is not an error."""
    return {"message_id": message, "fail_if_not_exists": False}


def file_name(file: File) -> str:
    """Make a name safe for a request header: one line, no path."""
    printable = "".join(
        each for each in file.name or PurePath(file.path).name if each.isprintable() and each != '"'
    )
    return printable.rpartition("/")[2][-_LONGEST_NAME:] or "file"


def nonce_of(part: Part) -> str | None:
    """
    Return a nonce unique over time: part ids restart with a new store, so more facts are hashed.

    A preview is identified by its turn and the message it answers, as its text grows. Parts without
    id and turn have none.
    """
    if not part.id and part.turn is None:
        return None

    target = part.target
    facts: tuple[object, ...] = (part.turn, part.reply_to, target.chat_id, target.thread_id)
    if part.id:
        facts = (
            part.id,
            part.created_at,
            target.chat_id,
            target.thread_id,
            part.ordinal,
            part.text,
            part.file,
        )

    return hashlib.sha256(repr(facts).encode("utf-8", "surrogatepass")).hexdigest()[:_LONGEST_NONCE]


def matches(part: Part, message: Payload, body: Body) -> bool:
    """Check whether a message of the bot could be this part."""
    if _essence(text_in(message, "content") or "") != _essence(body["content"]):
        return False
    if {button.nonce for button in part.buttons} != _nonces_in(message) or not _has_its_file(
        part, message
    ):
        return False
    answered = id_in(object_in(message, "message_reference"), "message_id")
    return answered is None or not is_id(part.reply_to) or answered == part.reply_to


def _essence(words: str) -> str:
    """Drop channel names, which may be linked in one text and not in the other."""
    return _CHANNEL.sub("#", words).strip()


def _has_its_file(part: Part, message: Payload) -> bool:
    """Compare file names by letters and digits: Discord changes other characters."""
    names = [
        _letters(text_in(file, "filename") or "") for file in objects_in(message, "attachments")
    ]
    return names == ([] if part.file is None else [_letters(file_name(part.file))])


def _letters(name: str) -> str:
    return "".join(filter(str.isalnum, name))


def _rows(buttons: tuple[Button, ...]) -> list[Body]:
    shown = [
        {
            "type": _BUTTON,
            "style": _GREY,
            "label": each.label[:_LONGEST_LABEL] or "…",
            "custom_id": each.nonce,
        }
        for each in buttons
    ]
    return [
        {"type": _ROW, "components": shown[first : first + _PER_ROW]}
        for first in range(0, len(shown), _PER_ROW)
    ]


def _nonces_in(message: Payload) -> set[str]:
    buttons = (
        button
        for row in objects_in(message, "components")
        for button in objects_in(row, "components")
    )
    return {nonce for button in buttons if (nonce := text_in(button, "custom_id"))}
