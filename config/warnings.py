"""Warnings about a config that is valid."""

from __future__ import annotations

from collections.abc import Iterator
from typing import get_args

from pydantic import BaseModel, SecretStr

from turngate.config.document import (
    Document,
    Path,
    Value,
    dotted,
    every_value,
)
from turngate.config.platforms import PLATFORMS
from turngate.config.problems import Problem
from turngate.config.schema import Config
from turngate.config.secrets import is_reference


def _secret_keys(kind: object, key: str = "") -> Iterator[str]:
    """The keys below a section, or in whatever type holds sections, that have a secret."""
    if kind is SecretStr:
        yield key
    elif isinstance(kind, type) and issubclass(kind, BaseModel):
        for name, field in kind.model_fields.items():
            yield from _secret_keys(field.annotation, name)
    else:
        for inner in get_args(kind):
            yield from _secret_keys(inner, key)


# In `env` the file has names of variables, not their values.
SECRET_KEYS = frozenset(_secret_keys(Config)) - {"env"}
_UNUSED_BY_ECHO = ("base_url", "url", "api_key", "model", "argv", "object", "session_end")


def find_warnings(document: Document) -> list[Problem]:
    """Return the warnings for a document without problems."""
    warnings = []

    for path, value in every_value(document.data):
        if _is_literal_secret(path, value):
            cure = "keep it elsewhere and write ${NAME} or ${file:PATH}"
            warnings.append(
                Problem(
                    document.values[path],
                    f"warning: {dotted(path)}: a secret in the file itself; {cure}",
                )
            )
        if _is_unused(document, path, value):
            warnings.append(
                Problem(
                    document.keys[path],
                    f"warning: {dotted(path)}: the echo agent does not use it; remove it",
                )
            )
        if path == ("access", "direct") and value == "open-dangerously":
            what = (
                "warning: access.direct: DANGER: anyone who finds the bot can talk to it; "
                "write pairing instead"
            )
            warnings.append(Problem(document.values[path], what))
        if path[:1] == ("budgets",) and path[-1] == "usd_per_day" and value is not None:
            warnings += [
                Problem(document.values[path], _no_price(path, name))
                for name in _agents_without_price(document)
            ]

        if path == ("delivery", "reaction") and isinstance(value, str):
            warnings += [
                Problem(
                    document.values[path],
                    f"warning: {dotted(path)}: {platform} does not let bots react with that, so "
                    "nothing will be seen there; choose another, such as 👀",
                )
                for platform in _without_reaction(document, value)
            ]

    return sorted(warnings)


def _without_reaction(document: Document, emoji: str) -> list[str]:
    """Return the platforms with an account that do not take this reaction."""
    platforms = document.data.get("platforms")
    accounts = platforms if isinstance(platforms, dict) else {}
    return [
        name
        for name, package in PLATFORMS.items()
        if accounts.get(name) and package.reactions is not None and emoji not in package.reactions
    ]


def has_literal_secret(document: Document) -> bool:
    """Return whether the file holds a secret itself."""
    return any(_is_literal_secret(path, value) for path, value in every_value(document.data))


def _no_price(path: Path, agent: str) -> str:
    return (
        f"warning: {dotted(path)}: does not see what the agent {agent} costs, unless it reports "
        "that itself;"
        f" write agents.{agent}.price"
    )


def _agents_without_price(document: Document) -> list[str]:
    agents = document.data.get("agents")
    described = agents.items() if isinstance(agents, dict) else ()
    return [
        name
        for name, agent in described
        if isinstance(agent, dict)
        and agent.get("kind", "echo") != "echo"
        and agent.get("price") is None
    ]


def _is_literal_secret(path: Path, value: Value) -> bool:
    return (
        bool(path)
        and path[-1] in SECRET_KEYS
        and isinstance(value, str)
        and not is_reference(value)
    )


def _is_unused(document: Document, path: Path, value: Value) -> bool:
    if len(path) != 3 or path[0] != "agents" or path[2] not in _UNUSED_BY_ECHO or not value:
        return False
    agents = document.data["agents"]
    agent = agents[str(path[1])] if isinstance(agents, dict) else None
    return isinstance(agent, dict) and agent.get("kind", "echo") == "echo"
