"""
One line to Discord's gateway through discord.py: compression, heartbeats and resuming are its work.

What it would do besides is left out. It parses no events: one that it does not understand must not end the line, and
they are read here as JSON anyway. It begins no new session by itself: what was said before that is then missing, and
somebody has to read it again. So a session that cannot be resumed ends here.
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

from turngate.adapters.discord.account import Account, Patience
from turngate.adapters.discord.api import PORTAL, our_errors, trace
from turngate.adapters.discord.channels import Payload
from turngate.adapters.discord.connector import Connector
from turngate.gateway.domain.errors import Retryable, TurngateError, Unauthorized, Unreachable

INTENTS = discord.Intents(guilds=True, guild_messages=True, dm_messages=True, message_content=True)
"""Names of channels, what is written in them and in direct chats, and its words. Presses and commands need none."""

Hear = Callable[[str, Payload], None]

# Nobody speaks here, so nobody need hear at every start that nobody can.
discord.VoiceClient.warn_nacl = discord.VoiceClient.warn_dave = False

_MOST_RESUMES = 5
_FOR_EVER = 86_400.0
_TO_HANG_UP = 1.0
# Neither 1000 nor 1001: with those Discord shows the bot as gone and drops the session.
_COMES_BACK = 4000
_DISPATCH, _ACKNOWLEDGED = 0, 11
_INTENTS_REFUSED = (4013, 4014)
_SHARDS_REFUSED = (4010, 4011)


class _Client(discord.Client):
    """discord.py, reduced to the wire. `hear` is called with every frame, in order."""

    def __init__(self, hear: Callable[[str], None], **options: Any) -> None:
        # How long a line may be silent is counted here; discord.py would wait half a minute more to say goodbye.
        super().__init__(
            intents=INTENTS, enable_debug_events=True, heartbeat_timeout=_FOR_EVER, **options
        )
        self._connection.parsers.clear()
        self._hear = hear

    def dispatch(self, event: str, /, *args: Any, **_: Any) -> None:
        if event == "socket_raw_receive":
            self._hear(args[0])

    async def before_identify_hook(self, shard_id: int | None, *, initial: bool = False) -> None:
        """Whoever opens a session has waited already."""


class _Socket(DiscordWebSocket):
    """discord.py's, for a Discord that says less at the beginning: where to resume, for one, is then where it began."""

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
        told = frame["d"] if isinstance(frame.get("d"), dict) else {}
        least = {"session_id": None, "resume_gateway_url": str(self.gateway)}
        return json.dumps({"s": None, **frame, "d": {**least, **told}})


class Shard:
    """Number `number` of `count`. `hear` gets every event, `beat` is called whenever Discord shows that it listens."""

    def __init__(
        self,
        account: Account,
        patience: Patience,
        *,
        number: int,
        count: int,
        gateway: str,
        hear: Hear,
        beat: Callable[[], None],
    ) -> None:
        self._account = account
        self._patience = patience
        self._number = number
        self._tell = hear
        self._beat = beat
        connector = Connector(account, to_connect=min(10.0, patience.answer))
        self._gateway = connector.lead_gateway(gateway)
        self._client = _Client(
            self._hear,
            connector=connector,
            http_trace=trace(),
            shard_id=number,
            shard_count=count,
            max_messages=None,
        )
        self._socket: DiscordWebSocket | None = None
        self._greet_until: float | None = None
        self._failures = 0

    async def listen(self) -> None:
        """
        Until cancelled. Raises Unauthorized, what `hear` raises, and Retryable when only a new session can help.
        """
        async with self._client:
            try:
                await self._log_in()
                socket = await self._open(gateway=self._gateway)
                while True:
                    await self._converse(socket)
                    socket = await self._resume(socket)
            finally:
                await self._hang_up()

    async def _log_in(self) -> None:
        """Without what discord.py would ask besides: who the bot is and what it may do is of no use here."""
        with our_errors():
            async with asyncio.timeout(self._patience.answer):
                await self._client.http.static_login(self._account.token.strip())

    async def _converse(self, socket: DiscordWebSocket) -> None:
        """Until the line breaks; returns if the session may go on."""
        try:
            while True:
                async with asyncio.timeout_at(self._patient_until()):
                    await socket.poll_event()
        except ReconnectWebSocket as exc:
            if not exc.resume:
                raise Retryable("Discord has ended the session; a new one begins") from exc
        except discord.ConnectionClosed as exc:
            raise _closed(exc.code) from exc
        except (OSError, aiohttp.ClientError, zlib.error, ValueError):
            pass  # silent, broken or garbled: what was lost of it comes again with a resume
        finally:
            await self._hang_up()

    def _patient_until(self) -> float:
        """A new session begins with a greeting, and without one nothing else comes."""
        return self._greet_until or asyncio.get_running_loop().time() + self._patience.silence

    async def _resume(self, socket: DiscordWebSocket) -> DiscordWebSocket:
        if socket.session_id is None:
            raise Unreachable("the connection to Discord broke before it was of use")
        while True:
            self._failures += 1
            if self._failures > _MOST_RESUMES:
                raise Unreachable("the connection to Discord keeps breaking")
            await asyncio.sleep(self._patience.pause * (self._failures - 1))
            session: dict[str, Any] = {
                "session": socket.session_id,
                "sequence": socket.sequence,
                "resume": True,
            }
            with suppress(Retryable):
                return await self._open(gateway=socket.gateway, **session)

    async def _open(self, **how: Any) -> DiscordWebSocket:
        loop = asyncio.get_running_loop()
        self._greet_until = loop.time() + self._patience.answer
        with our_errors():
            async with asyncio.timeout_at(self._greet_until):
                try:
                    opening = _Socket.from_client(self._client, shard_id=self._number, **how)
                    self._socket = await opening
                    return self._socket
                except (ReconnectWebSocket, discord.ConnectionClosed, zlib.error) as exc:
                    raise Unreachable("Discord hung up at once") from exc

    def _hear(self, text: str) -> None:
        """One frame. Its number is what a resume goes by, so one without a proper number ends the session."""
        frame = json.loads(text)
        if not isinstance(frame, dict) or not isinstance(frame.get("s"), int | None):
            raise Unreachable("Discord sent something that nobody understands")
        if frame.get("op") == _ACKNOWLEDGED and self._greet_until is None:
            self._beat()
        if frame.get("op") == _DISPATCH and isinstance(frame.get("d"), dict):
            event = str(frame.get("t"))
            if event in ("READY", "RESUMED"):
                self._greet_until, self._failures = None, 0
                self._beat()
            self._tell(event, frame["d"])

    async def _hang_up(self) -> None:
        """A line that broke need not be told, and one that is silent does not answer."""
        if self._socket is not None:
            with suppress(OSError, aiohttp.ClientError, RuntimeError):
                async with asyncio.timeout(_TO_HANG_UP):
                    await self._socket.close(_COMES_BACK)


def _closed(code: int) -> TurngateError:
    if code in _INTENTS_REFUSED:
        return Unauthorized(
            f"Discord does not let this bot read messages; switch on the Message Content Intent at {PORTAL}, page Bot"
        )
    if code in _SHARDS_REFUSED:
        return Retryable("Discord wants the bot to come in more parts")
    if code == 4004:
        return Unauthorized(
            f"Discord refuses the token; reset it at {PORTAL}, page Bot, and copy it again"
        )
    return Retryable(f"Discord closed the connection ({code})")
