"""
The agent that needs nothing: it streams back what it understood.

What it was told, which session this is and how many turns it has seen, so that a person can watch
resets, isolation and history at work before there is a model behind them.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator

from turngate.gateway.agents.spec import AgentSpec
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

# Words with the blanks after them. A long text comes in as many pieces, each of more words.
_WORDS = re.compile(r"\s*\S+\s*|\s+")
_MOST_PIECES = 60
_PAUSE = 0.02


class EchoAgent:
    """Says what it heard."""

    async def run(self, turn: Turn) -> AsyncGenerator[AgentEvent]:
        """
        The answer in pieces, with a short pause between them so that the streaming can be seen.
        """
        answer = _answer(turn)
        for piece in _pieces(answer):
            yield Text(piece)
            await asyncio.sleep(_PAUSE)
        heard = "\n".join(message.text for message in turn.messages)
        yield Usage(input=len(heard.split()), output=len(answer.split()))
        yield Done()


def make(spec: AgentSpec) -> EchoAgent:
    """There is nothing to decide about it."""
    return EchoAgent()


def _answer(turn: Turn) -> str:
    """
    The text comes last and as it was, so that whatever it holds (an open code block) spoils nothing
    after it.
    """
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
    """Earlier turns it was shown: messages that were answered together are one."""
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
