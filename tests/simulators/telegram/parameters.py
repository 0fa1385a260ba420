"""
What bots pass to methods, as aiogram's types have it: in the address, as a form with or without
files, or as JSON.

In a form every value is a word, and lists and objects are JSON in a word. Files become
`attach://...` words, whichever way they were attached; `Uploads` has their bytes as long as the
call lasts.
"""

from __future__ import annotations

import json
import types
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, Union, get_args, get_origin

import aiogram.methods
import aiogram.types
from aiogram.client.default import Default
from aiogram.methods import TelegramMethod
from aiogram.types import InputFile
from aiohttp import web
from pydantic import BaseModel, TypeAdapter, ValidationError

from tests.simulators.common import PARAMETERS, Call, Json, Refusal
from tests.simulators.telegram import specification

METHODS: Mapping[str, type[TelegramMethod[Any]]] = {
    each.__api_method__: each
    for each in (getattr(aiogram.methods, name) for name in aiogram.methods.__all__)
    if isinstance(each, type) and issubclass(each, TelegramMethod) and each is not TelegramMethod
}
# Whoever imported aiogram before may have left its types to be built on their first use, of which
# adapters of pydantic know nothing.
for _kind in (getattr(aiogram.types, _name) for _name in aiogram.types.__all__):
    if isinstance(_kind, type) and issubclass(_kind, BaseModel):
        _kind.model_rebuild()
_NAMES = {name.lower(): name for name in METHODS}
_ATTACHED = "attach://"


def spelled(method: str) -> str:
    """The method's name as documented; case does not matter."""
    return _NAMES.get(method.lower(), method)


def source(method: str) -> str:
    """Where it is documented."""
    return f"https://core.telegram.org/bots/api#{method.lower()}"


def required(method: str) -> dict[str, type]:
    """What must be given."""
    return {name: kind for name, (kind, is_required) in _fields(method).items() if is_required}


def optional(method: str) -> dict[str, type]:
    """What may be given."""
    return {name: kind for name, (kind, is_required) in _fields(method).items() if not is_required}


def check_reply(method: str) -> Callable[[Json], object]:
    """
    A check that aiogram would take an answer and would know all of it, and that the specification
    says the same.
    """
    adapter = TypeAdapter(METHODS[method].__returning__)

    def check(answer: Json) -> None:
        specification.check_answer(method, answer)
        unknown = sorted(_unknown(adapter.validate_python(specification.known_part(answer))))
        if unknown:
            raise ValueError(f"there is no {', '.join(unknown)}")

    return check


def check_objects(call: Call) -> None:
    """
    Raises for a list or an object that is not of its type, or has something that the type has not;
    and for whatever the specification does not know.
    """
    for name, value in call.parameters.items():
        if isinstance(value, list | dict):
            try:
                parsed = _adapter(call.method, name).validate_python(value)
            except ValidationError as exc:
                trouble = "; ".join(
                    f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in exc.errors()
                )
                raise _wrong(call, f"{name} is wrong: {trouble}") from exc
            unknown = sorted(_unknown(parsed))
            if unknown:
                raise _wrong(call, f"{name}: there is no {', '.join(unknown)}")
    try:
        specification.check_request(call.method, call.parameters)
    except ValueError as exc:
        raise _wrong(call, str(exc)) from exc


def check_type(kind: type[BaseModel], raw: object) -> None:
    """
    Raises ValueError for an object that aiogram would not take or would not know all of, or that is
    not as specified.
    """
    specification.check(kind.__name__, raw)
    unknown = sorted(_unknown(kind.model_validate(specification.known_part(raw))))
    if unknown:
        raise ValueError(f"{kind.__name__}: there is no {', '.join(unknown)}")


@dataclass(frozen=True, slots=True)
class Upload:
    """One attached file."""

    name: str
    mime: str
    content: bytes


class Uploads:
    """The files of the calls that are being answered."""

    def __init__(self) -> None:
        self._files: dict[str, Upload] = {}
        self._calls = 0

    def get(self, word: object) -> Upload | None:
        """The file that a parameter names."""
        return self._files.get(word) if isinstance(word, str) else None

    @contextmanager
    def of(self, given: Mapping[str, object]) -> Iterator[dict[str, object]]:
        """The parameters with their files named in words."""
        self._calls += 1
        mine = {
            name: f"{_ATTACHED}{self._calls}/{name}"
            for name, value in given.items()
            if isinstance(value, Upload)
        }
        attached = {_ATTACHED + name: word for name, word in mine.items()}
        named = {word for value in given.values() for word in _words(value)}
        for name, word in mine.items():
            self._files[word] = given[name]  # type: ignore[assignment]
        try:
            yield {
                name: mine[name] if name in mine else _renamed(value, attached)
                for name, value in given.items()
                if not (name in mine and _ATTACHED + name in named)
            }
        finally:
            for word in mine.values():
                del self._files[word]


