"""
One connection to Discord's gateway through discord.py, which does compression, heartbeats and
resuming.

The rest of discord.py is switched off. It parses no events: one that it does not understand must
not end the connection, and they are read here as JSON. It starts no new session by itself: earlier
events would be missing and need a catch-up. So a session that cannot be resumed ends here.
"""

from __future__ import annotations

import asyncio
import json
import zlib
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import aiohttp
import discord
from discord.gateway import DiscordWebSocket, ReconnectWebSocket

from turngate.adapters.discord.account import Account, Timeouts
from turngate.adapters.discord.api import (
    PORTAL,
    trace,
    translate_errors,
)
from turngate.adapters.discord.connector import Connector
from turngate.adapters.discord.json_fields import Payload
from turngate.gateway.domain.backoff import Backoff
from turngate.gateway.domain.errors import (
    Retryable,
    TurngateError,
    Unauthorized,
    Unreachable,
)

INTENTS = discord.Intents(guilds=True, guild_messages=True, dm_messages=True, message_content=True)
"""
Names of channels, what is written in them and in direct chats, and its words. Presses and commands
need none.
"""

OnEvent = Callable[[str, Payload], None]

# Voice is not used, so its missing libraries are no warning.
discord.VoiceClient.warn_nacl = discord.VoiceClient.warn_dave = False

_MOST_RESUMES = 5
_LONGEST_PAUSE = 60.0
# Discord closes with this code when it is asked too often.
_SLOW_DOWN = 4008
# So many failures a slow-down counts for: the pause is then a multiple of the first.
_COUNTS_FOR = 4
_NEVER = 86_400.0
_CLOSE_TIMEOUT = 1.0
# Neither 1000 nor 1001: with those Discord shows the bot as gone and drops the session.
_CLOSE_CODE = 4000
_DISPATCH = 0
_ACKNOWLEDGED = 11
_INTENTS_REFUSED = (4013, 4014)
_SHARDS_REFUSED = (4010, 4011)


class _Client(discord.Client):
    """discord.py reduced to the connection. `on_frame` is called with every frame, in order."""

    def __init__(self, on_frame: Callable[[str], None], **options: Any) -> None:
        # The read timeout is kept here; discord.py would wait half a minute longer to close.
        super().__init__(
            intents=INTENTS, enable_debug_events=True, heartbeat_timeout=_NEVER, **options
        )
        self._connection.parsers.clear()
        self._on_frame = on_frame

    def dispatch(self, event: str, /, *args: Any, **_: Any) -> None:
        if event == "socket_raw_receive":
            self._on_frame(args[0])

    async def before_identify_hook(self, shard_id: int | None, *, initial: bool = False) -> None:
        """Do not wait: session starts are already spaced."""


class _Socket(DiscordWebSocket):
    """
    discord.py's socket, for servers that omit fields of READY; the resume address defaults to the
    current one.
    """

    async def received_message(self, msg: Any, /) -> None:
        text = self._decompressor.decompress(msg) if isinstance(msg, bytes) else msg
        if text is not None:
            await super().received_message(self._completed(text))

    def _completed(self, text: str) -> str:
        if '"READY"' not in text and '"RESUMED"' not in text:
            return text
        frame = json.loads(text)
        if not isinstance(frame, dict) or frame.get("t") not in ("READY", "RESUMED"):
            return text
        payload = frame["d"] if isinstance(frame.get("d"), dict) else {}
        least = {"session_id": None, "resume_gateway_url": str(self.gateway)}
        return json.dumps({"s": None, **frame, "d": {**least, **payload}})


