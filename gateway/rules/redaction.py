"""
Pseudonyms: what an agent sees instead of ids, phone numbers and e-mail addresses, and the way back.

A pseudonym is an HMAC under the installation's own key, so that an id cannot be found by trying all
of them. Pure: the key is passed in, and `Redactor.known` holds what was replaced.
"""

from __future__ import annotations

import hmac
import json
import re
import secrets
import string
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from types import MappingProxyType

from turngate.gateway.domain.agent_events import Turn
from turngate.gateway.domain.ids import SessionKey
from turngate.gateway.domain.messages import (
    InboundMessage,
    ReplyTo,
    SessionSource,
)
from turngate.gateway.domain.serialization import Json
from turngate.gateway.domain.session import Session, SessionEnded
from turngate.gateway.domain.transcript import (
    Block,
    Entry,
    Text,
)

_KEY_BYTES = 32
# In running text a shorter id would match ordinary numbers. Mentions and targets show what is an
# id, so there any length is hidden.
_SHORTEST_IN_TEXT = 6
_KIND_IN_MENTION = {"@": "user", "@!": "user", "@&": "role", "#": "chat", "!subteam^": "role"}

# A token starts after anything but an ASCII letter or digit. Other scripts write without spaces,
# Markdown leans its underscores against words, and the letter of an escape (\n in JSON text)
# belongs to no word.
_START = r"(?:(?<![A-Za-z0-9])|(?<=\\[bfnrt])|(?<=\\u[0-9A-Fa-f]{4}))"
_END = r"(?![A-Za-z0-9])"
_PSEUDONYM = rf"(?:user|chat|thread|role|phone|email)_[0-9a-f]{{16}}{_END}"
_MENTION = r"<(?P<sign>@[!&]?|#|!subteam\^)(?P<mentioned>[^<>|\s]{1,255}+)(?=[>|])"
_LINK = rf"(?i:tg://user\?id=)(?P<linked>[0-9]++){_END}"
_TARGET_ID = r"[-+]?[A-Za-z0-9]++(?:[.=-][A-Za-z0-9]++)*+"
# Only an id with a digit: "discord:js" and "telegram:chat:5" are no targets.
_TARGET_REST = rf"(?:/[a-z0-9_-]++)?:(?=[-+.A-Za-z]*+\d){_TARGET_ID}(?::{_TARGET_ID})?"

# Possessive quantifiers (++, {0,3}+) do not backtrack: hostile text is read in linear time too.
_GAP = r"[ \u00a0\u2009\u200b-\u2015\u202f\u2060\u2212\u3000.\-/()．－／（）]{0,3}+"
# After a whole number, another that begins with 00 is the next one, not a group of this one.
_NEXT = rf"(?<!\d)[0０]{{2}}[1-9１-９](?:{_GAP}\d){{7}}"
# Greedy, then back to the end of a group: the longest run of whole groups with 8 to 15 digits.
# Letters that touch it go with it ("4567x89"), or the pseudonym would be no token.
_DIGITS = rf"[(（]?\d(?:{_GAP}\d){{7}}(?:{_GAP}(?!{_NEXT})\d){{0,7}}(?!\d)[A-Za-z0-9]*+"
# "10:00 15.01.2026", "9,00 2026-01-15", "ORD-0012345678" and "#0012345678" have a 00 that dials
# nothing, and no country code starts with 0.
_ZEROS = rf"(?<!\d[.,:/])(?<![A-Za-z0-9]-)(?<!#)[0０]{{2}}{_GAP}(?![0０])"
_PHONE = rf"(?P<tel>(?i:tel):{_GAP})?(?P<phone>(?(tel)(?:[+＋]|00)?|(?:[+＋]|{_ZEROS})){_DIGITS})"

_LETTER = r"A-Za-z\u00c0-\u024f\u0370-\u052f"
_LOCAL = rf"[{_LETTER}0-9_.%+-]"
# The last label starts with a letter, so that "react@18.2.0" stays a version.
_EMAIL = rf"(?<!{_LOCAL})(?P<email>{_LOCAL}++@(?:[{_LETTER}0-9-]++\.)+[{_LETTER}][{_LETTER}0-9-]++)"

# Every shape contains one of these signs, and most messages contain none: searching for a sign
# costs a fifth of searching for the shapes.
_SIGN = re.compile(r"[_<@]|:(?:[-+.A-Za-z]*\d|//)|\d(?:\D{0,3}\d){7}")
# With more ids than this, testing each one costs more than the combined pattern.
_FEW_IDS = 32

