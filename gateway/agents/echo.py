"""
The agent kind `echo`, the default: it streams back the text it received.

It adds the session and the number of turns it remembers, so that resets, isolation and history can
be tried before a model is configured.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator

from turngate.gateway.agents.spec import AgentSpec, Traits
from turngate.gateway.domain.agent_events import (
    AgentEvent,
    Done,
    Turn,
    Usage,
)
from turngate.gateway.domain.messages import Attachment
from turngate.gateway.domain.text import written_size
from turngate.gateway.domain.transcript import (
    Origin,
    Role,
    Text,
)

TRAITS = Traits(has_side_effects=False, sends=False)

# Words with the blanks around them, so that joining them gives the same text.
_WORDS = re.compile(r"\s*\S+\s*|\s+")
# Limits the duration of an answer: a long text has longer pieces, not more of them.
_MOST_PIECES = 60
_PAUSE = 0.02


class EchoAgent:
    async def run(self, turn: Turn) -> AsyncGenerator[AgentEvent]:
        answer = _answer(turn)
        for piece in _pieces(answer):
            yield Text(piece)
            await asyncio.sleep(_PAUSE)
        heard = "\n".join(message.text for message in turn.messages)
        yield Usage(input=len(heard.split()), output=len(answer.split()))
        yield Done()


def make(spec: AgentSpec) -> EchoAgent:
    return EchoAgent()


def _answer(turn: Turn) -> str:
    # The user's text comes last: an open code block in it would swallow what follows.
    heard = (
        "\n\n".join(filter(None, (message.text for message in turn.messages)))
        or "(nothing in words)"
    )
    return f"{_where(turn)}{_files(turn)} You said:\n\n{heard}"


def _files(turn: Turn) -> str:
    files = [each for message in turn.messages for each in message.attachments]
    if not files:
        return ""
    described = "; ".join(map(_described, files))
    return f" ({len(files)} {'file' if len(files) == 1 else 'files'}: {described})"


def _described(file: Attachment) -> str:
    size = written_size(file.size) if file.size is not None else None
    return ", ".join(filter(None, (file.name or file.type.value, file.mime, size)))


def _where(turn: Turn) -> str:
    earlier = _turns(turn)
    title = f" “{turn.session.title}”" if turn.session.title else ""
    memory = f" I remember {earlier} before it." if earlier else ""
    return f"Turn {earlier + 1} of session `{turn.session.id}`{title}.{memory}"


def _turns(turn: Turn) -> int:
    """Return the number of earlier turns. Messages that were answered together are one turn."""
    talk = [
        entry.role
        for entry in turn.history
        if entry.origin is Origin.CHAT and entry.role is not Role.TOOL
    ]
    return sum(
        role is Role.USER and (at == 0 or talk[at - 1] is not Role.USER)
        for at, role in enumerate(talk)
    )


def _pieces(text: str) -> list[str]:
    words = _WORDS.findall(text)
    size = -(-len(words) // _MOST_PIECES)
    return ["".join(words[at : at + size]) for at in range(0, len(words), size)]