class Shard:
    """
    Shard `number` of `count`. `on_event` receives every event, `beat` is called at every sign of
    life.
    """

    def __init__(
        self,
        account: Account,
        timeouts: Timeouts,
        *,
        number: int,
        count: int,
        gateway: str,
        on_event: OnEvent,
        beat: Callable[[], None],
    ) -> None:
        self._account = account
        self._timeouts = timeouts
        self._number = number
        self._on_event = on_event
        self._beat = beat
        connector = Connector(account, to_connect=min(10.0, timeouts.answer))
        self._gateway = connector.lead_gateway(gateway)
        self._client = _Client(
            self._on_frame,
            connector=connector,
            http_trace=trace(),
            shard_id=number,
            shard_count=count,
            max_messages=None,
        )
        self._socket: DiscordWebSocket | None = None
        self._ready_by: float | None = None

        self._backoff = Backoff(first=timeouts.pause, longest=_LONGEST_PAUSE, jitter=0.5)
        self._failures = 0
        self._of_use_since: float | None = None

    async def listen(self) -> None:
        """
        Receive until cancelled. Raises Unauthorized, errors of `on_event`, and Retryable when a new
        session is needed.
        """
        async with self._client:
            try:
                await self._log_in()
                socket = await self._open(gateway=self._gateway)
                while True:
                    await self._poll_events(socket)
                    self._count_failure(socket.socket.close_code)
                    socket = await self._resume(socket)
            finally:
                await self._close_socket()

    async def _log_in(self) -> None:
        """Log in without the further requests of discord.py, which are not needed here."""
        with translate_errors():
            async with asyncio.timeout(self._timeouts.answer):
                await self._client.http.static_login(self._account.token.strip())

    async def _poll_events(self, socket: DiscordWebSocket) -> None:
        """Receive until the connection breaks; returns if the session can be resumed."""
        try:
            while True:
                async with asyncio.timeout_at(self._deadline()):
                    await socket.poll_event()
        except ReconnectWebSocket as exc:
            if not exc.resume:
                raise Retryable("Discord has ended the session; a new one begins") from exc
        except discord.ConnectionClosed as exc:
            raise _closed(exc.code) from exc
        except (OSError, aiohttp.ClientError, zlib.error, ValueError):
            # Timeout, broken or corrupt: a resume delivers the missed events again.
            pass
        finally:
            await self._close_socket()

    def _deadline(self) -> float:
        """Return the read timeout: for READY after connecting, otherwise for the next frame."""
        return self._ready_by or asyncio.get_running_loop().time() + self._timeouts.silence

    async def _resume(self, socket: DiscordWebSocket) -> DiscordWebSocket:
        if socket.session_id is None:
            raise Unreachable("the connection to Discord broke before it was of use")

        while True:
            if self._failures > _MOST_RESUMES:
                raise Unreachable("the connection to Discord keeps breaking")
            await asyncio.sleep(self._backoff.pause(self._failures - 1))
            session: dict[str, Any] = {
                "session": socket.session_id,
                "sequence": socket.sequence,
                "resume": True,
            }
            with suppress(Retryable):
                return await self._open(gateway=socket.gateway, **session)
            self._failures += 1

    def _count_failure(self, code: int | None) -> None:
        """
        Count a broken connection. Only one that lasted makes the count begin anew: it may break
        each time at once.
        """
        since, self._of_use_since = self._of_use_since, None
        now = asyncio.get_running_loop().time()
        if since is not None and now - since >= self._timeouts.lasting:
            self._failures = 0
        self._failures = max(self._failures + 1, _COUNTS_FOR if code == _SLOW_DOWN else 0)

    async def _open(self, **how: Any) -> DiscordWebSocket:
        loop = asyncio.get_running_loop()
        self._ready_by = loop.time() + self._timeouts.answer
        with translate_errors():
            async with asyncio.timeout_at(self._ready_by):
                try:
                    opening = _Socket.from_client(self._client, shard_id=self._number, **how)
                    self._socket = await opening
                    return self._socket
                except (ReconnectWebSocket, discord.ConnectionClosed, zlib.error) as exc:
                    raise Unreachable("Discord hung up at once") from exc

    def _on_frame(self, text: str) -> None:
        """
        Handle a frame. Resuming needs its sequence number, so an invalid one ends the session.
        """
        frame = json.loads(text)
        if not isinstance(frame, dict) or not isinstance(frame.get("s"), int | None):
            raise Unreachable("Discord sent an event that cannot be parsed")

        if frame.get("op") == _ACKNOWLEDGED and self._ready_by is None:
            self._beat()

        if frame.get("op") == _DISPATCH and isinstance(frame.get("d"), dict):
            event = str(frame.get("t"))
            if event in ("READY", "RESUMED"):
                self._ready_by = None
                self._of_use_since = asyncio.get_running_loop().time()
                self._beat()
            self._on_event(event, frame["d"])

    async def _close_socket(self) -> None:
        """Close the socket; a broken or silent peer is not waited for."""
        if self._socket is not None:
            with suppress(OSError, aiohttp.ClientError, RuntimeError):
                async with asyncio.timeout(_CLOSE_TIMEOUT):
                    await self._socket.close(_CLOSE_CODE)


def _closed(code: int) -> TurngateError:
    if code in _INTENTS_REFUSED:
        return Unauthorized(
            "Discord does not let this bot read messages; switch on the Message Content Intent "
            f"at {PORTAL}, page Bot"
        )
    if code in _SHARDS_REFUSED:
        return Retryable("Discord wants the bot to come in more parts")
    if code == 4004:
        return Unauthorized(
            f"Discord refuses the token; reset it at {PORTAL}, page Bot, and copy it again"
        )

    return Retryable(f"Discord closed the connection ({code})")
