"""
Discord as the common part of all simulators wants it: methods, deeds, rules, addresses, and how
answers look.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import nullcontext

from aiohttp import web

from tests.simulators.common import Call, Json, Method, Refusal, Simulator
from tests.simulators.discord import specification
from tests.simulators.discord.commands import Commands
from tests.simulators.discord.gateway import REQUEST, Gateway
from tests.simulators.discord.interactions import Interactions
from tests.simulators.discord.links import file_behind
from tests.simulators.discord.messages import Messages
from tests.simulators.discord.operating import Operating
from tests.simulators.discord.people import People
from tests.simulators.discord.places import Places
from tests.simulators.discord.posting import Posting
from tests.simulators.discord.rates import Rates
from tests.simulators.discord.requests import parameters_of
from tests.simulators.discord.rules import (
    AUTHORISED,
    CODES,
    DOCS,
    RULES,
    SENTENCES,
    SPECIFICATION,
    USER_AGENT,
    Refused,
    snowflake,
    unknown,
)
from tests.simulators.discord.sessions import Sessions
from tests.simulators.discord.settings import Settings
from tests.simulators.discord.showing import Showing
from tests.simulators.discord.table import Entry
from tests.simulators.discord.world import Bot, Payload, World

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]

API, GATEWAY, CDN = "/api/v10", "/gateway", "/cdn"
TOKENS = {"main": "main.discord.token", "support": "support.discord.token"}
"""The bots that are there from the start."""


class Discord:
    """All of it. `world` may be looked at by tests on the same event loop."""

    own_faults: Mapping[str, str] = {
        "duplicate": "a dispatch comes twice",
        "reorder": "a dispatch comes after the next one",
        "deaf": "a frame is lost: a dispatch never comes, not even after a resume; what a bot "
        "says is not heard",
        "cloudflare": "429 from Cloudflare: no JSON, no Via",
        "missing access": "403 with code 50001",
        "code": "400 with the code that `says` has",
    }
    rules = RULES

    def __init__(
        self, *, settings: Settings | None = None, tokens: Mapping[str, str] = TOKENS
    ) -> None:
        settings = settings or Settings()
        self.world = World(dict(tokens))
        sessions = Sessions(self.world)
        posting = Posting(self.world, sessions)
        self._rates = Rates(settings)
        self._gateway = Gateway(self.world, sessions, settings)
        self._interactions = Interactions(self.world, sessions, posting)
        messages = Messages(self.world, sessions, posting, settings)
        places = Places(self.world, sessions, posting)
        people = People(self.world, sessions, posting, messages, places, self._interactions)
        showing = Showing(self.world, sessions, people, self._interactions)
        operating = Operating(self.world, sessions, settings)
        commands = Commands(self.world)
        self._entries = [
            *messages.entries,
            *places.entries,
            *commands.entries,
            *self._interactions.entries,
        ]
        cdn = Method(
            answer=self._fetch,
            does="fetch",
            required=_LINK,
            optional=_SIGNED,
            source=f"{DOCS}/reference",
        )
        self.methods = (
            {entry.name: self._method(entry) for entry in self._entries}
            | self._gateway.methods
            | {"cdn": cdn}
        )
        self.deeds = {
            each.name: self._deed(each)
            for each in (*people.entries, *showing.entries, *operating.entries)
        }

    def routes(self, simulator: Simulator) -> Iterable[web.RouteDef]:
        """
        REST, the gateway and the files, each below a path of its own. What is longest is asked
        first.
        """
        self._gateway.simulator = simulator
        variants = [entry for entry in self._entries if "+" not in entry.name]
        fixed_first = sorted(variants, key=lambda entry: (entry.path.count("{"), entry.path))
        yield from (self._route(simulator, entry) for entry in fixed_first)
        yield web.route("*", API + "/{path:.*}", self._lost(simulator))
        yield web.get(GATEWAY, self._plain(simulator, "gateway"))
        yield web.get(GATEWAY + "/", self._plain(simulator, "gateway"))
        yield web.get(CDN + "/attachments/{channel}/{file}/{name}", self._plain(simulator, "cdn"))

    def at_work(self) -> nullcontext[None]:
        """Nothing happens here by itself."""
        return nullcontext()

    def reply(self, answer: Json) -> web.Response:
        """Without a charset: discord.py takes nothing else for JSON."""
        if answer is None:
            return web.Response(status=204)
        return web.Response(body=json.dumps(answer).encode(), content_type="application/json")

    def refuse(self, refusal: Refusal) -> web.Response:
        """
        A message and a code; for a form, what is wrong with which field; for 429, how long to wait.
        """
        if refusal.status == 429:
            return self._throttle(refusal)
        code = refusal.code if isinstance(refusal, Refused) else CODES.get(refusal.status, 0)
        text = (
            refusal.text
            if refusal.rule or refusal.says
            else SENTENCES.get(refusal.status, refusal.text)
        )
        said: Payload = {"message": text, "code": code}
        if isinstance(refusal, Refused) and refusal.errors is not None:
            said |= {"message": "Invalid Form Body", "errors": refusal.errors}
        return web.Response(
            status=refusal.status, body=json.dumps(said).encode(), content_type="application/json"
        )

    def _throttle(self, refusal: Refusal) -> web.Response:
        said = {
            "message": "You are being rate limited.",
            "retry_after": refusal.retry_after,
            "global": refusal.everywhere,
        }
        headers = {
            "Retry-After": f"{refusal.retry_after:.3f}",
            "Via": "1.1 google",
            "X-RateLimit-Scope": "global" if refusal.everywhere else "user",
            **({"X-RateLimit-Global": "true"} if refusal.everywhere else {}),
        }
        body = json.dumps(said).encode()
        return web.Response(status=429, body=body, content_type="application/json", headers=headers)

    def _route(self, simulator: Simulator, entry: Entry) -> web.RouteDef:
        async def answer(request: web.Request) -> web.StreamResponse:
            REQUEST.set(request)
            name = entry.name
            parameters = await parameters_of(request, {**entry.required, **entry.optional})
            if name == "create_message":
                name += (
                    "+files"
                    if "filenames" in parameters
                    else "+buttons"
                    if parameters.get("components")
                    else ""
                )
            bot, chat = self._bot(entry, request), self._chat(request)
            account = bot.account if bot else None
            response = await simulator.serve(request, name, parameters, account=account, chat=chat)
            if not response.prepared:
                response.headers.update(self._rates.headers(account, name, chat))
                response.set_status(entry.status if response.status == 200 else response.status)
            return response

        return web.route(entry.verb, API + entry.path, answer)

    def _compare(self, entry: Entry, call: Call, answer: Json) -> None:
        """Compare an exchange that went well with Discord's own specification."""
        request = REQUEST.get()
        path = entry.path
        if request.match_info.get("message") == "@original":
            path = path.replace("{message}", "@original")
        elsewhere = {*request.match_info, *request.query}
        sent = {name: each for name, each in call.parameters.items() if name not in elsewhere}
        whole = sent.get("list") if set(sent) == {"list"} else None
        asked = None if whole is not None else sent
        status = 204 if answer is None else entry.status
        simulator = self._gateway.simulator
        for fault in (
            *specification.faults_of_request(entry.verb, path, request.query, asked, whole),
            *specification.faults_of_answer(entry.verb, path, status, answer),
        ):
            if simulator is not None:
                simulator.note_violation(fault, SPECIFICATION, call)

    @staticmethod
    def _plain(simulator: Simulator, name: str) -> Answer:
        async def answer(request: web.Request) -> web.StreamResponse:
            REQUEST.set(request)
            return await simulator.serve(request, name, {**request.query, **request.match_info})

        return answer

    @staticmethod
    def _lost(simulator: Simulator) -> Answer:
        async def answer(request: web.Request) -> web.StreamResponse:
            return await simulator.serve(
                request, f"{request.method} /{request.match_info['path']}", {}
            )

        return answer

    def _bot(self, entry: Entry, request: web.Request) -> Bot | None:
        if entry.known_by == "key":
            return self._interactions.bot_of(request.match_info["token"])
        if entry.known_by == "nothing":
            return next(iter(self.world.bots.values()))
        return self.world.bot_of(request.headers.get("Authorization", "").removeprefix("Bot "))

    def _chat(self, request: web.Request) -> str | None:
        happened = self._interactions.all.get(request.match_info.get("token", ""))
        return str(happened.place.id) if happened else request.match_info.get("channel")

    def _method(self, entry: Entry) -> Method:
        async def answer(call: Call) -> Json | web.StreamResponse:
            bot = self.world.bots.get(call.account or "")
            if bot is None and entry.known_by == "key":
                raise unknown("Interaction" if "interaction" in call.parameters else "Webhook")
            if bot is None:
                raise Refused(401, 0, "401: Unauthorized", rule=AUTHORISED)
            if entry.known_by == "token" and not REQUEST.get().headers.get(
                "User-Agent", ""
            ).startswith("DiscordBot ("):
                raise Refused(403, 40333, "internal network error", rule=USER_AGENT)
            kind = call.fault.kind if call.fault else None
            if kind == "cloudflare":
                return web.Response(
                    status=429, text="error code: 1015", headers={"Retry-After": "1"}
                )
            if kind == "missing access":
                raise Refused(403, 50001, "Missing Access", rule=AUTHORISED)
            if kind == "code" and call.fault is not None:
                raise Refused(400, int(call.fault.says), "not now", rule=AUTHORISED)
            self._rates.take(bot.account, entry.name, call.chat)
            answer = await entry.act(bot, call)
            self._compare(entry, call, answer)
            return answer

        source = f"{DOCS}/reference, {entry.verb} {entry.path}"
        return Method(
            answer=answer,
            does=entry.does,
            required=entry.required,
            optional=entry.optional,
            source=source,
        )

    def _deed(self, entry: Entry) -> Method:
        async def answer(call: Call) -> Json:
            if call.account not in self.world.bots:
                raise ValueError(
                    f"there is no account {call.account}; there are {', '.join(self.world.bots)}"
                )
            return await entry.act(self.world.bots[call.account], call)

        source = "the docstring of tests/simulators/discord"
        return Method(
            answer=answer, required=entry.required, optional=entry.optional, source=source
        )

    async def _fetch(self, call: Call) -> web.Response:
        file = file_behind(self.world, snowflake(call.parameters["file"], "file"), call.parameters)
        return web.Response(body=file.content, headers={"Content-Type": file.mime})


_LINK = {"channel": str, "file": str, "name": str}
_SIGNED = {"ex": str, "is": str, "hm": str}
