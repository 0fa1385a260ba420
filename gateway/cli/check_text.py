"""What `turngate check` looks at, and how it tells what it found."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import typer

from turngate.config.load import Loaded, strict_unit_warnings
from turngate.config.schema import Access, Config
from turngate.gateway.cli.printable import printable
from turngate.gateway.cli.sessions_text import print_document
from turngate.gateway.cli.systemd_units import is_strict
from turngate.gateway.daemon.agent_pool import AgentPool
from turngate.gateway.daemon.control.client import ControlClient
from turngate.gateway.daemon.platforms import check_libraries, examined
from turngate.gateway.daemon.state_dir import StateDir
from turngate.gateway.domain.errors import ConfigError, Unreachable
from turngate.gateway.domain.ports.finding import Finding
from turngate.gateway.observability.observer import Observer

_RECEIVED_BY_US = "updates are received by your running gateway"


@dataclass(slots=True)
class Report:
    """What was found, printed as it comes unless it is for `--json`."""

    json: bool
    findings: list[tuple[str, Finding]] = field(default_factory=list)

    @property
    def is_good(self) -> bool:
        return not any(finding.is_error for _, finding in self.findings)

    def add(self, where: str, finding: Finding) -> None:
        self.findings.append((where, finding))
        self.say(f"{where}: {'error: ' if finding.is_error else ''}{finding.words}")

    def say(self, words: str) -> None:
        if not self.json:
            typer.echo(printable(words))


async def look(loaded: Loaded, report: Report, *, online: bool) -> None:
    """Look at everything the config names. Raises ConfigError for what cannot even be made."""
    config = loaded.config
    check_libraries(config)
    pool = AgentPool(Observer())
    try:
        # Some mistakes only show when an agent is made. The default needs no look.
        if loaded.agents:
            await pool.load(config)
    except ConfigError as exc:
        raise loaded.located(exc) from exc

    if loaded.file is None:
        report.say("There is no config file, and none is needed: the defaults are in effect.")
    else:
        report.say(f"{loaded.file} is valid.")
    report.say(_who_may_talk(config.access))

    try:
        async for name, findings in pool.examine(online=online):
            for finding in findings:
                report.add(f"agents.{name}", finding)
    finally:
        await pool.close()
    if online:
        await _look_at_accounts(config, report)


async def _look_at_accounts(config: Config, report: Report) -> None:
    has_accounts = False
    async for (platform, account), findings in examined(config):
        has_accounts = True
        for finding in _without_our_own(findings, config.state_dir):
            report.add(f"{platform}/{account}", finding)
    if not has_accounts:
        report.say("No account of any platform is configured.")


def _without_our_own(findings: Iterable[Finding], state_dir: Path) -> Iterator[Finding]:
    """Replace the conflict with the running daemon, which is as it should be."""
    for finding in findings:
        is_ours = finding.is_conflict and _is_running(state_dir)
        yield Finding(words=_RECEIVED_BY_US) if is_ours else finding


def _is_running(state_dir: Path) -> bool:
    try:
        with ControlClient.connect(StateDir(state_dir).control_socket):
            return True
    except Unreachable:
        return False


def under_strict_unit(loaded: Loaded) -> tuple[str, ...]:
    return (
        strict_unit_warnings(loaded.config)
        if loaded.file and is_strict(loaded.file.absolute())
        else ()
    )


def print_report(
    file: Path | None, warnings: tuple[str, ...], report: Report, problems: list[str]
) -> None:
    print_document(
        {
            "valid": not problems,
            "file": None if file is None else str(file),
            "problems": [*problems],
            "warnings": [*warnings],
            "findings": [
                {"where": where, "message": finding.words, "error": finding.is_error}
                for where, finding in report.findings
            ],
        }
    )


def _who_may_talk(access: Access) -> str:
    """Return who has access, in one sentence: the setting that matters most."""
    direct = {
        "pairing": "unknown users who write directly get a pairing code",
        "listed": "unknown users who write directly get no reply",
        "open-dangerously": "EVERYONE may write directly",
    }
    answered = {"mention": "what is addressed to the bot", "all": "everything", "off": "nothing"}
    named = f"{len(access.allow)} allowed, {len(access.admins)} admins"
    return (
        f"Access: {named}; {direct[access.direct]}; in allowed chats "
        f"{answered[access.groups]} is answered."
    )
