"""Operations on sessions for operators, over the Store port: the same with and without a daemon."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from functools import partial

from turngate.gateway.daemon.control.requests import (
    Line,
    Requests,
    taking,
)
from turngate.gateway.daemon.control.usage import tokens_json
from turngate.gateway.domain.errors import Refused, UnknownEntry, UnknownSession
from turngate.gateway.domain.ids import SessionId, SessionKey
from turngate.gateway.domain.ports.store import Store
from turngate.gateway.domain.serialization import Json, to_dict
from turngate.gateway.domain.session import Session
from turngate.gateway.domain.store_values import Pruned, SessionFilter
from turngate.gateway.domain.text import clean_label
from turngate.gateway.domain.transcript import Entry, Media, Text
from turngate.gateway.domain.usage import CostStatus
from turngate.gateway.rules.retention import CleanUpRules

_CANDIDATES_TOLD = 10

Stop = Callable[[SessionKey], Awaitable[object]]
Forget = Callable[[SessionId], Awaitable[None]]
Change = Callable[[CleanUpRules], CleanUpRules]
Clean = Callable[[Change], Awaitable[Pruned]]
"""A clean-up by the rules of this installation, but for what is changed in them for this once."""


async def nothing_runs(key: SessionKey) -> None:
    """Stand in where no daemon runs turns."""


async def no_files(session: SessionId) -> None:
    """Stand in where there are no session files."""


def session_requests(
    store: Store, stop: Stop = nothing_runs, forget: Forget = no_files, clean: Clean | None = None
) -> Requests:
    """
    Return the verbs by name. `stop` ends the running turn of a key and returns when it has ended;
    `forget` deletes the files of a deleted session; `clean` runs the clean-up of the sweep.
    """
    verbs = _SessionVerbs(store, stop, forget, clean or partial(_only_the_store, store))
    return {
        "sessions.list": taking(SessionFilter, verbs.list),
        "sessions.show": taking(Show, verbs.show),
        "sessions.search": taking(Search, verbs.search),
        "sessions.export": taking(Named, verbs.export),
        "sessions.rename": taking(Rename, verbs.rename),
        "sessions.archive": taking(Archive, verbs.archive),
        "sessions.goal": taking(Goal, verbs.goal),
        "sessions.important": taking(Important, verbs.important),
        "sessions.edit": taking(EditEntry, verbs.edit),
        "sessions.delete-entry": taking(NamedEntry, verbs.delete_entry),
        "sessions.reset": taking(Named, verbs.reset),
        "sessions.resume": taking(Named, verbs.resume),
        "sessions.delete": taking(Named, verbs.delete),
        "sessions.prune": taking(Prune, verbs.prune),
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """One session, by its id or the beginning of it."""

    id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Show:
    """One session with its last entries; without `last` all of them, archived ones included."""

    id: str
    last: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """The words of a search, all of which must be found."""

    words: str
    limit: int = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Rename:
    """The new title of a session; None removes it."""

    id: str
    title: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Archive:
    """The session to archive, or with `undo` to take out of the archive."""

    id: str
    undo: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """The goal of a session, which its agent is told; an empty one removes it."""

    id: str
    goal: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Important:
    """The session to mark as important, or with `undo` not any more."""

    id: str
    undo: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedEntry:
    """One message of a session."""

    id: str
    entry: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EditEntry:
    """The new text of one message. Its files stay."""

    id: str
    entry: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Prune:
    """Age limits that replace those of the config for one clean-up."""

    empty_after: timedelta | None = None
    archive_after: timedelta | None = None
    forget_after: timedelta | None = None
    keep: timedelta | None = None

    def changed(self, rules: CleanUpRules) -> CleanUpRules:
        """Return the rules for this clean-up, which runs even if the config has no schedule."""
        asked = {name: value for name, value in asdict(self).items() if value is not None}
        return replace(rules, every=rules.every or CleanUpRules().every, **asked)


class _SessionVerbs:
    def __init__(self, store: Store, stop: Stop, forget: Forget, clean: Clean) -> None:
        self._store = store
        self._stop = stop
        self._forget = forget
        self._clean = clean

    async def list(self, wanted: SessionFilter, line: Line) -> Json:
        """Send each session as an item."""
        for session in await self._store.sessions(wanted):
            await line.item(session_json(session))
        return None

    async def show(self, asked: Show, line: Line) -> Json:
        """Send each entry as an item; return the session."""
        session = await self._find(asked.id)
        transcript = await self._store.transcript(session.id, last=asked.last, with_archived=True)
        for entry in transcript.entries:
            await line.item(entry_json(entry))
        damaged: list[Json] = list(transcript.damaged)
        return session_json(session) | ({"damaged": damaged} if damaged else {})

    async def search(self, asked: Search, line: Line) -> Json:
        """Send each hit as an item."""
        titles: dict[SessionId, str | None] = {}
        for hit in await self._store.search(asked.words, limit=asked.limit):
            if hit.session not in titles:
                titles[hit.session] = await self._title(hit.session)
            await line.item(
                {
                    "session": hit.session,
                    "title": titles[hit.session],
                    "entry": entry_json(hit.entry),
                }
            )

        return None

    async def export(self, asked: Named, line: Line) -> Json:
        """Send each line of the export as an item; return the session."""
        session = await self._find(asked.id)
        async for exported in self._store.export(session.id):
            await line.item(exported)
        return session_json(session)

    async def rename(self, asked: Rename, line: Line) -> Json:
        session = await self._find(asked.id)
        await self._store.rename(session.id, clean_label(asked.title or "") or None)
        return session_json(await self._store.session(session.id))

    async def archive(self, asked: Archive, line: Line) -> Json:
        session = await self._find(asked.id)
        await self._store.archive(session.id, archived=not asked.undo)
        return session_json(await self._store.session(session.id))

    async def goal(self, asked: Goal, line: Line) -> Json:
        session = await self._find(asked.id)
        await self._store.set_goal(session.id, asked.goal.strip() or None)
        return session_json(await self._store.session(session.id))

    async def important(self, asked: Important, line: Line) -> Json:
        session = await self._find(asked.id)
        await self._store.mark_important(session.id, important=not asked.undo)
        return session_json(await self._store.session(session.id))

    async def edit(self, asked: EditEntry, line: Line) -> Json:
        """Replace the text of one message; a turn that runs has been shown the old one."""
        session = await self._find(asked.id)
        if not asked.text.strip():
            raise Refused("a message needs a text; `turngate sessions delete-entry` deletes it")

        entry = await self._entry(session, asked.entry)
        files = (block for block in entry.content if isinstance(block, Media))
        await self._store.edit_entry(session.id, entry.id, (Text(asked.text), *files))
        return session_json(await self._store.session(session.id))

    async def delete_entry(self, asked: NamedEntry, line: Line) -> Json:
        """Delete one message; a turn that runs has been shown it."""
        session = await self._find(asked.id)
        await self._store.delete_entry(session.id, (await self._entry(session, asked.entry)).id)
        return session_json(await self._store.session(session.id))

    async def _entry(self, session: Session, written: str) -> Entry:
        transcript = await self._store.transcript(session.id, with_archived=True)
        for entry in transcript.entries:
            if written in (entry.id, str(entry.seq)):
                return entry
        raise UnknownEntry(
            f"session {session.id} has no message {written}; `turngate sessions show "
            f"{session.id}` shows those there are"
        )

    async def reset(self, asked: Named, line: Line) -> Json:
        """Return the new session of the same key."""
        session = await self._find(asked.id)
        # The running turn ends first, so that its partial answer is stored in the old session.
        await self._stop(session.key)
        return session_json(await self._store.reset(session.key))

    async def resume(self, asked: Named, line: Line) -> Json:
        """Make an ended session current again, and return it."""
        session = await self._find(asked.id)
        # The turn of the key runs in the session that is current now.
        if not session.current:
            await self._stop(session.key)
        return session_json(await self._store.switch(session.key, session.id))

    async def delete(self, asked: Named, line: Line) -> Json:
        """Delete a session and its files; return what it was."""
        session = await self._find(asked.id)
        if session.current:
            await self._stop(session.key)
        await self._store.delete(session.id)
        # If this fails or the process dies, the sweep deletes folders without a session.
        await self._forget(session.id)
        return session_json(session)

    async def prune(self, asked: Prune, line: Line) -> Json:
        """Clean up once; return how many of each kind were removed."""
        pruned = await self._clean(asked.changed)
        return {
            "deleted": pruned.deleted,
            "archived": pruned.archived,
            "entries": pruned.entries,
            "forgotten": pruned.forgotten,
        }

    async def _find(self, written: str) -> Session:
        """Return the session with this id, or the only one whose id begins with it."""
        try:
            return await self._store.session(SessionId(written))
        except UnknownSession:
            # Every id begins with an empty text: a single session would be taken for the one meant.
            if not written:
                raise

        found = [one for one in await self._store.sessions() if one.id.startswith(written)]
        if not found:
            raise UnknownSession(
                f"there is no session {written}; `turngate sessions list` shows those there are"
            )

        if len(found) > 1:
            raise Refused(_ambiguous(written, found))

        return found[0]

    async def _title(self, session: SessionId) -> str | None:
        try:
            return (await self._store.session(session)).title
        except UnknownSession:
            return None  # deleted since it was found


async def _only_the_store(store: Store, change: Change) -> Pruned:
    rules = change(CleanUpRules())
    return await store.prune(
        empty_after=rules.empty_after,
        archive_after=rules.archive_after,
        forget_after=rules.forget_after,
        keep=rules.keep,
    )


def session_json(session: Session) -> dict[str, Json]:
    """Return a session as `--json` prints it. The names are part of the contract."""
    tokens = session.tokens
    cost = session.cost
    return {
        "id": session.id,
        "key": session.key,
        "title": session.title,
        "preview": session.preview,
        "started_at": session.started_at.isoformat(),
        "last_interaction_at": session.last_interaction_at.isoformat(),
        "updated_at": session.updated_at.isoformat(),
        "messages": session.messages,
        "archived": session.archived,
        "important": session.important,
        "goal": session.goal,
        "owner": session.owner,
        "current": session.current,
        "tokens": tokens_json(tokens),
        "tokens_estimated": session.tokens_estimated,
        "cost_usd": cost.usd if cost and cost.status is not CostStatus.UNKNOWN else None,
        "cost_status": cost.status.value if cost else None,
        "model": to_dict(session.model) if session.model else None,
    }


def entry_json(entry: Entry) -> dict[str, Json]:
    """Return an entry as `--json` prints it; sender and tool calls only if there are any."""
    shown: dict[str, Json] = {
        "seq": entry.seq,
        "id": entry.id,
        "role": entry.role.value,
        "content": [to_dict(block) for block in entry.content],
        "at": entry.at.isoformat(),
        "origin": entry.origin.value,
    }
    if entry.sender:
        shown["sender"] = entry.sender
    if entry.tool_calls:
        shown["tool_calls"] = [to_dict(call) for call in entry.tool_calls]

    return shown


def _ambiguous(written: str, found: list[Session]) -> str:
    told = ", ".join(session.id for session in found[:_CANDIDATES_TOLD])
    more = f" and {len(found) - _CANDIDATES_TOLD} more" if len(found) > _CANDIDATES_TOLD else ""
    return f"{len(found)} sessions begin with {written}: {told}{more}; write more of the id"
