"""The Bot API at its addresses, and the deeds of people behind the control API."""

from __future__ import annotations

import math
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass

from aiohttp import web

from tests.simulators.common import COMMON_RULES, Call, Json, Method, Refusal, Simulator
from tests.simulators.telegram import (
    chats,
    files,
    messages,
    operating,
    parameters,
    people,
    receiving,
    rules,
    showing,
)
from tests.simulators.telegram.server import Asked, Server
from tests.simulators.telegram.webhooks import Deliveries
from tests.simulators.telegram.world import Bot

OWN_FAULTS = {
    "duplicate": "everything in the answer of getUpdates comes twice, the second time under "
    "another number",
    "reorder": "the answer of getUpdates is the wrong way round",
    "unparsable": "the formatting is refused, whatever it is; plain text passes",
    "newer": "the message in the answer has things in it that no version knows yet",
}

_ASKED: Asked = {**receiving.METHODS, **messages.METHODS, **files.METHODS, **chats.METHODS}


@dataclass(frozen=True, slots=True)
class _Deed:
    """What people do: the names of what it needs and of what it takes."""

    act: Callable[[Server, Bot, Call], Awaitable[Json]]
    required: Mapping[str, type]
    optional: Mapping[str, type]


_WHO = {"chat": str, "user": str}
_WRITES = {
    "user": str,
    "text": str,
    "at": float,
    "id": str,
    "repeat": int,
    "file": dict,
    "reply_to": str,
    "quote": str,
    "forward": dict,
    "thread": str,
    "entities": list,
    "mentions": list,
    "anonymous": bool,
    "as_channel": str,
    "more": dict,
    "newer": dict,
    "topic": str,
}
_PLACE = {
    "type": str,
    "title": str,
    "username": str,
    "forum": bool,
    "discussion": str,
    "admins": list,
    "direct": bool,
}
_NAMES = {
    "first_name": str,
    "last_name": str,
    "username": str,
    "language_code": str,
    "is_premium": bool,
}
_SETUP = {"local": bool, "rich": bool, "rates": bool, "webhook_pause": float, "folder": str}
_BOT = {"token": str, "username": str, "privacy": bool, "topics": bool, "revoked": bool}

_DEEDS = {
    "say": _Deed(people.say, {"chat": str}, _WRITES),
    "update": _Deed(people.update, {"kind": str, "payload": dict}, {"newer": bool}),
    "album": _Deed(people.album, {"chat": str, "files": list}, _WRITES),
    "change": _Deed(
        people.change, {"chat": str, "id": str, "text": str}, {"entities": list, "mentions": list}
    ),
    "react": _Deed(people.react, {**_WHO, "message": str, "emoji": str}, {}),
    "press": _Deed(people.press, {**_WHO, "message": str, "nonce": str}, {}),
    "stop": _Deed(people.stop, {"chat": str, "draft": int}, {}),
    "open": _Deed(people.open_, {"chat": str}, _PLACE),
    "person": _Deed(people.person, {"user": str}, _NAMES),
    "join": _Deed(people.join, _WHO, {}),
    "leave": _Deed(people.leave, _WHO, {}),
    "topic": _Deed(people.topic, {"chat": str, "name": str}, {"user": str, "id": str}),
    "close_topic": _Deed(people.close_topic, {"chat": str, "thread": str}, {"user": str}),
    "delete_topic": _Deed(people.delete_topic, {"chat": str, "thread": str}, {}),
    "migrate": _Deed(people.migrate, {"chat": str}, {"to": str, "user": str}),
    "block": _Deed(people.block, {"chat": str}, {"user": str}),
    "unblock": _Deed(people.unblock, {"chat": str}, {"user": str}),
    "delete": _Deed(people.delete, {"id": str}, {"chat": str}),
    "forget": _Deed(people.forget, {"before": float}, {}),
    "messages": _Deed(showing.messages, {}, {}),
    "updates": _Deed(showing.updates, {}, {}),
    "typing": _Deed(showing.typing, {}, {}),
    "actions": _Deed(showing.actions, {}, {}),
    "drafts": _Deed(showing.drafts, {}, {}),
    "answers": _Deed(showing.answers, {}, {}),
    "commands": _Deed(showing.commands, {}, {}),
    "bot": _Deed(operating.bot, {}, _BOT),
    "add_bot": _Deed(operating.add_bot, {"name": str, "token": str}, {}),
    "server": _Deed(operating.server, {}, _SETUP),
    "later": _Deed(operating.later, {"seconds": float}, {"stop": bool}),
}


