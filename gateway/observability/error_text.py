"""What may be said of an error, and to whom: a log is read by many, the outbox by whoever runs the gateway."""

from __future__ import annotations

import traceback

from turngate.gateway.domain.errors import TurngateError


def reason_of(error: BaseException) -> str:
    """For everybody. Our own errors are written to be read; of others only the kind is safe to repeat."""
    return str(error) if isinstance(error, TurngateError) else type(error).__name__


def whole_reason(error: TurngateError) -> str:
    """For the operator who asks: with what was said by whoever refused, which may be anybody's words."""
    return f"{error}: {error.words}" if error.words else str(error)


def place_of(error: BaseException) -> str:
    """Where it happened, innermost last, without a word of what it said."""
    frames = traceback.extract_tb(error.__traceback__)[-6:]
    return (
        " > ".join(f"{frame.filename.rpartition('/')[2]}:{frame.lineno}" for frame in frames)
        or "unknown"
    )
