"""
How an agent's text reads for people: ids for pseudonyms where a platform needs them, names
elsewhere, and mentions only of those whom the conversation knows. Pure.

Adapters make a mention of `<@ID>`. So this form is left only where a pseudonym of this conversation
stood, or, without redaction, the id of somebody in it; any other id that an agent writes in this
form, as a page or a file may ask it to, becomes text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from turngate.gateway.domain.messages import InboundMessage, SessionSource
from turngate.gateway.domain.text import LONGEST_LABEL, cut, folded
from turngate.gateway.domain.transcript import Entry, Origin, Role
from turngate.gateway.rules.redaction import Redactor
from turngate.gateway.rules.redaction_rules import PSEUDONYM, START

# An invisible sign after the @: no platform and no adapter takes that for a mention.
_DEFUSED = "<@\u2060"
_NAME = r'"(?:[^"\\\n]|\\.){0,400}+"'
_ID = r"[^\s<>|\[\]]{1,80}+"
# People are mentioned with labels as well; the part before it is the id.
_TOKEN = re.compile(
    rf"<@!?(?P<mentioned>{_ID})(?:\|[^<>\n]{{0,80}}+)?>"
    rf"|\[(?P<marked>{_ID}) {_NAME}\]"
    rf"|{START}(?P<pseudonym>{PSEUDONYM})"
    # No mention to us, but perhaps to a platform: with a long label, or one with a line break.
    r"|(?P<stray><@)(?!\u2060)"
)
# What a token that is not complete looks like at the end of a growing text.
_OPEN_MENTION = re.compile(r"<(?:@!?[^\s<>|\[\]]{0,80}(?:\|[^<>\n]{0,80})?)?")
_OPEN_MARK = re.compile(rf'\[(?:{_ID}(?: (?:"(?:[^"\\\n]|\\.){{0,400}}+\\?"?)?)?)?')
_LONGEST_TOKEN = 500
_MENTION = re.compile(r"<@!?([^<>|\s]{1,80})[>|]")
# Beside one of these an id is part of an address, a path or a record, where a name would be wrong.
_NO_PROSE_BEFORE = frozenset("\"'/=:&?#.\\%+$|{<-")
_NO_PROSE_AFTER = frozenset("\"'/=&@\\%>")
_NOT_IN_NAMES = re.compile(r"[\\`*_~|<>\[\](){}#@:/]")


class OutgoingText:
    """The people of one conversation, and how texts for them are written."""

    def __init__(self, redactor: Redactor | None) -> None:
        self._redactor = redactor
        # By id.
        self._names: dict[str, str] = {}
        self._mentionable: set[str] = set()

    def know_source(self, source: SessionSource) -> None:
        """Register the person who wrote from there."""
        for person in filter(None, (source.user_id, source.user_id_alt)):
            self._know(person, source.user_name)

    def know_messages(self, messages: Iterable[InboundMessage]) -> None:
        """Register who wrote and whom they mentioned. Others' words mention nobody."""
        for message in messages:
            self.know_source(message.source)
            if not message.forwarded:
                self._mentionable.update(_MENTION.findall(message.text))

    def know_history(self, history: Iterable[Entry]) -> None:
        """Register who wrote and whom they mentioned; not whom a tool or a summary names."""
        for entry in history:
            if entry.role is not Role.USER or entry.origin is not Origin.CHAT:
                continue
            if entry.sender:
                self._know(entry.sender, entry.sender_name)
            if not entry.forwarded:
                self._mentionable.update(_MENTION.findall(entry.text))

    def for_people(self, text: str) -> str:
        """
        Return an agent's text as people are to read it: a whole one, or a piece that `open_at` has
        not cut.
        """
        return _TOKEN.sub(self._written, text)

    def _know(self, person: str, name: str | None) -> None:
        self._mentionable.add(person)
        # The newest name is the one that people know.
        if plain := " ".join(
            _NOT_IN_NAMES.sub(" ", cut(folded(name or ""), LONGEST_LABEL)).split()
        ):
            self._names[person] = plain

    def _written(self, found: re.Match[str]) -> str:
        match found.lastgroup:
            case "mentioned":
                return self._mention(found)
            case "marked":
                name = self._names.get(self._id(found["marked"]) or "")
                return f"[{name}]" if name else self._defused(found[0])
            case "stray":
                return _DEFUSED
            case _:
                return self._person(found)

    def _mention(self, found: re.Match[str]) -> str:
        person = self._id(found["mentioned"])
        if person in self._mentionable:
            return f"<@{person}>"
        return self._defused(found[0])

    def _person(self, found: re.Match[str]) -> str:
        """Return a name in prose, else what the pseudonym stands for."""
        shown = found[0]
        text = found.string
        before = text[found.start() - 1 : found.start()]
        after = text[found.end() : found.end() + 1]
        if before not in _NO_PROSE_BEFORE and after not in _NO_PROSE_AFTER:
            shown = self._names.get(self._id(shown) or "", shown)
        return self._defused(shown)

    def _id(self, written: str) -> str | None:
        """Return the id that an agent means; None if it is not one that it was shown."""
        if self._redactor is None:
            return written
        return self._redactor.known.get(written)

    def _defused(self, text: str) -> str:
        restored = self._redactor.restore(text) if self._redactor else text
        return without_mentions(restored)


def without_mentions(text: str) -> str:
    """Return a text for a place where an id may be that of somebody else."""
    return text.replace("<@", _DEFUSED)


def open_at(text: str) -> int:
    """Return where a token begins that the end of a growing text has cut; its length if none."""
    start = max(len(text) - _LONGEST_TOKEN, 0)
    opened = [len(text)]
    for sign, pattern in (("<", _OPEN_MENTION), ("[", _OPEN_MARK)):
        at = text.rfind(sign, start)
        if at >= 0 and pattern.fullmatch(text, at):
            opened.append(at)
    return min(opened)
