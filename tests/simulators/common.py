"""
What all simulators share: every call is recorded and checked, faults come by rule, and tests steer
it all over HTTP.

A simulator is a `Platform` (its methods, its rules, what people can do there) inside a `Simulator`
(this file). The real SDK talks to the platform's own addresses. Everything below `/_control/` is
for tests, in any language:

    POST   /_control/faults      one rule or a list of them: {"match": {"does": "send", "chat":
    "7"}, "kind": "reset",
                                 "times": 1, "skip": 0}; all fields and kinds are in `faults.py`.
                                 `match` may name
                                 `method`, `does` (see below), `account`, `chat` and any parameter
                                 of the call
    GET    /_control/faults      the rules that are left
    DELETE /_control/faults      nothing goes wrong any more
    GET    /_control/calls       what the bot asked for: method, does, account, chat, parameters,
    at, answered; the
                                 query selects as `match` does
    GET    /_control/violations  what no correct bot would ever have asked for; tests want this to
    be empty
    GET    /_control/rules       what is enforced here, and where it is documented
    GET    /_control/connections how many connections of bots are open
    GET    /_control/            the names of everything there is
    POST   /_control/NAME        what people do and see, with parameters as JSON

`does` is what a method is for, in words that are the same on every platform: `receive`,
`acknowledge`, `send`, `edit`, `ask`, `send_file`, `fetch`, `type`, `react`, `find`, `history`.
People do the same things on every platform, too (`account` is "main" where it is left out, `at` is
in seconds since 1970):

    say {account, chat, user, text, at?, id?, repeat?, file?: {name, mime, content in base64}}
    -> {id}
    change {account, chat, id, text}             a person edits what he wrote
    press {account, chat, user, message, nonce}  a person presses a button
    open {account, chat}                         this chat exists, though nobody has said anything
    there
    block {account, chat}                        this chat takes nothing from the bot any more
    delete {account, id}                         somebody removes a message of the bot
    forget {account, before}                     the platform no longer knows what came before
    messages {account}  what people see of the bot: [{id, chat, text, size, edits, buttons,
    reactions, file, reply_to}]
    updates {account}   what people did and how far it has come: [{id, chat, text, reactions,
    acknowledged}]
    typing {account}    the chats that were shown that the bot writes, once for each time

Strictness: a parameter that is missing, unknown or of another type is refused and recorded as a
violation. So is a reply that the SDK's own types do not take (`Method.validate`): then the
simulator is wrong.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Protocol

from aiohttp import web

from tests.simulators.faults import Fault, Faults

CONTROL = "/_control/"

Json = object


@dataclass(frozen=True, slots=True)
class Rule:
    """
    Something the platform enforces, and where it says so.

    What is `strict` no correct bot ever does: breaking it is a violation.
    """

    name: str
    source: str
    strict: bool = False


class Refusal(Exception):
    """The platform says no. How that looks is the platform's business."""

    def __init__(
        self,
        status: int,
        text: str,
        *,
        rule: Rule | None = None,
        retry_after: float = 0.0,
        everywhere: bool = False,
    ) -> None:
        super().__init__(text)
        self.status = status
        self.text = text
        self.rule = rule
        self.retry_after = retry_after
        self.everywhere = everywhere
        self.says = ""  # in the place of its own words


