"""Decide what becomes of a part that could not be sent: retry it, and when, or give it up."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from turngate.gateway.domain.backoff import Backoff
from turngate.gateway.domain.errors import Retryable, Throttled, TurngateError, Unreachable
from turngate.gateway.domain.outbox import Part, PartState

BACKOFF = Backoff(first=2.0, longest=60.0, jitter=1.0)
"""Full jitter: many chats fail at the same moment, and must not retry at the same one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryDecision:
    """What becomes of a part. `dead`: it is given up. `in_doubt`: it may have arrived."""

    dead: bool
    in_doubt: bool

    @property
    def state(self) -> PartState:
        """The state of the part from now on."""
        if self.dead:
            return PartState.DEAD
        # Marked as failed, a part in doubt would be sent again as if it could not be there.
        return PartState.SENDING if self.in_doubt else PartState.FAILED


def decide(
    part: Part, failure: TurngateError, *, pause: float, age: float, retry_for: timedelta
) -> RetryDecision:
    """
    Decide after a failed attempt. `pause` and `age` are in seconds.

    A part is given up if a retry cannot help, or if the next one would come after `retry_for`.
    """
    too_old = pause > retry_for.total_seconds() - age
    return RetryDecision(
        dead=not isinstance(failure, Retryable) or too_old,
        in_doubt=part.state is PartState.SENDING or isinstance(failure, Unreachable),
    )


def pause_after(failure: TurngateError, attempt: int) -> float:
    """Return the seconds until the next attempt. A rate limit states its own pause."""
    if isinstance(failure, Throttled):
        return failure.retry_after
    return BACKOFF.pause(attempt)
