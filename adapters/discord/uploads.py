"""A file to send: its size is checked before reading, and it is streamed."""

from __future__ import annotations

import asyncio
import io
import json
import mimetypes
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from turngate.adapters.discord.outgoing import Body, file_name
from turngate.gateway.domain.errors import Undeliverable
from turngate.gateway.domain.outbox import Part

_MEGABYTE = 1024 * 1024


class _KeptOpen(io.BufferedReader):
    """
    A file that aiohttp does not close after sending it: where Discord names an obstacle, it is sent
    once more.
    """

    def close(self) -> None:
        """Do nothing; see `release`."""

    def release(self) -> None:
        """Close it."""
        super().close()


@dataclass(frozen=True, slots=True, kw_only=True)
class Upload:
    """One open file."""

    file: BinaryIO
    name: str

    def form(self, body: Body) -> list[dict[str, object]]:
        """Build the form fields of a message with the file."""
        # A second request, after a refused one, sends the file from its beginning again.
        self.file.seek(0)
        described = [{"id": 0, "filename": self.name}]
        inner = body.get("message")
        whole = (
            {**body, "message": {**inner, "attachments": described}}
            if inner
            else {**body, "attachments": described}
        )
        kind = mimetypes.guess_type(self.name)[0] or "application/octet-stream"

        return [
            {
                "name": "payload_json",
                "value": json.dumps(whole),
                "content_type": "application/json",
            },
            {"name": "files[0]", "value": self.file, "filename": self.name, "content_type": kind},
        ]


@asynccontextmanager
async def open_upload(part: Part, largest: int) -> AsyncIterator[Upload]:
    """Open the part's file. Raises Undeliverable if it is missing or too large."""
    if part.file is None:
        raise Undeliverable("this part has no file")

    path = Path(part.file.path)

    try:
        size = (await asyncio.to_thread(path.stat)).st_size
        if size > largest:
            raise Undeliverable(
                f"the file has {size / _MEGABYTE:.1f} MB, and Discord takes "
                f"{largest // _MEGABYTE} MB here"
            )
        file = _KeptOpen(await asyncio.to_thread(io.FileIO, path))
    except OSError as exc:
        raise Undeliverable("the file cannot be read") from exc

    try:
        yield Upload(file=file, name=file_name(part.file))
    finally:
        file.release()
