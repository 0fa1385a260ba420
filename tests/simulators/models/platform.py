"""The server behind all protocols: whose key it is, what is said, and what goes wrong."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import nullcontext
from types import ModuleType

from aiohttp import web

from tests.simulators.common import Call, Json, Method, Refusal, Rule, Simulator
from tests.simulators.models import anthropic, openai, responses, too_long
from tests.simulators.models.script import Script
from tests.simulators.models.wire import WAYS, Streamed, broken, pieces_of, split_characters

KEY = "sk-simulated"

OWN_FAULTS = {
    "529": "too many people want something",
    "no stream_options": "400 for a field that this server does not know",
    "no max_tokens": "400 with the word that is wanted instead",
    "silent": "not even the head of an answer",
    "cut": "the connection breaks half-way",
    "cut at once": "the connection breaks before the first event",
    "ends early": "the stream ends half-way as if that were all",
    "stall": "half of the answer, then nothing for ever",
    "error inside": "half of the answer, then an error in the protocol's own form",
    "error first": "200, then an error before everything else",
    "garbage inside": "half of the answer, then something that is no JSON",
    "invalid utf-8": "bytes in the middle that are no text",
    "long comment": "a line of a megabyte in the middle",
    "endless line": "a line without an end",
    "endless": "it never stops talking",
}

CREDENTIALS = Rule("credentials", source="the docstring of tests/simulators/models")
EXISTS = Rule("exists", source="the docstring of tests/simulators/models")

_PROTOCOLS: Mapping[str, ModuleType] = {
    "completions": openai,
    "messages": anthropic,
    "responses": responses,
}
_BROKEN = ("stall", "error inside", "garbage inside", "long comment", "endless line", "endless")
_WORDS = {"400": "a fault: 400", "no stream_options": "Unknown field: stream_options"}
_WORDS["no max_tokens"] = (
    "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."
)


class Models:
    """The platform."""

    own_faults = OWN_FAULTS
    rules = (
        CREDENTIALS,
        EXISTS,
        openai.LEGAL,
        responses.LEGAL,
        anthropic.LEGAL,
        anthropic.VERSION,
    )

    def __init__(self, *, pause: float = 0.0) -> None:
        self._scripts: dict[str | None, Script] = {None: Script(pause=pause)}
        self._streaming = 0
        self.methods = {
            name: Method(
                answer=self._answer,
                does="answer",
                required=protocol.REQUIRED,
                optional=protocol.OPTIONAL,
                source=protocol.LEGAL.source,
            )
            for name, protocol in _PROTOCOLS.items()
        }
        written = {
            "model": str,
            "pieces": list,
            "thoughts": list,
            "signature": str,
            "calls": list,
            "finish": str,
        }
        written |= {"usage": dict, "pause": float, "ways": list, "window": int, "wording": str}
        self.deeds = {
            "script": Method(answer=self._write, optional=written),
            "streaming": Method(answer=self._count),
        }

    def routes(self, simulator: Simulator) -> Iterable[web.RouteDef]:
        """All protocols, and an address that has moved for each."""

        async def of_openai(request: web.Request) -> web.StreamResponse:
            key = request.headers.get("Authorization", "").removeprefix("Bearer ")
            method = request.path.rpartition("/")[2]
            return await simulator.serve(request, method, await request.json(), account=key or None)

        async def messages(request: web.Request) -> web.StreamResponse:
            if request.headers.get("anthropic-version") != "2023-06-01":
                simulator.note_violation("anthropic-version is missing", anthropic.VERSION)
            key = request.headers.get("x-api-key")
            return await simulator.serve(request, "messages", await request.json(), account=key)

        return [
            web.post("/v1/chat/completions", of_openai),
            web.post("/v1/responses", of_openai),
            web.post("/v1/messages", messages),
            web.post("/moved/chat/completions", _elsewhere),
            web.post("/moved/responses", _elsewhere),
            web.post("/moved/v1/messages", _elsewhere),
        ]

    def at_work(self) -> nullcontext[None]:
        """Nothing happens here without being asked for."""
        return nullcontext()

    def reply(self, answer: Json) -> web.StreamResponse:
        """Answers make their own responses."""
        return web.json_response(answer)

    def refuse(self, refusal: Refusal) -> web.StreamResponse:
        """In a form that all protocols read."""
        kind = {
            401: "authentication_error",
            404: "not_found_error",
            429: "rate_limit_error",
            529: "overloaded_error",
        }
        error = {
            "type": kind.get(refusal.status, "invalid_request_error"),
            "message": refusal.text,
            "code": None,
        }
        headers = {"retry-after": f"{refusal.retry_after:g}"} if refusal.retry_after else {}
        return web.json_response(
            {"type": "error", "error": error}, status=refusal.status, headers=headers
        )

    async def _write(self, call: Call) -> Json:
        strange = set(_list(call.parameters.get("ways"))) - set(WAYS)
        if strange:
            raise Refusal(400, f"there is no way {sorted(strange)}; there are {sorted(WAYS)}")
        fields = {name: value for name, value in call.parameters.items() if name != "model"}
        model = call.parameters.get("model")
        self._scripts[model if isinstance(model, str) else None] = Script(**fields)  # type: ignore[arg-type]
        return {}

    async def _count(self, call: Call) -> Json:
        return self._streaming

    def _counted(self, more: int) -> None:
        self._streaming += more

    async def _answer(self, call: Call) -> Json | web.StreamResponse:
        if call.account not in (None, KEY):
            raise Refusal(
                401,
                f"Incorrect API key provided: {call.account}. Get another one.",
                rule=CREDENTIALS,
            )
        if call.parameters["model"] == "no-such-model":
            raise Refusal(404, "The model `no-such-model` does not exist", rule=EXISTS)
        protocol = _PROTOCOLS[call.method]
        protocol.check(call.parameters)
        kind = call.fault.kind if call.fault else ""
        _refuse_for(kind, call.parameters)
        if kind == "silent":
            await self._say_nothing()
        script = self._scripts.get(str(call.parameters["model"]), self._scripts[None])
        refused = too_long.refusal(call.parameters, script.window, script.wording)
        if refused is not None:
            return refused
        said = (
            _echo(protocol.heard(call.parameters)) if script.pieces is None else list(script.pieces)
        )
        if "whole" in script.ways or not call.parameters.get("stream"):
            return web.json_response(protocol.whole(script, said, call.parameters))
        return self._streamed(protocol, script, said, call)

    async def _say_nothing(self) -> None:
        self._counted(1)
        try:
            await asyncio.Event().wait()
        finally:
            self._counted(-1)

    def _streamed(
        self, protocol: ModuleType, script: Script, said: list[str], call: Call
    ) -> Streamed:
        said = split_characters(said) if "split characters" in script.ways else said
        right = list(pieces_of(protocol.events(script, said, call.parameters), script.ways))
        kind = call.fault.kind if call.fault else ""
        half, error = right[: len(right) // 2], protocol.error("a fault: overloaded")
        if kind in ("cut", "ends early"):
            return Streamed(_paused(half, script.pause), self._counted, abort=kind == "cut")
        if kind == "cut at once":
            return Streamed(_paused([], 0.0), self._counted, abort=True)
        if kind == "error first":
            return Streamed(_paused(list(pieces_of(iter([error]), ())), 0.0), self._counted)
        if kind == "invalid utf-8":
            right = [piece.replace(b"wonderful", b"wonder\xff\xfeful") for piece in right]
        elif kind in _BROKEN:
            return Streamed(broken(kind, right, error, script.ways), self._counted)
        return Streamed(_paused(right, script.pause), self._counted)


async def _elsewhere(request: web.Request) -> web.StreamResponse:
    return web.Response(
        status=308,
        headers={"Location": request.path.replace("/moved", "/v1").replace("/v1/v1", "/v1")},
    )


def _refuse_for(kind: str, parameters: Mapping[str, object]) -> None:
    if kind == "529":
        raise Refusal(529, "Overloaded")
    field = kind.removeprefix("no ")
    if kind in _WORDS and (kind == "400" or field in parameters):
        raise Refusal(400, _WORDS[kind])


def _echo(text: str) -> list[str]:
    words = f"You said: {text}".split(" ")
    return [word if at == 0 else f" {word}" for at, word in enumerate(words)]


async def _paused(pieces: Sequence[bytes], pause: float) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece
        if pause:
            await asyncio.sleep(pause)


def _list(value: object) -> list[str]:
    return (
        [json.dumps(each) if not isinstance(each, str) else each for each in value]
        if isinstance(value, list)
        else []
    )
