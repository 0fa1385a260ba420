"""
What the web server gets from the daemon. It does not import the pipeline or the config, and opens
no store.
"""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

from aiohttp import web

from turngate.gateway.domain.ids import SessionId, SessionKey
from turngate.gateway.domain.live_view import Screens
from turngate.gateway.domain.messages import InboundMessage, SessionSource
from turngate.gateway.domain.outbox import Part
from turngate.gateway.domain.ports.clock import Clock
from turngate.gateway.domain.ports.store import Store

Serve = Callable[[web.Application, socket.socket], AbstractAsyncContextManager[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Readiness:
    """
    Whether messages are received and stored; if not, the reasons, as sentences for the operator.
    """

    ready: bool
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class WebDependencies:
    """
    Values and callables of the daemon.

    `waiting`: stored messages of a key that are not part of a turn yet, oldest first. `questions`:
    open questions of a key, oldest first, each a part with its buttons. `commands`: name without
    the slash, hint of its arguments, one line of help. `cookie_key`: secret, the same after a
    restart. `serve`: serves an application on a listening socket. `forget`: deletes the files of a
    deleted session.
    """

    store: Store
    screens: Screens
    key_of: Callable[[SessionSource], SessionKey]
    waiting: Callable[[SessionKey], Sequence[InboundMessage]]
    questions: Callable[[SessionKey], Sequence[Part]]
    commands: Sequence[tuple[str, str, str]]
    readiness: Callable[[], Awaitable[Readiness]]
    metrics: Callable[[], Awaitable[bytes]]
    metrics_type: str
    clock: Clock
    cookie_key: bytes
    serve: Serve
    forget: Callable[[SessionId], Awaitable[None]]
