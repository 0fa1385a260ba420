"""
What Slack's own samples and parameter lists say of the simulator's answers and events, and of what
bots ask for.

A sample has every field that was ever seen, with its value blanked. So an answer or event may have
no field that its sample has not, and no value of another type. The samples stay outside of the
repository: where there are none, nothing is checked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from tests import specifications
from tests.simulators.slack.samples import kinds

_SAMPLES = "slack-samples/api"
_PARAMETERS = "slack-method-parameters.json"
# The streams of the samples hold refusals only: this is of Slack's pages of these methods. The
# Java SDK, of which the parameters are, does not know chunks and task_display_mode yet.
_STREAM = {"ok": True, "channel": "", "ts": "", "message": {}}
_OWN_SHAPES = {f"chat.{name}Stream": _STREAM for name in ("start", "append", "stop")}
_LATER_PARAMETERS = {"chunks", "task_display_mode"}
# Sent by SDKs with every call, or instead of the header.
_ANYWHERE = {"team_id", "token"}
# In no sample: of a free workspace only; and a form, whose fields are all texts.
_ALSO: Mapping[str, Any] = {"conversations.history": {"is_limited": False}}
_OF_FORMS = {"is_enterprise_install": ""}
# Objects whose keys are ids, blocks and metadata of whoever wrote them.
_FREE = {"blocks", "metadata", "shares", "event_payload", "state", "root", "previous_message"}


def troubles_of_answer(method: str, answer: object) -> list[str]:
    """What an answer has that Slack's never had."""
    shape = _shape_of_answer(method)
    return [] if shape is None else [*_troubles(shape, answer, method)]


def troubles_of_request(method: str, given: Mapping[str, object]) -> list[str]:
    """The parameters that no method of that name takes."""
    if not specifications.is_there():
        return []
    known = specifications.load(_PARAMETERS)["parameters"].get(method)
    if known is None:
        return []
    allowed = {*known, *_ANYWHERE, *(_LATER_PARAMETERS if "Stream" in method else ())}
    return [f"{method} takes no {name}" for name in given if name not in allowed]


def troubles_of_event(payload: object) -> list[str]:
    """What an event, a command or a press has that Slack's never had."""
    if not specifications.is_there() or not isinstance(payload, dict):
        return []
    if "command" in payload:
        shape = {**_shape_of_event("SlashCommand"), **_OF_FORMS}
        return [*_troubles(shape, payload, "command")]
    if payload.get("type") == "block_actions":
        return [*_troubles(_shape_of_event("BlockAction"), payload, "press")]

    event = payload.get("event")
    name = _name_of(event) if isinstance(event, dict) else None
    if name is None:
        return []
    return [*_troubles(_shape_of_event(name), payload, name)]


def _name_of(event: Mapping[str, Any]) -> str | None:
    """Return the sample of an event; None for a type of which there is none."""
    if event.get("type") == "message":
        subtype = str(event.get("subtype") or "").removeprefix("message_").removesuffix("_message")
        name = "Message" + "".join(map(str.capitalize, subtype.split("_")))
        return name if name in kinds() else "Message"
    name = "".join(map(str.capitalize, str(event.get("type")).split("_")))
    return name if name in kinds() else None


@cache
def _shape_of_answer(method: str) -> Any:
    if not specifications.is_there():
        return None
    if method in _OWN_SHAPES:
        return _OWN_SHAPES[method]
    path = specifications.folder() / _SAMPLES / f"{method}.json"
    if not path.is_file():
        return None
    return {**specifications.load(f"{_SAMPLES}/{method}.json"), **_ALSO.get(method, {})}


@cache
def _sample(name: str) -> Any:
    return specifications.load(f"slack-samples/{kinds()[name].parent.name}/{kinds()[name].name}")


@cache
def _shape_of_event(name: str) -> Any:
    shape = _sample(name)
    event = shape.get("event")
    if isinstance(event, dict) and event.get("type") in ("message", "app_mention"):
        return {**shape, "event": _both(event, _things()["message"])}
    return shape


@cache
def _things() -> Mapping[str, Any]:
    """
    Return what is known of each kind of thing, by its name, from all samples together: a channel
    has other fields in conversations.info than in users.conversations, and is the same.
    """
    things: dict[str, Any] = {}
    for path in sorted((specifications.folder() / _SAMPLES).glob("*.json")):
        _collect(things, specifications.load(f"{_SAMPLES}/{path.name}"))
    for name in kinds():
        shape = _sample(name)
        _collect(things, shape)
        if name.startswith("Message") and isinstance(shape.get("event"), dict):
            _collect(things, {"message": shape["event"]})
    return things


def _collect(things: dict[str, Any], shape: Any) -> None:
    for name, each in shape.items() if isinstance(shape, dict) else ():
        for inner in each if isinstance(each, list) else [each]:
            if isinstance(inner, dict) and name == "event":
                _collect(things, inner)  # events have nothing in common
            elif isinstance(inner, dict):
                thing = name.removesuffix("s")
                things[thing] = _both(things.get(thing, {}), inner)
                _collect(things, inner)


def _both(one: Any, other: Any) -> Any:
    """Everything that either has; None, which is anything, where they are of two types."""
    if isinstance(one, dict) and isinstance(other, dict):
        names = {**one, **other}
        return {
            name: _both(one[name], other[name]) if name in one and name in other else names[name]
            for name in names
        }
    if isinstance(one, list) and isinstance(other, list):
        return [*one, *other]
    return (one or other) if type(one) is type(other) else None


def _troubles(shape: object, value: object, where: str) -> Iterator[str]:
    """Every field that the shape has not, and every value of another type."""
    if value is None or shape is None or shape in ({}, []):
        return
    if type(value) is not type(shape) and not _are_numbers(shape, value):
        yield f"{where} is {type(value).__name__}, and at Slack {type(shape).__name__}"
    elif isinstance(shape, dict) and isinstance(value, dict):
        for name, each in value.items():
            if name not in shape:
                yield f"{where} has {name}, which no sample has"
            elif name not in _FREE:
                yield from _troubles(_wider(shape[name], name), each, f"{where}.{name}")
    elif isinstance(shape, list) and isinstance(value, list):
        for each in value:
            yield from _troubles(shape[0], each, f"{where}[]")


def _wider(shape: object, name: str) -> object:
    """All that is known of things of that name, instead of this one sample of it."""
    thing = _things().get(name.removesuffix("s"))
    if thing is None or not shape:
        return shape
    if isinstance(shape, list) and isinstance(shape[0], dict):
        return [thing]
    return thing if isinstance(shape, dict) else shape


def _are_numbers(one: object, other: object) -> bool:
    values = (one, other)
    return all(isinstance(each, int | float) and not isinstance(each, bool) for each in values)
