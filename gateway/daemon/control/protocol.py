"""
What crosses the control socket: values as lines, and errors as kinds that become errors again on
the other side.
"""

from __future__ import annotations

import json

from turngate.gateway.domain.errors import (
    MalformedRecord,
    Refused,
    Retryable,
    StoreError,
    TurngateError,
    Unreachable,
)
from turngate.gateway.domain.serialization import Json

LARGEST_LINE = 16 * 1024 * 1024

BUSY = "busy"
FAILED = "failed"

# The first that fits, in both directions.
_KINDS: tuple[tuple[type[TurngateError], str, type[TurngateError]], ...] = (
    (StoreError, "storage", StoreError),
    (Refused, "refused", Refused),
    (MalformedRecord, "malformed", Refused),
    (Retryable, "unreachable", Unreachable),
)


def encode(value: Json) -> bytes:
    """One line. ASCII, so that half a character of somebody's text cannot break it."""
    return json.dumps(value, allow_nan=False, separators=(",", ":")).encode() + b"\n"


def decode(line: bytes) -> dict[str, Json]:
    """The object of one line. Raises MalformedRecord."""
    try:
        value = json.loads(line, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as exc:
        raise MalformedRecord("a line that is not JSON") from exc
    if not isinstance(value, dict):
        raise MalformedRecord(f"expected an object, got {type(value).__name__}")
    return value


def error_answer(exc: TurngateError) -> dict[str, Json]:
    """An error of ours as the last line of an answer."""
    kind = next((kind for cls, kind, _ in _KINDS if isinstance(exc, cls)), FAILED)
    return refusal(kind, str(exc))


def refusal(kind: str, message: str) -> dict[str, Json]:
    """The last line of an answer that is none."""
    return {"error": {"kind": kind, "message": message}}


def error_of(answer: Json) -> TurngateError:
    """The error again. A kind that a newer daemon invented is still an error."""
    told = answer if isinstance(answer, dict) else {}
    message = str(told.get("message") or "the daemon gave no reason")
    if told.get("kind") == BUSY:
        return Unreachable(message)
    return next((cls for _, kind, cls in _KINDS if kind == told.get("kind")), TurngateError)(
        message
    )


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is no JSON")