_GIVEN_OUT = re.compile(_START + _PSEUDONYM)
# For streams: the characters of a pseudonym; how many are held back at most, because a word such as
# base64 may not end; and how far back _START looks.
_WORD = string.ascii_letters + string.digits + "_"
_LONGEST_PSEUDONYM = len("thread_") + 16
_MOST_HELD = 256
_LOOKED_BACK_AT = 6


def new_key() -> bytes:
    """
    Return a new key for an installation. It allows guesses to be tested, so it is kept like a
    password.
    """
    return secrets.token_bytes(_KEY_BYTES)


class Redactor:
    """
    The pseudonyms of one session on one platform.

    Ids passed to `user`, `chat`, `thread`, `target` and `know_source` are found in running text
    from then on, so pass them before texts are redacted. A text itself registers no id, because any
    user can write one. Not thread-safe.
    """

    def __init__(
        self,
        key: bytes,
        platform: str,
        *,
        emails: bool = False,
        known: Mapping[str, str] | None = None,
    ) -> None:
        if len(key) < _KEY_BYTES:
            raise ValueError(
                f"a privacy key has {_KEY_BYTES} bytes or more, not {len(key)}: make one with "
                "new_key()"
            )

        self._key = key
        self._platform = platform
        self._emails = emails
        # By pseudonym: what `restore` puts back.
        self._known = dict(known or {})
        # By kind, platform and id: each HMAC is computed once.
        self._given: dict[tuple[str, str, str], str] = {}
        # By id: only these are searched for in running text.
        self._told: dict[str, str] = {}
        self._platforms = {platform}
        self._told_pattern: re.Pattern[str] | None = None
        self._told_in_text: tuple[str, ...] | None = None

    @property
    def known(self) -> Mapping[str, str]:
        """What each pseudonym of this session stands for."""
        return MappingProxyType(self._known)

    def user(self, person: str) -> str:
        return self._tell("user", person)

    def chat(self, chat: str, *, platform: str | None = None) -> str:
        """Return the pseudonym of a chat, without the platform, which a target adds."""
        return self._tell("chat", chat, platform)

    def thread(self, thread: str) -> str:
        return self._tell("thread", thread)

    def target(self, target: str) -> str:
        """Redact a delivery target; `origin`, `local` and a bare platform hold no id."""
        return self._target(target, self._tell)

    def know_source(self, source: SessionSource) -> None:
        # Redacting a source registers its ids; the result is not needed here.
        self.source(source)

    def source(self, source: SessionSource) -> SessionSource:
        """Return the source as the agent may see it: for display, never for routing."""

        def shown(kind: str, real: str | None) -> str | None:
            return real and self._tell(kind, real, source.platform)

        # The order matters: ids are registered before the labels that may contain them, and a user
        # before a direct chat with the same id, because the first kind is kept.
        return replace(
            source,
            user_id=shown("user", source.user_id),
            user_id_alt=shown("user", source.user_id_alt),
            chat_id=shown("chat", source.chat_id),
            chat_id_alt=shown("chat", source.chat_id_alt),
            scope=shown("chat", source.scope),
            thread_id=shown("thread", source.thread_id),
            user_name=source.user_name and self.redact(source.user_name),
            chat_name=source.chat_name and self.redact(source.chat_name),
            chat_topic=source.chat_topic and self.redact(source.chat_topic),
        )

    def history(self, entries: Iterable[Entry]) -> tuple[Entry, ...]:
        """Redact entries; a sender is hidden even in text written before they joined."""
        entries = tuple(entries)
        # All senders first: an early text may name a user who wrote only later.
        for sender in filter(None, (entry.sender for entry in entries)):
            self.user(sender)
        return tuple(self.entry(entry) for entry in entries)

    def entry(self, entry: Entry) -> Entry:
        """Redact one entry. Paths stay, or the files could not be opened."""
        content = tuple(map(self._block, entry.content))
        if content == entry.content and not (
            entry.sender or entry.message_id or entry.tool_calls or entry.reasoning
        ):
            return entry

        return replace(
            entry,
            content=content,
            sender=entry.sender and self.user(entry.sender),
            message_id=None,
            tool_calls=tuple(
                replace(call, arguments=self._arguments(call.arguments))
                for call in entry.tool_calls
            ),
            reasoning=entry.reasoning
            and replace(entry.reasoning, text=self.redact(entry.reasoning.text)),
        )

    def turn(self, turn: Turn) -> Turn:
        """Redact a turn. The platform's own message ids are left out."""
        source = self.source(turn.source)
        history = self.history(turn.history)
        return replace(
            turn,
            source=source,
            session=self._session(turn.session),
            messages=tuple(
                self._message(at, message) for at, message in enumerate(turn.messages, start=1)
            ),
            history=history,
        )

    def ending(self, ending: SessionEnded) -> SessionEnded:
        """Redact what the agent of an ended session is shown."""
        return replace(
            ending,
            source=self.source(ending.source),
            title=ending.title and self.redact(ending.title),
            goal=ending.goal and self.redact(ending.goal),
            history=self.history(ending.history),
        )

    def _session(self, session: Session) -> Session:
        # Key and owner contain real ids, and an agent needs neither.
        return replace(
            session,
            key=SessionKey(""),
            origin=self.source(session.origin),
            owner=None,
            title=session.title and self.redact(session.title),
            preview=self.redact(session.preview),
            goal=session.goal and self.redact(session.goal),
        )

    def _message(self, number: int, message: InboundMessage) -> InboundMessage:
        quoted = message.reply_to
        return replace(
            message,
            id=str(number),
            event_ids=(),
            source=self.source(message.source),
            text=self.redact(message.text),
            attachments=tuple(
                # `ref` is the platform's file id or URL; the agent opens `path`.
                replace(each, ref=None, name=each.name and self.redact(each.name))
                for each in message.attachments
            ),
            reply_to=quoted
            and ReplyTo(message_id="", text=self.redact(quoted.text), to_bot=quoted.to_bot),
        )

    def redact(self, text: str) -> str:
        """Return the text with everything sensitive replaced; pseudonyms stay as they are."""
        if not self._may_hold_something(text):
            return text
        pieces: list[str] = []
        at = 0
        for match in self._sensitive(text):
            pieces += (text[at : match.start()], self._hidden(match))
            at = match.end()
        return "".join(pieces) + text[at:]

    def restore(self, text: str) -> str:
        """
        Return a text or target with every pseudonym of this session replaced by its id.

        Takes a whole text: a pseudonym that a stream has cut in two is not recognised.
        """
        # One pass: a restored id is not searched again. What this session did not give out stays.
        return _GIVEN_OUT.sub(lambda match: self._known.get(match[0], match[0]), text)

    def _block(self, block: Block) -> Block:
        if isinstance(block, Text):
            return Text(self.redact(block.text))
        return replace(block, name=block.name and self.redact(block.name))

    def _arguments(self, written: str) -> str:
        """Redact JSON so that it stays JSON, unchanged where there is nothing to hide."""
        # Decoded first: an escape such as \u002b would hide a phone number from the patterns.
        try:
            value: Json = json.loads(written)
            hidden = self._hidden_in(value)
        except (ValueError, RecursionError):  # not JSON, or nested too deeply to read
            return self.redact(written)
        return written if hidden == value else json.dumps(hidden, ensure_ascii=False)

    def _hidden_in(self, value: Json) -> Json:
        match value:
            case dict():
                return {self.redact(name): self._hidden_in(item) for name, item in value.items()}
            case list():
                return [self._hidden_in(item) for item in value]
            case str():
                return self.redact(value)
        # A pseudonym is not a number, so an id that was one becomes a string.
        hidden = self.redact(str(value))
        return value if hidden == str(value) else hidden

    def _may_hold_something(self, text: str) -> bool:
        """Return False only if there is certainly nothing to redact."""
        told = self._ids_in_text()
        return (
            len(told) > _FEW_IDS
            or any(map(text.__contains__, told))
            or _SIGN.search(text) is not None
        )

    def _sensitive(self, text: str) -> Iterator[re.Match[str]]:
        """
        Find what to hide, from left to right.

        Shapes have one pattern for all sessions, ids one per session: a combined pattern would cost
        more to compile for each new chat than a turn costs to store.
        """
        shapes = _shapes(frozenset(self._platforms), self._emails)
        ids = self._ids()
        shape = shapes.search(text)
        told = ids.search(text)

        while found := _first(shape, told):
            yield found
            at = found.end()
            # Only a match that begins inside what was yielded is stale; the other stays valid.
            if shape and shape.start() < at:
                shape = shapes.search(text, at)
            if told and told.start() < at:
                told = ids.search(text, at)

    def _ids(self) -> re.Pattern[str]:
        """Return the pattern of the registered ids, compiled only when a text may contain one."""
        if self._told_pattern is None:
            # An alternation takes the first choice that matches, so a longer id goes before its own
            # prefix. Without ids, "(?!)" matches nothing; an empty choice would match everywhere.
            ids = sorted(self._ids_in_text(), key=len, reverse=True)
            choices = "|".join(map(re.escape, ids)) or "(?!)"
            self._told_pattern = re.compile(rf"{_START}(?P<told>{choices}){_END}")
        return self._told_pattern

    def _ids_in_text(self) -> tuple[str, ...]:
        """Return the registered ids that are distinctive enough to be searched for in text."""
        if self._told_in_text is None:
            self._told_in_text = tuple(filter(_stands_out, self._told))
        return self._told_in_text

    def _hidden(self, match: re.Match[str]) -> str:
        group = match.lastgroup or ""
        found = match[group]
        match group:
            case "pseudonym":
                # One that was not given out here is the user's own text, and may contain an id.
                shown = (
                    found
                    if found in self._known
                    else found[:-16] + self._told.get(found[-16:], found[-16:])
                )
            case "told":
                shown = self._told[found]
            case "target":
                shown = self._target(found, self._pseudonym)
            case "phone" | "email":
                shown = self._pseudonym(group, found)
            case _:
                shown = self._pseudonym(_KIND_IN_MENTION.get(match["sign"], "user"), found)

        # In every pattern the group ends the match; what precedes it ("<@", "tel:") is kept.
        return match[0][: -len(found)] + shown

    def _target(self, target: str, hide: Callable[[str, str, str], str]) -> str:
        head, colon, rest = target.partition(":")
        platform = head.partition("/")[0]
        # An id may contain a colon: only if it was registered is it known where the chat ends.
        chat, split, thread = (rest, "", "") if rest in self._told else rest.partition(":")
        shown_chat = chat and hide("chat", chat, platform)
        shown_thread = thread and hide("thread", thread, platform)
        return f"{head}{colon}{shown_chat}{split}{shown_thread}"

    def _tell(self, kind: str, real: str, platform: str | None = None) -> str:
        """
        Register an id, and the same without its sign, because "chat-100123" has the sign inside a
        word.
        """
        platform = platform or self._platform
        shown = self._pseudonym(kind, real, platform)
        if shown == real:  # already a pseudonym: registering it would hide it a second time
            return shown

        for form in (real, real.lstrip("+-") or real):
            if form not in self._told:
                self._told[form] = self._pseudonym(kind, form, platform)
                self._told_pattern = self._told_in_text = None

        # From now on texts are searched for targets on this platform too.
        self._platforms.add(platform)
        return shown

    def _pseudonym(self, kind: str, real: str, platform: str | None = None) -> str:
        asked = (kind, platform or self._platform, real)
        if real in self._known:
            return real
        if asked in self._given:
            return self._given[asked]

        parts = [part.encode("utf-8", "surrogatepass") for part in asked]
        # Length prefixes: without them ("ab", "c") and ("a", "bc") would be one message.
        message = b"".join(len(part).to_bytes(8, "big") + part for part in parts)
        shown = f"{kind}_{hmac.digest(self._key, message, 'sha256').hex()[:16]}"
        self._known[shown] = real
        self._given[asked] = shown
        return shown


