"""
Authorization: the one place that decides who may use the bot. Pure, default deny.

Applied to everything a user can do: messages, commands, edits, files, buttons, reactions, on every
platform. It looks at ids, never at names; quoting or forwarding a message does not grant the rights
of its author.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from turngate.gateway.domain.messages import (
    LOCAL_PLATFORM,
    WEB_PLATFORM,
    ChatType,
    InboundMessage,
    MessageKind,
    SessionSource,
)
from turngate.gateway.domain.pairing_records import Person

LONGEST_TEXT = 1_000_000
"""More than any platform lets a person write; what is longer is a file or an attack."""

TALK_KINDS = (MessageKind.NEW, MessageKind.COMMAND)
"""What can become a turn. The rest is done to a message that is there already."""

ANSWERED_KINDS = (*TALK_KINDS, MessageKind.BUTTON)
"""What is stored, because something is to be done."""

# A browser with the web chat's cookie and the terminal of this machine belong to the operator.
_OWN_SCREENS = (LOCAL_PLATFORM, WEB_PLATFORM)
# Characters. Users call the bot at the beginning of a message, and the operator's patterns take
# little time on a short text.
_SEARCHED = 200


class Direct(StrEnum):
    """
    Whose direct messages are accepted: of listed and paired users, of listed users only, of anyone.
    """

    PAIRING = "pairing"
    LISTED = "listed"
    OPEN = "open-dangerously"


class Groups(StrEnum):
    """What is answered in an allowed chat: what is addressed to the bot, everything, or nothing."""

    MENTION = "mention"
    ALL = "all"
    OFF = "off"


class Refusal(StrEnum):
    """Why a message is not answered, as `trace` shows it."""

    STRANGER = "this user is not allowed"
    UNPAIRED = "this person is not paired yet"
    NAMELESS = "the platform does not say who wrote this"
    CHAT = "this chat is not allowed"
    BOT = "another bot wrote this"
    STANDOFF = "bots were answering each other"
    OFF = "the bot is switched off in this chat"
    UNADDRESSED = "this was not addressed to the bot"
    UNANSWERABLE = "the platform does not let the bot answer there"


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowed:
    """
    A user, or everyone inside a chat or a scope. Without an account it holds for every account of
    the platform.
    """

    platform: str
    account: str | None = None
    person: str | None = None
    chat: str | None = None
    scope: str | None = None

    def holds(self, source: SessionSource) -> bool:
        """
        Return whether it is this chat, or one inside this scope. A direct chat is inside no scope.
        """
        if not self._fits(source) or source.chat_type is ChatType.DM:
            return False
        in_chat = self.chat is not None and self.chat == source.chat_id
        return in_chat or (self.scope is not None and self.scope == source.scope)

    def _fits(self, source: SessionSource) -> bool:
        return self.platform == source.platform and self.account in (None, source.account)


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """
    The access settings of the config.

    `modes` are for single chats and scopes; `background` is how many background messages are kept.
    `called_each_time` are accounts, by platform and name, that must be addressed in every message
    of a thread.
    """

    allow: tuple[Allowed, ...] = ()
    admins: tuple[Allowed, ...] = ()
    bots: tuple[Allowed, ...] = ()
    direct: Direct = Direct.PAIRING
    groups: Groups = Groups.MENTION
    modes: tuple[tuple[Allowed, Groups], ...] = ()
    wake_words: tuple[re.Pattern[str], ...] = ()
    background: int = 0
    called_each_time: frozenset[tuple[str, str]] = frozenset()
    _listed: Mapping[str, frozenset[Allowed]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Index the lists: thousands of users may be listed, and every message looks one up."""
        listed = {"allow": self.allow, "admins": self.admins, "bots": self.bots}
        object.__setattr__(
            self, "_listed", {name: frozenset(entries) for name, entries in listed.items()}
        )

    def names(self, source: SessionSource, *lists: str) -> bool:
        """Return whether one of these lists (allow, admins, bots) has the user."""
        # An entry without an account holds for all of them. Both forms are looked up in the set:
        # scanning the lists would cost every message time.
        person = source.participant_id
        asked = [
            Allowed(platform=source.platform, account=each, person=person)
            for each in (None, source.account)
        ]
        # Without an id the lookup would equal an entry that names no user.
        return person is not None and any(
            entry in self._listed[name] for entry in asked for name in lists
        )

    def lets_in(self, source: SessionSource) -> bool:
        """
        Return whether the chat, or the scope it is in, is allowed. A direct chat is inside no
        scope.
        """
        if source.chat_type is ChatType.DM:
            return False

        inside = [{"chat": source.chat_id}] if source.chat_id is not None else []
        inside += [{"scope": source.scope}] if source.scope is not None else []
        accounts = None, source.account
        asked = [
            Allowed(platform=source.platform, account=each, **ids)
            for each in accounts
            for ids in inside
        ]
        return any(entry in self._listed["allow"] for entry in asked)

    def follows_threads(self, source: SessionSource) -> bool:
        """Return whether the bot, once it takes part in a thread, need not be addressed there."""
        return source.account_key not in self.called_each_time

    def mode_of(self, source: SessionSource) -> Groups:
        """
        Return what is answered in a chat. An entry for the chat wins over one for its scope, one
        with an account over one without.
        """
        splitter = [(entry, mode) for entry, mode in self.modes if entry.holds(source)]
        # A stable sort: of equally specific entries the last one in the config wins.
        ranked = sorted(
            splitter, key=lambda each: (each[0].chat is not None, each[0].account is not None)
        )
        return ranked[-1][1] if ranked else self.groups

    def is_addressed(self, message: InboundMessage) -> bool:
        """
        Return whether the bot is mentioned, replied to, or called by a wake word in the sender's
        own words.
        """
        if message.addressed_to_bot or (message.reply_to is not None and message.reply_to.to_bot):
            return True
        # Forwarded text was written by another user, who did not call the bot.
        start = "" if message.forwarded else message.text[:_SEARCHED]
        return any(word.search(start) for word in self.wake_words)


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """Allowed, with or without admin rights; or refused, with the reason."""

    refusal: Refusal | None = None
    is_admin: bool = False


