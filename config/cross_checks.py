"""What is wrong between keys that are each right by themselves."""

from __future__ import annotations

from collections.abc import Iterator

from turngate.config.document import Document, Path, Value, dotted, every_value
from turngate.config.problems import Problem, one_of, quoted
from turngate.gateway.domain.messages import MAIN_ACCOUNT

_BY_SOCKET = (None, "socket")
_BY_HTTP = "receive by HTTP: receive: {http: {listen: 127.0.0.1:3000, signing_secret: ...}}"
# Without it an agent of that kind can do nothing at all.
_NEEDED = {
    "acp": "argv",
    "anthropic": "model",
    "command": "argv",
    "http": "url",
    "openai": "model",
    "python": "object",
}


def find_contradictions(document: Document) -> Iterator[tuple[Path, Problem]]:
    """Looks at the data as written, so that these are told together with all the rest."""
    yield from _missing_agents(document)
    yield from _unfinished_agents(document)
    yield from _programs_that_cannot_hear(document)
    yield from _repeated_accounts(document)
    yield from _slack_entries_without_workspace(document)
    yield from _slack_accounts_that_hear_nothing(document)


def _missing_agents(document: Document) -> Iterator[tuple[Path, Problem]]:
    agents = document.data.get("agents", {MAIN_ACCOUNT: {}})
    if not isinstance(agents, dict):
        return
    if MAIN_ACCOUNT not in agents:
        what = "agents: there is no main, which answers where no route fits; add it"
        yield ("agents",), Problem(document.place(("agents",)), what)
    sections = ("routes", "agents", "sessions")
    for path, name in (
        each for key in sections for each in every_value(document.data.get(key), (key,))
    ):
        is_name = path[2:] in (("agent",), ("summariser",)) or path[2:3] in (
            ("fallback",),
            ("choices",),
        )
        if is_name and isinstance(name, str) and name not in agents:
            what = f"{dotted(path)}: there is no agent {quoted(name)}; {one_of(name, agents, instead='write one of')}"
            yield path, Problem(document.place(path), what)


def _unfinished_agents(document: Document) -> Iterator[tuple[Path, Problem]]:
    agents = document.data.get("agents")
    for name, agent in agents.items() if isinstance(agents, dict) else ():
        needed = _NEEDED.get(str(agent.get("kind"))) if isinstance(agent, dict) else None
        if needed is not None and isinstance(agent, dict) and not agent.get(needed):
            path: Path = ("agents", name)
            what = f"{dotted(path)}: {needed} is missing; an agent of kind {agent['kind']} needs it"
            yield path, Problem(document.place(path), what)


def _programs_that_cannot_hear(document: Document) -> Iterator[tuple[Path, Problem]]:
    """A program that reads words and nothing else would take the end of a session for a message."""
    agents = document.data.get("agents")
    for name, agent in agents.items() if isinstance(agents, dict) else ():
        is_program = (
            isinstance(agent, dict)
            and agent.get("kind") == "command"
            and agent.get("format") != "jsonl"
        )
        if is_program and isinstance(agent, dict) and agent.get("session_end") is True:
            path: Path = ("agents", name, "session_end")
            what = f"{dotted(path)}: a program hears of it in JSON lines; write format: jsonl, or remove it"
            yield path, Problem(document.place(path), what)


def _repeated_accounts(document: Document) -> Iterator[tuple[Path, Problem]]:
    for platform, accounts in _accounts(document):
        names = [
            account.get("account", MAIN_ACCOUNT) if isinstance(account, dict) else None
            for account in accounts
        ]
        for at, name in enumerate(names):
            if isinstance(name, str) and name in names[:at]:
                path: Path = ("platforms", platform, at)
                what = f"{dotted(path)}: the account {quoted(name)} is here twice; give each its own name with account:"
                yield path, Problem(document.place(path), what)


def _slack_entries_without_workspace(document: Document) -> Iterator[tuple[Path, Problem]]:
    """An id of Slack means a person only inside one workspace."""
    if not any(
        platform == "slack" and len(accounts) > 1 for platform, accounts in _accounts(document)
    ):
        return
    for path, value in every_value(document.data.get("access"), ("access",)):
        entry = path[-1] if path[1:2] == ("group_modes",) else value
        lists_entries = path[1:2] in (("allow",), ("admins",), ("bots",), ("group_modes",))
        if lists_entries and isinstance(entry, str) and entry.startswith("slack:"):
            what = f"{dotted(path)}: which workspace? there are several; write slack/ACCOUNT:{quoted(entry[6:])[1:-1]}"
            yield path, Problem(document.place(path), what)


def _slack_accounts_that_hear_nothing(document: Document) -> Iterator[tuple[Path, Problem]]:
    """Socket Mode needs a token of its own."""
    for platform, accounts in _accounts(document):
        for at, account in enumerate(accounts if platform == "slack" else ()):
            if (
                isinstance(account, dict)
                and account.get("app_token") is None
                and account.get("receive") in _BY_SOCKET
            ):
                path: Path = ("platforms", "slack", at)
                what = f"{dotted(path)} lacks the key app_token, which Socket Mode needs; add it, or {_BY_HTTP}"
                yield path, Problem(document.place(path), what)


def _accounts(document: Document) -> Iterator[tuple[str, list[Value]]]:
    platforms = document.data.get("platforms")
    for platform, accounts in platforms.items() if isinstance(platforms, dict) else ():
        if isinstance(accounts, list):
            yield platform, accounts
