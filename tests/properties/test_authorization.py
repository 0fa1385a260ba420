"""Whatever is configured and whoever comes: nobody is let in who was not named."""

from __future__ import annotations

import re
from dataclasses import replace

from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.fakes import NOON
from tests.full_length import examples
from turngate.config.wake_words import parse_wake_word
from turngate.gateway.domain.messages import (
    ChatType,
    InboundMessage,
    MessageKind,
    ReplyTo,
    SessionSource,
)
from turngate.gateway.domain.pairing_records import Person
from turngate.gateway.rules.authorization import (
    Access,
    Allowed,
    Direct,
    Groups,
    Refusal,
    authorize,
)

# Few values, so that they often meet.
ids = st.sampled_from(["1", "2", "-100", "９", "1 ", "", "ann"]) | st.text(max_size=3)
maybe_ids = st.none() | ids
platforms = st.sampled_from(["telegram", "discord", "slack", "Web", "Local", "scripted"])
accounts = st.sampled_from(["main", "support"])
entries = st.builds(
    Allowed,
    platform=platforms,
    account=st.none() | accounts,
    person=maybe_ids,
    chat=maybe_ids,
    scope=maybe_ids,
)
some_entries = st.lists(entries, max_size=4).map(tuple)
policies = st.builds(
    Access,
    allow=some_entries,
    admins=some_entries,
    bots=some_entries,
    direct=st.sampled_from(Direct),
    groups=st.sampled_from(Groups),
    modes=st.lists(st.tuples(entries, st.sampled_from(Groups)), max_size=3).map(tuple),
    wake_words=st.just(()) | st.just((re.compile("bot"),)),
)
sources = st.builds(
    SessionSource,
    platform=platforms,
    account=accounts,
    chat_type=st.sampled_from(ChatType),
    chat_id=maybe_ids,
    user_id=maybe_ids,
    thread_id=maybe_ids,
    user_id_alt=maybe_ids,
    scope=maybe_ids,
    chat_name=st.none() | st.text(max_size=20),
    user_name=st.none() | ids,
)
messages = st.builds(
    InboundMessage,
    id=ids,
    event_ids=st.just(("e",)),
    source=sources,
    sent_at=st.just(NOON),
    text=st.text(max_size=30) | st.sampled_from(["/pair list", "hey bot", "/new"]),
    kind=st.sampled_from(MessageKind),
    reply_to=st.none()
    | st.builds(ReplyTo, message_id=ids, text=st.text(max_size=9), to_bot=st.booleans()),
    addressed_to_bot=st.booleans(),
    from_bot=st.booleans(),
    forwarded=st.booleans(),
)
people = st.builds(Person, platform=platforms, account=accounts, id=ids)


def on(entry: Allowed, source: SessionSource) -> bool:
    return entry.platform == source.platform and entry.account in (None, source.account)


def is_named(source: SessionSource, entries: tuple[Allowed, ...]) -> bool:
    person = source.user_id_alt or source.user_id
    return bool(person) and any(on(entry, source) and entry.person == person for entry in entries)


def is_inside(source: SessionSource, entries: tuple[Allowed, ...]) -> bool:
    return any(
        on(entry, source)
        and (
            (bool(entry.chat) and entry.chat == source.chat_id)
            or (bool(entry.scope) and entry.scope == source.scope)
        )
        for entry in entries
    )


@settings(max_examples=examples(1000))
@given(messages, policies, st.sets(people, max_size=4), st.booleans())
def test_nobody_is_let_in_who_was_not_named(
    message: InboundMessage, access: Access, approved: set[Person], takes_part: bool
) -> None:
    decision = authorize(message, access, approved, takes_part=takes_part)
    source = message.source
    person = source.user_id_alt or source.user_id

    if decision.refusal is None and source.chat_type is ChatType.DM:
        paired = access.direct is Direct.PAIRING and any(
            (each.platform, each.account, each.id) == (source.platform, source.account, person)
            for each in approved
        )
        listed = is_named(source, access.allow) or is_named(source, access.admins)
        assert person
        if message.from_bot:
            assert is_named(source, access.bots)
        else:
            assert listed or paired or access.direct is Direct.OPEN
    elif decision.refusal is None:
        assert is_inside(source, access.allow)
        assert not message.from_bot or is_named(source, access.bots)
    if decision.is_admin:
        assert decision.refusal is None
        assert is_named(source, access.admins)
        assert not message.from_bot


@settings(max_examples=examples(300))
@given(messages, policies, st.sets(people, max_size=4), st.text(max_size=20), st.text(max_size=20))
def test_names_change_nothing(
    message: InboundMessage, access: Access, approved: set[Person], name: str, topic: str
) -> None:
    nameless = message.source.nameless
    renamed = replace(nameless, user_name=name, chat_topic=topic)

    def decided(source: SessionSource) -> object:
        return authorize(replace(message, source=source), access, approved)

    assert decided(nameless) == decided(renamed) == decided(message.source)


@settings(max_examples=examples(300))
@given(messages, policies)
def test_without_an_entry_nobody_gets_anything(message: InboundMessage, access: Access) -> None:
    closed = Access(
        direct=Direct.LISTED, groups=access.groups, modes=access.modes, wake_words=access.wake_words
    )

    assert authorize(message, closed, takes_part=True).refusal in (
        Refusal.STRANGER,
        Refusal.NAMELESS,
        Refusal.CHAT,
        Refusal.BOT,
    )


PIECES = [
    "a",
    "b",
    ".",
    "[ab]",
    "(",
    ")",
    "(?:",
    "|",
    "+",
    "*",
    "?",
    "{2,}",
    "{0,9}",
    "^",
    "$",
    r"\w",
    "bot",
]


@settings(max_examples=examples(500), deadline=None)
@given(st.lists(st.sampled_from(PIECES), min_size=1, max_size=12).map("".join))
@example("(a+)+b")
@example("(a|a)*b")
@example("(?:a?){50}b")
def test_a_wake_word_that_the_config_takes_is_searched_for_in_no_time(written: str) -> None:
    """One that took exponential time would not end here while anybody waits."""
    try:
        pattern = parse_wake_word(written)
    except ValueError:
        return
    for text in ("a" * 200, "ab" * 100, "a" * 199 + "!"):
        pattern.search(text)
