"""Turn a document into a Config, or into all problems with it and their positions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from turngate.config.cross_checks import find_contradictions
from turngate.config.document import (
    Document,
    Path,
    Value,
    dotted,
)
from turngate.config.problems import (
    Problem,
    one_of,
    quoted,
)
from turngate.config.schema import Config
from turngate.config.secrets import Environment
from turngate.config.unsupported import NOT_BUILT_YET, find_not_built

_MAPPING = "keys with values are expected here; write them below, indented, or {} for none"
_WORDS = {
    "string_type": "this must be text; put it in quotes",
    "int_type": "this must be a whole number; write digits without quotes",
    "float_type": "this must be a number; write digits without quotes",
    "bool_type": "this must be true or false; write one of them without quotes",
    "path_type": "this must be text; put it in quotes",
    "is_instance_of": "this must be text; put it in quotes",
    "model_type": _MAPPING,
    "mapping_type": _MAPPING,
    "dict_type": _MAPPING,
    "tuple_type": "a list is expected here; start each line with a dash",
}


def validate(
    document: Document, context: Environment, not_built: Iterable[str] = NOT_BUILT_YET
) -> Config | list[Problem]:
    """Return the config, or every problem with the document."""
    refused = list(find_not_built(document, not_built))
    unknown = document.broken | {path for path, _ in refused}
    mistakes = document.mistakes + [mistake for _, mistake in refused]
    if () in unknown:
        return mistakes

    config, wrong = _validated(document, context)
    # Below a value that could not be read, further problems would be guesses.
    for path, mistake in [*wrong, *find_contradictions(document)]:
        if not any(path[:length] in unknown for length in range(len(path) + 1)):
            mistakes.append(mistake)
    return config if config is not None and not mistakes else mistakes


def _validated(
    document: Document, context: Environment
) -> tuple[Config | None, list[tuple[Path, Problem]]]:
    # Null stands for the zone of the host, which is only known to the validator.
    data = {"timezone": None} | document.data
    try:
        return Config.model_validate(data, context=context), []
    except ValidationError as exc:
        details = exc.errors(include_url=False, include_input=False)
    return None, [_translated(one, document) for one in details]


def _translated(error: ErrorDetails, document: Document) -> tuple[Path, Problem]:
    path, value = _path_in_file(error["loc"], document.data)

    if error["type"] == "extra_forbidden":
        return path, Problem(document.keys[path], _unknown_key(path))
    if error["loc"][-1] == "[key]":
        return path, Problem(document.keys[path], f"{dotted(path)}: {_explained(error, path[-1])}")
    if error["type"] == "missing":
        what = f"{dotted(path)} lacks the key {error['loc'][-1]}; add it"
        return path, Problem(document.position_of(path), what)
    return path, Problem(document.position_of(path), f"{dotted(path)}: {_explained(error, value)}")


def _path_in_file(loc: tuple[str | int, ...], value: Value) -> tuple[Path, Value]:
    """
    The path in the file, without missing keys and without the names that pydantic gives to the
    branches of a union.
    """
    path: Path = ()
    for step in loc:
        if isinstance(value, dict) and step in value:
            path = (*path, step)
            value = value[str(step)]
        elif isinstance(value, list) and isinstance(step, int):
            path = (*path, step)
            value = value[step]
    return path, value


def _unknown_key(path: Path) -> str:
    section = section_at(path[:-1])
    key = str(path[-1])
    where = f" in {dotted(path[:-1])}" if path[:-1] else ""
    return (
        f"unknown key {quoted(key)}{where}; "
        f"{one_of(key, section.model_fields, instead='the keys here are')}"
    )


def section_at(path: Path) -> type[BaseModel]:
    """The model of the section at a path."""
    section: type[BaseModel] = Config
    for step in path:
        if isinstance(step, str) and step in section.model_fields:
            section = next(_sections_in(section.model_fields[step].annotation), section)
    return section


def _sections_in(annotation: object) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in get_args(annotation):
        yield from _sections_in(inner)


def _explained(error: ErrorDetails, value: Value) -> str:
    context = error.get("ctx", {})

    # The errors that our own validators raise are complete sentences.
    if error["type"] == "value_error":
        return str(context["error"])
    if value is None:
        return "nothing is written here; write a value or remove the line"

    if error["type"] == "literal_error":
        # Pydantic has the choices only as text: 'a', 'b' or 'c'.
        return _wrong_choice(value, re.findall(r"'([^']*)'", str(context["expected"])))
    if error["type"] == "greater_than_equal":
        return f"this is too small; write {context['ge']} or more"
    if error["type"] == "less_than_equal":
        return f"this is too large; write {context['le']} or less"

    return _WORDS.get(
        error["type"], "this cannot be used here; look at config/turngate.example.yaml"
    )


def _wrong_choice(value: Value, choices: list[str]) -> str:
    if not isinstance(value, str):
        return f"this is not a choice; write {', '.join(choices)}"
    return f"{quoted(value)} is not a choice; {one_of(value, choices, instead='write one of')}"