class Telegram:
    """The platform."""

    own_faults = OWN_FAULTS
    rules = rules.ALL

    def __init__(self, *, local: bool = False, rich: bool = True, rates: bool = False) -> None:
        self._server = Server(local=local, rich=rich, rates=rates)
        self._deliveries = Deliveries(self._server)
        self.methods = {name: self._method(name) for name in _ASKED} | {
            files.DOWNLOAD: self._download()
        }
        self.deeds = {name: self._deed(name, deed) for name, deed in _DEEDS.items()} | {
            "deliveries": self._deed("deliveries", _Deed(self._deliveries.shown, {}, {}))
        }

    def routes(self, simulator: Simulator) -> Iterable[web.RouteDef]:
        """As https://core.telegram.org/bots/api#making-requests has them."""
        self._deliveries.faults = simulator.faults

        async def answer(request: web.Request) -> web.StreamResponse:
            method = parameters.spelled(request.match_info["method"])
            given = await parameters.read(request, method)
            account = self._server.account_of(request.match_info["token"])
            with self._server.uploads.of(given) as named:
                chat = str(named["chat_id"]) if "chat_id" in named else None
                return await simulator.serve(request, method, named, account=account, chat=chat)

        async def download(request: web.Request) -> web.StreamResponse:
            account = self._server.account_of(request.match_info["token"])
            path = {"path": request.match_info["path"]}
            return await simulator.serve(request, files.DOWNLOAD, path, account=account)

        return [
            web.route("*", "/bot{token}/{method}", answer),
            web.get("/file/bot{token}/{path:.*}", download),
        ]

    @asynccontextmanager
    async def _at_work(self) -> AsyncIterator[None]:
        with tempfile.TemporaryDirectory() as folder:
            self._server.folder = folder
            async with self._deliveries.at_work():
                yield

    def at_work(self) -> AbstractAsyncContextManager[object]:
        """Webhooks are delivered meanwhile, and a local server has its disk."""
        return self._at_work()

    def reply(self, answer: Json) -> web.Response:
        """In the envelope that all answers have."""
        return web.json_response({"ok": True, "result": answer})

    def refuse(self, refusal: Refusal) -> web.Response:
        """
        In the envelope that all errors have. What goes wrong by a fault is worded as Telegram words
        it.
        """
        text, more = refusal.text, {}
        if refusal.rule is None:
            text = refusal.says or rules.FAULTS.get(refusal.status, text)
        elif refusal.rule in COMMON_RULES and refusal.status == 400:
            text = f"Bad Request: {text}"
        if refusal.status == 429:
            seconds = max(1, math.ceil(refusal.retry_after))
            text, more = (
                f"Too Many Requests: retry after {seconds}",
                {"parameters": {"retry_after": seconds}},
            )
        if isinstance(refusal, rules.Migrated):
            more = {"parameters": {"migrate_to_chat_id": refusal.to}}
        said = {"ok": False, "error_code": refusal.status, "description": text, **more}
        return web.json_response(said, status=refusal.status)

    def _method(self, name: str) -> Method:
        act, does = _ASKED[name]

        async def answer(call: Call) -> Json:
            bot = self._asking(call)
            parameters.check_objects(call)
            return await act(self._server, bot, call)

        return Method(
            answer=answer,
            does=does,
            required=parameters.required(name),
            optional=parameters.optional(name),
            source=parameters.source(name),
            validate=parameters.check_reply(name),
        )

    def _download(self) -> Method:
        async def answer(call: Call) -> web.StreamResponse:
            return await files.download(self._server, self._asking(call), call)

        return Method(
            answer=answer, does="fetch", required={"path": str}, source=parameters.source("getFile")
        )

    def _asking(self, call: Call) -> Bot:
        """
        Whose call it is. Raises for a token that is nobody's, and for a bot that has said goodbye.
        """
        if call.account not in self._server.bots:
            raise rules.unauthorized()
        bot = self._server.bots[call.account]
        if bot.logged_out_until > self._server.clock.now():
            raise rules.logged_out()
        return bot

    def _deed(self, name: str, deed: _Deed) -> Method:
        async def answer(call: Call) -> Json:
            return await deed.act(self._server, self._server.bot(call.account), call)

        optional = {"account": str, **deed.optional}
        return Method(
            answer=answer, required=deed.required, optional=optional, source=f"deed {name}"
        )
