"""The settings of one agent, the same for every kind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta

from turngate.gateway.domain.serialization import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSpec:
    """
    One agent of the config. A kind uses the settings that concern it and ignores the others.

    `url` is the address of a model server or a service, `api` its protocol if there are several.
    `env` is the whole environment of a program. `images`: images may be passed inline. `memory`
    limits every program of the agent, in bytes. `attempts` is the number of model calls before any
    output. `timeout` limits a whole turn.
    `session_end`: the agent is notified when a session ends.
    """

    name: str
    kind: str = "echo"
    url: str | None = None
    api_key: str | None = field(default=None, repr=False)
    model: str | None = None
    api: str = "chat"
    argv: tuple[str, ...] = ()
    format: str = "text"
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    object: str | None = None
    options: Mapping[str, Json] = field(default_factory=dict, repr=False)
    attempts: int = 3
    timeout: timedelta | None = None
    images: bool = True
    max_tokens: int | None = None
    memory: int | None = None
    session_end: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    """
    What holds for all agents of a kind; a module of a kind sets its own as `TRAITS`.

    Without side effects a turn may run again after a crash, any user may choose the agent, and it
    needs no working folder. `is_model`: it is a language model, which begins to answer soon and can
    write summaries. `sends`: its protocol has an event for messages to other chats.
    """

    has_side_effects: bool = True
    is_model: bool = False
    sends: bool = True
