"""/status: what runs and waits in this conversation."""

from __future__ import annotations

from turngate.gateway.commands.registry import Command, Request
from turngate.gateway.domain.text import clean_label


async def _status(request: Request) -> str:
    session = request.session
    title = f" “{clean_label(session.title)}”" if session.title else ""
    lines = [
        f"Conversation `{session.id}`{title}",
        f"- answered by the agent `{request.agent}`",
        f"- {session.messages} messages since {session.started_at:%Y-%m-%d %H:%M} UTC",
        f"- {session.tokens.total:,} tokens: {session.tokens.input:,} in, "
        f"{session.tokens.output:,} out",
        f"- {_at_work(request)}",
    ]

    return "\n".join(lines)


def _at_work(request: Request) -> str:
    if not request.busy:
        return "nothing is running"
    return (
        f"a turn is running, {request.waiting} waiting" if request.waiting else "a turn is running"
    )


COMMANDS = (
    Command(
        name="status", summary="says which conversation this is and what runs in it", run=_status
    ),
)
