"""Two sources with a chat id get one key if and only if they are the same conversation."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass, replace

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.full_length import examples
from turngate.gateway.domain.ids import SessionKey
from turngate.gateway.domain.messages import ChatType, SessionSource
from turngate.gateway.rules.session_keys import build_session_key

PIECES = ":%*/-0127aäЖ你😀\x00\x1f\x7f\x85\ud800\udfff"
LURES = [
    "42",
    "*",
    ":",
    "%",
    "%3A",
    "3A",
    "%2A",
    "2A",
    "%25",
    "a:42",
    "a%3A42",
    "42:*",
    "main",
    "dm",
    "group",
    "0",
    "-1",
]

ids = st.sampled_from(LURES) | st.lists(st.sampled_from(list(PIECES)), min_size=1, max_size=3).map(
    "".join
)
no_ids = st.sampled_from([None, ""])
threads = ids | no_ids | st.sampled_from([0, 42])
people = ids | no_ids | st.sampled_from([0, 42])
labels = st.none() | ids


@dataclass(frozen=True, kw_only=True)
class Setting:
    agent: str
    per_user_in_groups: bool
    per_user_in_threads: bool

    def key(self, source: SessionSource) -> SessionKey:
        return build_session_key(
            source,
            agent=self.agent,
            per_user_in_groups=self.per_user_in_groups,
            per_user_in_threads=self.per_user_in_threads,
        )

    def conversation(self, source: SessionSource) -> tuple[object, ...]:
        """What the rule compares, said without any key."""
        place = (self.agent, source.platform, source.account, source.chat_type, str(source.chat_id))
        thread = None if source.thread_id in (None, "", "0") else source.thread_id
        group = source.chat_type is not ChatType.DM
        separates = (
            group and self.per_user_in_groups and (self.per_user_in_threads or thread is None)
        )
        return (*place, thread, (source.user_id_alt or source.user_id) if separates else None)


FIELDS = {
    "platform": ids,
    "account": ids | st.just("main"),
    "chat_type": st.sampled_from(ChatType),
    "chat_id": ids | st.sampled_from([0, 42]),
    "thread_id": threads,
    "user_id": people,
    "user_id_alt": people,
}
LABELS = {
    "chat_id_alt": labels,
    "scope": labels,
    "chat_name": labels,
    "user_name": labels,
    "chat_topic": labels,
}

sources = st.builds(SessionSource, **FIELDS)
setting = st.builds(
    Setting, agent=ids, per_user_in_groups=st.booleans(), per_user_in_threads=st.booleans()
)


@st.composite
def relatives(draw: st.DrawFn) -> tuple[SessionSource, SessionSource]:
    """
    A source and another that differs in a few fields, or in none: neighbours are where collisions
    live.
    """
    source = draw(sources)
    changes = draw(
        st.fixed_dictionaries({}, optional=FIELDS | LABELS).filter(lambda some: len(some) <= 3)
    )
    return source, replace(source, **changes)


def cut(
    parts: list[str], joint: str, first: int, second: int
) -> tuple[str, str | None, str | None]:
    groups = (parts[:first], parts[first:second], parts[second:])
    return joint.join(groups[0]), joint.join(groups[1]) or None, joint.join(groups[2]) or None


@st.composite
def regrouped(draw: st.DrawFn) -> tuple[SessionSource, SessionSource]:
    """
    The same few words, joined differently: what is a chat and a thread here is a longer chat id
    there.
    """
    words = draw(st.lists(st.sampled_from(["a", "42", "*", "main"]), min_size=2, max_size=4))
    source = draw(sources)
    cuts = st.lists(st.integers(1, len(words)), min_size=2, max_size=2).map(sorted)

    def variant() -> SessionSource:
        chat, thread, user = cut(words, ":", *draw(cuts))
        platform, account, _ = cut(words, "/", draw(st.integers(1, len(words))), len(words))
        places = {"platform": platform, "account": account or "main"} if draw(st.booleans()) else {}
        return replace(
            source, chat_id=chat, thread_id=thread, user_id=user, user_id_alt=None, **places
        )

    return variant(), variant()


DISGUISES = {":": "%3A", "%": "%25", "*": "%2A", "/": "%2F", "\x00": "%00", "\ud800": "%ED%A0%80"}


@st.composite
def disguised(draw: st.DrawFn) -> tuple[SessionSource, SessionSource]:
    """
    An id, and another that is written as the first one might be encoded; or nobody, and a user
    called `*`.
    """
    source = replace(draw(sources), user_id_alt=None)
    plain, encoded = draw(st.sampled_from(sorted(DISGUISES.items())))
    name = draw(st.sampled_from(["platform", "account", "chat_id", "thread_id", "user_id"]))
    one, other = draw(
        st.sampled_from([({name: plain}, {name: encoded}), ({"user_id": "*"}, {"user_id": None})])
    )
    return replace(source, **one), replace(source, **other)


@settings(max_examples=examples(1000), deadline=None)
@given(pair=relatives() | regrouped() | disguised() | st.tuples(sources, sources), setting=setting)
def test_one_key_if_and_only_if_one_conversation(
    pair: tuple[SessionSource, SessionSource], setting: Setting
) -> None:
    one, other = pair

    same_key = setting.key(one) == setting.key(other)

    assert same_key == (setting.conversation(one) == setting.conversation(other))


@settings(max_examples=examples(300), deadline=None)
@given(source=sources, setting=setting, changes=st.fixed_dictionaries({}, optional=LABELS))
def test_labels_never_change_a_key(
    source: SessionSource, setting: Setting, changes: dict[str, str | None]
) -> None:
    assert setting.key(replace(source, **changes)) == setting.key(source)


@settings(max_examples=examples(300), deadline=None)
@given(source=sources, setting=setting, user=people, alternative=people)
def test_who_speaks_changes_no_key_where_it_does_not_separate(
    source: SessionSource, setting: Setting, user: str | None, alternative: str | None
) -> None:
    shared = replace(setting, per_user_in_groups=False)

    assert shared.key(replace(source, user_id=user, user_id_alt=alternative)) == shared.key(source)


@settings(max_examples=examples(300), deadline=None)
@given(source=sources, setting=setting, agent=ids)
def test_two_agents_never_share_a_key(source: SessionSource, setting: Setting, agent: str) -> None:
    assume(agent != setting.agent)

    assert replace(setting, agent=agent).key(source) != setting.key(source)


@settings(max_examples=examples(300), deadline=None)
@given(source=sources, setting=setting)
def test_a_key_has_no_control_characters_and_can_be_encoded(
    source: SessionSource, setting: Setting
) -> None:
    key = setting.key(source)

    assert not [char for char in key if unicodedata.category(char) in ("Cc", "Cs")]
    assert key.encode("utf-8").decode("utf-8") == key
