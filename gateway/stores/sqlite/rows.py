"""
Conversion of domain values to rows and back.

A flipped byte passes SQLite's own integrity check, so each row that matters has a checksum of what
was written, and reading a row that does not match raises RowDamaged. Types are stored, not guessed:
text that looks like JSON stays text.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache, wraps
from typing import Any, TypeVar
from zlib import crc32

from turngate.gateway.domain.agent_events import File
from turngate.gateway.domain.errors import MalformedRecord, RowDamaged
from turngate.gateway.domain.ids import (
    LARGEST_NUMBER,
    EntryId,
    InboxId,
    PartId,
    SessionId,
    SessionKey,
    TurnId,
)
from turngate.gateway.domain.messages import (
    InboundMessage,
    InboxState,
    SessionSource,
)
from turngate.gateway.domain.outbox import (
    Button,
    Part,
    PartState,
    Says,
)
from turngate.gateway.domain.serialization import from_dict, to_dict
from turngate.gateway.domain.session import (
    EndReason,
    ResetNotice,
    Session,
)
from turngate.gateway.domain.store_values import InboxItem
from turngate.gateway.domain.transcript import (
    Entry,
    Origin,
    Role,
    Text,
)
from turngate.gateway.domain.usage import (
    Cost,
    Model,
    Tokens,
)
from turngate.gateway.stores.texts import scrub

Value = str | int | None
Row = Sequence[Value]
# As SQLite returns them: the column list tells the types, the checksum whether the values are
# intact.
Fetched = tuple[Any, ...]

# The checksums are computed over the columns in this order: reordering them makes every stored row
# look damaged.
SESSION_COLUMNS = (
    "id, key, current, origin, owner, started_at, last_interaction_at, updated_at, title, "
    "preview, preview_by, goal,"
    " agent, archived, important, ended_at, end_reason, notice, messages, archived_through, "
    "consolidated_through,"
    " summary_seq, input, output, cache_read, cache_write, estimated, last_prompt_tokens, cost, "
    "model"
)
ENTRY_COLUMNS = "session, role, origin, at, text, sender, message_id, tokens, latency_ms, body"
INBOX_COLUMNS = "key, message, state, attempts, reason, turn, received_at, settled_at"
PART_COLUMNS = (
    "(SELECT id FROM sessions WHERE sessions.n = outbox.session), turn, ordinal, target, text, "
    "reply_to, edits, more,"
    " state, attempts, sent_id, reason, not_before, created_at, settled_at"
)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_write = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
_ROLES = {role.value: role for role in Role}
# Fields in the body of an entry that is text alone otherwise.
_BESIDE_TEXT = frozenset({"sender_name", "forwarded"})
_ORIGINS = {origin.value: origin for origin in Origin}


def checksum(values: Row) -> int:
    """Return the CRC-32 of the values as written."""
    # The separator makes ("ab", "c") differ from ("a", "bc").
    return crc32("\x1f".join(map(str, values)).encode())


def micros(moment: datetime) -> int:
    """Return a time as stored: microseconds since 1970."""
    return (moment - _EPOCH) // _MICROSECOND


def moment(value: int) -> datetime:
    """Return the time of a stored number of microseconds."""
    return _EPOCH + timedelta(microseconds=value)


def damaged(place: str, key: str | int) -> RowDamaged:
    """Return the error for a row that does not match its checksum."""
    # The key of a person has their id, which belongs in no log.
    row = f"a row of {place}" if place == "people" else f"row {key} of {place}"
    message = f"{row} is not what was written"
    return RowDamaged(message, place=place, key=key)


Decode = TypeVar("Decode", bound=Callable[..., object])


def damaged_if_unreadable(place: str) -> Callable[[Decode], Decode]:
    """
    Raise RowDamaged for a row of this table that cannot be decoded, even if its checksum is right.

    Its key is the first value of the row.
    """

    def mark(decode: Decode) -> Decode:
        @wraps(decode)
        def decoded(row: Fetched) -> object:
            try:
                return decode(row)
            except (MalformedRecord, KeyError, ValueError, TypeError, AttributeError) as exc:
                raise RowDamaged(
                    f"row {row[0]} of {place} cannot be read ({type(exc).__name__}) and so is not "
                    "what was written",
                    place=place,
                    key=row[0],
                ) from exc

        return decoded  # type: ignore[return-value]  # the same signature

    return mark


def session_to_row(session: Session) -> list[Value]:
    """Return the values in the order of SESSION_COLUMNS."""
    tokens = session.tokens
    return [
        session.id,
        session.key,
        int(session.current),
        source_json(session.origin),
        session.owner,
        micros(session.started_at),
        micros(session.last_interaction_at),
        micros(session.updated_at),
        session.title and scrub(session.title),
        scrub(session.preview),
        session.preview_by,
        session.goal and scrub(session.goal),
        session.agent,
        int(session.archived),
        int(session.important),
        None if session.ended_at is None else micros(session.ended_at),
        session.end_reason,
        _json_or_none(session.notice),
        session.messages,
        session.archived_through,
        session.consolidated_through,
        session.summary_seq,
        tokens.input,
        tokens.output,
        tokens.cache_read,
        tokens.cache_write,
        int(session.tokens_estimated),
        _bounded(session.last_prompt_tokens),
        _json_or_none(session.cost),
        _json_or_none(session.model),
    ]


@damaged_if_unreadable("sessions")
def session_from_row(row: Fetched) -> Session:
    """Return the session of a row: SESSION_COLUMNS and the checksum."""
    *values, written = row
    if checksum(values) != written:
        raise damaged("sessions", values[0])

    (
        id_,
        key,
        current,
        origin,
        owner,
        started_at,
        last_interaction_at,
        updated_at,
        title,
        preview,
        preview_by,
        goal,
        agent,
        archived,
        important,
        ended_at,
        end_reason,
        notice,
        messages,
        archived_through,
        consolidated_through,
        summary_seq,
        input_,
        output,
        cache_read,
        cache_write,
        estimated,
        last_prompt_tokens,
        cost,
        model,
    ) = values
    return Session(
        id=SessionId(id_),
        key=SessionKey(key),
        current=bool(current),
        origin=source_from_json(origin),
        owner=owner,
        started_at=moment(started_at),
        last_interaction_at=moment(last_interaction_at),
        updated_at=moment(updated_at),
        title=title,
        preview=preview,
        preview_by=preview_by and _ROLES[preview_by],
        goal=goal,
        agent=agent,
        archived=bool(archived),
        important=bool(important),
        ended_at=None if ended_at is None else moment(ended_at),
        end_reason=end_reason and EndReason(end_reason),
        notice=notice and from_dict(ResetNotice, json.loads(notice)),
        messages=messages,
        archived_through=archived_through,
        consolidated_through=consolidated_through,
        summary_seq=summary_seq,
        tokens=Tokens(input=input_, output=output, cache_read=cache_read, cache_write=cache_write),
        tokens_estimated=bool(estimated),
        last_prompt_tokens=last_prompt_tokens,
        cost=cost and from_dict(Cost, json.loads(cost)),
        model=model and from_dict(Model, json.loads(model)),
    )


def entry_to_row(session: int, entry: Entry, keep_id: EntryId | None = None) -> list[Value]:
    """
    Return the values in the order of ENTRY_COLUMNS.

    `keep_id` is an id that differs from the one made from the sequence number.
    """
    text, body = _content_to_row(entry, keep_id)
    return [
        session,
        entry.role.value,
        entry.origin.value,
        micros(entry.at),
        text,
        entry.sender and scrub(entry.sender),
        entry.message_id and scrub(entry.message_id),
        _bounded(entry.tokens),
        _bounded(entry.latency_ms),
        body,
    ]


@damaged_if_unreadable("entries")
def entry_from_row(row: Fetched) -> Entry:
    """Return the entry of a row: seq, ENTRY_COLUMNS and the checksum."""
    seq, *values, written = row
    if checksum(values) != written:
        raise damaged("entries", seq)
    return entry_of(seq, values)


def entry_of(seq: int, values: Sequence[Any]) -> Entry:
    """Return the entry of ENTRY_COLUMNS, just read or just written."""
    _, role, origin, at, text, sender, message_id, tokens, latency_ms, body = values
    record = json.loads(body) if body is not None else {}
    # Most entries are text alone: built directly, because decoding the history costs more than all
    # the writing of a turn.
    if record.keys() <= _BESIDE_TEXT:
        return Entry(
            seq=seq,
            id=entry_id(seq),
            role=_ROLES[role],
            origin=_ORIGINS[origin],
            at=moment(at),
            content=(Text(text),) if text is not None else (),
            sender=sender,
            message_id=message_id,
            tokens=tokens,
            latency_ms=latency_ms,
            **record,
        )

    record.update(
        role=role,
        origin=origin,
        at=moment(at).isoformat(),
        seq=seq,
        sender=sender,
        message_id=message_id,
    )
    record.update(tokens=tokens, latency_ms=latency_ms)
    record.setdefault("id", entry_id(seq))
    record.setdefault("content", [] if text is None else [{"type": "text", "text": text}])
    return from_dict(Entry, record)


def entry_id(seq: int) -> EntryId:
    """Return the id of an entry that has none of its own."""
    # AUTOINCREMENT never reuses a sequence number, so the id stays unique after deletions.
    return EntryId(f"e{seq}")


def seq_of(id_: EntryId) -> int:
    """Return the sequence number in an id made by `entry_id`; 0 for any other id."""
    # isdecimal() alone accepts digits of other scripts, and a longer number does not fit SQLite's
    # 64-bit integers.
    return (
        int(id_[1:])
        if id_[:1] == "e" and id_[1:].isdecimal() and id_[1:].isascii() and len(id_) < 20
        else 0
    )


def message_json(message: InboundMessage) -> str:
    """Return an inbound message as JSON for the inbox."""
    return _json(message)


@damaged_if_unreadable("inbox")
def inbox_from_row(row: Fetched) -> InboxItem:
    """Return the inbox item of a row: n, INBOX_COLUMNS and the checksum."""
    n, key, message, state, attempts, reason, turn, received_at, settled_at, written = row
    # A settled row has lost its text, so its checksum no longer applies.
    if settled_at is None and checksum([key, message]) != written:
        raise damaged("inbox", n)

    return InboxItem(
        id=InboxId(n),
        key=SessionKey(key),
        message=from_dict(InboundMessage, json.loads(message)),
        state=InboxState(state),
        attempts=attempts,
        reason=reason,
        turn=None if turn is None else TurnId(turn),
        received_at=moment(received_at),
    )


def part_to_row(part: Part) -> list[Value]:
    """Return the columns under the checksum: ordinal, target, text, reply_to, edits, more."""
    return [
        _bounded(part.ordinal),
        source_json(part.target),
        scrub(part.text),
        part.reply_to and scrub(part.reply_to),
        part.edits and scrub(part.edits),
        _more_of_part(part),
    ]


def new_part(
    id_: PartId,
    session: SessionId | None,
    turn: TurnId | None,
    values: Sequence[Any],
    now: datetime,
) -> Part:
    """Return a part as `part_to_row` has just written it, in the initial state."""
    ordinal, target, text, reply_to, edits, more = values
    return Part(
        id=id_,
        session=session,
        turn=turn,
        ordinal=ordinal,
        target=source_from_json(target),
        text=text,
        reply_to=reply_to,
        edits=edits,
        created_at=now,
        **_read_more(more),
    )


@damaged_if_unreadable("outbox")
def part_from_row(row: Fetched) -> Part:
    """Return the part of a row: n, PART_COLUMNS and the checksum."""
    (
        n,
        session,
        turn,
        ordinal,
        target,
        text,
        reply_to,
        edits,
        more,
        state,
        attempts,
        sent_id,
        reason,
        not_before,
        born,
        settled_at,
        written,
    ) = row
    # A settled row has lost its text, so its checksum no longer applies.
    if settled_at is None and checksum([ordinal, target, text, reply_to, edits, more]) != written:
        raise damaged("outbox", n)

    return Part(
        id=PartId(n),
        session=session,
        turn=None if turn is None else TurnId(turn),
        ordinal=ordinal,
        target=source_from_json(target),
        text=text,
        reply_to=reply_to,
        edits=edits,
        state=PartState(state),
        attempts=attempts,
        created_at=moment(born),
        sent_id=sent_id,
        reason=reason,
        not_before=None if not_before is None else moment(not_before),
        **_read_more(more),
    )


def _more_of_part(part: Part) -> str | None:
    more: dict[str, object] = {}
    if part.file is not None:
        more["file"] = to_dict(part.file)
    if part.buttons:
        more["buttons"] = [to_dict(button) for button in part.buttons]
    if part.says is not Says.ANSWER:
        more["says"] = part.says.value
    return scrub(_write(more)) if more else None


def _read_more(more: str | None) -> dict[str, Any]:
    if more is None:
        return {}
    read = json.loads(more)
    buttons = tuple(from_dict(Button, button) for button in read.get("buttons", ()))
    return {
        "file": from_dict(File, read["file"]) if "file" in read else None,
        "buttons": buttons,
        "says": Says(read.get("says", Says.ANSWER)),
    }


def _content_to_row(entry: Entry, keep_id: EntryId | None) -> tuple[str | None, str | None]:
    """Return the text and body columns: plain text alone, everything else as JSON."""
    content = entry.content
    is_plain = len(content) == 1 and type(content[0]) is Text
    words = scrub(content[0].text) if is_plain and isinstance(content[0], Text) else None
    more: dict[str, object] = (
        {} if is_plain or not content else {"content": [to_dict(block) for block in content]}
    )
    if keep_id:
        more["id"] = keep_id
    if entry.tool_calls:
        more["tool_calls"] = [to_dict(call) for call in entry.tool_calls]
    if entry.tool_call_id is not None:
        more["tool_call_id"] = entry.tool_call_id
    if entry.reasoning is not None:
        more["reasoning"] = to_dict(entry.reasoning)
    if entry.sets_aside:
        more["sets_aside"] = [*entry.sets_aside]
    if entry.sender_name is not None:
        more["sender_name"] = entry.sender_name
    if entry.forwarded:
        more["forwarded"] = True

    return words, scrub(_write(more)) if more else None


def _bounded(number: int | None) -> int | None:
    # Agents and platforms report these numbers; sqlite3 raises OverflowError above 64 bits.
    return None if number is None else min(max(int(number), -LARGEST_NUMBER), LARGEST_NUMBER)


def _json(value: object) -> str:
    return scrub(_write(to_dict(value)))


def _json_or_none(value: object | None) -> str | None:
    return None if value is None else _json(value)


@lru_cache(maxsize=1024)
def source_json(source: SessionSource) -> str:
    """Return a source or target as JSON. Cached: a chat has the same one in every message."""
    return _json(source)


@lru_cache(maxsize=1024)
def source_from_json(text: str) -> SessionSource:
    """Return the source of this JSON. Cached values are shared, which is safe: they are frozen."""
    return from_dict(SessionSource, json.loads(text))
