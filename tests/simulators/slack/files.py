"""
Files: the upload in three steps, and downloads that show a login page to whoever has no token.
"""

from __future__ import annotations

import mimetypes
import secrets
from typing import Any

from aiohttp import web

from tests.simulators.common import Call, Json
from tests.simulators.slack import rules, shapes
from tests.simulators.slack.posting import Posting
from tests.simulators.slack.server import Asked, Server
from tests.simulators.slack.text import kept
from tests.simulators.slack.world import Bot, Chat, StoredFile

LOGIN_PAGE = "<!DOCTYPE html><html><head><title>Sign in to Slack</title></head><body></body></html>"


class Files:
    """What was uploaded, and what can be had of it."""

    def __init__(self, server: Server, posting: Posting) -> None:
        self._server = server
        self._posting = posting
        self.methods = {
            "files.getUploadURLExternal": Asked(answer=self._begin, scopes=("files:write",)),
            "files.completeUploadExternal": Asked(
                answer=self._complete, does="send_file", scopes=("files:write",)
            ),
            "files.info": Asked(answer=self._info, scopes=("files:read",)),
        }

    def store(self, bot: Bot, *, name: str, mime: str, content: bytes, user: str) -> StoredFile:
        """What a person uploads."""
        stored = self._new(bot, name=name, mime=mime, length=len(content), user=user)
        stored.content = content
        return stored

    async def upload(self, call: Call) -> web.StreamResponse:
        """The bytes, at the address that was given for them."""
        bot, stored = self._server.uploads.get(str(call.parameters["ticket"]), (None, None))
        content = call.parameters["content"]
        if bot is None or stored is None:
            raise rules.No("invalid_upload_url", rules.UPLOAD, status=404)
        if not isinstance(content, bytes) or len(content) != stored.length:
            raise rules.No("length_mismatch", rules.UPLOAD, status=400)
        stored.content = content
        return web.Response(text=f"OK - {len(content)}")

    async def download(self, call: Call) -> web.StreamResponse:
        """The bytes for whoever has the token; a page to log in, with 200, for everybody else."""
        bot = self._server.bots.get(call.account or "")
        team, _, file_id = str(call.parameters["file"]).partition("-")
        if bot is None or bot.revoked or bot.team != team or "files:read" not in bot.scopes:
            return web.Response(text=LOGIN_PAGE, content_type="text/html")
        stored = bot.files.get(file_id)
        if stored is None or stored.deleted or stored.content is None:
            raise rules.No("file_not_found", rules.FILE, status=404)
        return web.Response(body=stored.content, content_type=stored.mime)

    async def _begin(self, server: Server, bot: Bot, call: Call) -> Json:
        name, length = str(call.parameters["filename"]), int(str(call.parameters["length"]))
        if length <= 0:
            raise rules.No("missing_argument", rules.UPLOAD)
        mime = mimetypes.guess_type(name)[0] or "application/octet-stream"
        stored = self._new(bot, name=name, mime=mime, length=length, user=bot.user)
        ticket = secrets.token_urlsafe(16)
        server.uploads[ticket] = (bot, stored)
        return {"upload_url": f"{server.url}/upload/v1/{ticket}", "file_id": stored.id}

    async def _complete(self, server: Server, bot: Bot, call: Call) -> Json:
        asked = call.parameters
        stored = [self._uploaded(bot, each) for each in asked["files"]]  # type: ignore[attr-defined]
        places = (
            [asked["channel_id"]]
            if asked.get("channel_id")
            else str(asked.get("channels") or "").split(",")
        )
        for place in filter(None, places):
            self._share(bot, self._place(bot, place), stored, call)
        return {"files": [{"id": each.id, "title": each.title} for each in stored]}

    async def _info(self, server: Server, bot: Bot, call: Call) -> Json:
        stored = bot.files.get(str(call.parameters["file"]))
        if stored is None or stored.content is None:
            raise rules.No("file_not_found", rules.FILE)
        if stored.deleted:
            raise rules.No("file_deleted", rules.FILE)
        return {
            "file": shapes.file(bot, stored, server.url),
            "comments": [],
        }

    def _new(self, bot: Bot, **what: Any) -> StoredFile:
        created = int(self._server.clock.now())
        stored = StoredFile(
            id=f"F0{len(bot.files) + 1:07}", title=what["name"], created=created, **what
        )
        bot.files[stored.id] = stored
        return stored

    def _uploaded(self, bot: Bot, named: Any) -> StoredFile:
        if not isinstance(named, dict) or not {"id"} <= set(named) <= {
            "id",
            "title",
            "highlight_type",
        }:
            raise rules.No("invalid_arguments", rules.UPLOAD)
        stored = bot.files.get(str(named["id"]))
        if stored is None or stored.content is None or stored.shares:
            raise rules.No("file_not_found", rules.UPLOAD)
        stored.title = named.get("title", stored.title)
        return stored

    def _place(self, bot: Bot, place: object) -> Chat:
        chat = bot.known(place)
        if not chat.bot_is_in:
            raise rules.No("not_in_channel", rules.MEMBER)
        return bot.open_to_bot(place)

    def _share(self, bot: Bot, chat: Chat, stored: list[StoredFile], call: Call) -> None:
        said = {"text": str(call.parameters.get("initial_comment") or "")}
        thread = self._posting.parent(chat, call.parameters.get("thread_ts"))
        fields = {"subtype": "file_share", "upload": True}
        message = self._posting.keep(bot, chat, said, thread_ts=thread, files=stored, fields=fields)
        message.text = kept(said["text"])
        for each in stored:
            each.shares.append((chat.id, message.ts))
