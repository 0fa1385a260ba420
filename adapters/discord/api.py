"""
Discord's REST API through discord.py; raises only the gateway's own errors.

discord.py keeps to the announced rate limits and would retry server errors and 429 by itself. It
must not: retries are decided by the outbox. A trace, which sees every answer first, ends the call
there.
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

from turngate.adapters.discord.account import Account, Timeouts
from turngate.adapters.discord.connector import Connector
from turngate.adapters.discord.json_fields import Payload
from turngate.adapters.platform_clock import NoteDate
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

# https://docs.discord.com/developers/topics/opcodes-and-status-codes#json
_UNKNOWN_CHANNEL = 10003
_UNKNOWN_MESSAGE = 10008
_UNKNOWN_WEBHOOK = 10015
_UNKNOWN_INTERACTION = 10062
_SENDING_OFF = 40004
_TOO_LARGE = 40005
_FEATURE_OFF = 40006
_NO_FREE_TAG = 40066
_NEEDS_TAG = 40067
_ALREADY_ACKNOWLEDGED = 40060
_NO_ACCESS = 50001
_NO_DM = 50007
_NO_TEXT_HERE = 50008
_NO_PERMISSION = 50013
_TOKEN_OVER = 50027
_ARCHIVED = 50083
_OVERLOADED = 130000
_HAS_THREAD = 160004
_LOCKED = 160005
_MODERATED = 200000
_HARMFUL_LINK = 240000
# Discord says that they pass, and with which status is not documented.
_TEMPORARY = (_SENDING_OFF, _FEATURE_OFF, _OVERLOADED)


class ChannelGone(Undeliverable):
    """The channel does not exist."""


class MessageGone(Undeliverable):
    """The message does not exist."""


class Forbidden(Undeliverable):
    """The bot lacks a permission. `sees`: whether it can see the channel."""

    def __init__(self, message: str, *, sees: bool) -> None:
        super().__init__(message)
        self.sees = sees


class OnlyPosts(Undeliverable):
    """The channel is a forum, which accepts new posts only."""


class NeedsTag(Undeliverable):
    """The forum accepts only posts with a tag."""


class Archived(Undeliverable):
    """The thread is archived and cannot be changed."""


class HasThread(Undeliverable):
    """The message already has a thread."""


class InteractionOver(Undeliverable):
    """The interaction can no longer be answered."""


@dataclass(slots=True)
class _Attempt:
    """One request. Before it is `begun` nothing was sent."""

    begun: bool = False


class _ErrorAnswer(Exception):
    """An answer that discord.py would have retried."""

    def __init__(self, status: int, body: bytes, headers: Mapping[str, str]) -> None:
        super().__init__(f"status {status}")
        self.status = status
        self.body = body
        self.headers = headers


_ATTEMPT: ContextVar[_Attempt] = ContextVar("_ATTEMPT")


class Api:
    """
    The REST connection of one bot. The first call opens it, also after `close`.

    `note_date` receives the Date header of every answer.
    """

    def __init__(
        self, account: Account, timeouts: Timeouts, note_date: NoteDate = lambda date: None
    ) -> None:
        self._account = account
        self._timeouts = timeouts
        self._note_date = note_date
        self._opening = asyncio.Lock()
        self._http: HTTPClient | None = None
        self._me: Payload = {}

    async def me(self) -> Payload:
        """Return the bot's user. Raises Unauthorized if the token is refused."""
        async with self._request(self._timeouts.answer):
            await self._connected()
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
        Send one request, without retries; `where` fills the path. Returns the decoded answer, None
        if it is empty.

        Raises NotSent, Unreachable, Throttled, Unauthorized or a kind of Undeliverable.
        """
        timeouts = self._timeouts.upload if form else self._timeouts.answer
        more: dict[str, Any] = {"json": body} if body is not None else {}
        if query is not None:
            more["params"] = {name: str(value) for name, value in query.items()}

        if form is not None:
            more["form"] = form

        async with self._request(timeouts):
            http = await self._connected()
            _ATTEMPT.get().begun = False
            return _decoded(await http.request(Route(verb, path, **where), **more))

    async def object(
        self, verb: str, path: str, where: Mapping[str, str] = _NOWHERE, **more: Any
    ) -> Payload:
        """Call, and require one object with an id."""
        answer = await self.call(verb, path, where, **more)
        if not isinstance(answer, dict) or not isinstance(answer.get("id"), str | int):
            raise Unreachable("Discord gave an answer to another question")
        return answer

    async def objects(
        self, verb: str, path: str, where: Mapping[str, str] = _NOWHERE, **more: Any
    ) -> list[Payload]:
        """Call, and require a list of objects. One of them may lack its id."""
        answer = await self.call(verb, path, where, **more)
        if not isinstance(answer, list) or not all(isinstance(each, dict) for each in answer):
            raise Unreachable("Discord gave an answer to another question")
        return answer

    async def close(self) -> None:
        if self._http is not None:
            http = self._http
            self._http = None
            await http.close()

    async def _connected(self) -> HTTPClient:
        async with self._opening:
            if self._http is None:
                connector = Connector(self._account, to_connect=min(10.0, self._timeouts.answer))
                http = HTTPClient(
                    asyncio.get_running_loop(),
                    connector,
                    http_trace=trace(self._note_date),
                    max_ratelimit_timeout=_LONGEST_WAIT_INSIDE,
                )
                try:
                    me = await http.static_login(self._account.token.strip())
                    self._me = _identified(_decoded(me))
                except BaseException:
                    await http.close()
                    raise
                self._http = http

            return self._http

    @asynccontextmanager
    async def _request(self, timeouts: float) -> AsyncIterator[None]:
        attempt = _Attempt()
        with _translate_errors(attempt):
            _ATTEMPT.set(attempt)
            async with asyncio.timeout(timeouts):
                yield


def trace(note_date: NoteDate = lambda date: None) -> aiohttp.TraceConfig:
    """Build the trace that prevents retries and reports the dates of answers."""
    config = aiohttp.TraceConfig()

    async def note_end(
        _: aiohttp.ClientSession, __: SimpleNamespace, params: aiohttp.TraceRequestEndParams
    ) -> None:
        note_date(params.response.headers.get("Date"))

    config.on_request_start.append(_note_start)
    config.on_request_end.append(note_end)
    config.on_request_end.append(_stop_at_error)
    return config


async def _note_start(
    _: aiohttp.ClientSession, __: SimpleNamespace, ___: aiohttp.TraceRequestStartParams
) -> None:
    # A gateway socket is opened outside any attempt.
    with suppress(LookupError):
        _ATTEMPT.get().begun = True


async def _stop_at_error(
    _: aiohttp.ClientSession, __: SimpleNamespace, params: aiohttp.TraceRequestEndParams
) -> None:
    response = params.response
    if response.status == 429 or response.status >= 500:
        raise _ErrorAnswer(response.status, await response.read(), response.headers)


@contextmanager
def translate_errors() -> Iterator[None]:
    """Translate errors of what discord.py does by itself: login and sockets."""
    with _translate_errors(_Attempt(begun=True)):
        yield


@contextmanager
def _translate_errors(attempt: _Attempt) -> Iterator[None]:
    try:
        yield
    except _ErrorAnswer as exc:
        raise _error_of(exc) from exc
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
        raise Unreachable("Discord sent an answer that cannot be parsed") from exc


def _decoded(answer: object) -> object:
    """
    Decode an answer that discord.py left as text. An HTML page of a proxy is an error.

    discord.py recognises only the exact JSON content type; other servers add a charset.
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


