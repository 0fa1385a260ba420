"""
Discord's REST API through discord.py. Whatever happens there, only our own errors leave.

discord.py keeps to the limits that Discord announces, and would ask again by itself when Discord has trouble or wants
a pause. It must not: who sends a second time is for the outbox to decide. A trace, which sees every answer first, ends
the call there.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from types import MappingProxyType, SimpleNamespace
from typing import Any

import aiohttp
import discord
from discord.http import HTTPClient, Route

from turngate.adapters.discord.account import Account, Patience
from turngate.adapters.discord.channels import Payload
from turngate.adapters.discord.connector import Connector
from turngate.adapters.platform_clock import Told
from turngate.gateway.domain.errors import (
    NotSent,
    Throttled,
    TurngateError,
    Unauthorized,
    Undeliverable,
    Unreachable,
)

PORTAL = "https://discord.com/developers/applications"

_NOWHERE: Mapping[str, str] = MappingProxyType({})
_PAUSE_IF_ASKED = 5.0
_LONGEST_WAIT_INSIDE = 30.0

_UNKNOWN_CHANNEL, _UNKNOWN_MESSAGE, _UNKNOWN_WEBHOOK, _UNKNOWN_INTERACTION = (
    10003,
    10008,
    10015,
    10062,
)
_ALREADY_ACKNOWLEDGED, _TOO_LARGE, _TOKEN_OVER = 40060, 40005, 50027
_NO_ACCESS, _NO_DM, _NO_TEXT_HERE, _NO_PERMISSION = 50001, 50007, 50008, 50013
_ARCHIVED, _HAS_THREAD, _LOCKED = 50083, 160004, 160005


class ChannelGone(Undeliverable):
    """There is no such channel, or no longer."""


class MessageGone(Undeliverable):
    """There is no such message, or no longer."""


class Forbidden(Undeliverable):
    """The bot may not do that there. `sees`: whether it can see the place at all."""

    def __init__(self, message: str, *, sees: bool) -> None:
        super().__init__(message)
        self.sees = sees


class OnlyPosts(Undeliverable):
    """A forum, which takes nothing but new posts."""


class Archived(Undeliverable):
    """The thread is archived: what is there cannot be changed until it is opened again."""


class HasThread(Undeliverable):
    """There is a thread at this message already."""


class InteractionOver(Undeliverable):
    """The interaction can no longer be answered."""


@dataclass(slots=True)
class _Attempt:
    """One request. Before it is `begun` nothing can have happened."""

    begun: bool = False


class _Trouble(Exception):
    """An answer after which discord.py would have asked again."""

    def __init__(self, status: int, body: bytes, headers: Mapping[str, str]) -> None:
        super().__init__(f"status {status}")
        self.status = status
        self.body = body
        self.headers = headers


_ATTEMPT: ContextVar[_Attempt] = ContextVar("_ATTEMPT")


class Api:
    """
    One bot's line to REST. It is opened by the first call, and by the first call after `close` again.

    `told` hears the date of every answer.
    """

    def __init__(
        self, account: Account, patience: Patience, told: Told = lambda date: None
    ) -> None:
        self._account = account
        self._patience = patience
        self._told = told
        self._opening = asyncio.Lock()
        self._http: HTTPClient | None = None
        self._me: Payload = {}

    async def me(self) -> Payload:
        """The bot as a user. Raises Unauthorized if Discord does not know it."""
        async with self._asking(self._patience.answer):
            await self._line()
        return self._me

    async def call(
        self,
        verb: str,
        path: str,
        where: Mapping[str, str] = _NOWHERE,
        *,
        body: object = None,
        form: Sequence[Mapping[str, object]] | None = None,
        query: Mapping[str, object] | None = None,
    ) -> Any:
        """
        Ask once; `where` fills the path. Returns what Discord answered, None if it had nothing to say.

        Raises NotSent, Unreachable, Throttled, Unauthorized or Undeliverable, and of the last the kinds above.
        """
        patience = self._patience.upload if form else self._patience.answer
        more: dict[str, Any] = {"json": body} if body is not None else {}
        if query is not None:
            more["params"] = {name: str(value) for name, value in query.items()}
        if form is not None:
            more["form"] = form
        async with self._asking(patience):
            http = await self._line()
            _ATTEMPT.get().begun = False
            return _understood(await http.request(Route(verb, path, **where), **more))

    async def object(
        self, verb: str, path: str, where: Mapping[str, str] = _NOWHERE, **more: Any
    ) -> Payload:
        """The same, for what is answered with one thing that has an id."""
        answer = await self.call(verb, path, where, **more)
        if not isinstance(answer, dict) or not isinstance(answer.get("id"), str | int):
            raise Unreachable("Discord gave an answer to another question")
        return answer

    async def objects(
        self, verb: str, path: str, where: Mapping[str, str] = _NOWHERE, **more: Any
    ) -> list[Payload]:
        """The same, for what is answered with a list of them."""
        answer = await self.call(verb, path, where, **more)
        if not isinstance(answer, list) or not all(
            isinstance(each, dict) and "id" in each for each in answer
        ):
            raise Unreachable("Discord gave an answer to another question")
        return answer

    async def close(self) -> None:
        """Hang up."""
        if self._http is not None:
            http, self._http = self._http, None
            await http.close()

    async def _line(self) -> HTTPClient:
        async with self._opening:
            if self._http is None:
                connector = Connector(self._account, to_connect=min(10.0, self._patience.answer))
                http = HTTPClient(
                    asyncio.get_running_loop(),
                    connector,
                    http_trace=trace(self._told),
                    max_ratelimit_timeout=_LONGEST_WAIT_INSIDE,
                )
                try:
                    me = await http.static_login(self._account.token.strip())
                    self._me = _identified(_understood(me))
                except BaseException:
                    await http.close()
                    raise
                self._http = http
            return self._http

    @asynccontextmanager
    async def _asking(self, patience: float) -> AsyncIterator[None]:
        attempt = _Attempt()
        with _our_errors(attempt):
            _ATTEMPT.set(attempt)
            async with asyncio.timeout(patience):
                yield


def trace(told: Told = lambda date: None) -> aiohttp.TraceConfig:
    """What sees to it that discord.py asks once, and tells the dates of its answers."""
    config = aiohttp.TraceConfig()

    async def note_date(
        _: aiohttp.ClientSession, __: SimpleNamespace, params: aiohttp.TraceRequestEndParams
    ) -> None:
        told(params.response.headers.get("Date"))

    config.on_request_start.append(_note_start)
    config.on_request_end.append(note_date)
    config.on_request_end.append(_stop_at_trouble)
    return config


async def _note_start(
    _: aiohttp.ClientSession, __: SimpleNamespace, ___: aiohttp.TraceRequestStartParams
) -> None:
    with suppress(LookupError):  # a socket is opened outside any attempt
        _ATTEMPT.get().begun = True


async def _stop_at_trouble(
    _: aiohttp.ClientSession, __: SimpleNamespace, params: aiohttp.TraceRequestEndParams
) -> None:
    response = params.response
    if response.status == 429 or response.status >= 500:
        raise _Trouble(response.status, await response.read(), response.headers)


@contextmanager
def our_errors() -> Iterator[None]:
    """For what discord.py does by itself: its login and its sockets."""
    with _our_errors(_Attempt(begun=True)):
        yield


@contextmanager
def _our_errors(attempt: _Attempt) -> Iterator[None]:
    try:
        yield
    except _Trouble as exc:
        raise _trouble(exc) from exc
    except discord.RateLimited as exc:
        raise Throttled("Discord asks for a pause", retry_after=exc.retry_after) from exc
    except discord.LoginFailure as exc:
        raise _wrong_token() from exc
    except discord.HTTPException as exc:
        raise _refusal(exc) from exc
    except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as exc:
        raise NotSent("Discord cannot be reached") from exc
    except (aiohttp.ClientError, OSError) as exc:
        if attempt.begun:
            raise Unreachable("Discord did not answer") from exc
        raise NotSent("Discord was not asked: too much waits there") from exc
    except (ValueError, TypeError, KeyError) as exc:
        raise Unreachable("Discord answered in words that nobody understands") from exc


def _understood(answer: object) -> object:
    """
    Discord's JSON, or nothing. A page of somebody in between is no answer.

    discord.py takes for JSON only what calls itself that and not a word more; servers of another kind add a charset.
    """
    if not isinstance(answer, str):
        return answer
    return json.loads(answer) if answer else None


def _identified(me: object) -> Payload:
    if not isinstance(me, dict) or not isinstance(me.get("id"), str | int):
        raise Unreachable("Discord has not said who we are")
    return me


def _wrong_token() -> Unauthorized:
    return Unauthorized(
        f"Discord refuses the token; reset it at {PORTAL}, page Bot, and copy it again"
    )


def _trouble(exc: _Trouble) -> TurngateError:
    if exc.status != 429:
        return Unreachable(f"Discord has trouble of its own ({exc.status})")
    try:
        told = json.loads(exc.body)
        pause, everywhere = float(told["retry_after"]), bool(told.get("global"))
    except (ValueError, TypeError, KeyError):
        # Not Discord itself but what stands before it, and it means everybody at this address.
        asked = re.fullmatch(r"\d+(\.\d+)?", exc.headers.get("Retry-After", ""))
        pause, everywhere = float(asked[0]) if asked else _PAUSE_IF_ASKED, True
    return Throttled("Discord asks for a pause", retry_after=pause, everywhere=everywhere)


def _refusal(exc: discord.HTTPException) -> TurngateError:
    said, told_code = _explained(exc)
    match exc.status, told_code:
        case _, code if code == _TOKEN_OVER:
            return InteractionOver("the interaction is over")
        case 401, _:
            return _wrong_token()
        case _, code if code in _KINDS:
            kind, words = _KINDS[code]
            return kind(words)
        case _, code if code == _NO_ACCESS:
            return Forbidden("the bot cannot see this channel", sees=False)
        case _, code if code == _NO_PERMISSION:
            return Forbidden("the bot may not do that in this channel", sees=True)
    words = said.splitlines()[0] if said else ""
    return Undeliverable(f"Discord does not take it ({exc.status}, code {told_code})", words=words)


def _explained(exc: discord.HTTPException) -> tuple[str, int]:
    """In words and by its number, also where discord.py has not seen that this is JSON."""
    with suppress(ValueError):
        match json.loads(exc.text):
            case {"message": str(said), "code": int(code)}:
                return said, code
    return exc.text, exc.code


_KINDS: dict[int, tuple[type[Undeliverable], str]] = {
    _UNKNOWN_CHANNEL: (ChannelGone, "there is no such channel"),
    _UNKNOWN_MESSAGE: (MessageGone, "there is no such message"),
    _UNKNOWN_WEBHOOK: (InteractionOver, "the interaction is over"),
    _UNKNOWN_INTERACTION: (InteractionOver, "the interaction is over"),
    _ALREADY_ACKNOWLEDGED: (InteractionOver, "the interaction was answered before"),
    _TOO_LARGE: (Undeliverable, "the file is too large for Discord"),
    _NO_DM: (Undeliverable, "this person takes no direct messages from the bot"),
    _NO_TEXT_HERE: (OnlyPosts, "this channel takes no messages"),
    _ARCHIVED: (Archived, "the thread is archived"),
    _HAS_THREAD: (HasThread, "there is a thread already"),
    _LOCKED: (
        Undeliverable,
        'the thread is locked; the bot needs the permission "Manage Threads" there',
    ),
}
