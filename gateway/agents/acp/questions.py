"""
Permission requests as questions with options, and the chosen option as a response of the protocol.
"""

from __future__ import annotations

from collections.abc import Sequence

from acp.schema import AllowedOutcome, DeniedOutcome, PermissionOption, RequestPermissionResponse

MOST_OPTIONS = 20


def labels(options: Sequence[PermissionOption]) -> dict[str, str]:
    """Return the agent's option ids by the labels for users, which are made unique."""
    named: dict[str, str] = {}
    for option in options[:MOST_OPTIONS]:
        label, number = option.name, 1
        while label in named:
            number += 1
            label = f"{option.name} ({number})"
        named[label] = option.option_id
    return named


def selected(option_id: str) -> RequestPermissionResponse:
    return RequestPermissionResponse(
        outcome=AllowedOutcome(outcome="selected", option_id=option_id)
    )


def cancelled() -> RequestPermissionResponse:
    """Return the response for a question that will not be answered: the turn is being stopped."""
    return RequestPermissionResponse(outcome=DeniedOutcome(outcome="cancelled"))


def unanswered(options: Sequence[PermissionOption]) -> RequestPermissionResponse:
    """Return the response for a question without an answer in time: permission denied, once."""
    # Never "reject_always": no user has decided that. Without either the turn is cancelled.
    refusal = next((each for each in options if each.kind == "reject_once"), None)
    return selected(refusal.option_id) if refusal is not None else cancelled()