@lru_cache(maxsize=64)
def _shapes(platforms: frozenset[str], emails: bool) -> re.Pattern[str]:
    """Return the pattern of what is sensitive by its shape; sessions share it."""
    names = "|".join(map(re.escape, sorted(platforms)))
    # Pseudonyms first: their hex digits may look like a phone number, and must stay as they are.
    choices = [
        f"(?P<pseudonym>{_PSEUDONYM})",
        _LINK,
        rf"(?P<target>(?:{names}){_TARGET_REST})",
        _PHONE,
    ]
    if emails:
        choices.insert(1, _EMAIL)

    return re.compile(f"{_MENTION}|{_START}(?:{'|'.join(choices)})")


def _first(shape: re.Match[str] | None, told: re.Match[str] | None) -> re.Match[str] | None:
    """Return the match further left; at the same position an id wins over a shape."""
    if shape is None or told is None:
        return shape or told
    if shape.start() != told.start():
        return min(shape, told, key=re.Match.start)
    return shape if shape.lastgroup in ("pseudonym", "email", "mentioned") else told


def _stands_out(told: str) -> bool:
    """
    Return whether an id is distinct from ordinary text: "42" is not, nor is a session named
    "holiday".
    """
    return len(told) >= _SHORTEST_IN_TEXT and (not told.isalpha() or told.isupper())