async def read(request: web.Request, method: str) -> dict[str, object]:
    """Everything that was passed, each value as its type has it where that is possible."""
    given: dict[str, object] = dict(request.query)
    if request.content_type == "application/json":
        try:
            body = await request.json()
        except ValueError:
            body = {"a body that is no JSON": ""}
        given |= body if isinstance(body, dict) else {"a body that is no object": ""}
    elif request.can_read_body:
        form = await request.post()
        given |= {
            name: _upload(value) if isinstance(value, web.FileField) else value
            for name, value in form.items()
        }
    kinds = {name: kind for name, (kind, _) in _fields(method).items()} if method in METHODS else {}
    return {name: _typed(value, kinds.get(name, str)) for name, value in given.items()}


def _upload(field: web.FileField) -> Upload:
    return Upload(name=field.filename, mime=field.content_type, content=field.file.read())


def _words(value: object) -> Iterator[str]:
    match value:
        case str():
            yield value
        case list():
            for each in value:
                yield from _words(each)
        case dict():
            for each in value.values():
                yield from _words(each)


def _renamed(value: object, attached: Mapping[str, str]) -> object:
    match value:
        case str():
            return attached.get(value, value)
        case list():
            return [_renamed(each, attached) for each in value]
        case dict():
            return {name: _renamed(each, attached) for name, each in value.items()}
        case _:
            return value


def _typed(value: object, kind: type) -> object:
    """As its type has it; what cannot be is left for the check to find."""
    if kind is str and isinstance(value, int) and not isinstance(value, bool):
        return str(value)  # a chat_id may be a number or a word; here it is always a word
    if not isinstance(value, str) or kind is str:
        return value
    try:
        decoded = json.loads(value.lower() if kind is bool else value)
    except ValueError:
        return value
    return decoded if isinstance(decoded, kind) or kind is float else value


@cache
def _fields(method: str) -> Mapping[str, tuple[type, bool]]:
    """
    Each parameter: its type, and whether it is required. The server still takes those that are
    deprecated.
    """
    fields = METHODS[method].model_fields
    return {name: (_kind(field.annotation), field.is_required()) for name, field in fields.items()}


@cache
def _adapter(method: str, parameter: str) -> TypeAdapter[Any]:
    """Without aiogram's own word for what the bot has as its default."""
    annotation = METHODS[method].model_fields[parameter].annotation
    if get_origin(annotation) in (Union, types.UnionType):
        return TypeAdapter(
            Union[tuple(member for member in get_args(annotation) if member is not Default)]  # noqa: UP007
        )
    return TypeAdapter(annotation)


def _kind(annotation: object) -> type:
    """The one Python type that stands for an annotation."""
    members = set(_members(annotation))
    for kind in (list, dict, str, bool, int):
        if kind in members:
            return kind
    return float


def _members(annotation: object) -> Iterator[type]:
    origin = get_origin(annotation)
    if origin is Annotated:
        yield from _members(get_args(annotation)[0])
    elif origin in (Union, types.UnionType):
        for member in get_args(annotation):
            yield from _members(member)
    elif origin is list:
        yield list
    elif isinstance(annotation, type) and issubclass(annotation, InputFile):
        yield str
    elif isinstance(annotation, type) and issubclass(annotation, Default):
        return
    elif isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield dict
    elif isinstance(annotation, type) and annotation is not type(None):
        yield annotation


def _unknown(value: object) -> Iterator[str]:
    """The names that a type took and does not know."""
    match value:
        case BaseModel():
            for name in value.model_extra or {}:
                yield f"{type(value).__name__}.{name}"
            for name in value.model_fields_set:
                yield from _unknown(getattr(value, name))
        case list() | tuple():
            for each in value:
                yield from _unknown(each)


def _wrong(call: Call, trouble: str) -> Refusal:
    return Refusal(400, f"{call.method}: {trouble} ({source(call.method)})", rule=PARAMETERS)