@dataclass(slots=True, kw_only=True)
class Call:
    """
    One request of a bot, or one deed of a person. `fault` is what is about to go wrong with it.
    """

    method: str
    parameters: Mapping[str, object]
    does: str | None = None
    account: str | None = None
    chat: str | None = None
    at: float = field(default_factory=time.time)
    answered: str = "not yet"
    fault: Fault | None = None

    @property
    def facts(self) -> dict[str, object]:
        """What a rule can be about."""
        own = {"method": self.method, "does": self.does, "account": self.account, "chat": self.chat}
        return {
            **self.parameters,
            **{name: value for name, value in own.items() if value is not None},
        }

    def as_json(self) -> dict[str, object]:
        """For whoever asks later; of files only the size."""
        shown = {name: _shown(value) for name, value in self.parameters.items()}
        return {
            "method": self.method,
            "does": self.does,
            "account": self.account,
            "chat": self.chat,
            "parameters": shown,
            "at": self.at,
            "answered": self.answered,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """
    One thing that can be asked for. `answer` raises Refusal, or returns JSON or a whole response.

    `validate` is called with the JSON of every answer and raises if the SDK would not understand
    it.
    """

    answer: Callable[[Call], Awaitable[Json | web.StreamResponse]]
    does: str | None = None
    required: Mapping[str, type] = field(default_factory=dict)
    optional: Mapping[str, type] = field(default_factory=dict)
    source: str = "the simulator's own documentation"
    validate: Callable[[Json], object] | None = None


class Platform(Protocol):
    """What a simulator is for one platform."""

    @property
    def methods(self) -> Mapping[str, Method]:
        """What bots can ask for."""

    @property
    def deeds(self) -> Mapping[str, Method]:
        """What people can do and see."""

    @property
    def rules(self) -> Sequence[Rule]:
        """All that it may refuse for."""

    @property
    def own_faults(self) -> Mapping[str, str]:
        """
        Kinds of faults that only it has, each with what it does. A method finds its own in
        `call.fault`.
        """

    def routes(self, simulator: Simulator) -> Iterable[web.RouteDef]:
        """
        Its own addresses. A handler makes a request into a call and returns `await
        simulator.serve(...)`.
        """

    def at_work(self) -> AbstractAsyncContextManager[object]:
        """
        Entered while the simulator answers: for what happens without being asked for, such as
        retries.
        """

    def reply(self, answer: Json) -> web.StreamResponse:
        """What an answer looks like."""

    def refuse(self, refusal: Refusal) -> web.StreamResponse:
        """What a refusal looks like."""


class Simulator:
    """
    A platform that is recorded, checked and broken on purpose. `url` is where it is, once it is at
    work.
    """

    def __init__(self, platform: Platform) -> None:
        self.url = ""
        self.faults = Faults(platform.own_faults)
        self._platform = platform
        self._calls: list[Call] = []
        self._violations: list[dict[str, object]] = []
        self._connections: set[asyncio.BaseTransport] = set()

    def at_work(self) -> AbstractAsyncContextManager[object]:
        """Whatever happens there without being asked for."""
        return self._platform.at_work()

    def application(self) -> web.Application:
        """Everything it answers."""
        app = web.Application(client_max_size=64 * 1024 * 1024)
        app.add_routes(self._platform.routes(self))
        app.add_routes([web.route("*", CONTROL + "{name:.*}", self._control)])
        return app

    async def serve(
        self,
        request: web.Request,
        method: str,
        parameters: Mapping[str, object],
        *,
        account: str | None = None,
        chat: str | None = None,
        does: str | None = None,
    ) -> web.StreamResponse:
        """
        Answer one request: checked, recorded, and with whatever goes wrong with it.

        `does` is for a method of which only the parameters tell what it is for.
        """
        if request.transport is not None:
            self._connections.add(request.transport)
        call = self._recorded(method, parameters, account, chat)
        call.does = does or call.does
        try:
            asked = self._checked(call)
            return await self._answer(request, asked, call)
        except Refusal as refusal:
            call.answered = f"refused: {refusal.status} {refusal.text}"
            self._note(call, refusal)
            return self._platform.refuse(refusal)

    def frame(
        self,
        method: str,
        parameters: Mapping[str, object],
        *,
        account: str | None = None,
        chat: str | None = None,
    ) -> Call:
        """
        The same for one frame on a socket, whichever way it goes: recorded and checked, and `fault`
        says what is to go wrong with it. The platform does that itself. Raises Refusal for what is
        wrong already.
        """
        call = self._recorded(method, parameters, account, chat)
        try:
            self._checked(call)
        except Refusal as refusal:
            call.answered = f"refused: {refusal.text}"
            self._note(call, refusal)
            raise
        call.fault, call.answered = self.faults.take(call.facts), "done"
        return call

    def note_violation(self, what: str, rule: Rule, call: Call | None = None) -> None:
        """For what is found out of the ordinary way, on a socket for example."""
        self._violations.append(
            {
                "rule": rule.name,
                "source": rule.source,
                "what": what,
                "method": call.method if call else None,
            }
        )

    def _recorded(
        self, method: str, parameters: Mapping[str, object], account: str | None, chat: str | None
    ) -> Call:
        asked = self._platform.methods.get(method)
        does = asked.does if asked else None
        call = Call(method=method, parameters=parameters, does=does, account=account, chat=chat)
        self._calls.append(call)
        return call

    def _checked(self, call: Call) -> Method:
        asked = self._platform.methods.get(call.method)
        if asked is None:
            raise Refusal(404, f"there is no method {call.method}", rule=METHODS)
        check(call.method, asked, call.parameters)
        return asked

    async def _answer(self, request: web.Request, asked: Method, call: Call) -> web.StreamResponse:
        fault = call.fault = self.faults.take(call.facts)
        if fault is not None and not fault.after:
            broken = await _break(request, call, fault, None)
            if broken is not None:
                return broken
        answer = await asked.answer(call)
        response = (
            answer
            if isinstance(answer, web.StreamResponse)
            else self._validated(asked, call, answer)
        )
        call.answered = "done"
        if fault is not None and fault.after:
            return await _break(request, call, fault, response) or response
        return response

    def _validated(self, asked: Method, call: Call, answer: Json) -> web.StreamResponse:
        if asked.validate is not None:
            try:
                asked.validate(answer)
            except Exception as exc:  # an SDK's types may raise anything
                raise Refusal(
                    500, f"the simulator's own reply is wrong: {exc}", rule=REPLIES
                ) from exc
        return self._platform.reply(answer)

    def _note(self, call: Call, refusal: Refusal) -> None:
        rule = refusal.rule
        if rule is None:
            return
        if rule not in (*COMMON_RULES, *self._platform.rules):
            self.note_violation(f"{rule.name} is enforced and not listed", REPLIES, call)
        if rule.strict:
            self.note_violation(refusal.text, rule, call)

    async def _control(self, request: web.Request) -> web.Response:
        """The doors for tests. Whatever is asked wrongly is told so."""
        name = request.match_info["name"]
        try:
            return web.json_response(await self._controlled(request, name))
        except (Refusal, ValueError) as exc:
            return web.json_response({"error": str(exc)}, status=400)

    async def _controlled(self, request: web.Request, name: str) -> Json:
        match request.method, name:
            case "GET", "":
                return sorted(
                    [*self._platform.deeds, "faults", "calls", "violations", "rules", "connections"]
                )
            case "GET", "faults":
                return self.faults.left()
            case "POST", "faults":
                rules = await request.json()
                for rule in rules if isinstance(rules, list) else [rules]:
                    self.faults.add(rule)
                return self.faults.left()
            case "DELETE", "faults":
                self.faults.clear()
                return []
            case "GET", "calls":
                wanted = Fault(kind="", match=dict(request.query))
                return [call.as_json() for call in self._calls if wanted.is_for(call.facts)]
            case "GET", "violations":
                return self._violations
            case "GET", "rules":
                rules = (*COMMON_RULES, *self._platform.rules)
                return [
                    {"name": rule.name, "source": rule.source, "strict": rule.strict}
                    for rule in rules
                ]
            case "GET", "connections":
                return sum(not connection.is_closing() for connection in self._connections)
            case "POST", deed if deed in self._platform.deeds:
                return await self._do(deed, await request.json())
            case _:
                raise ValueError(
                    f"nothing here answers {request.method} {CONTROL}{name}; GET {CONTROL} lists "
                    "the names"
                )

    async def _do(self, deed: str, parameters: dict[str, object]) -> Json:
        asked = self._platform.deeds[deed]
        check(deed, asked, parameters)
        account = str(parameters.get("account", "main"))
        return await asked.answer(Call(method=deed, parameters=parameters, account=account))


METHODS = Rule(
    "known methods", source="the platform's reference: there is no other method", strict=True
)
PARAMETERS = Rule(
    "parameters",
    source="the platform's reference of each method, named in the refusal",
    strict=True,
)
REPLIES = Rule(
    "replies", source="the SDK's own types, and the list of rules of each simulator", strict=True
)
COMMON_RULES = (METHODS, PARAMETERS, REPLIES)


def check(name: str, method: Method, parameters: Mapping[str, object]) -> None:
    """Raises Refusal for a parameter that is missing, unknown or of another type."""
    known = {**method.required, **method.optional}
    troubles = [f"{each} is missing" for each in method.required if each not in parameters]
    troubles += [f"{each} is unknown" for each in parameters if each not in known]
    troubles += [
        f"{each} is {type(value).__name__} and not {known[each].__name__}"
        for each, value in parameters.items()
        if each in known and not _is_of(value, known[each])
    ]
    if troubles:
        raise Refusal(400, f"{name}: {'; '.join(troubles)} ({method.source})", rule=PARAMETERS)


def _is_of(value: object, kind: type) -> bool:
    if kind is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    return isinstance(value, kind) and (kind is bool or not isinstance(value, bool))


def _shown(value: object) -> object:
    return f"{len(value)} bytes" if isinstance(value, bytes) else value


async def _break(
    request: web.Request, call: Call, fault: Fault, response: web.StreamResponse | None
) -> web.StreamResponse | None:
    """What the caller gets instead. None for a kind that is the platform's own business."""
    call.answered = f"{'done, then ' if fault.after else ''}{fault.kind}"
    match fault.kind:
        case "reset" | "lost answer":
            if request.transport is not None:
                request.transport.abort()
            return web.Response()
        case "half-open":
            await asyncio.Event().wait()
        case "slow":
            await asyncio.sleep(fault.seconds)
        case "400" | "401" | "403" | "404" | "409" | "429" | "500" as status:
            text = fault.says or f"a fault: {fault.kind}"
            refusal = Refusal(
                int(status), text, retry_after=fault.retry_after, everywhere=fault.everywhere
            )
            refusal.says = fault.says
            raise refusal
        case "502 html":
            page = f"<html><h1>502 Bad Gateway</h1>{fault.says}</html>"
            return web.Response(status=502, text=page, content_type="text/html")
        case "html":
            return web.Response(
                text=f"<!DOCTYPE html><title>Log in</title>{fault.says}", content_type="text/html"
            )
        case "garbage":
            return web.Response(
                body=b"\xff\xfe\x00garbage\x80" + fault.says.encode(),
                content_type="application/json",
            )
        case "wrong types":
            return web.json_response(
                {"id": {"no": [None]}, "ok": "perhaps", "retry_after": "later", "result": 7}
            )
        case "truncated":
            return await _truncated(request, response)
    return None


async def _truncated(
    request: web.Request, response: web.StreamResponse | None
) -> web.StreamResponse:
    """Half of the answer. A file is announced whole and breaks off."""
    body = (
        response.body
        if isinstance(response, web.Response) and isinstance(response.body, bytes)
        else b'{"id": "'
    )
    if isinstance(response, web.Response) and response.content_type == "application/json":
        return web.Response(body=body[: len(body) // 2], content_type="application/json")
    half = web.StreamResponse()
    half.content_length = len(body)
    await half.prepare(request)
    await half.write(body[: len(body) // 2])
    if request.transport is not None:
        request.transport.close()  # what was written still arrives
    return half
