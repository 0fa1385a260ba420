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
from dataclasses import dataclass, replace
from threading import Lock
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
from turngate.gateway.rules.redaction_rules import (
    END,
    PSEUDONYM,
    SIGN,
    START,
    VERSION,
    shapes,
    starting,
)
from turngate.gateway.rules.search_text import TAGGED, FoldedText, fold, from_tags

_KEY_BYTES = 32
# In running text a shorter id would match ordinary numbers. Mentions and targets show what is an
# id, so there any length is hidden. People are more worth it than chats and threads, whose ids are
# short on some platforms.
_SHORTEST_IN_TEXT = 6
_SHORTEST_OF_PEOPLE = 3
# From this length on an id is found inside of words, too.
_DISTINCT = 5
_DISTINCT_WITH_LETTERS = 8
# A group's id on one platform, whose links to messages leave out the start.
_GROUP = re.compile(r"-100(\d{6,})")
_KIND_IN_MENTION = {"@": "user", "@!": "user", "@&": "role", "#": "chat", "!subteam^": "role"}

_NOTHING = re.compile("(?!)")
# With more ids than this, testing each one costs more than the combined pattern.
_FEW_IDS = 32

_GIVEN_OUT = re.compile(START + PSEUDONYM)
# By the group of the pattern.
_KINDS = {
    "pseudonym": "pseudonym",
    "linked": "user",
    "posted": "chat",
    "posted_in": "chat",
    "target": "target",
    "phone": "phone",
    "glued": "glued",
    "email": "email",
}
_LONGEST_VERSION = 40
_LETTERS_AND_DIGITS = string.ascii_letters + string.digits
_ALNUM = re.compile("[A-Za-z0-9]+")
_STARTS = re.compile(START)
_ESCAPE = re.compile("[bfnrt]|u[0-9A-Fa-f]{4}")
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
    user can write one. Other threads may only call `redact`.
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
        # Texts in which nothing is left to hide, until another id is registered.
        self._redacted: set[str] = set()
        # Files are read, and redacted, in threads.
        self._lock = Lock()

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
            sender_name=entry.sender_name and self.redact(entry.sender_name),
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
        # Every id before the first text.
        for each in (turn.session.origin, *(message.source for message in turn.messages)):
            self.know_source(each)
        history = self.history(turn.history)
        return replace(
            turn,
            source=source,
            session=self._session(turn.session),
            system=self.redact(turn.system),
            context=self.redact(turn.context),
            redact=self.redact,
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
        """
        Return the text with everything sensitive replaced; pseudonyms stay as they are.

        It is searched as a reader takes it in, and as it is written. Safe to call from any thread.
        """
        with self._lock:
            # Most texts pass here twice: as a field, and as the final text of a request.
            if text not in self._redacted:
                self._redacted.add(shown := self._searched(text))
                return shown
            return text

    def _searched(self, text: str) -> str:
        folded = fold(text, self._given_out_in)
        if folded is not None:
            text = self._replaced(self._without_tags(text), folded)
        return self._replaced(text, None)

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
        return self._may_hold_told(text) or SIGN.search(text) is not None

    def _may_hold_told(self, text: str) -> bool:
        told = self._ids_in_text()
        return len(told) > _FEW_IDS or any(map(text.__contains__, told))

    def _given_out_in(self, text: str) -> Iterator[re.Match[str]]:
        return (found for found in _GIVEN_OUT.finditer(text) if found[0] in self._known)

    def _without_tags(self, text: str) -> str:
        """Hide what is written in tag characters, if it would be hidden in plain ones."""

        def hidden(found: re.Match[str]) -> str:
            plain = from_tags(found[0])
            return found[0] if self._replaced(plain, None) == plain else "\ufffd" * len(plain)

        return TAGGED.sub(hidden, text) if TAGGED.search(text) else text

    def _replaced(self, written: str, folded: FoldedText | None) -> str:
        """Replace what is sensitive in a text, as it is written or in its folded form."""
        seen = written if folded is None else folded.text
        if not self._may_hold_something(seen):
            return written

        pieces: list[str] = []
        at = 0
        for found in self._sensitive(seen):
            start, end = found.span if folded is None else folded.span(*found.span)
            # An id before it in the same word has taken the rest of the word with it.
            if start < at:
                continue
            if found.kind in ("told", "phone", "glued"):
                start, end = self._word(written, at, start, end)
            shown = self._hidden(found, written[start:end])
            pieces += (written[at:start], shown)
            at = end

        return "".join(pieces) + written[at:]

    def _sensitive(self, text: str) -> Iterator[_Found]:
        """
        Find what to hide, from left to right.

        Shapes have one pattern for all sessions, ids one per session: a combined pattern would cost
        more to compile for each new chat than a turn costs to store.
        """
        pattern = shapes(frozenset(self._platforms), self._emails)
        ids = self._ids() if self._may_hold_told(text) else _NOTHING
        shape = _shape_in(pattern, text, 0)
        told = _told_in(ids, text, 0)

        while found := _first(shape, told):
            yield found
            at = found.span[1]
            # Only a match that begins inside what was yielded is stale; the other stays valid.
            if shape and shape.start < at:
                shape = _shape_in(pattern, text, at)
            if told and told.start < at:
                told = _told_in(ids, text, at)

    def _ids(self) -> re.Pattern[str]:
        """Return the pattern of the registered ids, compiled only when a text may contain one."""
        if self._told_pattern is None:
            # An alternation takes the first choice that matches, so a longer id goes before its own
            # prefix. Without ids nothing is searched for; an empty choice would match everywhere.
            ids = sorted(self._ids_in_text(), key=len, reverse=True)
            choices = "|".join(map(_pattern_of, ids))
            self._told_pattern = re.compile(choices) if ids else _NOTHING
        return self._told_pattern

    def _ids_in_text(self) -> tuple[str, ...]:
        """Return the registered ids that are distinctive enough to be searched for in text."""
        if self._told_in_text is None:
            self._told_in_text = tuple(
                told for told, shown in self._told.items() if _stands_out(told, shown)
            )
        return self._told_in_text

    def _hidden(self, found: _Found, written: str) -> str:
        """Return what stands for something sensitive; disguised, it has a pseudonym of its own."""
        is_plain = written == found.text
        match found.kind:
            case "pseudonym" if is_plain:
                # One that was not given out here is the user's own text, and may contain an id.
                if written in self._known:
                    return written
                kind, _, digits = written.rpartition("_")
                told = self._ids().search(digits)
                return written if told is None else f"{kind}_{self._hidden_id(told[0], digits)}"
            case "pseudonym":
                return self._pseudonym("user", written) if found.text in self._known else written
            case "told":
                return self._hidden_id(found.text, written)
            case "target":
                return (
                    self._target(written, self._pseudonym)
                    if is_plain
                    else self._pseudonym("chat", written)
                )
            # Of a mention, the first search may have hidden a part.
            case _ if next(self._given_out_in(written), None):
                return written
            case kind:
                return self._pseudonym("phone" if kind == "glued" else kind, written)

    def _word(self, text: str, at: int, start: int, end: int) -> tuple[int, int]:
        """
        Return where an id or number with the word around it begins and ends: inside of a word its
        pseudonym would not be recognised on the way back.
        """
        # What looks like a dash between words may be the sign of the id after an invisible sign.
        if start > at and text[start - 1 : end] in self._told and _STARTS.match(text, start - 1):
            return start - 1, end
        return _token(text, at, start, end)

    def _hidden_id(self, told: str, written: str) -> str:
        shown = self._told[told]
        return shown if written == told else self._pseudonym(shown.partition("_")[0], written)

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
        word, and as it stands in links to messages.
        """
        platform = platform or self._platform
        shown = self._pseudonym(kind, real, platform)
        if shown == real:  # already a pseudonym: registering it would hide it a second time
            return shown

        for form in _forms(real):
            if form not in self._told:
                self._told[form] = self._pseudonym(kind, form, platform)
                self._told_pattern = self._told_in_text = None
                self._redacted.clear()

        # From now on texts are searched for targets on this platform too.
        if platform not in self._platforms:
            self._platforms.add(platform)
            self._redacted.clear()
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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """
    Something sensitive in a text.

    `start` is where its match begins; `span` is what is replaced, and `text` stands there.
    """

    kind: str
    start: int
    span: tuple[int, int]
    text: str


def _shape_in(pattern: re.Pattern[str], text: str, at: int) -> _Found | None:
    """Return the next thing that is sensitive by its shape."""
    while match := pattern.search(text, at):
        group = match.lastgroup or ""
        start, end = match.span(group)
        before = text[max(start - _LONGEST_VERSION, 0) : start]
        if group != "glued" or VERSION.search(before) is None:
            kind = _KINDS.get(group) or _KIND_IN_MENTION.get(match["sign"], "user")
            return _Found(kind=kind, start=match.start(), span=(start, end), text=match[group])
        at = end

    return None


def _told_in(pattern: re.Pattern[str], text: str, at: int) -> _Found | None:
    """Return the next registered id."""
    match = pattern.search(text, at)
    return match and _Found(kind="told", start=match.start(), span=match.span(), text=match[0])


def _token(text: str, at: int, start: int, end: int) -> tuple[int, int]:
    """Return where the letters and digits around an id begin and end."""
    if text[end - 1] in _LETTERS_AND_DIGITS and (more := _ALNUM.match(text, end)):
        end = more.end()
    begin = at + len(text[at:start].rstrip(_LETTERS_AND_DIGITS))
    # The letter of an escape belongs to no word.
    escape = _ESCAPE.match(text, begin, start) if text[:begin].endswith("\\") else None
    return escape.end() if escape else begin, end


def _first(shape: _Found | None, told: _Found | None) -> _Found | None:
    """Return what is further left; at the same position an id wins over a shape."""
    if shape is None or told is None:
        return shape or told
    if shape.start != told.start:
        return shape if shape.start < told.start else told
    return shape if shape.kind in ("pseudonym", "email") else told


def _forms(real: str) -> tuple[str, ...]:
    """Return the forms in which an id is written."""
    group = _GROUP.fullmatch(real)
    return (real, real.lstrip("+-") or real, *([group[1]] if group else []))


def _stands_out(told: str, shown: str) -> bool:
    """
    Return whether an id is distinct from ordinary text: "42" is not, nor is a session named
    "holiday".
    """
    if told.isalpha() and not told.isupper():
        return False
    is_person = shown.startswith("user_") and any(map(str.isdecimal, told))
    return len(told) >= (_SHORTEST_OF_PEOPLE if is_person else _SHORTEST_IN_TEXT)


def _pattern_of(told: str) -> str:
    """Return the pattern of a registered id: the shorter it is, the more must stand apart."""
    escaped = re.escape(told)
    number = rf"{escaped}(?!\d)(?:(?<!\d{escaped})|(?<=\\u[0-9A-Fa-f]{{4}}{escaped}))"
    word = escaped + END + starting(escaped)
    has_letters = any(map(str.isalpha, told))
    if has_letters and len(told) >= _DISTINCT_WITH_LETTERS:
        pattern = escaped
    elif has_letters:
        pattern = word
    # A number with more digits is another number.
    elif len(told) >= _DISTINCT:
        pattern = number
    else:
        pattern = rf"{word}(?<!\d[.,:/-]{escaped})(?<![$€£#.]{escaped})(?![.,:/-]\d| ?[%€$£])"

    # A sign belongs to it only where it does not join words: of "chat-100123" the number is hidden.
    pattern += "" if told[0].isalnum() else starting(escaped)
    return pattern + ("" if told[-1].isalnum() else END)
