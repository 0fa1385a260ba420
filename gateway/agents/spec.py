"""What the operator says of one agent, in the words that every kind understands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta

from turngate.gateway.domain.serialization import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSpec:
    """
    One agent of the config. A kind reads what concerns it and leaves the rest alone.

    `url` is where a model or a service is reached. `env` is all that a program sees of the environment. `images`: they
    may be shown inline. `memory`, in bytes, bounds every program of the agent. `attempts` is how often a model may be
    asked before it has said anything. `timeout` bounds a whole turn. `session_end`: it knows what to do when it is told
    that a session is over.
    """

    name: str
    kind: str = "echo"
    url: str | None = None
    api_key: str | None = field(default=None, repr=False)
    model: str | None = None
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
