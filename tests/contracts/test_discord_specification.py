"""The comparison with Discord's specification finds what is wrong, and nothing in what is right."""

from __future__ import annotations

from typing import Any

import pytest

from tests.simulators.discord.generator import Fields, Generator
from tests.simulators.discord.specification import (
    faults_of_answer,
    faults_of_event,
    faults_of_request,
)
from tests.specifications import NEEDED

pytestmark = NEEDED

MESSAGES = "/channels/{channel}/messages"
ONE = MESSAGES + "/{message}"


@pytest.mark.parametrize("fields", Fields)
def test_what_the_generator_makes_is_as_the_document_wants_it(fields: Fields) -> None:
    for seed in range(20):
        message = Generator(seed, fields).of("MessageResponse")

        assert list(faults_of_answer("GET", ONE, 200, message)) == []


def test_an_answer_that_lacks_a_field_or_has_it_wrong_is_found() -> None:
    message = Generator(1, Fields.NONE).of("MessageResponse")
    without = {name: value for name, value in message.items() if name != "author"}

    assert any("'author' is a required" in each for each in found_in(without))
    assert any("$.pinned" in each for each in found_in(message | {"pinned": "no"}))
    assert list(faults_of_answer("POST", MESSAGES, 206, message)) == [
        f"POST {MESSAGES} never answers 206"
    ]


def found_in(message: dict[str, Any]) -> list[str]:
    """What is wrong with an answer."""
    return list(faults_of_answer("GET", ONE, 200, message))


@pytest.mark.parametrize(
    ("query", "body", "fault"),
    [
        ({}, {"content": 5}, "$.content"),
        ({}, {"contents": "hello"}, "takes no contents"),
        ({"wait": "1"}, {"content": "hello"}, "there is no wait in the query"),
    ],
)
def test_a_request_that_is_wrong_is_found(
    query: dict[str, str], body: dict[str, Any], fault: str
) -> None:
    assert any(fault in each for each in faults_of_request("POST", MESSAGES, query, body, None))


def test_a_request_as_it_should_be_is_not() -> None:
    body = {"content": "hello", "message_reference": {"message_id": "5"}, "nonce": "a" * 25}

    assert list(faults_of_request("POST", MESSAGES, {}, body, None)) == []
    assert list(faults_of_request("GET", MESSAGES, {"limit": "100"}, None, None)) == []


def test_an_event_with_a_field_that_is_not_there_or_missing_or_wrong_is_found() -> None:
    gone = {"id": "5", "channel_id": "6"}

    assert list(faults_of_event("MESSAGE_DELETE", gone)) == []
    assert list(faults_of_event("MESSAGE_DELETE", {"id": "5"})) == [
        "MESSAGE_DELETE: channel_id is missing"
    ]
    assert list(faults_of_event("MESSAGE_DELETE", gone | {"text": "no"})) == [
        "MESSAGE_DELETE: there is no field text"
    ]
    assert list(faults_of_event("MESSAGE_DELETE", gone | {"id": 5})) == [
        "MESSAGE_DELETE.id: 5 is no snowflake"
    ]
