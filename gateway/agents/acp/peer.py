"""
The agent's running program, and the connection that many turns share.

Errors of the protocol become agent errors here. Updates for a session in which no turn runs are
dropped: the replay of a session that is loaded, and what an agent sends after a cancel.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import stat
import tempfile
from collections.abc import Awaitable
from pathlib import Path
from typing import TypeVar

from acp import AGENT_METHODS, CLIENT_METHODS, PROTOCOL_VERSION, RequestError
from acp.connection import Connection
from acp.schema import (
    AgentCapabilities,
    BaseModel,
    CancelNotification,
    ClientCapabilities,
    CloseSessionRequest,
    CloseSessionResponse,
    Implementation,
    InitializeRequest,
    InitializeResponse,
    LoadSessionRequest,
    LoadSessionResponse,
    NewSessionRequest,
    NewSessionResponse,
    PromptRequest,
    PromptResponse,
    RequestPermissionRequest,
    RequestPermissionResponse,
    ResumeSessionRequest,
    ResumeSessionResponse,
    SessionNotification,
)
from acp.utils import notify_model, request_model_from_dict

from turngate.gateway import __version__
from turngate.gateway.agents.acp.prompt import Block, Takes
from turngate.gateway.agents.acp.questions import cancelled
from turngate.gateway.agents.acp.turn_stream import TurnStream
from turngate.gateway.agents.acp.wire import Wire
from turngate.gateway.agents.program import (
    Program,
    said_status,
    start,
)
from turngate.gateway.agents.spec import AgentSpec
from turngate.gateway.domain.errors import (
    AgentError,
    AgentRefused,
    AgentUnavailable,
)

SECONDS_TO_BEGIN = 120.0
"""
For its first answer, and to open a session: some are downloaded by the command that starts them.
"""

_SECONDS_TO_SAY_WHY = 0.5
_LONGEST_REASON = 300
_LOGIN_NEEDED = -32000
_NO_SUCH_THING = -32002

Answer = TypeVar("Answer", bound=BaseModel)


class Peer:
    """
    A running program. `talks` are its running turns by session. `is_spoilt`: a turn in it did not
    stop, so it gets no new ones, and is closed after the last.
    """

    def __init__(self, name: str, program: Program, folder: str) -> None:
        self._name = name
        self._program = program
        self._folder = folder
        self._wire = Wire(program.stdout, program.stdin, self._until_there_is_room)
        self._connection = Connection(self._handle, self._wire)
        self._can = AgentCapabilities()
        self._logins: tuple[str, ...] = ()
        self._sessions: set[str] = set()
        self.talks: dict[str, TurnStream] = {}
        self.is_spoilt = False

    @classmethod
    async def start(cls, spec: AgentSpec) -> Peer:
        """Start the program and initialize it. Raises AgentRefused or AgentUnavailable."""
        folder = _neutral_folder()
        program = await start(spec.argv, env=spec.env, cwd=folder, memory=spec.memory)
        peer = cls(spec.name, program, folder)
        try:
            await peer._introduce()
        # A cancelled turn, too, must not leave a program behind that no `AgentProcess` knows.
        except BaseException:
            await peer.close()
            raise
        return peer

    @property
    def is_alive(self) -> bool:
        """Whether the connection is open."""
        return self._wire.is_open

    def takes(self, *, images: bool) -> Takes:
        """Return what may be sent inline; `images`: the operator allows images."""
        prompt = self._can.prompt_capabilities
        if prompt is None:
            return Takes()
        return Takes(
            images=images and bool(prompt.image),
            sound=bool(prompt.audio),
            texts=bool(prompt.embedded_context),
        )

    async def new_session(self, cwd: str | None) -> str:
        """Open an empty session and return the agent's id of it."""
        request = NewSessionRequest(cwd=cwd or self._folder, mcp_servers=[])
        session = (await self._request("session_new", request, NewSessionResponse)).session_id
        self._sessions.add(session)
        return session

    async def holds(self, session: str, cwd: str | None) -> bool:
        """Return whether the session is open, after restoring it from an earlier run if needed."""
        if session not in self._sessions and await self._remembers(session, cwd or self._folder):
            self._sessions.add(session)
        return session in self._sessions

    async def _remembers(self, session: str, cwd: str) -> bool:
        sessions = self._can.session_capabilities
        # First, because it is faster: session/load sends the whole history as updates.
        if sessions is not None and sessions.resume is not None:
            resume = ResumeSessionRequest(cwd=cwd, session_id=session, mcp_servers=[])
            if await self._succeeds(self._request("session_resume", resume, ResumeSessionResponse)):
                return True
        if self._can.load_session:
            load = LoadSessionRequest(cwd=cwd, session_id=session, mcp_servers=[])
            return await self._succeeds(self._request("session_load", load, LoadSessionResponse))
        return False

    async def _succeeds(self, request: Awaitable[object]) -> bool:
        """Return whether the request succeeded. Raises AgentError if the program is gone."""
        try:
            await request
        except AgentRefused:
            raise
        except AgentError:
            if not self.is_alive:
                raise
            # It has lost the session: the caller opens a new one and sends the history.
            return False

        return True

    async def prompt(self, session: str, blocks: list[Block]) -> PromptResponse:
        """Send the prompt and wait for the end of the turn. Updates go to the session's talk."""
        request = PromptRequest(session_id=session, prompt=blocks)
        return await self._request("session_prompt", request, PromptResponse)

    async def cancel(self, session: str) -> None:
        """Cancel the session's prompt, which then returns."""
        with contextlib.suppress(ConnectionError):  # the program is gone, and the turn with it
            await notify_model(
                self._connection,
                AGENT_METHODS["session_cancel"],
                CancelNotification(session_id=session),
            )

    def drop(self, session: str) -> None:
        """Forget a session, without a message to the agent."""
        self._sessions.discard(session)

    async def end_session(self, session: str) -> None:
        """Close a session, if it is open here and the agent supports that."""
        can = self._can.session_capabilities
        is_known = session in self._sessions
        self.drop(session)
        if is_known and can is not None and can.close is not None:
            await self._request(
                "session_close", CloseSessionRequest(session_id=session), CloseSessionResponse
            )

    async def close(self) -> None:
        """Disconnect, and kill the program with all its descendants."""
        try:
            await self._connection.close()
        finally:
            await self._program.end()

    async def _introduce(self) -> None:
        request = InitializeRequest(
            protocol_version=PROTOCOL_VERSION,
            client_capabilities=ClientCapabilities(),
            client_info=Implementation(name="turngate", title="Turngate", version=__version__),
        )
        try:
            async with asyncio.timeout(SECONDS_TO_BEGIN):
                met = await self._request("initialize", request, InitializeResponse)
        except TimeoutError as exc:
            raise AgentUnavailable(
                f"{self._name} did not answer within {SECONDS_TO_BEGIN:.0f} seconds"
            ) from exc

        if met.protocol_version != PROTOCOL_VERSION:
            speaks = (
                f"{self._name} speaks version {met.protocol_version} of the Agent Client Protocol"
            )
            raise AgentRefused(
                f"{speaks}, and Turngate version {PROTOCOL_VERSION}; install one that fits"
            )

        self._can = met.agent_capabilities or AgentCapabilities()
        self._logins = tuple(method.name for method in met.auth_methods or ())

    async def _request(self, method: str, request: BaseModel, answer: type[Answer]) -> Answer:
        try:
            return await request_model_from_dict(
                self._connection, AGENT_METHODS[method], request, answer
            )
        except ConnectionError as exc:
            raise AgentUnavailable(await self._why_it_ended()) from exc
        except RequestError as exc:
            raise self._translated(exc) from exc
        # Pydantic quotes the answer in its error, which may contain messages of users; hence no
        # cause either.
        except ValueError:
            raise AgentError(
                f"{self._name} answered {AGENT_METHODS[method]} with something else"
            ) from None

    def _translated(self, exc: RequestError) -> AgentError:
        if exc.code == _LOGIN_NEEDED:
            login = f"{self._name} is not logged in; run the login of its own command once"
            return AgentRefused(login, words=", ".join(self._logins))
        details = exc.data.get("details") if isinstance(exc.data, dict) else exc.data
        reason = f"{exc}: {details}" if isinstance(details, str) and details else str(exc)
        text = " ".join(reason.split())[:_LONGEST_REASON]
        # For example a lost session: AgentUnavailable causes a retry, which opens a new one.
        if exc.code == _NO_SUCH_THING:
            return AgentUnavailable("the agent reports that something is not there", words=text)
        return AgentError(f"the agent reports an error: {text}")

    async def _why_it_ended(self) -> str:
        try:
            async with asyncio.timeout(_SECONDS_TO_SAY_WHY):
                return f"the agent's program ended ({said_status(await self._program.status())})"
        except (TimeoutError, AgentError):
            return "the agent's program does not answer any more"

    async def _handle(self, method: str, params: object, is_notification: bool) -> BaseModel | None:
        """Handle one request or notification of the program, in a task of its own."""
        # No await on this path: tasks keep the order of their messages only up to their first one.
        if method == CLIENT_METHODS["session_update"]:
            self._heard(params)
            return None
        if method == CLIENT_METHODS["session_request_permission"]:
            return await self._permission(params)
        if is_notification:
            return None
        raise RequestError.method_not_found(method)

    def _heard(self, params: object) -> None:
        try:
            notification = SessionNotification.model_validate(params)
        except ValueError:
            return  # a kind of update from a later version of the protocol
        talk = self.talks.get(notification.session_id)
        if talk is not None:
            talk.add(notification)

    async def _permission(self, params: object) -> RequestPermissionResponse:
        try:
            request = RequestPermissionRequest.model_validate(params)
        except ValueError:
            raise RequestError.invalid_params() from None
        talk = self.talks.get(request.session_id)
        return await talk.permission(request) if talk is not None else cancelled()

    async def _until_there_is_room(self) -> None:
        # Nothing is read while one turn's queue is full. The pipe then fills, and the agent blocks.
        for talk in tuple(self.talks.values()):
            await talk.room.wait()


def _neutral_folder() -> str:
    """Return the folder in which programs start. Sessions have folders of their own."""
    # One per user: a folder for each start would stay behind after a kill.
    folder = Path(tempfile.gettempdir(), f"turngate-{os.getuid()}")
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
    except OSError as exc:
        raise AgentRefused(f"{folder} cannot be made: {exc.strerror}") from exc

    # The name is predictable: another user may have put a folder or a link of theirs there.
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise AgentRefused(f"{folder} belongs to another user; remove it")

    return str(folder)
