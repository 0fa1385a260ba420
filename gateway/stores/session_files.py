"""
The files of sessions: what users sent, where the agent works, and what is sent to users.

Each session has its own folder with `in`, `work` and `out` in it. Files that the gateway writes
there have random names; the name that a user or agent gave a file is kept as data and never becomes
a path. Nothing is unpacked or inspected.
"""

from __future__ import annotations

import asyncio
import os
import re
import secrets
import shutil
from collections.abc import AsyncGenerator, AsyncIterator, Collection
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import quote, unquote

from turngate.gateway.domain.agent_events import File
from turngate.gateway.domain.errors import (
    Refused,
    StoreUnavailable,
    Unreachable,
)
from turngate.gateway.domain.ids import SessionId
from turngate.gateway.domain.messages import Attachment
from turngate.gateway.domain.text import (
    LONGEST_LABEL,
    cut,
    folded,
    written_size,
)
from turngate.gateway.stores.safe_open import opened_inside

LONGEST_SILENCE = 60.0
"""Seconds without a byte after which nothing more is expected."""

_BUFFER = 256 * 1024
_NAMELESS = "file"
_ENDING = re.compile(r"\.[A-Za-z0-9]{1,8}")
_MIME = re.compile(r"[a-z0-9][a-z0-9.+-]{0,63}/[a-z0-9][a-z0-9.+-]{0,63}")
# File systems allow 255 bytes; quote() makes names ASCII, so characters are bytes.
_LONGEST_FOLDER_NAME = 200
# A copy that no part in the outbox names is left over, unless the turn that made it still runs:
# its parts are stored when it ends.
_LEFT_OVER_AFTER = timedelta(hours=24)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRules:
    """Size limits in bytes, the number of files per message, and how long they are kept."""

    largest: int = 20_000_000
    largest_out: int = 50_000_000
    per_message: int = 10
    keep: timedelta = timedelta(days=30)


