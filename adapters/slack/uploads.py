"""
File uploads in three steps: request an upload URL, upload the bytes, publish the file.

Nothing is visible before the last step, so an earlier failure means that the file was not sent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import aiohttp

from turngate.adapters.slack.account import Timeouts
from turngate.adapters.slack.api import (
    Answer,
    Api,
    ThreadGone,
    required_text,
    translated_errors,
)
from turngate.adapters.slack.markup import plain
from turngate.adapters.slack.sending import chat_of
from turngate.adapters.slack.threads import Threads
from turngate.gateway.domain.agent_events import File
from turngate.gateway.domain.errors import (
    NotSent,
    TurngateError,
    Undeliverable,
    Unreachable,
)
from turngate.gateway.domain.outbox import Part, Sent
from turngate.gateway.domain.ports.clock import Clock

LARGEST_FILE = 1_000_000_000

_LONGEST_NAME = 128
_ATTEMPTS = 4
_PAUSE = 0.25


class Uploader:
    """Uploads files of one bot."""

    def __init__(self, api: Api, threads: Threads, timeouts: Timeouts, clock: Clock) -> None:
        self._api = api
        self._threads = threads
        self._timeouts = timeouts
        self._clock = clock

    async def send_file(self, part: Part) -> Sent:
        """Send the part's file with its text, in its thread."""
        if part.file is None:
            raise Undeliverable("this part has no file")

        path = Path(part.file.path)
        if not await asyncio.to_thread(path.is_file):
            raise Undeliverable("the file cannot be read")

        size = (await asyncio.to_thread(path.stat)).st_size
        if not 0 < size <= LARGEST_FILE:
            raise Undeliverable(
                "Slack does not accept empty files"
                if not size
                else "the file is too large for Slack"
            )

        thread = await self._threads.of(part)
        try:
            file = await self._uploaded(path, clean_name(part.file), size)
        except Unreachable as exc:
            # Nothing is published yet, so a retry cannot post the file twice.
            raise NotSent(str(exc)) from exc

        await self._publish(part, thread, file)
        return Sent(message_id=await self._message_of(part, file) or file, at=self._clock.now())

    async def _uploaded(self, path: Path, name: str, size: int) -> str:
        """Upload the bytes and return the file id."""
        request = self._api.client.files_getUploadURLExternal(filename=name, length=size)
        answer = await self._api.answer(request)
        url = required_text(answer, "upload_url")
        file = required_text(answer, "file_id")
        timeout = aiohttp.ClientTimeout(total=self._timeouts.upload)

        with translated_errors(), path.open("rb") as content:
            posting = self._api.session.post(
                url, data=content, timeout=timeout, allow_redirects=False
            )
            async with posting as response:
                status = response.status

        if status >= 500:
            raise Unreachable("Slack reported an internal error")
        if status != 200:
            raise Undeliverable(f"Slack rejected the file ({status})")

        return file

    async def _publish(self, part: Part, thread: str | None, file: str) -> None:
        """Publish the file in the chat. Users see the title instead of the name."""
        what: dict[str, Any] = {
            "files": [{"id": file, "title": clean_name(part.file) if part.file else None}],
            "channel_id": chat_of(part.target),
        }
        if part.text:
            what["initial_comment"] = plain(part.text)

        ask = self._api.client.files_completeUploadExternal
        try:
            await self._api.answer(ask(**what, thread_ts=thread))
        except ThreadGone:
            # Nothing was published: publish in the chat itself.
            await self._api.answer(ask(**what))

    async def _message_of(self, part: Part, file: str) -> str | None:
        """
        Return the id of the message with the file. Slack reports it with a delay or not at all; the
        file was sent either way.
        """
        with suppress(TurngateError):
            for _ in range(_ATTEMPTS):
                answer = await self._api.answer(self._api.client.files_info(file=file))
                if (message := _shared_as(answer, part.target.chat_id)) is not None:
                    return message
                await asyncio.sleep(_PAUSE)

        return None


def clean_name(file: File) -> str:
    """Return the file name on one line, without folders."""
    name = file.name or Path(file.path).name
    printable = "".join(character for character in name if character.isprintable())
    return printable.rpartition("/")[2][-_LONGEST_NAME:] or "file"


def is_upload_of(file: File, message: Mapping[str, Any]) -> bool:
    """Whether the message contains this file, judged by name and size."""
    shown = message.get("files")
    path = Path(file.path)
    size = path.stat().st_size if path.is_file() else None
    return isinstance(shown, list) and any(
        isinstance(each, dict)
        and each.get("name") == clean_name(file)
        and size in (None, each.get("size"))
        for each in shown
    )


def _shared_as(answer: Answer, chat: str | None) -> str | None:
    file = answer.get("file")
    shares = file.get("shares") if isinstance(file, dict) else None
    for chats in shares.values() if isinstance(shares, dict) else ():
        for share in chats.get(chat, ()) if isinstance(chats, dict) else ():
            if isinstance(share, dict) and isinstance(share.get("ts"), str):
                return str(share["ts"])
    return None
