"""Slack at its addresses, and the deeds of people behind the control API."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from contextvars import ContextVar

from aiohttp import web

from tests.simulators.common import METHODS, PARAMETERS, Call, Json, Method, Refusal, Simulator
from tests.simulators.slack import blocks, gestures, parameters, reading, rules, specified
from tests.simulators.slack.delivery import EVENT_TYPES, Courier, without_faults_of_events
from tests.simulators.slack.files import Files
from tests.simulators.slack.operating import Operating
from tests.simulators.slack.people import People
from tests.simulators.slack.posting import Posting
from tests.simulators.slack.responding import FIELDS, Responding
from tests.simulators.slack.server import ACCOUNTS, Asked, Deed, Server, Settings, allow
from tests.simulators.slack.showing import Showing
from tests.simulators.slack.sockets import UPGRADE, Sockets
from tests.simulators.slack.streams import Streams
from tests.simulators.slack.telling import Telling
from tests.simulators.slack.webhooks import Webhooks
from tests.simulators.slack.world import App, Bot

OWN_FAULTS = {
    "duplicate": "an event comes twice, with another envelope_id and the same event_id",
    "reorder": "an event comes after the next one",
    "unparsable": "markdown and blocks are refused, whatever they are; plain text passes",
}

_FACTS = {"event_id": str, "kind": str, "id": str, "text": str, "attempt": int}
_WITH_METADATA = ("conversations.history", "conversations.replies")


class Slack:
    """The platform."""

    own_faults = OWN_FAULTS
    rules = rules.ALL

    def __init__(self, settings: Settings | None = None) -> None:
        self._server = server = Server(settings=settings or Settings())
        for number, name in enumerate(ACCOUNTS, 1):
            server.add_bot(
                name, token=f"xoxb-{name}", app_token=f"xapp-{name}", team=f"T{number:04}"
            )
        self._token: ContextVar[str | None] = ContextVar("token", default=None)
        self._courier = Courier(server)
        self._sockets = Sockets(server)
        self._webhooks = Webhooks(server)
        self._courier.go_by(socket=self._sockets, http=self._webhooks)
        telling = Telling(server, self._courier)
        posting = Posting(server, telling)
        self._files = Files(server, posting)
        self._responding = Responding(server, posting)
        self._courier.when_answered(self._responding.answer)
        streams = Streams(server, posting)
        self._asked: dict[str, Asked] = {
            **posting.methods,
            **streams.methods,
            **self._files.methods,
            **reading.METHODS,
            **gestures.METHODS,
        }
        self.methods = self._methods()
        everybody = People(server, telling, self._files)
        showing, operating = (
            Showing(self._courier, self._sockets),
            Operating(server, self._sockets, self._webhooks),
        )
        self.deeds = {
            name: self._deed(deed)
            for name, deed in {**everybody.deeds, **showing.deeds, **operating.deeds}.items()
        }

    def routes(self, simulator: Simulator) -> Iterable[web.RouteDef]:
        """The Web API, the sockets, uploads and downloads, and the places to respond at."""
        self._server.simulator = simulator
        return [
            web.route("*", "/api/{method}", self._ask),
            web.get("/link/", self._connect),
            web.post("/upload/v1/{ticket}", self._upload),
            web.get("/files-pri/{file}/{name:.*}", self._download),
            web.post("/response/{team}/{url}", self._respond),
        ]

    @asynccontextmanager
    async def _working(self) -> AsyncIterator[None]:
        async with self._webhooks.at_work(), self._courier.at_work():
            yield

    def at_work(self) -> AbstractAsyncContextManager[None]:
        """Events are handed out, and handed out again."""
        return self._working()

    def reply(self, answer: Json) -> web.StreamResponse:
        """`ok` goes first."""
        return web.json_response({"ok": True, **(answer if isinstance(answer, dict) else {})})

    def refuse(self, refusal: Refusal) -> web.StreamResponse:
        """Nearly always with 200."""
        said: dict[str, object] = {"ok": False, "error": refusal.text}
        status, headers = refusal.status, {}
        if isinstance(refusal, rules.No):
            said |= refusal.more
        elif refusal.rule in (METHODS, PARAMETERS):
            word = "unknown_method" if refusal.rule is METHODS else "invalid_arguments"
            said |= {"error": word, "response_metadata": {"messages": [f"[ERROR] {refusal.text}"]}}
            status = 200
        elif refusal.status == 429:
            # The reference has both words; the second is about all that an app posts.
            said["error"] = "rate_limited" if refusal.everywhere else "ratelimited"
        elif refusal.status in rules.FAULTS:
            status, said["error"] = rules.FAULTS[refusal.status]
            said |= {"error": refusal.says} if refusal.says else {}
        if refusal.status == 429:
            headers = {"Retry-After": str(math.ceil(refusal.retry_after))}
        return web.json_response(said, status=status, headers=headers)

    async def _ask(self, request: web.Request) -> web.StreamResponse:
        name = request.match_info["method"]
        known = self.methods.get(name)
        given, token = await parameters.read(
            request, {**known.required, **known.optional} if known else {}
        )
        account, chat = self._account(token), given.get("channel") or given.get("channel_id")
        self._token.set(token)
        return await self._server.running.serve(
            request,
            name,
            given,
            account=account,
            chat=str(chat) if chat else None,
            does=_purpose(name, given),
        )

    async def _connect(self, request: web.Request) -> web.StreamResponse:
        ticket = request.query.get("ticket", "")
        app = self._sockets.app_of(ticket)
        account = self._account(app.token) if app else None
        answer = await self._server.running.serve(
            request, "socket.connect", {"ticket": ticket}, account=account
        )
        return await self._sockets.connected(request) if answer.status == UPGRADE else answer

    async def _upload(self, request: web.Request) -> web.StreamResponse:
        ticket = request.match_info["ticket"]
        bot, _ = self._server.uploads.get(ticket, (None, None))
        given = {"ticket": ticket, "content": await _content(request)}
        return await self._server.running.serve(
            request, "files.upload", given, account=bot.name if bot else None
        )

    async def _download(self, request: web.Request) -> web.StreamResponse:
        token = request.headers.get("Authorization", "").removeprefix("Bearer ")
        bot, given = self._server.bot_of(token), {"file": request.match_info["file"]}
        return await self._server.running.serve(
            request, "files.download", given, account=bot.name if bot else None
        )

    async def _respond(self, request: web.Request) -> web.StreamResponse:
        word = request.match_info["url"]
        given, _ = await parameters.read(request, FIELDS)
        address = self._server.response_urls.get(word)
        account, chat = (address.bot.name, address.chat) if address else (None, None)
        return await self._server.running.serve(
            request, "response_url", {**given, "url": word}, account=account, chat=chat
        )

    def _methods(self) -> dict[str, Method]:
        web_api = {name: self._method(name, asked) for name, asked in self._asked.items()}
        told = {f"socket.{name}": self._frame(_FACTS) for name in EVENT_TYPES}
        frames = {
            "socket.hello": self._frame({"num_connections": int}),
            "socket.disconnect": self._frame({"reason": str}),
            "socket.ping": self._frame({}),
            "socket.pong": self._frame({}),
            "socket.ack": self._frame({"envelope_id": str}, {"payload": dict}, does="acknowledge"),
            "http.request": self._frame(_FACTS),
            "http.answer": self._frame({}, does="acknowledge"),
        }
        others = {
            "apps.connections.open": Method(
                answer=self._open_connection,
                does="receive",
                source=parameters.source("apps.connections.open"),
            ),
            "socket.connect": Method(
                answer=self._sockets.admit, does="receive", required={"ticket": str}
            ),
            "files.upload": Method(
                answer=self._files.upload, required={"ticket": str, "content": bytes}
            ),
            "files.download": Method(
                answer=self._files.download, does="fetch", required={"file": str}
            ),
            "response_url": Method(
                answer=self._responding.respond,
                does="respond",
                required={"url": str},
                optional=FIELDS,
            ),
        }
        return {**web_api, **told, **frames, **others}

    def _method(self, name: str, asked: Asked) -> Method:
        required, optional = parameters.of(name)

        async def answer(call: Call) -> web.StreamResponse:
            bot = self._authorized()
            allow(bot, *asked.scopes)
            settings = self._server.settings
            if settings.rates:
                now = self._server.clock.now()
                self._server.tiers.count(bot.team, name, now, settings.minute)
            said = await asked.answer(self._server, bot, call)
            self._compare(call, {"ok": True, **said})  # type: ignore[dict-item]
            scopes = {
                "x-oauth-scopes": ",".join(sorted(bot.scopes)),
                "x-accepted-oauth-scopes": ",".join(asked.scopes),
            }
            return web.json_response({"ok": True, **said}, headers=scopes)  # type: ignore[dict-item]

        return Method(
            answer=answer,
            does=asked.does,
            required=required,
            optional=optional,
            source=parameters.source(name),
        )

    def _compare(self, call: Call, answer: object) -> None:
        """Note what is not as in Slack's own samples, of the simulator or of the bot."""
        for trouble in specified.troubles_of_request(call.method, call.parameters):
            self._server.running.note_violation(trouble, rules.SPECIFIED, call)
        for trouble in specified.troubles_of_answer(call.method, answer):
            self._server.running.note_violation(trouble, rules.SPECIFIED, call)

    def _frame(
        self,
        required: Mapping[str, type],
        optional: Mapping[str, type] | None = None,
        does: str = "receive",
    ) -> Method:
        """What goes over a socket, or to an app's address: nobody can ask for it."""

        async def answer(call: Call) -> Json:
            raise rules.No("unknown_method", METHODS)

        return Method(answer=answer, does=does, required=required, optional=optional or {})

    def _deed(self, deed: Deed) -> Method:
        async def act(call: Call) -> Json:
            if call.account not in self._server.bots:
                raise ValueError(
                    f"there is no account {call.account}; there are {', '.join(self._server.bots)}"
                )
            return await deed.act(self._server, self._server.bots[call.account], call)

        return Method(
            answer=act, required=deed.required, optional={**deed.optional, "account": str}
        )

    async def _open_connection(self, call: Call) -> Json:
        without_faults_of_events(self._server.running, call.fault)
        return {"url": self._sockets.ticket(self._authorized_app())}

    def _authorized(self) -> Bot:
        """Whose bot token came with the request; raises No for what is none."""
        token = self._token.get()
        if not token:
            raise rules.No("not_authed", rules.TOKEN)
        bot = self._server.bot_of(token)
        if bot is None and self._server.app_of(token):
            raise rules.No("not_allowed_token_type", rules.TOKEN_TYPE)
        if bot is None:
            raise rules.No("invalid_auth", rules.TOKEN)
        if bot.revoked:
            raise rules.No("token_revoked", rules.TOKEN)
        return bot

    def _authorized_app(self) -> App:
        token = self._token.get()
        if not token:
            raise rules.No("not_authed", rules.TOKEN)
        if self._server.bot_of(token):
            raise rules.No("not_allowed_token_type", rules.TOKEN_TYPE)
        app = self._server.app_of(token)
        if app is None:
            raise rules.No("invalid_auth", rules.TOKEN)
        return app

    def _account(self, token: str | None) -> str | None:
        mine = [
            bot.name
            for bot in self._server.bots.values()
            if token and token in (bot.token, bot.app.token)
        ]
        return mine[0] if mine else None


def _purpose(method: str, given: Mapping[str, object]) -> str | None:
    """
    What only the parameters tell: buttons make a question, metadata is for finding what was sent.
    """
    shown = given.get("blocks")
    if (
        method == "chat.postMessage"
        and isinstance(shown, list)
        and [*blocks.buttons(_dicts(shown))]
    ):
        return "ask"
    return (
        "find" if method in _WITH_METADATA and given.get("include_all_metadata") is True else None
    )


def _dicts(values: list[object]) -> list[dict[str, object]]:
    return [each for each in values if isinstance(each, dict)]


async def _content(request: web.Request) -> bytes:
    """The body itself, or the one file of a form."""
    if not request.content_type.startswith("multipart/"):
        return await request.read()
    files = [each for each in (await request.post()).values() if isinstance(each, web.FileField)]
    return files[0].file.read() if files else b""
