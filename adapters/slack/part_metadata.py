"""The name that a message of ours carries unseen, so that it can be known again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from turngate.gateway.domain.messages import Part

EVENT_TYPE = "turngate_part"


def metadata_of(part: Part) -> dict[str, Any]:
    """Of a part its number and its age: numbers begin anew with a new installation. Of a preview the turn's number."""
    return {"event_type": EVENT_TYPE, "event_payload": _payload(part)}


def carries(message: Mapping[str, Any], part: Part) -> bool:
    """Whether a message of a history is this part."""
    return _payload_in(message) == _payload(part)


def shows(message: Mapping[str, Any], part: Part) -> bool:
    """Whether it is a preview of the same turn, or of an earlier try to answer the same message."""
    payload = _payload_in(message)
    if not isinstance(payload, Mapping) or "turn" not in payload:
        return False
    return payload.get("turn") == part.turn or (
        bool(part.reply_to) and payload.get("answers") == part.reply_to
    )


def is_unnamed(message: Mapping[str, Any]) -> bool:
    """Whether it carries no name at all, as a stream does until it ends. Files never do."""
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