def _error_of(exc: _ErrorAnswer) -> TurngateError:
    if exc.status != 429:
        return Unreachable(f"Discord has trouble of its own ({exc.status})")

    try:
        answer = json.loads(exc.body)
        pause = float(answer["retry_after"])
        everywhere = bool(answer.get("global"))
    except (ValueError, TypeError, KeyError):
        # Sent by the proxy in front of Discord: it applies to all requests from this address.
        asked = re.fullmatch(r"\d+(\.\d+)?", exc.headers.get("Retry-After", ""))
        pause = float(asked[0]) if asked else _PAUSE_IF_ASKED
        everywhere = True

    return Throttled("Discord asks for a pause", retry_after=pause, everywhere=everywhere)


def _refusal(exc: discord.HTTPException) -> TurngateError:
    explanation, code = _explained(exc)
    match exc.status, code:
        case _, code if code == _TOKEN_OVER:
            return InteractionOver("the interaction is over")
        case 401, _:
            return _wrong_token()
        case _, code if code in _TEMPORARY:
            return NotSent("Discord does not take this now")
        case _, code if code in _KINDS:
            kind, words = _KINDS[code]
            return kind(words)
        case _, code if code == _NO_ACCESS:
            return Forbidden("the bot cannot see this channel", sees=False)
        case _, code if code == _NO_PERMISSION:
            return Forbidden("the bot may not do that in this channel", sees=True)

    words = explanation.splitlines()[0] if explanation else ""
    return Undeliverable(f"Discord does not take it ({exc.status}, code {code})", words=words)


def _explained(exc: discord.HTTPException) -> tuple[str, int]:
    """Return message and code, also where discord.py did not recognise JSON."""
    with suppress(ValueError):
        match json.loads(exc.text):
            case {"message": str(explanation), "code": int(code)}:
                return explanation, code
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
    _NEEDS_TAG: (NeedsTag, "posts in this forum need a tag"),
    _NO_FREE_TAG: (
        Undeliverable,
        "posts in this forum need a tag that only moderators set; the bot needs the permission "
        '"Manage Threads" there',
    ),
    _MODERATED: (Undeliverable, "the server's automatic moderation blocked this message"),
    _HARMFUL_LINK: (Undeliverable, "Discord blocked a link in this message as harmful"),
    _LOCKED: (
        Undeliverable,
        'the thread is locked; the bot needs the permission "Manage Threads" there',
    ),
}
