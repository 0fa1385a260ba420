"""Problems between keys that are each valid by themselves."""

from __future__ import annotations

from collections.abc import Iterator

from turngate.config.document import (
    Document,
    Path,
    Value,
    dotted,
    every_value,
)
from turngate.config.platforms import PLATFORMS
from turngate.config.problems import (
    Problem,
    one_of,
    quoted,
)
from turngate.gateway.domain.messages import MAIN_ACCOUNT

# The key without which an agent of that kind cannot run.
_NEEDED = {
    "acp": "argv",
    "anthropic": "model",
    "command": "argv",
    "http": "url",
    "openai": "model",
    "python": "object",
}


def find_contradictions(document: Document) -> Iterator[tuple[Path, Problem]]:
    """Check the data as written, so that these problems are reported with all others."""
    yield from _missing_agents(document)
    yield from _unfinished_agents(document)
    yield from _text_programs_with_session_end(document)
    yield from _repeated_accounts(document)
    yield from _entries_without_account(document)
    yield from _unusable_accounts(document)


def _missing_agents(document: Document) -> Iterator[tuple[Path, Problem]]:
    agents = document.data.get("agents", {MAIN_ACCOUNT: {}})
    if not isinstance(agents, dict):
        return

    if MAIN_ACCOUNT not in agents:
        what = "agents: there is no main, which answers where no route fits; add it"
        yield ("agents",), Problem(document.position_of(("agents",)), what)

    # A name with a line separator would break the message; it is a problem of its own.
    choices = [name for name in agents if name.isprintable()]
    # Wherever an agent is named: routes, fallbacks, choices, the summariser.
    sections = ("routes", "agents", "sessions")
    for path, name in (
        each for key in sections for each in every_value(document.data.get(key), (key,))
    ):
        is_name = path[2:] in (("agent",), ("summariser",)) or path[2:3] in (
            ("fallback",),
            ("choices",),
        )
        if is_name and isinstance(name, str) and name not in agents:
            what = (
                f"{dotted(path)}: there is no agent {quoted(name)}; "
                f"{one_of(name, choices, instead='write one of')}"
            )
            yield path, Problem(document.position_of(path), what)


def _unfinished_agents(document: Document) -> Iterator[tuple[Path, Problem]]:
    agents = document.data.get("agents")
    for name, agent in agents.items() if isinstance(agents, dict) else ():
        needed = _NEEDED.get(str(agent.get("kind"))) if isinstance(agent, dict) else None
        if needed is not None and isinstance(agent, dict) and not agent.get(needed):
            path: Path = ("agents", name)
            what = f"{dotted(path)}: {needed} is missing; an agent of kind {agent['kind']} needs it"
            yield path, Problem(document.position_of(path), what)


def _text_programs_with_session_end(document: Document) -> Iterator[tuple[Path, Problem]]:
    """A program that reads plain text would take the end of a session for a message."""
    agents = document.data.get("agents")
    for name, agent in agents.items() if isinstance(agents, dict) else ():
        is_program = (
            isinstance(agent, dict)
            and agent.get("kind") == "command"
            and agent.get("format") != "jsonl"
        )

        if is_program and isinstance(agent, dict) and agent.get("session_end") is True:
            path: Path = ("agents", name, "session_end")
            what = (
                f"{dotted(path)}: a program hears of it in JSON lines; write format: jsonl, "
                "or remove it"
            )
            yield path, Problem(document.position_of(path), what)


def _repeated_accounts(document: Document) -> Iterator[tuple[Path, Problem]]:
    for platform, accounts in _accounts(document):
        names = [
            account.get("account", MAIN_ACCOUNT) if isinstance(account, dict) else None
            for account in accounts
        ]

        for at, name in enumerate(names):
            if isinstance(name, str) and name in names[:at]:
                path: Path = ("platforms", platform, at)
                what = (
                    f"{dotted(path)}: the account {quoted(name)} is here twice; give each "
                    "its own name with account:"
                )
                yield path, Problem(document.position_of(path), what)


def _entries_without_account(document: Document) -> Iterator[tuple[Path, Problem]]:
    """Where ids are unique inside one account only, an entry has to name the account."""
    words = {
        platform: PLATFORMS[platform].ids_within
        for platform, accounts in _accounts(document)
        if len(accounts) > 1 and PLATFORMS[platform].ids_within
    }

    for path, value in every_value(document.data.get("access"), ("access",)):
        if path[1:2] not in (("allow",), ("admins",), ("bots",), ("group_modes",)):
            continue
        entry = path[-1] if path[1] == "group_modes" else value
        platform, _, rest = entry.partition(":") if isinstance(entry, str) else ("", "", "")
        if platform in words:
            what = (
                f"{dotted(path)}: which {words[platform]}? there are several; write "
                f"{platform}/ACCOUNT:{quoted(rest)[1:-1]}"
            )
            yield path, Problem(document.position_of(path), what)


def _unusable_accounts(document: Document) -> Iterator[tuple[Path, Problem]]:
    """What the platforms themselves find wrong with an account."""
    for platform, accounts in _accounts(document):
        for at, account in enumerate(accounts):
            found = PLATFORMS[platform].find_problem(account) if isinstance(account, dict) else None
            if found is not None:
                path: Path = ("platforms", platform, at)
                yield path, Problem(document.position_of(path), f"{dotted(path)} {found}")


def _accounts(document: Document) -> Iterator[tuple[str, list[Value]]]:
    platforms = document.data.get("platforms")
    for platform, accounts in platforms.items() if isinstance(platforms, dict) else ():
        if platform in PLATFORMS and isinstance(accounts, list):
            yield platform, accounts
