"""What works and is still worth a word."""

from __future__ import annotations

from turngate.config.document import Document, Path, Value, dotted, every_value
from turngate.config.problems import Problem
from turngate.config.secrets import is_reference

SECRET_KEYS = frozenset({"api_key", "app_token", "bot_token", "secret", "signing_secret", "token"})
_UNUSED_BY_ECHO = ("base_url", "url", "api_key", "model", "argv", "object", "session_end")


def find_doubts(document: Document) -> list[Problem]:
    """Of a document without mistakes."""
    doubts = []
    for path, value in every_value(document.data):
        if _is_literal_secret(path, value):
            cure = "keep it elsewhere and write ${NAME} or ${file:PATH}"
            doubts.append(
                Problem(
                    document.values[path],
                    f"warning: {dotted(path)}: a secret in the file itself; {cure}",
                )
            )
        if _is_unused(document, path, value):
            doubts.append(
                Problem(
                    document.keys[path],
                    f"warning: {dotted(path)}: the echo agent does not use it; remove it",
                )
            )
        if path == ("access", "direct") and value == "open-dangerously":
            what = "warning: access.direct: DANGER: everybody who finds the bot can talk to it; write pairing instead"
            doubts.append(Problem(document.values[path], what))
        if path[:1] == ("budgets",) and path[-1] == "usd_per_day" and value is not None:
            doubts += [
                Problem(document.values[path], _is_blind(path, name))
                for name in _agents_without_price(document)
            ]
    return sorted(doubts)


def _is_blind(path: Path, agent: str) -> str:
    return (
        f"warning: {dotted(path)}: does not see what the agent {agent} costs, unless it reports that itself;"
        f" write agents.{agent}.price"
    )


def _agents_without_price(document: Document) -> list[str]:
    agents = document.data.get("agents")
    described = agents.items() if isinstance(agents, dict) else ()
    return [
        name
        for name, agent in described
        if isinstance(agent, dict)
        and agent.get("kind", "echo") != "echo"
        and agent.get("price") is None
    ]


def _is_literal_secret(path: Path, value: Value) -> bool:
    return (
        bool(path)
        and path[-1] in SECRET_KEYS
        and isinstance(value, str)
        and not is_reference(value)
    )


def _is_unused(document: Document, path: Path, value: Value) -> bool:
    if len(path) != 3 or path[0] != "agents" or path[2] not in _UNUSED_BY_ECHO or not value:
        return False
    agents = document.data["agents"]
    agent = agents[str(path[1])] if isinstance(agents, dict) else None
    return isinstance(agent, dict) and agent.get("kind", "echo") == "echo"
