"""Checks of agents for `turngate check`: is there such a program, does the address answer."""

from __future__ import annotations

import json
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import aiohttp

from turngate.gateway.agents.endpoint import Endpoint
from turngate.gateway.agents.spec import AgentSpec
from turngate.gateway.domain.ports.finding import Finding
from turngate.gateway.domain.text import cut

_TIMEOUT = aiohttp.ClientTimeout(total=10.0)
_LARGEST_LIST = 4 * 2**20
_MOST_NAMED = 5


def examine_program(spec: AgentSpec) -> list[Finding]:
    """Look for the program of an agent, as its environment would find it."""
    program = spec.argv[0]
    if shutil.which(program, path=spec.env.get("PATH")) is not None:
        return []

    where = f"agents.{spec.name}.argv"
    if "/" in program and Path(program).is_file():
        return [_error(f"{program} is not executable: run chmod +x {program}")]
    if "/" in program:
        return [_error(f"there is no program {program}: correct {where}")]
    return [
        _error(
            f"there is no program {program} on the PATH: install it, or write its whole path in "
            f"{where}"
        )
    ]


async def examine_address(spec: AgentSpec, endpoint: Endpoint) -> list[Finding]:
    """Ask the address of a service. Whatever status it answers with, it is there."""
    try:
        async with _asked(endpoint.url, endpoint) as response:
            status = response.status
    except (aiohttp.ClientError, TimeoutError, OSError) as exc:
        return [_error(_unreachable(spec, endpoint, "url", exc))]

    return _about_key(spec, status) or [Finding(words=f"{_bare(endpoint.url)} answers")]


async def examine_model(
    spec: AgentSpec, endpoint: Endpoint, *, below: str, models: str
) -> list[Finding]:
    """
    Ask a model server whether it takes the key and has the model.

    `below` is the path of the endpoint under the server's address, `models` that of its list.
    """
    parts = urlsplit(endpoint.url)
    url = urlunsplit(parts._replace(path=parts.path.removesuffix(below) + models))
    try:
        async with _asked(url, endpoint) as response:
            status = response.status
            named = _models_in(await _body(response)) if status == 200 else None
    except (aiohttp.ClientError, TimeoutError, OSError) as exc:
        return [_error(_unreachable(spec, endpoint, "base_url", exc))]

    refused = _about_key(spec, status)
    if refused:
        return refused
    if named is None:
        words = (
            f"{_bare(endpoint.url)} answers, but lists no models ({status}); the first message "
            f"will show whether it has {spec.model}"
        )
        return [Finding(words=words)]

    return [_about_model(spec, named)]


@asynccontextmanager
async def _asked(url: str, endpoint: Endpoint) -> AsyncIterator[aiohttp.ClientResponse]:
    # Following a redirect would send the key to another server.
    async with (
        aiohttp.ClientSession(timeout=_TIMEOUT) as http,
        http.get(url, headers=endpoint.headers, allow_redirects=False) as response,
    ):
        yield response


async def _body(response: aiohttp.ClientResponse) -> bytes:
    body = b""
    async for piece in response.content.iter_any():
        body += piece
        if len(body) > _LARGEST_LIST:
            break
    return body


def _models_in(body: bytes) -> list[str] | None:
    """Return the models in a list as OpenAI and Anthropic write it; None if it is none."""
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        return None

    listed = document.get("data") if isinstance(document, dict) else None
    # The rest of a longer list is not asked for: what is missing here may be there.
    if not isinstance(listed, list) or document.get("has_more"):
        return None
    names = [model.get("id") for model in listed if isinstance(model, dict)]
    return [name for name in names if isinstance(name, str)]


def _about_model(spec: AgentSpec, named: list[str]) -> Finding:
    model = spec.model or ""
    # Ollama lists "llama3.2:latest" for what is asked for as "llama3.2".
    if any(name in (model, f"{model}:latest") for name in named):
        return Finding(words=f"the model server answers and has the model {model}")

    some = ", ".join(cut(name, 60) for name in named[:_MOST_NAMED]) or "none"
    more = f" and {len(named) - _MOST_NAMED} more" if len(named) > _MOST_NAMED else ""
    return _error(
        f"the model server has no model {model}; it has {some}{more}: correct "
        f"agents.{spec.name}.model"
    )


def _about_key(spec: AgentSpec, status: int) -> list[Finding]:
    if status not in (401, 403):
        return []
    key = f"agents.{spec.name}.api_key"
    if spec.api_key is None:
        return [_error(f"the server wants a key ({status}): set {key}")]
    return [_error(f"the server does not take our key ({status}): check {key}")]


def _unreachable(spec: AgentSpec, endpoint: Endpoint, key: str, error: Exception) -> str:
    why = (
        "it did not answer in time" if isinstance(error, TimeoutError) else "nothing answers there"
    )
    return (
        f"{_bare(endpoint.url)} cannot be reached: {why}. Start the server, or correct "
        f"agents.{spec.name}.{key}"
    )


def _bare(url: str) -> str:
    """Return a URL without its query, which may hold a secret."""
    return urlunsplit(urlsplit(url)._replace(query="", fragment=""))


def _error(words: str) -> Finding:
    return Finding(words=words, is_error=True)
