"""
Session keys: which session a message belongs to. The only place where keys are made.

A key is for routing, never for authorization. It holds real ids, so it stays out of logs and
prompts.
"""

from turngate.gateway.domain.ids import SessionKey
from turngate.gateway.domain.messages import (
    MAIN_ACCOUNT,
    ChatType,
    SessionSource,
)

_SHARED = "*"


def build_session_key(
    source: SessionSource,
    *,
    agent: str = "main",
    per_user_in_groups: bool = True,
    per_user_in_threads: bool = False,
) -> SessionKey:
    """
    Return the key of a source. Two sources with a chat id get the same key if and only if they are
    the same conversation under these settings.
    """
    parts = ["agent", _encode(agent), _platform_part(source), source.chat_type.value]
    if source.chat_type is ChatType.DM:
        chat = source.chat_id or source.participant_id
        parts += [_encode(part) for part in (chat, source.thread_id) if part]
        return SessionKey(":".join(parts))

    parts += [_encode(part) for part in (source.chat_id, source.thread_id) if part]
    person = person_apart(
        source, per_user_in_groups=per_user_in_groups, per_user_in_threads=per_user_in_threads
    )
    if person:
        parts.append(_encode(person))
    elif source.thread_id and per_user_in_groups:
        # Without the mark, a shared thread 42 and user 42's own session would be one key.
        parts.append(_SHARED)

    return SessionKey(":".join(parts))


def person_apart(
    source: SessionSource, *, per_user_in_groups: bool, per_user_in_threads: bool
) -> str | None:
    """Return the user whose session is their own, or None where it is shared."""
    if source.chat_type is ChatType.DM:
        return source.participant_id
    separate = per_user_in_groups and (per_user_in_threads or not source.thread_id)
    return source.participant_id if separate else None


def owner_of(
    source: SessionSource, *, per_user_in_groups: bool, per_user_in_threads: bool
) -> str | None:
    """Return the owner of a session in the form of an allow-list entry; None where it is shared."""
    person = person_apart(
        source, per_user_in_groups=per_user_in_groups, per_user_in_threads=per_user_in_threads
    )
    return f"{_platform_part(source)}:{person}" if person else None


def _platform_part(source: SessionSource) -> str:
    platform = _encode(source.platform, "/")
    return (
        platform if source.account == MAIN_ACCOUNT else f"{platform}/{_encode(source.account, '/')}"
    )


def _encode(part: str, also: str = "") -> str:
    """
    Percent-encode what could make two different parts look alike; an ordinary id stays as it is.
    """
    if part.isalnum():  # nearly every id, so the loop below is rarely needed
        return part

    # ":" separates parts, "%" begins an escape, "*" marks shared threads. Surrogates cannot be
    # written as UTF-8, so no store would take them.
    return "".join(
        "".join(f"%{byte:02X}" for byte in char.encode("utf-8", "surrogatepass"))
        if char in ":%*" or char in also or _is_control_or_surrogate(char)
        else char
        for char in part
    )


def _is_control_or_surrogate(char: str) -> bool:
    code = ord(char)
    return code < 0x20 or 0x7F <= code <= 0x9F or 0xD800 <= code <= 0xDFFF
