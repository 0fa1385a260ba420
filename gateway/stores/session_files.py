"""
The files of conversations: what people sent, where the agent works, and what goes out.

Each session has a folder of its own with `in`, `work` and `out` in it. Whatever the gateway writes
there has a random name; what somebody called a file is kept as data and never becomes a path.
Nothing is unpacked or looked into.
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
_LONGEST_FOLDER_NAME = 200
# A copy that no part in the outbox names is left over, unless the turn that made it still runs.
_LEFT_OVER_AFTER = timedelta(hours=24)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRules:
    """How much is taken, in bytes, and for how long it is kept."""

    largest: int = 20_000_000
    largest_out: int = 50_000_000
    per_message: int = 10
    keep: timedelta = timedelta(days=30)


class SessionFiles:
    """
    The folders of all sessions. Nothing is made before it is needed; whatever takes time does so in
    a thread.
    """

    def __init__(self, root: Path, rules: FileRules | None = None) -> None:
        # An agent that is told of a folder may answer with the real name of it.
        self._root = root.resolve()
        self.rules = rules or FileRules()

    def workdir(self, session: SessionId) -> str:
        """
        Where the agent works in this session. Made when it is missing, which costs one look at the
        disk.
        """
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
        Keep what comes, up to the largest size, and say where it is. Of a failure nothing stays on
        the disk.

        Raises Refused if it is too large, Unreachable if nothing more comes, StoreUnavailable if
        there is no room.
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
        """
        Whether this is a file that somebody sent, and still here: a transcript that was imported
        may name any.
        """
        named = Path(path)
        is_inside = (
            named.parent.name == "in"
            and named.parents[2:3] == (self._root,)
            and ".." not in named.parts
        )
        return is_inside and _is_plain(named)

    def keeper(self, session: SessionId) -> AnswerFiles:
        """Takes the files of one answer."""
        return AnswerFiles(self, session)

    async def keep(self, session: SessionId, file: File) -> File:
        """
        A copy of a file of the agent's, as it is now. Raises Refused, or StoreUnavailable if there
        is no room.
        """
        return await asyncio.to_thread(self._copy, session, file)

    async def as_file(self, text: str, session: SessionId) -> File:
        """
        A text that is too long to be sent as messages. Raises StoreUnavailable if there is no room.
        """
        return await asyncio.to_thread(self._write_text, session, text)

    async def sessions(self) -> list[SessionId]:
        """Those that have a folder."""
        return await asyncio.to_thread(self._sessions) if self._root.is_dir() else []

    async def forget(self, session: SessionId) -> None:
        """
        Delete the folder of a session with all that is in it. Raises StoreUnavailable if that
        cannot be done.
        """
        await asyncio.to_thread(self._forget, session)

    async def tidy(self, session: SessionId, now: datetime, waiting: Collection[str]) -> None:
        """
        Delete what people sent and is too old to be kept, and copies that are not among those
        `waiting` to go.
        """
        await asyncio.to_thread(self._tidy, session, now, waiting)

    def _folder(self, session: SessionId) -> Path:
        """An id may have come from a file that was imported, and hold anything."""
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
    """Keeps the files of one answer, up to the most there may be."""

    def __init__(self, files: SessionFiles, session: SessionId) -> None:
        self._files = files
        self._session = session
        self._kept = 0

    async def __call__(self, file: File) -> File:
        """A copy of it. Raises Refused."""
        most = self._files.rules.per_message
        if self._kept >= most:
            raise Refused(f"{most} files are the most that one answer brings")
        kept = await self._files.keep(self._session, file)
        self._kept += 1
        return kept


async def discard(file: File) -> None:
    """The copy of a file that was sent is needed no more."""
    await asyncio.to_thread(Path(file.path).unlink, missing_ok=True)


async def is_there(file: File) -> bool:
    """Whether the copy can still be sent."""
    return await asyncio.to_thread(_is_plain, Path(file.path))


def clean_name(text: str) -> str:
    """
    What somebody called a file, as data: one line, no folders, at most 128 visible characters, its
    ending kept.
    """
    name = re.split(r"[/\\]", folded(text))[-1].strip()
    if not name.strip("."):
        return _NAMELESS
    ending = _ending(name, lower=False)
    return cut(name.removesuffix(ending), LONGEST_LABEL - len(ending)) + ending


def too_large(size: int | None, most: int) -> str:
    """Why it was not taken, for people."""
    known = (
        f"{written_size(size)}; {written_size(most)} is the most"
        if size
        else f"more than {written_size(most)}"
    )
    return f"too large ({known})"


def _clean_mime(mime: str | None) -> str | None:
    return mime if mime and _MIME.fullmatch(mime) else None


def _ending(name: str | None, *, lower: bool = True) -> str:
    """Of a name, if it is harmless: agents choose their tools by it."""
    ending = Path(name).suffix if name else ""
    if not _ENDING.fullmatch(ending):
        return ""
    return ending.lower() if lower else ending


def _make_folders(folder: Path) -> None:
    """The root's own parents are the state folder's business. Nobody but us looks in."""
    if folder.is_dir():
        return
    for each in (folder.parent.parent, folder.parent, folder):
        each.mkdir(mode=0o700, exist_ok=True)


async def _write(path: Path, chunks: AsyncIterator[bytes], most: int) -> int:
    buffer = bytearray()
    size = 0
    try:
        while (chunk := await _next(chunks)) is not None:
            size += len(chunk)
            if size > most:
                raise Refused(too_large(None, most))
            buffer += chunk
            if len(buffer) >= _BUFFER:
                await asyncio.to_thread(_append, path, bytes(buffer))
                buffer.clear()
        await asyncio.to_thread(_append, path, bytes(buffer))
    finally:
        if isinstance(chunks, AsyncGenerator):
            await chunks.aclose()

    return size


async def _next(chunks: AsyncIterator[bytes]) -> bytes | None:
    """None at the end. Even a source that is always ready lets the others work."""
    await asyncio.sleep(0)
    try:
        async with asyncio.timeout(LONGEST_SILENCE):
            return await anext(chunks, None)
    except TimeoutError as exc:
        raise Unreachable("it stopped coming") from exc


def _append(path: Path, piece: bytes) -> None:
    """
    To a file that is there: a thread that is late must not bring back what was deleted meanwhile.
    """
    try:
        with os.fdopen(
            os.open(path, os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC), "ab"
        ) as target:
            target.write(piece)
    except OSError as exc:
        raise _no_room(exc) from exc


def _settle(path: Path) -> None:
    """
    On the disk, with its name: the next thing is a row that counts on it, and rows outlast a power
    cut.
    """
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
    """The file may grow while it is read."""
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
    """None at all if it has just been deleted."""
    try:
        return now - datetime.fromtimestamp(path.lstat().st_mtime, UTC)
    except FileNotFoundError:
        return timedelta(0)


def _unlock(folder: Path) -> None:
    """
    Tools make folders that not even their owner may change, caches above all: they could not be
    deleted.
    """
    for here, names, _ in os.walk(folder):
        for each in (Path(here, name) for name in names):
            if not each.is_symlink():
                each.chmod(0o700)


def _no_room(exc: OSError) -> StoreUnavailable:
    return StoreUnavailable(f"it cannot be kept on this machine ({exc.strerror})")
