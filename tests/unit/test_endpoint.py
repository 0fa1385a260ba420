"""
Where a model is asked: addresses as people write them, keys that never show, and mistakes found at
the start.
"""

from __future__ import annotations

import pytest

from turngate.gateway.agents import AgentSpec, load_agent
from turngate.gateway.agents.endpoint import endpoint
from turngate.gateway.domain.errors import ConfigError

for_both = pytest.mark.parametrize("kind", ["openai", "anthropic"])


def address(written: str | None, below: str) -> str:
    spec = AgentSpec(name="main", url=written, api_key="sk-1")
    return endpoint(
        spec, default="https://default.example/v1", below=below, headers={}, key_as="x-api-key: "
    ).url


@pytest.mark.parametrize(
    ("written", "asked"),
    [
        (None, "https://default.example/v1/chat/completions"),
        ("http://h:1/v1", "http://h:1/v1/chat/completions"),
        ("http://h:1/v1/", "http://h:1/v1/chat/completions"),
        ("http://h", "http://h/chat/completions"),
        ("http://h/v1/chat/completions", "http://h/v1/chat/completions"),
        ("http://h/v1/chat", "http://h/v1/chat/completions"),
        ("https://h/d?api-version=2", "https://h/d/chat/completions?api-version=2"),
        ("http://[::1]:8080/v1#x", "http://[::1]:8080/v1/chat/completions"),
    ],
)
def test_an_address_of_openai_is_taken_as_people_write_it(written: str | None, asked: str) -> None:
    assert address(written, "/chat/completions") == asked


@pytest.mark.parametrize(
    "written", ["http://h", "http://h/", "http://h/v1", "http://h/v1/", "http://h/v1/messages"]
)
def test_an_address_of_anthropic_is_taken_with_and_without_its_version(written: str) -> None:
    assert address(written, "/v1/messages") == "http://h/v1/messages"


@for_both
@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"model": None}, "agents.main: model is missing; write which one to ask, such as "),
        ({"url": None, "api_key": None}, "agents.main: api_key is missing; api."),
        (
            {"url": "http://ann:secret@h/v1"},
            "base_url holds a name or a password; take it out, and write api_key",
        ),
        ({"url": "http://ann@h/v1"}, "base_url holds a name or a password"),
        ({"url": "ftp://h/v1"}, "base_url is not an address; write https://host/v1"),
        ({"url": "http://"}, "base_url is not an address"),
        ({"url": "http://h:port/"}, "base_url is not an address"),
        (
            {"api_key": "sk-1\r\nX-Evil: 1"},
            "api_key holds characters that no key has; copy it again",
        ),
        ({"api_key": "schlüssel"}, "api_key holds characters that no key has"),
        ({"api_key": " "}, "api_key holds characters that no key has"),
        ({"options": {"messages": []}}, "options.messages is set by the gateway itself; remove it"),
    ],
)
def test_a_mistake_is_found_before_anybody_writes(
    kind: str, wrong: dict[str, object], told: str
) -> None:
    right = {"url": "http://127.0.0.1/v1", "api_key": "sk-1", "model": "m"}
    with pytest.raises(ConfigError) as raised:
        load_agent(AgentSpec(name="main", kind=kind, **(right | wrong)))  # type: ignore[arg-type]

    assert told in str(raised.value)
    assert "secret" not in str(raised.value)
    assert "sk-1" not in str(raised.value)


def test_a_key_with_a_line_end_from_a_file_is_taken_without_it() -> None:
    spec = AgentSpec(name="main", url="http://h", api_key="sk-1\n")
    made = endpoint(
        spec, default="", below="/x", headers={"a": "b"}, key_as="Authorization: Bearer"
    )

    assert made.headers["Authorization"] == "Bearer sk-1"
    assert made.headers["a"] == "b"
    assert made.quoted("your key sk-1 is bad") == "your key *** is bad"
    assert "sk-1" not in repr(made)
