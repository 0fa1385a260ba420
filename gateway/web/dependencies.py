"""What the web door is handed: it knows neither the pipeline nor the config, and opens no store."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from turngate.gateway.domain.live_view import Screens
from turngate.gateway.domain.messages import InboundMessage, SessionId, SessionKey, SessionSource
from turngate.gateway.domain.ports.adapter import Clock
from turngate.gateway.domain.ports.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Readiness:
    """Whether messages come in and are stored; if not, why, in sentences for the operator."""

    ready: bool
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class WebDependencies:
    """
    `waiting`: the stored messages of a key whose turn has not begun, oldest first. `commands`: name without the slash,
    hint of its arguments, one line of help. `cookie_key`: secret, the same after a restart.
    `forget`: deletes the files of a session that was deleted.
    """

    store: Store
    screens: Screens
    key_of: Callable[[SessionSource], SessionKey]
    waiting: Callable[[SessionKey], Sequence[InboundMessage]]
    commands: Sequence[tuple[str, str, str]]
    readiness: Callable[[], Awaitable[Readiness]]
    metrics: Callable[[], Awaitable[bytes]]
    metrics_type: str
    clock: Clock
    cookie_key: bytes
    forget: Callable[[SessionId], Awaitable[None]]
