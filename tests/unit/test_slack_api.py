"""What Slack answers, and the reaction that each answer earns."""

from __future__ import annotations

import pytest
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_slack_response import AsyncSlackResponse

from turngate.adapters.slack.api import (
    ChatNotWritable,
    FormattingRefused,
    ThreadGone,
    Unsupported,
    required_text,
    translated_errors,
)
from turngate.adapters.slack.emoji import name_of
from turngate.gateway.domain.errors import (
    Throttled,
    TurngateError,
    Unauthorized,
    Undeliverable,
    Unreachable,
)


def answered(error: str | None, status: int = 200, **headers: str) -> SlackApiError:
    data = {} if error is None else {"ok": False, "error": error, "needed": "chat:write"}
    response = AsyncSlackResponse(
        client=None,
        http_verb="POST",
        api_url="",
        req_args={},
        data=data,
        headers=headers,
        status_code=status,
    )
    return SlackApiError("no", response)


def error_of(exc: BaseException) -> TurngateError:
    with pytest.raises(TurngateError) as caught, translated_errors():
        raise exc
    return caught.value


@pytest.mark.parametrize(
    ("error", "status", "kind"),
    [
        ("invalid_auth", 200, Unauthorized),
        ("token_revoked", 200, Unauthorized),
        ("account_inactive", 200, Unauthorized),
        ("missing_scope", 200, Unauthorized),
        ("not_allowed_token_type", 200, Unauthorized),
        ("channel_not_found", 200, ChatNotWritable),
        ("is_archived", 200, ChatNotWritable),
        ("not_in_channel", 200, ChatNotWritable),
        ("thread_not_found", 200, ThreadGone),
        ("invalid_blocks", 200, FormattingRefused),
        ("unknown_method", 200, Unsupported),
        (None, 404, Unsupported),
        ("something_new", 200, Undeliverable),
        ("internal_error", 200, Unreachable),
        ("fatal_error", 200, Unreachable),
        ("internal_error", 500, Unreachable),
        (None, 502, Unreachable),
        (None, 200, Unreachable),
        ("ratelimited", 429, Throttled),
    ],
)
def test_each_answer_earns_its_reaction(
    error: str | None, status: int, kind: type[TurngateError]
) -> None:
    assert isinstance(error_of(answered(error, status)), kind)


@pytest.mark.parametrize(
    ("error", "everywhere"),
    [("ratelimited", False), ("rate_limited", True)],
    ids=["here", "everywhere"],
)
def test_a_pause_is_told_with_how_long_and_for_what(error: str, everywhere: bool) -> None:
    throttled = error_of(answered(error, 429, **{"Retry-After": "7"}))

    assert isinstance(throttled, Throttled)
    assert (throttled.retry_after, throttled.everywhere) == (7.0, everywhere)


@pytest.mark.parametrize(
    "exc", [TimeoutError(), ConnectionResetError(), UnicodeDecodeError("utf-8", b"", 0, 1, "")]
)
def test_whoever_hears_no_answer_does_not_know(exc: BaseException) -> None:
    assert type(error_of(exc)) is Unreachable


def test_an_answer_without_what_was_asked_for_is_none() -> None:
    with pytest.raises(Unreachable):
        required_text({"ok": "perhaps", "ts": 7}, "ts")


@pytest.mark.parametrize(
    ("emoji", "name"),
    [("👀", "eyes"), ("👍", "+1"), (":tada:", "tada"), ("❤️", "heart"), ("x", "x")],
)
def test_an_emoji_has_a_name(emoji: str, name: str) -> None:
    assert name_of(emoji) == name
