"""What a reload says of itself: the names of keys, whatever stands there."""

from __future__ import annotations

from tests.configs import config_of
from turngate.config.diff import difference

SECRET = "sk-hush-hush"  # noqa: S105 - stands for one


def changed(old: str, new: str) -> tuple[str, ...]:
    return difference(config_of(old, KEY="before"), config_of(new, KEY=SECRET))


def test_nothing_has_changed_in_the_same_file() -> None:
    text = (
        "agents: {main: {kind: echo}}\naccess: {wake_words: [bot]}\nsessions: {reset: {idle: 2h}}\n"
    )

    assert changed(text, text) == ()


def test_keys_are_named_down_to_the_last() -> None:
    assert changed("turns: {drain: 1s}", "turns: {drain: 2s, concurrent: 5}") == (
        "turns.concurrent",
        "turns.drain",
    )
    assert changed("", "log: {level: debug}\nsessions: {history: {messages: 3}}") == (
        "sessions.history.messages",
        "log.level",
    )


def test_a_secret_that_changed_behind_its_name_is_a_change() -> None:
    text = (
        "agents: {main: {kind: openai, base_url: http://127.0.0.1:1/v1, model: m, api_key: "
        "'${KEY}'}}"
    )

    assert changed(text, text) == ("agents.main.api_key",)


def test_an_agent_that_comes_or_goes_is_named_as_a_whole() -> None:
    one, two = "agents: {main: {kind: echo}}", "agents: {main: {kind: echo}, coder: {kind: echo}}"

    assert changed(one, two) == changed(two, one) == ("agents.coder",)


def test_ids_of_people_and_chats_are_never_named() -> None:
    text = 'access: {allow: ["telegram:12345"], group_modes: {"telegram:chat:-100777": all}}'

    assert changed("", text) == ("access.group_modes", "access.allow")
