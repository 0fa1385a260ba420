"""What may be shown of an error: logs are read by many, the outbox by the operator."""

from __future__ import annotations

import traceback

from turngate.gateway.domain.errors import TurngateError


def reason_of(error: BaseException) -> str:
    """
    Return text for anyone. Our own errors are written to be read; of others only the type is safe
    to show.
    """
    return str(error) if isinstance(error, TurngateError) else type(error).__name__


def whole_reason(error: TurngateError) -> str:
    """
    Return text for the operator, including what a platform or server said, which may quote users.
    """
    return f"{error}: {error.words}" if error.words else str(error)


def code_location(error: BaseException) -> str:
    """Return where an error happened, innermost last, without its message."""
    frames = traceback.extract_tb(error.__traceback__)[-6:]
    return (
        " > ".join(f"{frame.filename.rpartition('/')[2]}:{frame.lineno}" for frame in frames)
        or "unknown"
    )
