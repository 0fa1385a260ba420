"""
Permission requests as questions with options, and what was chosen as the answer that the protocol
wants.
"""

from __future__ import annotations

from collections.abc import Sequence

from acp.schema import AllowedOutcome, DeniedOutcome, PermissionOption, RequestPermissionResponse

MOST_OPTIONS = 20


def labels(options: Sequence[PermissionOption]) -> dict[str, str]:
    """What people read of each option, and what the agent calls it. No two read the same."""
    named: dict[str, str] = {}
    for option in options[:MOST_OPTIONS]:
        label, number = option.name, 1
        while label in named:
            number += 1
            label = f"{option.name} ({number})"
        named[label] = option.option_id
    return named


def selected(option_id: str) -> RequestPermissionResponse:
    """That option was chosen."""
    return RequestPermissionResponse(
        outcome=AllowedOutcome(outcome="selected", option_id=option_id)
    )


def cancelled() -> RequestPermissionResponse:
    """Nothing was chosen, and nothing will be."""
    return RequestPermissionResponse(outcome=DeniedOutcome(outcome="cancelled"))


def unanswered(options: Sequence[PermissionOption]) -> RequestPermissionResponse:
    """Nobody answered: that is a no, this once, if the agent has a word for it."""
    refusal = next((each for each in options if each.kind == "reject_once"), None)
    return selected(refusal.option_id) if refusal is not None else cancelled()
