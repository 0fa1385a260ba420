"""What the operator says of a workspace."""

from __future__ import annotations

from datetime import timedelta

import pytest

from turngate.adapters.slack.account import (
    EVENTS_PATH,
    Account,
    Http,
    Timeouts,
)

CANARY = "canary-6f1d2c"


def test_an_account_that_nothing_can_reach_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="needs an app token, or an address"):
        Account(bot_token=CANARY)


def test_its_secrets_are_not_shown() -> None:
    http = Http(host="127.0.0.1", port=3000, signing_secret=CANARY)

    shown = repr(
        [Account(bot_token=CANARY, app_token=CANARY), Account(bot_token=CANARY, http=http)]
    )

    assert CANARY not in shown
    assert http.path == EVENTS_PATH


def test_what_is_silent_for_too_long_is_deaf() -> None:
    assert Timeouts(deaf=5).stale_after == timedelta(seconds=5)
