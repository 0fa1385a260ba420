"""Message metadata that identifies a sent part. Users do not see it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from turngate.gateway.domain.outbox import Part

EVENT_TYPE = "turngate_part"


def metadata_of(part: Part) -> dict[str, Any]:
    """
    Return the metadata: part id and creation time (ids restart with a new installation); for a
    preview the turn id.
    """
    return {"event_type": EVENT_TYPE, "event_payload": _payload(part)}


def is_part(message: Mapping[str, Any], part: Part) -> bool:
    """Whether the message is this part."""
    return _payload_in(message) == _payload(part)


def is_preview_of(message: Mapping[str, Any], part: Part) -> bool:
    """
    Whether the message is a preview of the same turn, or of an earlier attempt to answer the same
    message.
    """
    payload = _payload_in(message)
    if not isinstance(payload, Mapping) or "turn" not in payload:
        return False
    return payload.get("turn") == part.turn or (
        bool(part.reply_to) and payload.get("answers") == part.reply_to
    )


def has_no_metadata(message: Mapping[str, Any]) -> bool:
    """Whether the message has neither metadata nor files, like a stream that has not ended."""
    return not message.get("metadata") and not message.get("files") and not message.get("subtype")


def _payload(part: Part) -> dict[str, Any]:
    if not part.id:
        return {"turn": part.turn or 0, "answers": part.reply_to or ""}
    made = int(part.created_at.timestamp() * 1000) if part.created_at else 0
    return {"part": part.id, "made": made}


def _payload_in(message: Mapping[str, Any]) -> object:
    metadata = message.get("metadata")
    if not isinstance(metadata, Mapping) or metadata.get("event_type") != EVENT_TYPE:
        return None
    return metadata.get("event_payload")
