"""
The agent kind `command`: any program, started for each turn in the folder of the session, and ended
with the turn.

In the format `text` it reads the messages and writes the answer. In the format `jsonl` it reads the
whole turn and writes events, one per line; while it works it receives answers, steering and stop on
its stdin.
"""

from __future__ import annotations

import asyncio
import codecs
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import suppress
from functools import partial

from turngate.gateway.agents.bounded_output import Output
from turngate.gateway.agents.examine import examine_program
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
from turngate.gateway.domain.ports.finding import Finding
from turngate.gateway.domain.serialization import Json
from turngate.gateway.domain.session import SessionEnded
from turngate.gateway.domain.text import without_brackets
from turngate.gateway.domain.transcript import Text

_READ = 16_384
# From a closed stdout to the exit status; to clean up after "done"; to clean up after a stop.
_SECONDS_TO_END = 2.0
_SECONDS_TO_LEAVE = 0.4
_SECONDS_TO_STOP = 0.2


def make(spec: AgentSpec) -> TextCommand | JsonlCommand:
    """Make the agent for the configured format. Raises ConfigError if there is no program."""
    if not spec.argv:
        raise ConfigError(f"agents.{spec.name}: which program? write argv: [program, argument]")
    return JsonlCommand(spec) if spec.format == "jsonl" else TextCommand(spec)


class TextCommand:
    """A program that reads the messages and writes the answer as plain text."""

    def __init__(self, spec: AgentSpec) -> None:
        self._spec = spec

    async def examine(self, *, online: bool) -> Sequence[Finding]:
        return examine_program(self._spec)

    async def run(self, turn: Turn) -> AsyncGenerator[AgentEvent]:
        program = await _started(self._spec, turn.workdir)
        try:
            # Not drained: a program that answers without reading would never be read. Closing still
            # sends what is buffered.
            program.stdin.write(_words(turn).encode("utf-8", "replace"))
            program.stdin.close()
            output = Output(partial(program.stdout.read, _READ))
            # Incremental: a read may end in the middle of a character.
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
    """A program that reads the turn as JSON and writes events."""

    def __init__(self, spec: AgentSpec) -> None:
        self._spec = spec
        self._running: dict[TurnId, Program] = {}
        # Only on instances that want it: `TakesSessionEnd` is checked by the presence of the name.
        if spec.session_end:
            self.session_end = self._session_end

    async def examine(self, *, online: bool) -> Sequence[Finding]:
        return examine_program(self._spec)

    async def run(self, turn: Turn) -> AsyncGenerator[AgentEvent]:
        """Yield its events until it reports `done` or closes its stdout."""
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
            # A closed stdout ends the turn as well: no stop is sent, even if the status is bad.
            is_done = True
            await _check_status(program)
            yield Done()
        finally:
            self._running.pop(turn.id, None)
            await _leave(program, is_done=is_done)

    async def answer(self, turn: TurnId, ask: str, option: str | None) -> None:
        if turn in self._running:
            _say(self._running[turn], answer_document(ask, option))

    async def steer(self, turn: TurnId, text: str) -> bool:
        """Write the text to its stdin; False if the turn or its stdin has ended."""
        program = self._running.get(turn)
        if program is None or program.stdin.is_closing():
            return False
        _say(program, steer_document(text))
        return True

    async def _session_end(self, ending: SessionEnded) -> None:
        """Start the program for one notification; exit status 0 confirms it."""
        program = await _started(self._spec, ending.workdir)
        try:
            _say(program, ending_document(ending))
            program.stdin.close()
            # Its output is ignored, but a full pipe would block it.
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
    return f"[file {without_brackets(file.name or file.type.value)}: {file.path}]"


def _say(program: Program, document: Mapping[str, Json]) -> None:
    # Never drained: what a program does not read stays in memory until the program is ended.
    if not program.stdin.is_closing():
        program.stdin.write(written(dict(document)) + b"\n")


async def _check_status(program: Program) -> None:
    """Raise AgentError for a bad exit status, once stdout is closed."""
    # A program that keeps running after it closed its stdout has still given its whole answer.
    with suppress(TimeoutError):
        async with asyncio.timeout(_SECONDS_TO_END):
            status = await program.status()
            if status != 0:
                raise AgentError(
                    f"{said_status(status)}; its last words are in the log, at level debug, "
                    "where log.quote is on"
                )


async def _leave(program: Program, *, is_done: bool) -> None:
    """Close its stdin, with a stop before that if it is not done, and leave it time to clean up."""
    try:
        if not is_done:
            _say(program, STOP)

        program.stdin.close()
        async with asyncio.timeout(_SECONDS_TO_LEAVE if is_done else _SECONDS_TO_STOP):
            await program.status()
    except (AgentError, TimeoutError):
        pass  # the answer is complete or unwanted, so its exit status does not matter
    finally:
        await program.end()
