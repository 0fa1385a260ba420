"""The agent kind `acp`: a turn of ours is a prompt in one of the sessions that the agent's program holds."""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import mimetypes
import secrets
from collections.abc import AsyncGenerator
from dataclasses import dataclass, replace
from pathlib import Path

from acp.schema import PromptResponse

from gateway.agents.acp.memory import Held, Memory, is_rewound, last_seq, unheard
from gateway.agents.acp.peer import SECONDS_TO_BEGIN, Peer, Start
from gateway.agents.acp.prompt import Told, blocks
from gateway.agents.acp.talk import Talk
from gateway.agents.acp.updates import Enclosed, Heard
from gateway.agents.spec import AgentSpec
from gateway.errors import AgentError, AgentUnavailable, ConfigError
from gateway.model import AgentEvent, Done, File, Turn, TurnId

SECONDS_TO_STOP = 0.8
"""For an agent that was told to. What does not stop by then is ended with its program."""

_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 60.0
# A turn waits so long for a program that is to be started again; else another agent may do better.
_WORTH_WAITING = 1.0

_WHY_NOT_DONE = {
    "max_tokens": "it may not say more in one answer",
    "max_turn_requests": "it may not take more steps in one turn",
    "refusal": "it refuses to answer this",
    "cancelled": "it stopped by itself",
}


def make(spec: AgentSpec) -> AcpAgent:
    """Raises ConfigError without a program to start."""
    if not spec.argv:
        raise ConfigError(f"agents.{spec.name}: kind acp needs argv, the program to start and its arguments")
    return AcpAgent(spec)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Opened:
    """The agent's session for a turn, and what it has to be told in it."""

    held: Held
    told: Told
    memory: Memory