class SessionFiles:
    """
    The folders of all sessions, made when first needed. Slow operations run on worker threads.
    """

    def __init__(self, root: Path, rules: FileRules | None = None) -> None:
        # An agent may answer with the real path of a folder that it was given: `opened_inside` and
        # `holds` compare paths, so ours must be the real one too.
        self._root = root.resolve()
        self.rules = rules or FileRules()

    def workdir(self, session: SessionId) -> str:
        """Return the folder in which the agent works in this session; make it if it is missing."""
        folder = self._folder(session) / "work"
        try:
            _make_folders(folder)
        except OSError as exc:
            raise _no_room(exc) from exc
        return str(folder)

    async def receive(
        self, session: SessionId, attachment: Attachment, chunks: AsyncIterator[bytes]
    ) -> Attachment:
        """
        Store a file that a user sent and return it with its path. A failure leaves no file.

        Raises Refused if it is too large, Unreachable on a timeout, StoreUnavailable if it cannot
        be written.
        """
        name = clean_name(attachment.name) if attachment.name else None
        path = await asyncio.to_thread(self._new, session, "in", _ending(name))
        try:
            size = await _write(path, chunks, self.rules.largest)
            await asyncio.to_thread(_settle, path)
        except BaseException:
            path.unlink(missing_ok=True)
            raise

        return replace(
            attachment, path=str(path), name=name, mime=_clean_mime(attachment.mime), size=size
        )

    def holds(self, path: str) -> bool:
        """Return whether this path is an existing file that a user sent."""
        # An imported transcript may name any path of this host: only ROOT/SESSION/in/NAME counts.
        named = Path(path)
        is_inside = (
            named.parent.name == "in"
            and named.parents[2:3] == (self._root,)
            and ".." not in named.parts
        )
        return is_inside and _is_plain(named)

    def keeper(self, session: SessionId) -> AnswerFiles:
        """Return a function that keeps the files of one answer."""
        return AnswerFiles(self, session)

    async def keep(self, session: SessionId, file: File) -> File:
        """Copy a file of the agent as it is now. Raises Refused or StoreUnavailable."""
        return await asyncio.to_thread(self._copy, session, file)

    async def as_file(self, text: str, session: SessionId) -> File:
        """Write a text that is too long for messages to a file. Raises StoreUnavailable."""
        return await asyncio.to_thread(self._write_text, session, text)

    async def sessions(self) -> list[SessionId]:
        """Return the sessions that have a folder."""
        return await asyncio.to_thread(self._sessions) if self._root.is_dir() else []

    async def forget(self, session: SessionId) -> None:
        """Delete the folder of a session. Raises StoreUnavailable."""
        await asyncio.to_thread(self._forget, session)

    async def tidy(self, session: SessionId, now: datetime, waiting: Collection[str]) -> None:
        """
        Delete received files past their retention, and old copies that are not `waiting` to be
        sent.
        """
        await asyncio.to_thread(self._tidy, session, now, waiting)

    def _folder(self, session: SessionId) -> Path:
        """Return the folder of a session. Raises Refused if its id is too long."""
        # An imported id may contain anything. quote() keeps dots, and "." and ".." are paths.
        name = quote(session, safe="", errors="surrogatepass").replace(".", "%2E")
        if not 0 < len(name) <= _LONGEST_FOLDER_NAME:
            raise Refused("the id of this session is too long for it to have files")
        return self._root / name

    def _new(self, session: SessionId, kind: str, ending: str) -> Path:
        path = self._folder(session) / kind / (secrets.token_hex(16) + ending)
        try:
            _make_folders(path.parent)
            os.close(
                os.open(
                    path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600
                )
            )
        except OSError as exc:
            raise _no_room(exc) from exc

        return path

    def _copy(self, session: SessionId, file: File) -> File:
        name = clean_name(file.name or file.path)
        with opened_inside(self._folder(session), file.path, start="work") as source:
            # Of the open descriptor: the agent may replace the file under its name at any time.
            size = os.fstat(source).st_size
            most = self.rules.largest_out
            if size > most:
                raise Refused(too_large(size, most))

            path = self._new(session, "out", _ending(name))
            try:
                _copy_bytes(source, path, most)
                _settle(path)
            except BaseException:
                path.unlink(missing_ok=True)
                raise

        return File(path=str(path), name=name)

    def _write_text(self, session: SessionId, text: str) -> File:
        path = self._new(session, "out", ".md")
        try:
            path.write_text(text, encoding="utf-8", errors="replace")
        except OSError as exc:
            path.unlink(missing_ok=True)
            raise _no_room(exc) from exc
        _settle(path)
        return File(path=str(path), name="answer.md")

    def _sessions(self) -> list[SessionId]:
        return [
            SessionId(unquote(each.name, errors="surrogatepass")) for each in self._root.iterdir()
        ]

    def _forget(self, session: SessionId) -> None:
        folder = self._folder(session)
        try:
            with suppress(FileNotFoundError):
                # Tools (caches above all) make read-only folders, whose contents not even the owner
                # can delete.
                _unlock(folder)
                shutil.rmtree(folder)
        except OSError as exc:
            raise StoreUnavailable(
                f"the files of session {session} cannot be deleted ({exc.strerror})"
            ) from exc

    def _tidy(self, session: SessionId, now: datetime, waiting: Collection[str]) -> None:
        folder = self._folder(session)
        try:
            for path in _older_than(self.rules.keep, folder / "in", now):
                path.unlink(missing_ok=True)
            for path in _older_than(_LEFT_OVER_AFTER, folder / "out", now):
                if str(path) not in waiting:
                    path.unlink(missing_ok=True)
        except OSError as exc:
            raise StoreUnavailable(
                f"the files of session {session} cannot be tidied up ({exc.strerror})"
            ) from exc


class AnswerFiles:
    """Keeps the files of one answer, up to the configured number."""

    def __init__(self, files: SessionFiles, session: SessionId) -> None:
        self._files = files
        self._session = session
        self._kept = 0

    async def __call__(self, file: File) -> File:
        """Copy a file. Raises Refused."""
        most = self._files.rules.per_message
        if self._kept >= most:
            raise Refused(f"{most} files are the most that one answer brings")
        kept = await self._files.keep(self._session, file)
        self._kept += 1
        return kept


async def discard(file: File) -> None:
    """Delete the copy of a file that was sent."""
    await asyncio.to_thread(Path(file.path).unlink, missing_ok=True)


async def is_there(file: File) -> bool:
    """Return whether the copy still exists."""
    return await asyncio.to_thread(_is_plain, Path(file.path))


def clean_name(text: str) -> str:
    """
    Return a file's given name as data: one line, no folders, at most 128 visible characters, with
    its extension.
    """
    name = re.split(r"[/\\]", folded(text))[-1].strip()
    if not name.strip("."):
        return _NAMELESS
    ending = _ending(name, lower=False)
    return cut(name.removesuffix(ending), LONGEST_LABEL - len(ending)) + ending


