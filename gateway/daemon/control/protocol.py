"""
The encoding of the control socket: values as lines, and errors as kinds that become errors again on
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

PING = "ping"
"""Asks nothing. Its answer tells a command that the daemon's event loop runs."""

BUSY = "busy"
FAILED = "failed"

# Error in the daemon, kind on the wire, error in the command. The first match counts.
_KINDS: tuple[tuple[type[TurngateError], str, type[TurngateError]], ...] = (
    (StoreError, "storage", StoreError),
    (Refused, "refused", Refused),
    (MalformedRecord, "malformed", Refused),
    (Retryable, "unreachable", Unreachable),
)


def encode(value: Json) -> bytes:
    """Return a value as one line, in ASCII: text may contain surrogates, which UTF-8 cannot."""
    return json.dumps(value, allow_nan=False, separators=(",", ":")).encode() + b"\n"


def decode(line: bytes) -> dict[str, Json]:
    """Return the object in one line. Raises MalformedRecord."""
    try:
        value = json.loads(line, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as exc:
        raise MalformedRecord("a line that is not JSON") from exc
    if not isinstance(value, dict):
        raise MalformedRecord(f"expected an object, got {type(value).__name__}")
    return value


def error_answer(exc: TurngateError) -> dict[str, Json]:
    """Return an error as the last line of a response."""
    kind = next((kind for cls, kind, _ in _KINDS if isinstance(exc, cls)), FAILED)
    return refusal(kind, str(exc))


def refusal(kind: str, message: str) -> dict[str, Json]:
    """Return the last line of a response without a result."""
    return {"error": {"kind": kind, "message": message}}


def error_of(answer: Json) -> TurngateError:
    """Return the error in a response. An unknown kind, from a newer daemon, is a TurngateError."""
    told = answer if isinstance(answer, dict) else {}
    message = str(told.get("message") or "the daemon gave no reason")
    if told.get("kind") == BUSY:
        return Unreachable(message)
    return next((cls for _, kind, cls in _KINDS if kind == told.get("kind")), TurngateError)(
        message
    )


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is no JSON")
