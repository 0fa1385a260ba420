"""
Files on their way out, in three steps: Slack gives an address, takes the bytes there, and then shows the file.

Until the last step nobody sees anything, so whatever goes wrong before it has certainly not happened.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import aiohttp

from turngate.adapters.slack.account import Patience
from turngate.adapters.slack.api import Answer, Api, ThreadGone, our_errors, word
from turngate.adapters.slack.markup import plain
from turngate.adapters.slack.sending import chat_of
from turngate.gateway.domain.errors import NotSent, TurngateError, Undeliverable, Unreachable
from turngate.gateway.domain.messages import File, Part, Sent
from turngate.gateway.domain.ports.adapter import Clock

LARGEST_FILE = 1_000_000_000

_LONGEST_NAME = 128
_LOOKS, _PAUSE = 4, 0.25


class Uploader:
    """Of one bot."""

    def __init__(self, api: Api, patience: Patience, clock: Clock) -> None:
        self._api = api
        self._patience = patience
        self._clock = clock

    async def send_file(self, part: Part) -> Sent:
        """With its words, in its thread."""
        if part.file is None:
            raise Undeliverable("this part has no file")
        path = Path(part.file.path)
        if not await asyncio.to_thread(path.is_file):
            raise Undeliverable("the file cannot be read")
        size = (await asyncio.to_thread(path.stat)).st_size
        if not 0 < size <= LARGEST_FILE:
            raise Undeliverable(
                "Slack takes no empty file" if not size else "the file is too large for Slack"
            )
        try:
            file = await self._uploaded(path, clean_name(part.file), size)
        except Unreachable as exc:
            raise NotSent(str(exc)) from exc
        await self._show(part, file)
        return Sent(message_id=await self._message_of(part, file) or file, at=self._clock.now())

    async def _uploaded(self, path: Path, name: str, size: int) -> str:
        """Returns Slack's name of it."""
        asking = self._api.client.files_getUploadURLExternal(filename=name, length=size)
        answer = await self._api.answer(asking)
        url, file = word(answer, "upload_url"), word(answer, "file_id")
        timeout = aiohttp.ClientTimeout(total=self._patience.upload)
        with our_errors(), path.open("rb") as content:
            posting = self._api.session.post(
                url, data=content, timeout=timeout, allow_redirects=False
            )
            async with posting as response:
                status = response.status
        if status >= 500:
            raise Unreachable("Slack has trouble of its own")
        if status != 200:
            raise Undeliverable(f"Slack does not take the file ({status})")
        return file

    async def _show(self, part: Part, file: str) -> None:
        """The title is what people see of its name."""
        what: dict[str, Any] = {
            "files": [{"id": file, "title": clean_name(part.file) if part.file else None}],
            "channel_id": chat_of(part.target),
        }
        if part.text:
            what["initial_comment"] = plain(part.text)
        ask = self._api.client.files_completeUploadExternal
        try:
            await self._api.answer(ask(**what, thread_ts=part.target.thread_id))
        except ThreadGone:
            await self._api.answer(ask(**what))

    async def _message_of(self, part: Part, file: str) -> str | None:
        """Slack says it a little later, if at all. That it was sent is known without."""
        with suppress(TurngateError):
            for _ in range(_LOOKS):
                answer = await self._api.answer(self._api.client.files_info(file=file))
                if (message := _shared_as(answer, part.target.chat_id)) is not None:
                    return message
                await asyncio.sleep(_PAUSE)
        return None


def clean_name(file: File) -> str:
    """One line, and no path."""
    name = file.name or Path(file.path).name
    printable = "".join(character for character in name if character.isprintable()).rpartition("/")[
        2
    ]
    return printable[-_LONGEST_NAME:] or "file"


def is_upload_of(file: File, message: Mapping[str, Any]) -> bool:
    """Whether a message of ours shows this file, as far as its name and size tell."""
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
    for places in shares.values() if isinstance(shares, dict) else ():
        for share in places.get(chat, ()) if isinstance(places, dict) else ():
            if isinstance(share, dict) and isinstance(share.get("ts"), str):
                return str(share["ts"])
    return None
