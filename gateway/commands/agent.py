"""/agent: show or choose the agent that answers here."""

from __future__ import annotations

from difflib import get_close_matches

from turngate.gateway.commands.registry import Command, Request


async def _agent(request: Request) -> str:
    name = request.argument.strip().lower()
    if not name:
        return _listing(request)
    if name not in request.offered:
        return _unknown(name, request.offered)

    await request.store.choose_agent(request.session.id, name)
    return f"`{name}` answers in this conversation from now on."


def _listing(request: Request) -> str:
    here = f"`{request.agent}` answers here."
    others = [f"- `{name}`" for name in request.offered if name != request.agent]
    if not others:
        return f"{here} There is no other agent to choose."

    how = "`/agent NAME` chooses one for this conversation."
    return "\n".join([here, "", "Others that may:", "", *others, "", how])


def _unknown(name: str, offered: tuple[str, ...]) -> str:
    close = get_close_matches(name, offered, n=1)
    meant = f"Did you mean `/agent {close[0]}`?" if close else "/agent lists who may."
    return f"No agent of that name may answer here. {meant}"


COMMANDS = (
    Command(
        name="agent",
        argument="[name]",
        summary="says who answers here, or chooses another",
        run=_agent,
    ),
)
