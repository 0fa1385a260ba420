"""`turngate agents`: what the config names, and one question to one of them."""

from __future__ import annotations

import tempfile
from typing import TYPE_CHECKING, Annotated

import typer

from turngate.gateway.cli.options import ConfigFile, Json, StateDir
from turngate.gateway.domain.errors import AgentError, Refused, TurngateError

if TYPE_CHECKING:
    from turngate.config.load import Loaded
    from turngate.config.schema import Agent as AgentConfig
    from turngate.gateway.domain.agent_events import AgentEvent, Turn
    from turngate.gateway.domain.ports.agent import Agent
    from turngate.gateway.domain.serialization import Json as JsonValue

app = typer.Typer(name="agents", help="List the agents, and test one.", no_args_is_help=True)


@app.command("list")
def list_agents(config: ConfigFile = None, state_dir: StateDir = None, json: Json = False) -> None:
    """List the agents of the config."""
    from turngate.config.load import load
    from turngate.gateway.cli.sessions_text import print_document
    from turngate.gateway.cli.tables import line, table, terminal

    agents = load(config, state_dir, secrets=False).config.agents
    if json:
        listed = [_agent_json(name, agent) for name, agent in agents.items()]
        print_document({"agents": listed})
        return

    shown = table("NAME", "KIND", "MODEL", "PROGRAM OR ADDRESS", "FALLBACK", flexible="MODEL")
    for name, agent in agents.items():
        fallback = ", ".join(agent.fallback)
        shown.add_row(
            line(name),
            line(agent.kind),
            line(agent.model or "-"),
            line(_target(agent) or "-"),
            line(fallback or "-"),
        )
    terminal().print(shown)


def _agent_json(name: str, agent: AgentConfig) -> JsonValue:
    return {
        "name": name,
        "kind": agent.kind,
        "model": agent.model,
        "target": _target(agent),
        "fallback": [*agent.fallback],
    }


def _target(agent: AgentConfig) -> str | None:
    """Return the program, the object or the address of an agent, whichever it has."""
    return agent.object or " ".join(agent.argv) or agent.url or agent.base_url


@app.command("test")
def ask_agent(
    name: Annotated[str, typer.Argument(help="The agent's name in the config.")],
    text: Annotated[
        str, typer.Argument(help="What to say to it.")
    ] = "Hello! Please answer in one sentence.",
    config: ConfigFile = None,
    state_dir: StateDir = None,
) -> None:
    """
    Ask one agent directly, without its fallbacks, and show what it was shown.

    No daemon is needed, and nothing is stored. The answer goes to standard output, everything else
    to standard error.
    """
    import asyncio

    from turngate.config.load import load

    loaded = load(config, state_dir)
    if name not in loaded.config.agents:
        known = ", ".join(loaded.config.agents)
        raise Refused(f"there is no agent {name!r}; the config has {known}")
    asyncio.run(_ask(loaded, name, text))


async def _ask(loaded: Loaded, name: str, text: str) -> None:
    from turngate.gateway.daemon.agent_pool import AgentPool
    from turngate.gateway.observability.observer import Observer

    pool = AgentPool(Observer())
    try:
        await pool.load(loaded.config)
        with tempfile.TemporaryDirectory(prefix="turngate-") as folder:
            turn = _turn(text, loaded.config.agents[name].system_prompt, folder)
            _show_turn(turn)
            await _run(name, pool.agent(name), turn)
    finally:
        await pool.close()


def _turn(text: str, system: str, folder: str) -> Turn:
    from turngate.gateway.daemon.system_clock import SystemClock
    from turngate.gateway.domain.agent_events import Turn
    from turngate.gateway.domain.ids import SessionId, SessionKey, TurnId
    from turngate.gateway.domain.messages import InboundMessage, SessionSource
    from turngate.gateway.domain.session import Session

    now = SystemClock().now()
    source = SessionSource.terminal("agents-test")
    session = Session(
        id=SessionId("s_test"),
        key=SessionKey("test"),
        origin=source,
        started_at=now,
        last_interaction_at=now,
        updated_at=now,
    )
    message = InboundMessage(id="1", event_ids=(), source=source, text=text, sent_at=now)
    return Turn(
        id=TurnId(1),
        session=session,
        source=source,
        messages=(message,),
        system=system,
        workdir=folder,
    )


def _show_turn(turn: Turn) -> None:
    import json

    from turngate.gateway.agents.json_protocol import turn_document

    typer.echo("The agent is shown:", err=True)
    typer.echo(json.dumps(turn_document(turn), indent=2, ensure_ascii=False), err=True)


async def _run(name: str, agent: Agent, turn: Turn) -> None:
    """Print the answer as it comes. Raises what the agent raises, with everything it says."""
    import traceback
    from contextlib import aclosing

    try:
        async with aclosing(agent.run(turn)) as events:
            async for event in events:
                await _show(agent, turn, event)
    except AgentError as exc:
        raise AgentError(f"agents.{name}: {exc}", words=exc.words) from exc
    except TurngateError:
        raise
    # The operator asks here what is wrong with their own code, so they see all of it.
    except Exception as exc:
        typer.echo(traceback.format_exc(), err=True)
        raise AgentError(f"agents.{name} raised {type(exc).__name__}: {exc}") from exc
    finally:
        typer.echo()


async def _show(agent: Agent, turn: Turn, event: AgentEvent) -> None:
    import json

    from turngate.gateway.cli.printable import printable
    from turngate.gateway.domain.agent_events import Ask
    from turngate.gateway.domain.ports.agent import TakesAnswers
    from turngate.gateway.domain.serialization import to_dict
    from turngate.gateway.domain.transcript import Text

    if isinstance(event, Text):
        typer.echo(printable(event.text), nl=False)
        return

    shown = json.dumps(to_dict(event), ensure_ascii=False)
    typer.echo(printable(f"\n{shown}"), err=True)
    if isinstance(event, Ask) and isinstance(agent, TakesAnswers):
        typer.echo("Nobody answers questions in a test; it is told so.", err=True)
        await agent.answer(turn.id, event.id, None)
