"""The text of an error that may be shown: in the log, to users, or only to the operator."""

from __future__ import annotations

import traceback

from turngate.gateway.domain.errors import TurngateError


def reason_of(error: BaseException) -> str:
    """
    Return text that is safe in logs. Our own messages contain no foreign text; of other errors only
    the type is shown, because the message may quote users.
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
