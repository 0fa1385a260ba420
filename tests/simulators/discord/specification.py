"""
What Discord itself says that requests, answers and events look like: its OpenAPI document, and the
tables of its reference pages for what the gateway tells.

Of two values that differ in their words alone only the first is looked at, because a scenario has
thousands.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT202012

from tests.specifications import is_there, load

_DOCUMENT = "discord-openapi.json"
_TABLES = "discord-docs-tables.json"
_HERE = "urn:discord"
_FILES = re.compile(r"files\[\d\]|filenames")
_MOST_SHAPES = 20_000
# discord.py sends these, and Discord takes no notice.
_IGNORED = frozenset({"tts", "use_nested_fields"})

_seen: set[object] = set()


def faults_of_request(
    verb: str, path: str, query: Mapping[str, str], body: Mapping[str, Any] | None, whole: object
) -> Iterator[str]:
    """
    Yield what is wrong with a request that was answered. `path` is the template of the table,
    `whole` the body as it came, if it is no object.
    """
    operation = operation_of(verb, path) if is_there() else None
    if operation is None:
        return
    allowed = {
        each["name"]: each["schema"]
        for each in operation.get("parameters", ())
        if each["in"] == "query"
    }
    for name, value in query.items():
        if name in _IGNORED:
            continue
        if name not in allowed:
            yield f"there is no {name} in the query of {verb} {path}"
        elif not any(_matches(allowed[name], each) for each in _readings(value)):
            yield f"{name}={value} in the query of {verb} {path}"
    schema = _json_schema(operation.get("requestBody"))
    if schema is None:
        if body:
            yield f"{verb} {path} takes no body"
        return
    if body is None and whole is None:
        return
    sent = {name: value for name, value in (body or {}).items() if not _FILES.fullmatch(name)}
    sent = _as_the_document_has_it(sent)
    yield from _faults(schema, sent if body is not None else whole, f"{verb} {path}")
    unknown = set(sent) - _properties(schema) - _IGNORED
    if body is not None and unknown and _properties(schema):
        yield f"{verb} {path} takes no {', '.join(sorted(unknown))}"


def faults_of_answer(verb: str, path: str, status: int, answer: object) -> Iterator[str]:
    """
    Yield what is wrong with an answer. That of a 429 has `code` in the document and not in the
    prose.
    """
    operation = operation_of(verb, path) if is_there() else None
    if operation is None or status == 429:
        return
    responses = operation["responses"]
    said = responses.get(str(status)) or responses.get(f"{status // 100}XX")
    if said is None:
        yield f"{verb} {path} never answers {status}"
        return
    schema = _json_schema(_resolved(said))
    if schema is not None and not _is_put_off(answer):
        yield from _faults(schema, answer, f"the answer {status} to {verb} {path}")


def _is_put_off(answer: object) -> bool:
    """
    Check for the answer to a placeholder (types 5 and 6), which the prose knows and the document
    does not.
    """
    resource = answer.get("resource") if isinstance(answer, Mapping) else None
    return isinstance(resource, Mapping) and resource.get("type") in (5, 6)


def _as_the_document_has_it(body: Mapping[str, Any]) -> dict[str, Any]:
    """
    Write ids and the numbers of files (`attachments[].id`) as text. The document wants that; the
    prose and its examples have numbers for files, and Discord takes numbers for ids.
    """
    changed = {
        name: str(value) if name.endswith("_id") and isinstance(value, int) else value
        for name, value in body.items()
    }
    for name in ("message", "data", "message_reference"):
        if isinstance(body.get(name), Mapping):
            changed[name] = _as_the_document_has_it(body[name])
    if isinstance(body.get("attachments"), list):
        changed["attachments"] = [
            {**each, "id": str(each["id"])} if "id" in each else each
            for each in body["attachments"]
        ]
    return changed


@cache
def operation_of(verb: str, path: str) -> Any:
    """Return the operation of an address, whatever its parts are called; None if there is none."""
    plain = re.sub(r"{\w+}", "{}", path)
    for template, operations in load(_DOCUMENT)["paths"].items():
        if re.sub(r"{\w+}", "{}", template) == plain and verb.lower() in operations:
            operation = operations[verb.lower()]
            shared = operations.get("parameters", ())
            return operation | {"parameters": [*shared, *operation.get("parameters", ())]}
    return None


def _json_schema(content: Any) -> Any:
    return ((content or {}).get("content") or {}).get("application/json", {}).get("schema")


def _resolved(part: Any) -> Any:
    while "$ref" in part:
        found = load(_DOCUMENT)
        for name in part["$ref"].removeprefix("#/").split("/"):
            found = found[name]
        part = found
    return part


def _properties(schema: Any) -> set[str]:
    """The fields of an object, or none if it may be one of several."""
    return set(_resolved(schema).get("properties", ()))


def _readings(value: str) -> Iterator[object]:
    yield value
    if re.fullmatch(r"-?\d+", value):
        yield int(value)
    if value.lower() in ("true", "false", "0", "1"):
        yield value.lower() in ("true", "1")


def _faults(schema: Any, value: object, what: str) -> Iterator[str]:
    shape = (what, _shape(value))
    if shape in _seen:
        return
    if len(_seen) < _MOST_SHAPES:
        _seen.add(shape)
    error = best_match(validator(_frozen(schema)).iter_errors(value))
    if error is not None:
        _seen.discard(shape)
        yield f"{what}: {error.json_path}: {error.message[:300]}"


def _matches(schema: Any, value: object) -> bool:
    return validator(_frozen(schema)).is_valid(value)


def _shape(value: object) -> object:
    """What a value is like; numbers stay, because many stand for kinds."""
    if isinstance(value, Mapping):
        return tuple((name, _shape(inner)) for name, inner in sorted(value.items()))
    if isinstance(value, list):
        return tuple({_shape(inner): None for inner in value})
    if isinstance(value, str):
        return "number" if value.isdecimal() else "text" if value else ""
    return value if value is None or isinstance(value, bool) else abs(int(value)) % 100


def _frozen(schema: Any) -> tuple[str, str]:
    """What a validator is kept by: a reference, or the schema itself as text."""
    return ("ref", schema["$ref"]) if "$ref" in schema else ("text", json.dumps(schema))


@cache
def validator(schema: tuple[str, str]) -> Draft202012Validator:
    """Return the validator of a schema of the document."""
    kind, text = schema
    inside = {"$ref": text} if kind == "ref" else json.loads(text)
    return Draft202012Validator(_pointing(inside), registry=_registry())


def _pointing(schema: Any) -> Any:
    """Let references lead into the document."""
    if isinstance(schema, dict):
        return {
            name: f"{_HERE}{inner}" if name == "$ref" else _pointing(inner)
            for name, inner in schema.items()
        }
    return [_pointing(each) for each in schema] if isinstance(schema, list) else schema


@cache
def _registry() -> Registry[Any]:
    document = Resource(contents=load(_DOCUMENT), specification=DRAFT202012)
    return Registry().with_resource(_HERE, document)


_EVENTS: Mapping[str, tuple[tuple[str, str], ...]] = {
    "READY": (("events/gateway-events", "Ready Event Fields"),),
    "MESSAGE_CREATE": (
        ("resources/message", "Message Structure"),
        ("events/gateway-events", "Message Create Extra Fields"),
    ),
    "MESSAGE_UPDATE": (
        ("resources/message", "Message Structure"),
        ("events/gateway-events", "Message Create Extra Fields"),
    ),
    "MESSAGE_DELETE": (("events/gateway-events", "Message Delete Event Fields"),),
    "MESSAGE_REACTION_ADD": (("events/gateway-events", "Message Reaction Add Event Fields"),),
    "MESSAGE_REACTION_REMOVE": (("events/gateway-events", "Message Reaction Remove Event Fields"),),
    "GUILD_CREATE": (
        ("resources/guild", "Guild Structure"),
        ("events/gateway-events", "Guild Create Extra Fields"),
    ),
    "GUILD_MEMBER_ADD": (
        ("resources/guild", "Guild Member Structure"),
        ("events/gateway-events", "Guild Member Add Extra Fields"),
    ),
    "GUILD_ROLE_CREATE": (("events/gateway-events", "Guild Role Create Event Fields"),),
    "CHANNEL_CREATE": (("resources/channel", "Channel Structure"),),
    "CHANNEL_UPDATE": (("resources/channel", "Channel Structure"),),
    "CHANNEL_DELETE": (("resources/channel", "Channel Structure"),),
    "THREAD_CREATE": (("resources/channel", "Channel Structure"),),
    "THREAD_UPDATE": (("resources/channel", "Channel Structure"),),
    "INTERACTION_CREATE": (("interactions/receiving-and-responding", "Interaction Structure"),),
}
_NOT_IN_TABLES: Mapping[str, frozenset[str]] = {
    # The prose says so: "newly_created boolean field", of THREAD_CREATE.
    "THREAD_CREATE": frozenset({"newly_created"}),
    # Sent to bots, in no table.
    "READY": frozenset({"session_type", "private_channels"}),
    "INTERACTION_CREATE": frozenset(),
}
_FIELD = re.compile(r"^(?P<name>\w+)(?P<optional>\?)?")
_LINK = re.compile(r"\[(?P<words>[^\]]*)\]\((?P<where>/[^)]*)\)")


def faults_of_event(event: str, payload: Mapping[str, Any]) -> Iterator[str]:
    """Yield what is wrong with an event of the gateway, by the tables."""
    tables = _EVENTS.get(event) if is_there() else None
    shape = (event, _shape(payload))
    if tables is None or shape in _seen:
        return
    fields: dict[str, tuple[bool, str]] = {}
    for page, heading in tables:
        fields |= fields_of(page, heading)
    extra = _NOT_IN_TABLES.get(event, frozenset())
    faults = list(_of_object(payload, fields, event, partial=False, extra=extra))
    if not faults and len(_seen) < _MOST_SHAPES:
        _seen.add(shape)
    yield from faults


@cache
def fields_of(page: str, heading: str) -> dict[str, tuple[bool, str]]:
    """The fields of a table: whether each is required, and its type in words."""
    found = {}
    for table in load(_TABLES)["tables"].get(page, {}).get(heading, ()):
        if table["columns"][:2] != ["Field", "Type"]:
            continue
        for name, kind, *_ in table["rows"]:
            field = _FIELD.match(name.replace("\\", ""))
            if field is not None:
                found[field["name"]] = (field["optional"] is None, kind)
    return found


def _of_object(
    value: Mapping[str, Any],
    fields: Mapping[str, tuple[bool, str]],
    what: str,
    *,
    partial: bool,
    extra: frozenset[str] = frozenset(),
) -> Iterator[str]:
    for name in sorted(set(value) - set(fields) - extra):
        yield f"{what}: there is no field {name}"
    for name, (is_required, kind) in fields.items():
        if name in value:
            yield from _of_value(value[name], kind, f"{what}.{name}")
        elif is_required and not partial:
            yield f"{what}: {name} is missing"


def _of_value(value: Any, kind: str, what: str) -> Iterator[str]:
    kind = kind.replace("\\", "").strip()
    if kind.startswith("?"):
        if value is None:
            return
        kind = kind[1:]
    if kind.startswith(("array of", "list of")):
        if not isinstance(value, list):
            yield f"{what} is no list"
            return
        inner = kind.removeprefix("array of").removeprefix("list of").strip()
        for number, each in enumerate(value):
            yield from _of_value(each, inner, f"{what}[{number}]")
        return
    link = _LINK.search(kind)
    if link is not None and not re.search(r"\bids?\b|_id\b", kind):
        yield from _of_linked(value, kind, link["where"], what)
    elif not _is_plain(value, kind):
        yield f"{what}: {value!r:.80} is no {kind}"


def _of_linked(value: Any, kind: str, where: str, what: str) -> Iterator[str]:
    table = _table_at(where)
    if table is None or not isinstance(value, Mapping):
        return
    extra = frozenset({"member"}) if "partial [member]" in kind else frozenset()
    extra |= frozenset({"permissions"}) if what.endswith((".channel", ".member")) else frozenset()
    partial = "partial" in kind.partition("(")[0]
    # Of the server of an interaction only these are told, one of them in no table.
    extra |= frozenset({"locale"}) if what == "INTERACTION_CREATE.guild" else frozenset()
    yield from _of_object(value, table, what, partial=partial, extra=extra)


@cache
def _table_at(where: str) -> dict[str, tuple[bool, str]] | None:
    """The fields of the object that a link leads to, if there is a table of it."""
    page, _, anchor = where.removeprefix("/developers/").partition("#")
    words = anchor.rpartition("-object-")[2] if "-object-" in anchor else anchor
    name = words.removesuffix("-structure").removesuffix("-object").replace("-", " ")
    for heading in load(_TABLES)["tables"].get(page, ()):
        if heading.lower() in (f"{name} structure", f"{name} object structure"):
            return fields_of(page, heading) or None
    return None


def _is_plain(value: Any, kind: str) -> bool:
    """Whether a value is of a type that is told in words; one that is not known may be anything."""
    word = kind.partition("(")[0].strip().rstrip("*").strip()
    match word:
        case "snowflake" | "snowflakes":
            return isinstance(value, str) and value.isdecimal()
        case "string" | "strings":
            return isinstance(value, str)
        case "integer" | "integers":
            return isinstance(value, int) and not isinstance(value, bool)
        case "boolean":
            return isinstance(value, bool)
        case "ISO8601 timestamp":
            return isinstance(value, str) and value[4:5] == "-" and "T" in value
    return True
