"""
Check the import contracts of pyproject.toml, and that each of them breaks when it is violated.

The graph is built once and the contracts run in this process: an offending import is added to the
graph, checked and removed again. One test runs the real command.
"""

from __future__ import annotations

import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from pathlib import Path
from typing import Any

import grimp
import pytest
from importlinter.configuration import configure
from importlinter.contracts.forbidden import ForbiddenContract
from importlinter.contracts.layers import LayersContract
from importlinter.domain.contract import Contract

ROOT = Path(__file__).parents[2]
LINTER = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]

LAYERS = "Imports go downwards only"
DAEMON = "Inside the daemon imports go downwards only"
ADAPTERS = "Adapters import the domain only"
CONFIG = "The config imports the domain and the rules only"
CORE = "No SDK, driver, HTTP client or config in the core"
HANDED = "Agents, stores and the web server are handed values, not the config"

SDKS = ("acp", "aiogram", "aiohttp", "discord", "httpx", "pydantic", "requests", "rich")
MORE_SDKS = ("slack_bolt", "slack_sdk", "typer", "yaml")
DRIVERS = ("aiosqlite", "asyncpg", "sqlite3")

OFFENCES = [
    ("gateway.domain.errors", "gateway.rules.policy", LAYERS),
    ("gateway.rules.policy", "gateway.observability.logs", LAYERS),
    ("gateway.observability.observer", "gateway.stores.session_files", LAYERS),
    ("gateway.stores.session_files", "gateway.inbound.pairing", LAYERS),
    ("gateway.stores.session_files", "gateway.agents.echo", LAYERS),
    ("gateway.agents.echo", "gateway.outbound.delivery", LAYERS),
    ("gateway.inbound.admission", "gateway.outbound.delivery", LAYERS),
    ("gateway.outbound.delivery", "gateway.inbound.pairing", LAYERS),
    ("gateway.outbound.delivery", "gateway.turns.lanes", LAYERS),
    ("gateway.commands.turn", "gateway.turns.agent_run", LAYERS),
    ("gateway.turns.lanes", "gateway.pipeline", LAYERS),
    ("gateway.web.chat", "gateway.pipeline", LAYERS),
    ("gateway.pipeline", "gateway.web.chat", LAYERS),
    ("gateway.pipeline", "gateway.daemon.app", LAYERS),
    ("gateway.daemon.app", "gateway.cli.run", LAYERS),
    ("gateway.cli.run", "gateway.__main__", LAYERS),
    ("gateway.daemon.app", "gateway.daemon.process", DAEMON),
    ("gateway.daemon.reload", "gateway.daemon.gateway", DAEMON),
    ("gateway.daemon.health", "gateway.daemon.reload", DAEMON),
    ("gateway.daemon.platforms", "gateway.daemon.control.status", DAEMON),
    ("gateway.daemon.shutdown", "gateway.daemon.health", DAEMON),
    ("gateway.daemon.agent_pool", "gateway.daemon.platforms", DAEMON),
    ("adapters.screens", "gateway.rules.redaction", ADAPTERS),
    ("adapters.telegram.adapter", "gateway.stores.session_files", ADAPTERS),
    ("adapters.slack.adapter", "config.load", ADAPTERS),
    ("config.load", "gateway.stores.sqlite.store", CONFIG),
    ("config.schema", "gateway.agents.spec", CONFIG),
    ("config.schema", "adapters.slack.account", CONFIG),
    ("config.load", "aiohttp", CONFIG),
    ("config.load", "sqlite3", CONFIG),
    ("gateway.domain.ids", "config.schema", CORE),
    ("gateway.turns.lanes", "gateway.stores.sqlite.store", CORE),
    ("gateway.outbound.delivery", "adapters.telegram.adapter", CORE),
    *(("gateway.rules.policy", package, CORE) for package in (*SDKS, *MORE_SDKS, *DRIVERS)),
    *(("gateway.turns.lanes", package, CORE) for package in (*SDKS, *MORE_SDKS, *DRIVERS)),
    ("gateway.agents.echo", "config.load", HANDED),
    ("gateway.stores.sqlite.store", "config.load", HANDED),
    ("gateway.web.chat", "config.load", HANDED),
]


def as_options(table: dict[str, object], *, without: str) -> dict[str, object]:
    """Flags as the linter's own reader hands them over: as text."""
    return {
        key: str(value) if isinstance(value, bool) else value
        for key, value in table.items()
        if key != without
    }


