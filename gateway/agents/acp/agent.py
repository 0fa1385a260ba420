"""
The agent kind `acp`: each turn is a prompt in one of the sessions that the agent's program holds.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import mimetypes
import secrets
from collections.abc import AsyncGenerator, Sequence
from dataclasses import replace
from pathlib import Path

from acp.schema import PromptResponse

from turngate.gateway.agents.acp.peer import SECONDS_TO_BEGIN, Peer
from turngate.gateway.agents.acp.process import AgentProcess
from turngate.gateway.agents.acp.prompt import blocks
from turngate.gateway.agents.acp.session_lookup import FoundSession, opened
from turngate.gateway.agents.acp.session_map import SessionMap
from turngate.gateway.agents.acp.turn_stream import TurnStream
from turngate.gateway.agents.acp.updates import Enclosed, Heard
from turngate.gateway.agents.examine import examine_program
from turngate.gateway.agents.spec import AgentSpec
from turngate.gateway.domain.agent_events import (
    AgentEvent,
    Done,
    File,
    Turn,
)
from turngate.gateway.domain.errors import (
    AgentError,
    AgentUnavailable,
    ConfigError,
)
from turngate.gateway.domain.ids import TurnId
from turngate.gateway.domain.ports.finding import Finding
from turngate.gateway.domain.session import SessionEnded

SECONDS_TO_STOP = 0.8
"""For an agent that was told to. What does not stop by then is ended with its program."""

_WHY_NOT_DONE = {
    "max_tokens": "it may not say more in one answer",
    "max_turn_requests": "it may not take more steps in one turn",
    "refusal": "it refuses to answer this",
    "cancelled": "it stopped by itself",
}


def make(spec: AgentSpec) -> AcpAgent:
    """Make the agent. Raises ConfigError without a program to start."""
    if not spec.argv:
        raise ConfigError(
            f"agents.{spec.name}: kind acp needs argv, the program to start and its arguments"
        )
    return AcpAgent(spec)


class AcpAgent:
    """An agent with one program for all its turns."""

    def __init__(self, spec: AgentSpec) -> None:
        self._spec = spec
        self._keeper = AgentProcess(spec)
        self._talks: dict[TurnId, TurnStream] = {}
        self._leaving: set[asyncio.Future[None]] = set()

    async def examine(self, *, online: bool) -> Sequence[Finding]:
        return examine_program(self._spec)

    async def run(self, turn: Turn) -> AsyncGenerator[AgentEvent]:
        peer = await self._keeper.running()
        opening = await self._opened(peer, turn)
        session = opening.held.session
        prompt = await asyncio.to_thread(
            blocks, turn, opening.told, peer.takes(images=self._spec.images)
        )
        # Before the prompt is sent: from then on the agent knows these messages, also if the daemon
        # is killed during the turn.
        await asyncio.to_thread(opening.memory.keep, opening.held)
        # Registered before the prompt: updates of a session without a talk are dropped.
        talk = self._talks[turn.id] = peer.talks[session] = TurnStream(
            cost=opening.held.cost, timeout=self._spec.timeout
        )
        prompting = asyncio.ensure_future(peer.prompt(session, prompt))
        prompting.add_done_callback(talk.over)

        try:
            while (heard := await talk.next()) is not None:
                event = await _written_down(heard, turn.workdir)
                if event is not None:
                    yield event
            response = await self._response(prompting, talk)
            self._keeper.praise()
            await asyncio.to_thread(
                opening.memory.keep, replace(opening.held, cost=talk.reading.cost)
            )
            usage = talk.reading.spent(response)
            if usage is not None:
                yield usage
            if response.stop_reason != "end_turn":
                raise _not_done(response, talk)
            yield Done()
        finally:
            self._talks.pop(turn.id, None)
            await self._leave(peer, talk, opening, prompting)

    async def answer(self, turn: TurnId, ask: str, option: str | None) -> None:
        talk = self._talks.get(turn)
        if talk is not None:
            talk.answer(ask, option)

    async def session_end(self, ending: SessionEnded) -> None:
        """
        Close the agent's session, if its program runs and supports that, and forget it. If our
        session is resumed, the agent gets the history again.
        """
        memory = SessionMap(ending.workdir, self._spec.name)
        peer = self._keeper.at_hand
        held = await asyncio.to_thread(memory.recall)
        # A turn may run in it again by now: the notice comes after the end of the session.
        if held is None or (peer is not None and held.session in peer.talks):
            return

        await asyncio.to_thread(memory.forget)
        if peer is not None:
            await peer.end_session(held.session)

    async def close(self) -> None:
        await asyncio.gather(*self._leaving, return_exceptions=True)
        await self._keeper.close()

    async def _opened(self, peer: Peer, turn: Turn) -> FoundSession:
        try:
            async with asyncio.timeout(SECONDS_TO_BEGIN):
                return await opened(peer, turn, self._spec.name)
        except TimeoutError as exc:
            # Otherwise every later turn would wait for the same program.
            self._keeper.retire(peer)
            await self._keeper.look_after(peer)
            raise AgentUnavailable("the agent's program does not respond and is restarted") from exc

    async def _response(
        self, prompting: asyncio.Future[PromptResponse], talk: TurnStream
    ) -> PromptResponse:
        try:
            return await prompting
        except AgentUnavailable as exc:
            # AgentUnavailable would be retried, after a part of the answer was shown.
            if talk.has_spoken:
                raise AgentError(str(exc)) from exc
            raise

    async def _leave(
        self,
        peer: Peer,
        talk: TurnStream,
        opening: FoundSession,
        prompting: asyncio.Future[PromptResponse],
    ) -> None:
        leaving = asyncio.ensure_future(self._part(peer, talk, opening, prompting))
        self._leaving.add(leaving)
        leaving.add_done_callback(self._leaving.discard)

        # A second cancel must not prevent that a program that does not stop is ended.
        await asyncio.shield(leaving)

    async def _part(
        self,
        peer: Peer,
        talk: TurnStream,
        opening: FoundSession,
        prompting: asyncio.Future[PromptResponse],
    ) -> None:
        """Stop the turn. A session whose prompt does not end is given up, with its program."""
        session = opening.held.session
        has_stopped = prompting.done() or await _stop(peer, session, talk, prompting)
        talk.leave()
        peer.talks.pop(session, None)
        # Late updates of this turn would appear in the next turn of the same session. After the
        # death of a program its sessions are kept: the next one may be able to restore them.
        if not has_stopped or (_failed(prompting) and peer.is_alive):
            opening.memory.forget()
            peer.drop(session)

        if not has_stopped:
            prompting.cancel()
            self._keeper.retire(peer)

        await self._keeper.look_after(peer)


async def _stop(
    peer: Peer, session: str, talk: TurnStream, prompting: asyncio.Future[PromptResponse]
) -> bool:
    """Cancel the prompt; True if it ended in time."""
    try:
        async with asyncio.timeout(SECONDS_TO_STOP):
            await peer.cancel(session)
            # Answers open questions with "cancelled", which the agent may be waiting for.
            talk.leave()
            await asyncio.wait({prompting})
    except TimeoutError:
        return False

    return True


def _failed(prompting: asyncio.Future[PromptResponse]) -> bool:
    """Return whether the agent answered with an error. It may have lost its session."""
    return not prompting.cancelled() and prompting.exception() is not None


def _not_done(response: PromptResponse, talk: TurnStream) -> AgentError:
    if response.stop_reason == "cancelled" and talk.was_unanswered:
        return AgentError("its question was not answered in time, so it stopped")
    return AgentError(_WHY_NOT_DONE[response.stop_reason])


async def _written_down(heard: Heard, workdir: str | None) -> AgentEvent | None:
    """Write an enclosed file into the session's folder. None if that is not possible."""
    if not isinstance(heard, Enclosed):
        return heard
    return None if workdir is None else await asyncio.to_thread(_write, heard, Path(workdir))


def _write(enclosed: Enclosed, folder: Path) -> File | None:
    ending = mimetypes.guess_extension(enclosed.mime or "") or ""
    name = f"{secrets.token_hex(8)}{ending}"
    try:
        content = base64.b64decode(enclosed.data, validate=True)
        Path(folder, name).write_bytes(content)
    except (binascii.Error, ValueError, OSError):
        return None
    return File(path=str(folder / name), name=name)