class AcpAgent:
    """Starts its program with the first turn, and again when it has died."""

    def __init__(self, spec: AgentSpec, start: Start = Peer.start) -> None:
        self._spec = spec
        self._start = start
        self._peer: Peer | None = None
        self._peers: set[Peer] = set()
        self._starting = asyncio.Lock()
        self._talks: dict[TurnId, Talk] = {}
        self._leaving: set[asyncio.Future[None]] = set()
        self._deaths = 0
        self._not_before = 0.0

    async def run(self, turn: Turn) -> AsyncGenerator[AgentEvent]:
        """As the port has it."""
        peer = await self._running()
        opened = await self._opened_in_time(peer, turn)
        session = opened.held.session
        prompt = await asyncio.to_thread(blocks, turn, opened.told, peer.takes(images=self._spec.images))
        await asyncio.to_thread(opened.memory.keep, opened.held)
        talk = self._talks[turn.id] = peer.talks[session] = Talk(cost=opened.held.cost, timeout=self._spec.timeout)
        prompting = asyncio.ensure_future(peer.prompt(session, prompt))
        prompting.add_done_callback(talk.over)
        try:
            while (heard := await talk.next()) is not None:
                event = await _written_down(heard, turn.workdir)
                if event is not None:
                    yield event
            response = await self._response(prompting, talk)
            self._deaths = 0
            await asyncio.to_thread(opened.memory.keep, replace(opened.held, cost=talk.reading.cost))
            usage = talk.reading.spent(response)
            if usage is not None:
                yield usage
            if response.stop_reason != "end_turn":
                raise _not_done(response, talk)
            yield Done()
        finally:
            self._talks.pop(turn.id, None)
            await self._leave(peer, talk, opened, prompting)

    async def answer(self, turn: TurnId, ask: str, option: str | None) -> None:
        """As the port has it."""
        talk = self._talks.get(turn)
        if talk is not None:
            talk.answer(ask, option)

    async def close(self) -> None:
        """As the port has it."""
        await asyncio.gather(*self._leaving, return_exceptions=True)
        peers, self._peers, self._peer = self._peers, set(), None
        await asyncio.gather(*(peer.close() for peer in peers))

    async def _running(self) -> Peer:
        async with self._starting:
            if self._peer is not None and self._peer.is_alive:
                return self._peer
            if self._peer is not None:
                await self._died(self._peer)
            wait = self._not_before - asyncio.get_running_loop().time()
            if wait > _WORTH_WAITING:
                raise AgentUnavailable("the agent's program ended and is not started again yet", retry_after=wait)
            await asyncio.sleep(max(wait, 0))
            try:
                self._peer = await self._start(self._spec)
            except AgentUnavailable:
                self._pause()
                raise
            self._peers.add(self._peer)
            return self._peer

    async def _died(self, peer: Peer) -> None:
        """Many turns may find out, and one tidies up."""
        if self._peer is not peer:
            return
        self._peer = None
        self._pause()
        await self._end(peer)

    def _pause(self) -> None:
        """Longer each time, until a turn went well."""
        pause = min(_FIRST_PAUSE * 2**self._deaths, _LONGEST_PAUSE)
        self._deaths += 1
        self._not_before = asyncio.get_running_loop().time() + pause

    async def _opened_in_time(self, peer: Peer, turn: Turn) -> _Opened:
        """A program that has fallen silent is ended, or every turn would wait for it."""
        try:
            async with asyncio.timeout(SECONDS_TO_BEGIN):
                return await self._opened(peer, turn)
        except TimeoutError as exc:
            self._retire(peer)
            self._pause()
            if not peer.talks:
                await self._end(peer)
            raise AgentUnavailable("the agent's program has fallen silent, and is started anew") from exc

    async def _opened(self, peer: Peer, turn: Turn) -> _Opened:
        """The session it holds for ours, else a new one in which it is told what was said."""
        memory = Memory(turn.workdir, self._spec.name)
        held = await asyncio.to_thread(memory.recall)
        if held is not None and held.session in peer.talks:
            held, memory = None, Memory(None, self._spec.name)  # a turn runs in it: this one is apart from it
        elif held is not None and not await self._goes_on(peer, held, turn):
            held = None
        system, context = _digest(turn.system), _digest(turn.context)
        if held is None:
            held = Held(session=await peer.new_session(turn.workdir))
            told = Told(is_first=True, entries=turn.history)
        else:
            is_news = {"system": system != held.system, "context": context != held.context}
            told = Told(is_first=False, **is_news, entries=unheard(held, turn.history))
        through, asked = last_seq(turn.history), len(turn.messages)
        held = replace(held, through=through, asked=asked, system=system, context=context)
        return _Opened(held=held, told=told, memory=memory)

    async def _goes_on(self, peer: Peer, held: Held, turn: Turn) -> bool:
        """Whether what the agent remembers is what was said."""
        return not is_rewound(held, turn.history) and await peer.holds(held.session, turn.workdir)

    async def _response(self, prompting: asyncio.Future[PromptResponse], talk: Talk) -> PromptResponse:
        """Another try is free only while nobody has heard a word of this one."""
        try:
            return await prompting
        except AgentUnavailable as exc:
            if talk.has_spoken:
                raise AgentError(str(exc)) from exc
            raise

    async def _leave(self, peer: Peer, talk: Talk, opened: _Opened, prompting: asyncio.Future[PromptResponse]) -> None:
        """Whoever is in a hurry need not wait for it, but it happens."""
        leaving = asyncio.ensure_future(self._part(peer, talk, opened, prompting))
        self._leaving.add(leaving)
        leaving.add_done_callback(self._leaving.discard)
        await asyncio.shield(leaving)

    async def _part(self, peer: Peer, talk: Talk, opened: _Opened, prompting: asyncio.Future[PromptResponse]) -> None:
        """Nothing of this turn may be heard in the next one, so a session whose prompt goes on is given up."""
        session = opened.held.session
        has_stopped = prompting.done() or await _stop(peer, session, talk, prompting)
        talk.leave()
        peer.talks.pop(session, None)
        if not has_stopped or _failed(prompting):
            opened.memory.forget()
            peer.drop(session)
        if not has_stopped:
            prompting.cancel()
            self._retire(peer)
        if not peer.is_alive:
            await self._died(peer)
        if peer.is_spoilt and not peer.talks:
            await self._end(peer)

    def _retire(self, peer: Peer) -> None:
        """It takes no more turns, and ends when those that run in it have."""
        peer.is_spoilt = True
        if self._peer is peer:
            self._peer = None

    async def _end(self, peer: Peer) -> None:
        if peer in self._peers:
            self._peers.discard(peer)
            await peer.close()


async def _stop(peer: Peer, session: str, talk: Talk, prompting: asyncio.Future[PromptResponse]) -> bool:
    """Whether it did in time."""
    try:
        async with asyncio.timeout(SECONDS_TO_STOP):
            await peer.cancel(session)
            talk.leave()
            await asyncio.wait({prompting})
    except TimeoutError:
        return False
    return True


def _failed(prompting: asyncio.Future[PromptResponse]) -> bool:
    """Whether the agent answered with an error, and may not know its session any more. One that died may, again."""
    error = None if prompting.cancelled() else prompting.exception()
    return error is not None and not isinstance(error, AgentUnavailable)


def _not_done(response: PromptResponse, talk: Talk) -> AgentError:
    if response.stop_reason == "cancelled" and talk.was_unanswered:
        return AgentError("nobody answered its question in time, so it stopped")
    return AgentError(_WHY_NOT_DONE[response.stop_reason])


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()


async def _written_down(heard: Heard, workdir: str | None) -> AgentEvent | None:
    """A file that came inside a message is put where the others are. None if it cannot be."""
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