def too_large(size: int | None, most: int) -> str:
    """Return the reason for a refusal, as shown to users."""
    known = (
        f"{written_size(size)}; {written_size(most)} is the most"
        if size
        else f"more than {written_size(most)}"
    )
    return f"too large ({known})"


def _clean_mime(mime: str | None) -> str | None:
    return mime if mime and _MIME.fullmatch(mime) else None


def _ending(name: str | None, *, lower: bool = True) -> str:
    """Return the extension of a name if it is harmless, else "". Agents choose tools by it."""
    ending = Path(name).suffix if name else ""
    if not _ENDING.fullmatch(ending):
        return ""
    return ending.lower() if lower else ending


def _make_folders(folder: Path) -> None:
    """Make a folder of a session, its parent and the root, readable by the owner only."""
    if folder.is_dir():
        return
    # Not parents=True: it ignores `mode` for the parents, and would make the state folder too.
    for each in (folder.parent.parent, folder.parent, folder):
        each.mkdir(mode=0o700, exist_ok=True)


async def _write(path: Path, chunks: AsyncIterator[bytes], most: int) -> int:
    buffer = bytearray()
    size = 0
    try:
        while (chunk := await _next(chunks)) is not None:
            # Checked while reading: a size that the platform announced may be missing or wrong.
            size += len(chunk)
            if size > most:
                raise Refused(too_large(None, most))
            buffer += chunk
            if len(buffer) >= _BUFFER:
                await asyncio.to_thread(_append, path, bytes(buffer))
                buffer.clear()
        await asyncio.to_thread(_append, path, bytes(buffer))
    finally:
        # Ends the download now; without it the adapter's connection stays open until the garbage
        # collector finds the generator.
        if isinstance(chunks, AsyncGenerator):
            await chunks.aclose()

    return size


async def _next(chunks: AsyncIterator[bytes]) -> bytes | None:
    """Return the next chunk, None at the end. Raises Unreachable on a timeout."""
    # anext() on a source that is always ready never suspends and would block the event loop.
    await asyncio.sleep(0)
    try:
        async with asyncio.timeout(LONGEST_SILENCE):
            return await anext(chunks, None)
    except TimeoutError as exc:
        raise Unreachable("it stopped coming") from exc


def _append(path: Path, piece: bytes) -> None:
    """Append to an existing file."""
    # No O_CREAT: after a cancellation this thread may run late, when the file was deleted already.
    try:
        with os.fdopen(
            os.open(path, os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC), "ab"
        ) as target:
            target.write(piece)
    except OSError as exc:
        raise _no_room(exc) from exc


def _settle(path: Path) -> None:
    """Flush a file and its name to disk."""
    # A committed row will name this file and survives a power cut, so the file must too, with the
    # folder entries that lead to it.
    try:
        for each in (path, path.parent, path.parent.parent):
            descriptor = os.open(each, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
    except OSError as exc:
        raise _no_room(exc) from exc


def _copy_bytes(source: int, path: Path, most: int) -> None:
    # The size was checked before, but the agent may append while the file is read.
    size = 0
    while piece := os.read(source, _BUFFER):
        size += len(piece)
        if size > most:
            raise Refused(too_large(None, most))
        _append(path, piece)


def _is_plain(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()


def _older_than(age: timedelta, folder: Path, now: datetime) -> list[Path]:
    if not folder.is_dir():
        return []
    return [each for each in folder.iterdir() if _age(each, now) > age]


def _age(path: Path, now: datetime) -> timedelta:
    """Return the time since the last change; 0 for a file that was just deleted."""
    try:
        return now - datetime.fromtimestamp(path.lstat().st_mtime, UTC)
    except FileNotFoundError:
        return timedelta(0)


def _unlock(folder: Path) -> None:
    """Make all folders below this one writable for their owner."""
    # os.walk is top-down, so each folder is unlocked before it is listed.
    for here, names, _ in os.walk(folder):
        for each in (Path(here, name) for name in names):
            # chmod follows links, which may lead out of the session's folder.
            if not each.is_symlink():
                each.chmod(0o700)


def _no_room(exc: OSError) -> StoreUnavailable:
    return StoreUnavailable(f"it cannot be kept on this machine ({exc.strerror})")
