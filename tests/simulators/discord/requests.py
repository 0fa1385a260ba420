"""
The parameters of a request, from wherever they are: the path, the query, a body of JSON, a form
with files.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from aiohttp import BodyPartReader, web


async def parameters_of(request: web.Request, known: Mapping[str, type]) -> dict[str, object]:
    """
    In an address all are words, so those that should be numbers become them. A list is the
    parameter `list`.
    """
    query = {name: _typed(value, known.get(name, str)) for name, value in request.query.items()}
    if request.content_type.startswith("multipart/"):
        body = await _form(request)
    else:
        body = _fields(await request.read())
    return {**body, **query, **request.match_info}


async def _form(request: web.Request) -> dict[str, object]:
    """
    https://docs.discord.com/developers/reference#uploading-files: `payload_json` and `files[n]`
    """
    body: dict[str, object] = {}
    files: dict[str, object] = {}
    names: list[str] = []
    async for part in await request.multipart():
        assert isinstance(part, BodyPartReader)
        content = bytes(await part.read(decode=False))
        if part.name == "payload_json":
            body = _fields(content)
        else:
            files[part.name or ""] = content
            names.append(part.filename or "")
    return {**body, **files, "filenames": names}


def _fields(content: bytes) -> dict[str, object]:
    if not content:
        return {}
    try:
        body = json.loads(content)
    except ValueError:
        return {"a body that is no JSON": ""}
    return body if isinstance(body, dict) else {"list": body}


def _typed(value: str, kind: type) -> object:
    try:
        return kind(value) if kind in (int, float) else value
    except ValueError:
        return value
