"""The gateway: how bots come in, and what they may say there."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from contextvars import ContextVar

from aiohttp import WSMsgType, web

from tests.simulators.common import Call, Method, Refusal, Rule, Simulator
from tests.simulators.discord import rules, shapes, specification
from tests.simulators.discord.connection import CLOSED_FOR, HEARD, MOST_FRAMES, Connection
from tests.simulators.discord.sessions import (
    ALL_INTENTS,
    INTENTS,
    PRIVILEGED,
    Frame,
    Session,
    Sessions,
)
from tests.simulators.discord.settings import Settings
from tests.simulators.discord.world import Bot, Payload, World

RESUME_URL = "wss://gateway-resume.discord.gg"
LARGEST_FRAME = 4096
WITHIN = 60.0
_SAID = {
    1: "heartbeat",
    2: "identify",
    3: "presence",
    4: "voice_state",
    6: "resume",
    8: "request_members",
}

REQUEST: ContextVar[web.Request] = ContextVar("REQUEST")
"""The request that is being answered: a socket needs more of it than a call has."""


class Closed(Exception):
    """The gateway hangs up, with a code and for a reason."""

    def __init__(self, code: int, why: str, rule: Rule) -> None:
        super().__init__(why)
        self.code = code
        self.rule = rule


class Gateway:
    """Who is connected, and how bots come in."""

    def __init__(self, world: World, sessions: Sessions, settings: Settings) -> None:
        self.simulator: Simulator | None = None
        self._world = world
        self._sessions = sessions
        self._settings = settings
        self._identified_at: dict[str, float] = {}

    @property
    def methods(self) -> dict[str, Method]:
        """The way in, and the frames of both directions."""
        source = f"{rules.DOCS}/events/gateway-events"
        identify = {"token": str, "properties": dict, "intents": int}
        more = {"compress": bool, "large_threshold": int, "shard": list, "presence": dict}
        voice = {"guild_id": object, "channel_id": object, "self_mute": bool, "self_deaf": bool}
        members = {"query": str, "limit": int, "presences": bool, "user_ids": object, "nonce": str}
        said = {
            "heartbeat": Method(answer=_unused, required={"seq": object}, source=source),
            "identify": Method(answer=_unused, required=identify, optional=more, source=source),
            "resume": Method(
                answer=_unused,
                required={"token": str, "session_id": str, "seq": int},
                source=source,
            ),
            "presence": Method(answer=_unused, required=_PRESENCE, source=source),
            "voice_state": Method(answer=_unused, required=voice, source=source),
            "request_members": Method(
                answer=_unused, required={"guild_id": object}, optional=members, source=source
            ),
        }
        told = {"event": str, "seq": int}
        heard = {
            name: Method(
                answer=_unused, does="receive", required={"op": int}, optional=told, source=source
            )
            for name in HEARD.values()
        }
        query = {"v": str, "encoding": str, "compress": str}
        way_in = Method(
            answer=self._connect,
            does="receive",
            optional=query,
            source=f"{rules.DOCS}/events/gateway",
        )
        return {"gateway": way_in, **said, **heard}

    def _noted(
        self, method: str, facts: Mapping[str, object], account: str | None, chat: str | None = None
    ) -> Call:
        """Recorded, checked, and with its fault."""
        assert self.simulator is not None
        return self.simulator.frame(method, facts, account=account, chat=chat)

    def _compare(self, event: str, payload: Mapping[str, object]) -> None:
        """Compare an event with what Discord says of it."""
        assert self.simulator is not None
        for fault in specification.faults_of_event(event, payload):
            self.simulator.note_violation(fault, rules.SPECIFICATION)

    async def _connect(self, call: Call) -> web.StreamResponse:
        request = REQUEST.get()
        socket = web.WebSocketResponse(max_msg_size=1 << 20)
        await socket.prepare(request)
        compressed = call.parameters.get("compress") == "zlib-stream"
        connection = Connection(
            socket,
            request.transport,
            noted=self._noted,
            compared=self._compare,
            compressed=compressed,
        )
        try:
            await self._converse(connection, socket, call)
        finally:
            self._leave(connection, socket)
        return socket

    async def _converse(
        self, connection: Connection, socket: web.WebSocketResponse, call: Call
    ) -> None:
        asked = call.parameters
        if (
            asked.get("v") != "10"
            or asked.get("encoding") != "json"
            or asked.get("compress") not in (None, "zlib-stream")
        ):
            self._note(
                Closed(4012, f"no such version or encoding: {dict(asked)}", rules.VERSION), call
            )
            await socket.close(code=4012)
            return
        connection.put(
            Frame(op=10, data={"heartbeat_interval": round(self._settings.heartbeat * 1000)})
        )
        listening = asyncio.create_task(self._listen(connection, socket))
        writing = asyncio.create_task(connection.write())
        silence = asyncio.create_task(connection.silent.wait())
        try:
            await asyncio.wait({listening, writing, silence}, return_when=asyncio.FIRST_COMPLETED)
            if writing.done():
                listening.cancel()  # a socket is closed by one task while no other reads from it
                await asyncio.wait({listening})
                await socket.close(code=writing.result())
            elif listening.done():
                listening.result()
            else:
                listening.cancel()
                await asyncio.Event().wait()  # nothing is read or answered on this line any more
        finally:
            for task in (listening, writing, silence):
                task.cancel()

    async def _listen(self, connection: Connection, socket: web.WebSocketResponse) -> None:
        async for message in socket:
            if message.type in (WSMsgType.TEXT, WSMsgType.BINARY):
                await self._hear(connection, socket, message.data)

    async def _hear(
        self, connection: Connection, socket: web.WebSocketResponse, said: str | bytes
    ) -> None:
        try:
            op, parameters = self._parsed(connection, said)
            await self._act_with(connection, op, parameters)
        except Closed as closed:
            self._note(closed)
            await socket.close(code=closed.code, message=str(closed).encode()[:120])
        except Refusal as refusal:
            await socket.close(code=4002, message=str(refusal).encode()[:120])

    def _note(self, closed: Closed, call: Call | None = None) -> None:
        if closed.rule.strict and self.simulator is not None:
            self.simulator.note_violation(str(closed), closed.rule, call)

    def _parsed(self, connection: Connection, said: str | bytes) -> tuple[int, Payload]:
        if len(said) > LARGEST_FRAME:
            raise Closed(4002, f"{len(said)} bytes are too many", rules.FRAMES)
        now, heard_at = asyncio.get_running_loop().time(), connection.heard_at
        if len(heard_at) == MOST_FRAMES and now - heard_at[0] < WITHIN:
            raise Closed(4008, f"more than {MOST_FRAMES} frames a minute", rules.FRAMES)
        heard_at.append(now)
        try:
            frame = json.loads(said)
        except ValueError:
            raise Closed(4002, "no JSON", rules.FRAMES) from None
        if not isinstance(frame, dict):
            raise Closed(4002, "no object", rules.FRAMES)
        op, data = frame.get("op"), frame.get("d")
        if op not in _SAID:
            raise Closed(4001, f"there is no opcode {op} for bots", rules.ORDER)
        parameters = {"seq": data} if op == 1 else data
        if not isinstance(parameters, dict):
            raise Closed(4002, f"op {op} with {data!r}", rules.FRAMES)
        return op, parameters

    async def _act_with(self, connection: Connection, op: int, said: Payload) -> None:
        """Act upon what was said, with whatever goes wrong with it."""
        bot = self._speaker(connection, said)
        call = self._noted(_SAID[op], said, bot.account if bot else None)
        kind = call.fault.kind if call.fault else None
        if kind == "half-open":
            connection.fall_silent()
        elif kind == "reset":
            connection.end(None)
        elif kind in CLOSED_FOR:
            connection.end(CLOSED_FOR[kind])
        elif kind != "deaf":
            await asyncio.sleep(call.fault.seconds if call.fault and kind == "slow" else 0)
            self._act(connection, op, said)
        if kind == "lost answer":
            connection.end(None)
        call.answered = kind or call.answered

    def _speaker(self, connection: Connection, said: Payload) -> Bot | None:
        return (
            connection.session.bot
            if connection.session
            else self._world.bot_of(str(said.get("token")))
        )

    def _act(self, connection: Connection, op: int, said: Payload) -> None:
        session, bot = connection.session, self._speaker(connection, said)
        match op:
            case 1:
                connection.put(Frame(op=11))
            case 2 | 6 if session is not None:
                raise Closed(4005, "already authenticated", rules.ORDER)
            case 2:
                self._identify(connection, bot, said)
            case 6:
                self._resume(connection, bot, said)
            case _ if session is None:
                raise Closed(4003, "not authenticated", rules.ORDER)
            case 8:
                self._tell_members(session, said)

    def _identify(self, connection: Connection, bot: Bot | None, said: Payload) -> None:
        if bot is None:
            raise Closed(4004, "Authentication failed.", rules.TOKEN)
        number, count = _shard(said.get("shard", [0, 1]))
        if not 0 <= number < count:
            raise Closed(4010, "Invalid shard.", rules.SHARDS)
        if count < bot.shards_needed:
            raise Closed(4011, "Sharding required.", rules.SHARDS)
        self._check_intents(bot, said["intents"])
        now = self._world.clock.now()
        if self._settings.rates and now - self._identified_at.get(bot.account, 0.0) < 5:
            connection.put(Frame(op=9, data=False))
            return
        self._identified_at[bot.account] = now
        bot.starts_left -= 1
        if bot.starts_left < 0:
            bot.revoked = True
            raise Closed(
                4004,
                "Authentication failed: too many session starts, the token was reset.",
                rules.STARTS,
            )
        session = self._sessions.begin(bot, said["intents"], (number, count))
        self._attach(connection, session)
        self._greet(session)

    def _check_intents(self, bot: Bot, intents: int) -> None:
        if intents & ~ALL_INTENTS:
            raise Closed(4013, "Invalid intent(s).", rules.INTENTS)
        for name in PRIVILEGED:
            if intents >> INTENTS[name] & 1 and name not in bot.portal:
                raise Closed(4014, "Disallowed intent(s).", rules.INTENTS)

    def _greet(self, session: Session) -> None:
        bot = session.bot
        mine = [
            guild
            for guild in self._world.guilds.values()
            if bot.id in guild.members and session.serves(guild.id)
        ]
        ready = {
            "v": 10,
            "user": shapes.own_user(bot),
            "guilds": [{"id": str(guild.id), "unavailable": True} for guild in mine],
            "session_id": session.id,
            "session_type": "normal",
            "resume_gateway_url": RESUME_URL,
            "shard": list(session.shard),
            "application": {"id": str(bot.application), "flags": shapes.flags(bot)},
            "private_channels": [],
        }
        session.dispatch("READY", ready)
        for guild in mine if session.wants("guilds") else []:
            session.dispatch("GUILD_CREATE", shapes.whole_guild(self._world, guild, bot))

    def _resume(self, connection: Connection, bot: Bot | None, said: Payload) -> None:
        if bot is None:
            raise Closed(4004, "Authentication failed.", rules.TOKEN)
        session = self._sessions.resumable(bot, said["session_id"], said["seq"])
        if session is None:
            connection.put(Frame(op=9, data=False))
            return
        if said["seq"] > session.seq:
            raise Closed(4007, "Invalid seq.", rules.SESSIONS)
        missed = [
            frame for frame in session.told if frame.seq is not None and frame.seq > said["seq"]
        ]
        self._attach(connection, session)
        for frame in missed:
            connection.put(frame)
        session.dispatch("RESUMED", {})

    def _attach(self, connection: Connection, session: Session) -> None:
        if session.socket is not None:
            session.socket.end(4000)
        session.socket, session.left_at, connection.session = connection, None, session

    def _leave(self, connection: Connection, socket: web.WebSocketResponse) -> None:
        session = connection.session
        if session is None or session.socket is not connection:
            return
        session.socket, session.left_at = None, self._world.clock.now()
        if socket.close_code in (1000, 1001) and not connection.silent.is_set():
            session.over = True

    def _tell_members(self, session: Session, said: Payload) -> None:
        guild = self._world.guilds.get(int(said["guild_id"]))
        if guild is None:
            return
        wanted = said.get("user_ids")
        ids = (
            [int(each) for each in (wanted if isinstance(wanted, list) else [wanted])]
            if wanted
            else list(guild.members)
        )
        begin = str(said.get("query", ""))
        found = [
            id_
            for id_ in ids
            if id_ in guild.members and self._world.person(id_).name.startswith(begin)
        ]
        chunk: Payload = {"guild_id": str(guild.id), "chunk_index": 0, "chunk_count": 1}
        chunk["members"] = [
            shapes.whole_member(self._world, guild, id_)
            for id_ in found[: said.get("limit") or None]
        ]
        chunk["not_found"] = [str(id_) for id_ in ids if id_ not in guild.members]
        session.dispatch(
            "GUILD_MEMBERS_CHUNK", chunk | ({"nonce": said["nonce"]} if "nonce" in said else {})
        )


_PRESENCE = {"since": object, "activities": list, "status": object, "afk": bool}


def _shard(given: object) -> tuple[int, int]:
    match given:
        case [int(number), int(count)]:
            return number, count
    raise Closed(4010, "Invalid shard.", rules.SHARDS)


async def _unused(call: Call) -> object:
    """Frames are acted upon where they are heard."""
    raise AssertionError(f"{call.method} is no request")
