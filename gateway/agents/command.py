"""
An agent that is any program: started for each turn, in the folder of the session, and ended with
it.

In the format `text` it reads what people wrote and writes the answer. In the format `jsonl` it
reads the whole turn and writes events, one per line, and hears answers, more words and that it
should stop while it works.
"""

from __future__ import annotations

import asyncio
import codecs
from collections.abc import AsyncGenerator, Mapping
from contextlib import suppress
from functools import partial

from turngate.gateway.agents.bounded_output import Output
from turngate.gateway.agents.json_protocol import (
    STOP,
    answer_document,
    ending_document,
    read_event,
    steer_document,
    turn_document,
    written,
)
from turngate.gateway.agents.program import (
    Program,
    said_status,
    start,
)
from turngate.gateway.agents.spec import AgentSpec
from turngate.gateway.domain.agent_events import (
    AgentEvent,
    Done,
    Turn,
)
from turngate.gateway.domain.errors import AgentError, ConfigError
from turngate.gateway.domain.ids import TurnId
from turngate.gateway.domain.messages import Attachment, InboundMessage
from turngate.gateway.domain.serialization import Json
from turngate.gateway.domain.session import SessionEnded
from turngate.gateway.domain.transcript import Text

_READ = 16_384
# For a program that has closed its stdout to tell how it ended; that is done to put its things
# away; that is stopped.
_SECONDS_TO_END = 2.0
_SECONDS_TO_LEAVE = 0.4
_SECONDS_TO_STOP = 0.2


def make(spec: AgentSpec) -> TextCommand | JsonlCommand:
    """By the format it speaks. Raises ConfigError if there is no program."""
    if not spec.argv:
        raise ConfigError(f"agents.{spec.name}: which program? write argv: [program, argument]")
    return JsonlCommand(spec) if spec.format == "jsonl" else TextCommand(spec)


class TextCommand:
    """Messages in, answer out."""

    def __init__(self, spec: AgentSpec) -> None:
        self._spec = spec

    async def run(self, turn: Turn) -> AsyncGenerator[AgentEvent]:
        """What it writes, as it comes."""
        program = await _started(self._spec, turn.workdir)
        try:
            program.stdin.write(_words(turn).encode("utf-8", "replace"))
            program.stdin.close()
            output = Output(partial(program.stdout.read, _READ))
            decoder = codecs.getincrementaldecoder("utf-8")("replace")
            while piece := await output.piece():
                if text := decoder.decode(piece):
                    yield Text(text)

            if rest := decoder.decode(b"", final=True):
                yield Text(rest)

            await _check_status(program)
            yield Done()
        finally:
            await program.end()


class JsonlCommand:
    """The turn in, events out."""

    def __init__(self, spec: AgentSpec) -> None:
        self._spec = spec
        self._running: dict[TurnId, Program] = {}
        if spec.session_end:
            self.session_end = self._session_end

    async def run(self, turn: Turn) -> AsyncGenerator[AgentEvent]:
        """Its events, until it says that it is done, or ends."""
        program = await _started(self._spec, turn.workdir)
        self._running[turn.id] = program
        is_done = False

        try:
            _say(program, turn_document(turn))
            output = Output(partial(program.stdout.read, _READ))
            while (line := await output.line()) is not None:
                event = read_event(line.decode("utf-8", "replace"))
                is_done = isinstance(event, Done)
                if event is not None:
                    yield event
                if is_done:
                    return
            is_done = True
            await _check_status(program)
            yield Done()
        finally:
            self._running.pop(turn.id, None)
            await _leave(program, is_done=is_done)

    async def answer(self, turn: TurnId, ask: str, option: str | None) -> None:
        """One line on its stdin; a program that is gone needs none."""
        if turn in self._running:
            _say(self._running[turn], answer_document(ask, option))

    async def steer(self, turn: TurnId, text: str) -> bool:
        """As long as it reads."""
        program = self._running.get(turn)
        if program is None or program.stdin.is_closing():
            return False
        _say(program, steer_document(text))
        return True

    async def _session_end(self, ending: SessionEnded) -> None:
        """
        Started for it as for a turn: one line, and the status tells. Nobody listens to what it
        says.
        """
        program = await _started(self._spec, ending.workdir)
        try:
            _say(program, ending_document(ending))
            program.stdin.close()
            while await program.stdout.read(_READ):
                pass

            status = await program.status()
            if status != 0:
                raise AgentError(said_status(status))
        finally:
            await program.end()


async def _started(spec: AgentSpec, workdir: str | None) -> Program:
    return await start(spec.argv, env=spec.env, cwd=workdir, memory=spec.memory)


def _words(turn: Turn) -> str:
    return "\n\n".join(filter(None, map(_message, turn.messages))) + "\n"


def _message(message: InboundMessage) -> str:
    return "\n".join(filter(None, (message.text, *map(_attachment, message.attachments))))


def _attachment(file: Attachment) -> str:
    return f"[file {file.name or file.type.value}: {file.path}]"


def _say(program: Program, document: Mapping[str, Json]) -> None:
    """Never waits: what a program does not read is kept for it, and goes when it goes."""
    if not program.stdin.is_closing():
        program.stdin.write(written(dict(document)) + b"\n")


async def _check_status(program: Program) -> None:
    """
    Of one that has closed its stdout. One that stays on has said all the same what it had to say.
    """
    with suppress(TimeoutError):
        async with asyncio.timeout(_SECONDS_TO_END):
            status = await program.status()
            if status != 0:
                raise AgentError(
                    f"{said_status(status)}; its last words are in the log, at level debug, "
                    "where log.quote is on"
                )


async def _leave(program: Program, *, is_done: bool) -> None:
    """
    Nothing more comes from us; it may put its things away, for longer if it was not told to stop.
    """
    try:
        if not is_done:
            _say(program, STOP)

        program.stdin.close()
        async with asyncio.timeout(_SECONDS_TO_LEAVE if is_done else _SECONDS_TO_STOP):
            await program.status()
    except (AgentError, TimeoutError):
        pass  # how it ended does not matter any more
    finally:
        await program.end()