def authorize(
    message: InboundMessage,
    access: Access,
    approved: Collection[Person] = (),
    *,
    takes_part: bool = False,
) -> Decision:
    """
    Decide whether an action may have an effect.

    `approved` are the paired users. `takes_part`: the bot has a session in this very thread, so
    messages there need not address it.
    """
    source = message.source
    if is_own_screen(source):
        return Decision(is_admin=True)

    if message.unanswerable is not None:
        refusal: Refusal | None = Refusal.UNANSWERABLE
    elif source.chat_type is ChatType.DM:
        refusal = _refused_directly(message, access, approved)
    else:
        refusal = _refused_in_chat(message, access, takes_part=takes_part)

    # A bot is never an admin, even if its id is listed as one.
    is_admin = refusal is None and not message.from_bot and access.names(source, "admins")
    return Decision(refusal=refusal, is_admin=is_admin)


def is_own_screen(source: SessionSource) -> bool:
    """Return whether a source is the browser or the terminal of the operator."""
    return source.platform in _OWN_SCREENS


def _refused_directly(
    message: InboundMessage, access: Access, approved: Collection[Person]
) -> Refusal | None:
    source = message.source
    person = Person.behind(message.source)
    # These two come before `access.direct`: an open bot still ignores other bots and senders
    # without an id.
    if person is None:
        return Refusal.NAMELESS
    if message.from_bot:
        return None if access.names(source, "bots") else Refusal.BOT
    if access.names(source, "allow", "admins") or access.direct is Direct.OPEN:
        return None
    if access.direct is Direct.LISTED:
        return Refusal.STRANGER

    # Only in pairing mode: an earlier pairing does not count once only listed users are accepted.
    return None if person in approved else Refusal.UNPAIRED


def _refused_in_chat(
    message: InboundMessage, access: Access, *, takes_part: bool
) -> Refusal | None:
    source = message.source
    if not access.lets_in(source):
        return Refusal.CHAT
    if message.from_bot and not access.names(source, "bots"):
        return Refusal.BOT

    mode = access.mode_of(source)
    if mode is Groups.OFF:
        return Refusal.OFF

    # A button press or a reaction contains no text that could be meant for another user.
    needs_address = mode is Groups.MENTION and message.kind in (*TALK_KINDS, MessageKind.EDIT)
    follows = takes_part and access.follows_threads(source)
    if needs_address and not follows and not access.is_addressed(message):
        return Refusal.UNADDRESSED

    return None
