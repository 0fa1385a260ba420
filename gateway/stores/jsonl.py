"""
A session as JSON lines, for export, import and repair: a line for the session, one for each entry,
and a closing line.

Each line is complete in itself, so a truncated or damaged file loses only the lines concerned, and
the closing line shows whether the end is missing.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from turngate.gateway.domain.errors import MalformedRecord
from turngate.gateway.domain.ids import EntryId, SessionId
from turngate.gateway.domain.messages import SessionSource
from turngate.gateway.domain.serialization import (
    Json,
    from_dict,
    to_dict,
)
from turngate.gateway.domain.session import EndReason, Session
from turngate.gateway.domain.transcript import Entry
from turngate.gateway.rules.retention import moved_mark, with_moved_marks
from turngate.gateway.rules.session_keys import build_session_key

_FORMAT = 1


def session_line(session: Session) -> str:
    """Return the first line."""
    return _line({"type": "session", "format": _FORMAT, "session": to_dict(session)})


def entry_line(entry: Entry) -> str:
    """Return the line of one entry."""
    return _line({"type": "entry", "entry": to_dict(entry)})


def closing_line(entries: int) -> str:
    """Return the last line, with the number of entries before it."""
    return _line({"type": "end", "entries": entries})


@dataclass(frozen=True, slots=True, kw_only=True)
class Export:
    """The readable part of an export, and a problem for each other line."""

    session: Session | None
    entries: tuple[Entry, ...]
    problems: tuple[str, ...]


def read_export(lines: Iterable[str | bytes]) -> Export:
    """Read every line that is readable and report the others."""
    session: Session | None = None
    announced: int | None = None
    entries: list[Entry] = []
    problems: list[str] = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            match _record(line):
                case Session() if session is not None:
                    problems.append(
                        f"line {number}: another session begins; import it from a file of its own"
                    )
                    break
                case Session() as session:
                    pass
                case Entry() as entry:
                    # Ids are made from sequence numbers: the exported one may be, or become, the id
                    # of another entry here.
                    entries.append(replace(entry, id=EntryId("")))
                case int() as announced:
                    pass
        # RecursionError: deeply nested brackets in a damaged or hostile line.
        except (MalformedRecord, ValueError, RecursionError) as exc:
            problems.append(f"line {number}: {exc}")

    if session is None:
        problems.append(
            "the line that describes the session is missing; its title and totals are lost"
        )

    if announced is None:
        problems.append("the closing line is missing: the file ends early")
    elif announced != len(entries):
        problems.append(f"{announced} entries were exported, {len(entries)} could be read")

    return Export(session=session, entries=tuple(entries), problems=tuple(problems))


def restored_session(export: Export, id_: SessionId, now: datetime) -> Session:
    """
    Return the exported session, or a substitute. Its marks still have the old sequence numbers.
    """
    # With DELETED kept, the imported session would count as a tombstone and not be found.
    if export.session is not None and export.session.end_reason is EndReason.DELETED:
        return replace(export.session, id=id_, end_reason=EndReason.SWITCH)
    if export.session is not None:
        return replace(export.session, id=id_)

    source = SessionSource.terminal("imported")
    return Session(
        id=id_,
        key=build_session_key(source),
        origin=source,
        started_at=now,
        last_interaction_at=now,
        updated_at=now,
        title="imported",
        current=False,
        ended_at=now,
        end_reason=EndReason.SWITCH,
    )


def with_new_places(session: Session, export: Export, stored: Sequence[Entry]) -> Session:
    """Return the session with marks at the new sequence numbers of its entries."""
    moved = {old.seq: new.seq for old, new in zip(export.entries, stored, strict=True) if old.seq}
    return replace(
        with_moved_marks(session, moved),
        archived_through=moved_mark(session.archived_through, moved),
    )


def _record(line: str | bytes) -> Session | Entry | int:
    record = json.loads(line)
    if not isinstance(record, Mapping):
        raise MalformedRecord("not a record")

    match record.get("type"):
        case "session":
            if record.get("format") != _FORMAT:
                raise MalformedRecord(
                    f"format {record.get('format')!r} is not known to this version"
                )
            return from_dict(Session, record.get("session"))
        case "entry":
            return from_dict(Entry, record.get("entry"))
        case "end":
            # Not isinstance: a JSON `true` is an int in Python.
            if type(record.get("entries")) is not int:
                raise MalformedRecord("the closing line does not say how many entries there are")
            return int(record["entries"])
        case other:
            raise MalformedRecord(f"unknown kind of line {other!r}")


def _line(record: dict[str, Json]) -> str:
    return json.dumps(record, ensure_ascii=False, separators=(",", ":"))