def contracts() -> list[Contract]:
    kinds = {"layers": LayersContract, "forbidden": ForbiddenContract}
    session = as_options(LINTER, without="contracts")
    return [
        kinds[written["type"]](
            name=written["name"],
            session_options=session,
            contract_options=as_options(written, without="name"),
        )
        for written in LINTER["contracts"]
    ]


def broken(graph: grimp.ImportGraph) -> set[str]:
    return {
        contract.name
        for contract in contracts()
        if not contract.check(deepcopy(graph), verbose=False).kept
    }


@pytest.fixture(scope="module")
def graph() -> grimp.ImportGraph:
    configure()
    return grimp.build_graph("turngate", include_external_packages=True, cache_dir=None)


@contextmanager
def imported_by(graph: grimp.ImportGraph, importer: str, imported: str) -> Iterator[None]:
    if imported not in graph.modules:  # an SDK that nothing of ours imports
        graph.add_module(imported, is_squashed=True)
    graph.add_import(importer=importer, imported=imported)
    try:
        yield
    finally:
        graph.remove_import(importer=importer, imported=imported)


def test_the_command_keeps_every_contract() -> None:
    command = Path(sys.executable).with_name("lint-imports")

    result = subprocess.run(
        [str(command), "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False
    )

    assert result.returncode == 0, result.stdout
    names = (LAYERS, DAEMON, ADAPTERS, CONFIG, CORE, HANDED)
    assert all(f"{name} KEPT" in result.stdout for name in names)


def test_the_graph_keeps_every_contract(graph: grimp.ImportGraph) -> None:
    assert broken(graph) == set()


def written_as(name: str) -> dict[str, Any]:
    """The contract of that name in pyproject.toml."""
    (contract,) = (each for each in LINTER["contracts"] if each["name"] == name)
    return dict(contract)


def rooms() -> set[str]:
    """Every package and module at the top of the gateway."""
    entries = [*(ROOT / "gateway").glob("*/__init__.py"), *(ROOT / "gateway").glob("*.py")]
    names = {path.parent.name if path.parent.name != "gateway" else path.stem for path in entries}

    return names - {"__init__"}


@pytest.mark.parametrize(
    ("contract", "allowed"), [(ADAPTERS, {"domain"}), (CONFIG, {"domain", "rules"})]
)
def test_every_other_room_is_forbidden_to_adapters_and_config(
    contract: str, allowed: set[str]
) -> None:
    forbidden = {
        module.removeprefix("turngate.gateway.")
        for module in written_as(contract)["forbidden_modules"]
        if module.startswith("turngate.gateway.")
    }

    assert len(rooms()) > 10
    assert forbidden == rooms() - allowed


def test_there_are_at_most_eleven_layers_and_no_exception() -> None:
    assert len(written_as(LAYERS)["layers"]) <= 11
    assert written_as(LAYERS)["exhaustive"] is True
    assert written_as(DAEMON)["exhaustive"] is True
    assert [written for written in LINTER["contracts"] if "ignore_imports" in written] == []


@pytest.mark.parametrize(
    ("importer", "imported", "contract"),
    OFFENCES,
    ids=[f"{importer} imports {imported}" for importer, imported, _ in OFFENCES],
)
def test_an_offending_import_breaks_its_contract(
    graph: grimp.ImportGraph, importer: str, imported: str, contract: str
) -> None:
    ours = imported.split(".")[0] in ("gateway", "adapters", "config")
    target = f"turngate.{imported}" if ours else imported
    assert f"turngate.{importer}" in graph.modules
    assert not ours or target in graph.modules

    with imported_by(graph, f"turngate.{importer}", target):
        assert contract in broken(graph)


def test_a_module_outside_the_rooms_breaks_the_layers(graph: grimp.ImportGraph) -> None:
    spoiled = deepcopy(graph)
    spoiled.add_module("turngate.gateway.odds_and_ends")

    assert broken(spoiled) == {LAYERS}


def test_our_packages_are_imported_below_turngate_only() -> None:
    names = ("gateway", "adapters", "config")
    starts = tuple(f"{word} {name}" for word in ("from", "import") for name in names)
    offending = [
        f"{path.relative_to(ROOT)}:{number}"
        for folder in (*names, "tests")
        for path in (ROOT / folder).rglob("*.py")
        for number, line in enumerate(path.read_text().splitlines(), start=1)
        if line.strip().startswith(tuple(f"{start}{end}" for start in starts for end in (" ", ".")))
    ]

    assert offending == []
