"""
Which parameters a method takes, and how they are read.

The reference is slack_sdk's own client: the signature of each of its methods says what Slack knows.
What it joins with commas (`users`, `types`) is a word here, what it sends as JSON is decoded,
wherever it stood.
"""

from __future__ import annotations

import inspect
import json
import types
from collections.abc import Mapping
from collections.abc import Sequence as AbstractSequence
from functools import cache
from typing import Any, Union, get_args, get_origin

from aiohttp import web
from slack_sdk.models.metadata import Metadata
from slack_sdk.web.async_client import AsyncWebClient

_JSON_LISTS_OF_WORDS = {"loading_messages"}
_ANYWHERE = {"team_id": str}
"""What the SDK adds to every call of an app that was asked for one workspace."""
_BOOLS = {"true": True, "1": True, "false": False, "0": False}
_NOT_SENT = {"self", "kwargs", "app_token"}


@cache
def of(method: str) -> tuple[Mapping[str, type], Mapping[str, type]]:
    """What is required and what is optional."""
    signature = inspect.signature(getattr(AsyncWebClient, method.replace(".", "_")))
    named = {name: each for name, each in signature.parameters.items() if name not in _NOT_SENT}
    kinds = {name: _kind(name, each.annotation) for name, each in named.items()}
    required = {name for name, each in named.items() if each.default is inspect.Parameter.empty}
    return (
        {name: kind for name, kind in kinds.items() if name in required},
        {**_ANYWHERE, **{name: kind for name, kind in kinds.items() if name not in required}},
    )


def source(method: str) -> str:
    """Where a method is documented."""
    return f"https://docs.slack.dev/reference/methods/{method}"


async def read(
    request: web.Request, known: Mapping[str, type]
) -> tuple[dict[str, object], str | None]:
    """
    Everything that was passed, each value as its type has it where that is possible, and the token.
    """
    given: dict[str, object] = dict(request.query)
    if request.content_type == "application/json":
        given |= await _body(request)
    elif request.can_read_body:
        given |= dict(await request.post())
    header = request.headers.get("Authorization", "")
    token = header.removeprefix("Bearer ") if header else given.get("token")
    given.pop("token", None)
    return {name: _typed(value, known.get(name, str)) for name, value in given.items()}, token  # type: ignore[return-value]


async def _body(request: web.Request) -> dict[str, object]:
    try:
        body = await request.json()
    except ValueError:
        return {"a body that is no JSON": ""}
    return body if isinstance(body, dict) else {"a body that is no object": ""}


def _typed(value: object, kind: type) -> object:
    """As its type has it; what cannot be is left for the check to find."""
    if not isinstance(value, str) or kind is str:
        return value
    if kind is bool:
        return _BOOLS.get(value.lower(), value)
    try:
        decoded = json.loads(value)
    except ValueError:
        return value
    return decoded if isinstance(decoded, kind) else value


def _kind(name: str, annotation: object) -> type:
    """The one Python type that stands for an annotation."""
    members = _members(annotation)
    for member in members:
        if get_origin(member) in (list, AbstractSequence):
            of_words = get_args(member) == (str,) and name not in _JSON_LISTS_OF_WORDS
            return str if of_words else list
    if any(get_origin(member) is dict or member in (dict, Metadata) for member in members):
        return dict
    return next((member for member in members if member in (bool, int)), str)  # type: ignore[return-value]


def _members(annotation: Any) -> tuple[Any, ...]:
    return (
        get_args(annotation)
        if get_origin(annotation) in (Union, types.UnionType)
        else (annotation,)
    )
