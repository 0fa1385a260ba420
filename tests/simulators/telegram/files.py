"""Files, both ways: https://core.telegram.org/bots/api#sending-files and #getfile"""

from __future__ import annotations

import mimetypes
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import unquote, urlsplit

from aiohttp import web

from tests.simulators.common import Call, Json, Refusal
from tests.simulators.telegram import rules
from tests.simulators.telegram.parameters import Upload
from tests.simulators.telegram.posting import LONGEST_CAPTION, as_fields, place, post, words
from tests.simulators.telegram.server import Answer, Asked, Server
from tests.simulators.telegram.world import Bot, Raw, StoredFile

LARGEST_DOWNLOAD = 20 * 1024 * 1024
LARGEST_UPLOAD = 50 * 1024 * 1024
LARGEST_PHOTO = 10 * 1024 * 1024
LINK_LASTS = 3600.0
DOWNLOAD = "download"
"""The name under which fetching the bytes is recorded; it is no method of the Bot API."""

_KINDS = ("document", "photo", "voice", "audio", "video", "animation", "video_note")


def described(file: StoredFile, kind: str, given: object = None) -> Raw:
    """A file as a message has it."""
    more = given if isinstance(given, Mapping) else {}
    names = {"file_id": file.id, "file_unique_id": file.unique_id, "file_size": file.size}
    length = {"duration": int(more.get("duration", 1))}
    frame = {"width": int(more.get("width", 640)), "height": int(more.get("height", 480))}
    typed: Raw = {"mime_type": file.mime} if file.mime else {}
    named: Raw = {"file_name": file.name} if file.name else {}
    match kind:
        case "photo":
            small = {
                "file_id": f"{file.id}-s",
                "file_unique_id": f"{file.unique_id}-s",
                "width": 90,
                "height": 67,
            }
            return {"photo": [small, {**names, **frame}]}
        case "voice":
            return {"voice": {**names, **typed, **length}}
        case "audio":
            titles = {name: str(more[name]) for name in ("performer", "title") if name in more}
            return {"audio": {**names, **typed, **named, **length, **titles}}
        case "video":
            return {"video": {**names, **typed, **named, **frame, **length}}
        case "video_note":
            return {"video_note": {**names, "length": frame["height"], **length}}
        case "animation":
            animation = {**names, **typed, **named, **frame, **length}
            return {"animation": animation, "document": {**names, **typed, **named}}
        case "document":
            return {"document": {**names, **typed, **named}}
        case _:
            raise rules.bad(
                f"there is no kind of file {kind}; there are {', '.join(_KINDS)}", rules.PEOPLE
            )


def _sending(kind: str) -> Answer:
    async def send(server: Server, bot: Bot, call: Call) -> Json:
        has_caption = "caption" in call.parameters
        caption = (
            words(call, "caption", "caption_entities", longest=LONGEST_CAPTION)
            if has_caption
            else None
        )
        chat = place(server, bot, call)
        file = _attached(server, bot, call.parameters[kind], kind)
        content = described(file, kind, call.parameters)
        if caption is not None:
            content |= as_fields(caption, "caption", "caption_entities")
        return post(server, bot, call, content, file=file, chat=chat).raw

    return send


async def send_media_group(server: Server, bot: Bot, call: Call) -> Json:
    """https://core.telegram.org/bots/api#sendmediagroup"""
    media = call.parameters["media"]
    assert isinstance(media, list)
    if not 2 <= len(media) <= 10:
        raise rules.bad("media must include 2-10 items", rules.FILES)
    chat, sent = place(server, bot, call), []
    group = str(bot.next_number(chat) + 13_000_000_000)
    for each in media:
        file = _attached(server, bot, each["media"], each["type"])
        item = Call(method=call.method, parameters={**call.parameters, **each}, fault=call.fault)
        caption = as_fields(
            words(item, "caption", "caption_entities", longest=LONGEST_CAPTION),
            "caption",
            "caption_entities",
        )
        content = {**described(file, each["type"], each), **caption, "media_group_id": group}
        sent.append(post(server, bot, item, content, file=file, chat=chat).raw)
    return sent


async def get_file(server: Server, bot: Bot, call: Call) -> Json:
    """
    https://core.telegram.org/bots/api#getfile: a path for an hour, or on a local server a place on
    its disk.
    """
    file = bot.files.get(str(call.parameters["file_id"]).removesuffix("-s"))
    if file is None:
        raise rules.bad("wrong file_id or the file is temporarily unavailable", rules.FILES)
    if file.size > LARGEST_DOWNLOAD and not server.local:
        raise rules.bad("file is too big", rules.FILES)
    file.link_until = server.clock.now() + LINK_LASTS
    names = {"file_id": file.id, "file_unique_id": file.unique_id, "file_size": file.size}
    return {**names, "file_path": _on_disk(server, bot, file) if server.local else file.path}


async def download(server: Server, bot: Bot, call: Call) -> web.StreamResponse:
    """The bytes, while the link works."""
    wanted = [file for file in bot.files.values() if file.path == call.parameters["path"]]
    if not wanted or wanted[0].link_until < server.clock.now():
        raise Refusal(404, "Not Found", rule=rules.FILES)
    return web.Response(body=wanted[0].content, content_type="application/octet-stream")


def _on_disk(server: Server, bot: Bot, file: StoredFile) -> str:
    path = Path(server.folder) / bot.account / file.path
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(file.content)
    return str(path)


def _attached(server: Server, bot: Bot, value: object, kind: str) -> StoredFile:
    """
    An upload, something that was sent before, a file on the disk of a server of one's own, or an
    address on the web, which here is only an address.
    """
    address = urlsplit(str(value))
    upload = server.uploads.get(value)
    if server.local and address.scheme == "file":
        path = Path(unquote(address.path))
        upload = Upload(name=path.name, mime=_guessed(path.name), content=path.read_bytes())
    if upload is not None:
        _check_size(server, len(upload.content), kind)
        mime = upload.mime if upload.mime != "application/octet-stream" else _guessed(upload.name)
        return bot.keep_file(name=upload.name, mime=mime, content=upload.content, folder=f"{kind}s")
    known = bot.files.get(str(value))
    if known is not None:
        return known
    if address.scheme in ("http", "https"):
        return bot.keep_file(
            name=str(value).rpartition("/")[2], mime="", content=b"", folder=f"{kind}s"
        )
    raise rules.bad("wrong file identifier/HTTP URL specified", rules.FILES)


def _check_size(server: Server, size: int, kind: str) -> None:
    if size == 0:
        raise rules.bad("file must be non-empty", rules.FILES)
    if kind == "photo" and size > LARGEST_PHOTO:
        raise rules.bad("PHOTO_INVALID_DIMENSIONS", rules.FILES)
    if size > LARGEST_UPLOAD and not server.local:
        raise Refusal(413, "Request Entity Too Large", rule=rules.FILES)


def _guessed(name: str) -> str:
    return mimetypes.guess_type(name)[0] or "application/octet-stream"


METHODS: Asked = {
    **{f"send{kind.title().replace('_', '')}": (_sending(kind), "send_file") for kind in _KINDS},
    "sendMediaGroup": (send_media_group, "send_file"),
    "getFile": (get_file, None),
}
