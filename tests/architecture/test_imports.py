"""Who may import whom: the contracts in pyproject.toml hold, and each of them breaks when it is violated."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

DOWNWARDS = "Imports go downwards only"
STRANGERS = "Stores are strangers to each other"
VOCABULARY = "The vocabulary imports nothing of ours"
CORE = "No SDK, driver or HTTP client in the core"
CONFIG = "The config knows the rules, and nothing that runs"
ADAPTERS = "Adapters see the ports, the vocabulary and the errors"

SDKS = [
    "aiogram",
    "discord",
    "slack_bolt",
    "slack_sdk",
    "aiohttp",
    "httpx",
    "requests",
    "pydantic",
    "yaml",
    "rich",
    "typer",
]
DRIVERS = ["aiosqlite", "sqlite3", "asyncpg"]

OFFENCES = [
    ("errors", "turngate.gateway.domain.messages", DOWNWARDS),
    ("errors", "turngate.gateway.domain.serialization", DOWNWARDS),
    ("dicts", "turngate.gateway.domain.ports.adapter", DOWNWARDS),
    ("model", "turngate.gateway.domain.ports.adapter", DOWNWARDS),
    ("ports", "turngate.gateway.rules.session_lifecycle", DOWNWARDS),
    ("ports", "turngate.gateway.rules.session_keys", DOWNWARDS),
    ("sessions", "turngate.gateway.rules.session_keys", DOWNWARDS),
    ("keys", "turngate.gateway.rules.redaction", DOWNWARDS),
    ("privacy", "turngate.gateway.rules.session_lifecycle", DOWNWARDS),
    ("sessions", "turngate.gateway.rules.history_window", DOWNWARDS),
    ("privacy", "turngate.gateway.rules.context_prompt", DOWNWARDS),
    ("hygiene", "turngate.gateway.rules.history_window", DOWNWARDS),
    ("history", "turngate.gateway.rules.context_prompt", DOWNWARDS),
    ("prompt", "turngate.gateway.rules.history_window", DOWNWARDS),
    ("history", "turngate.gateway.stores", DOWNWARDS),
    ("ports", "turngate.gateway.stores.sqlite", DOWNWARDS),
    ("stores/memory/store", "turngate.gateway.stores.sqlite", STRANGERS),
    ("stores/sqlite/rows", "tests.oracle_store", STRANGERS),
    ("model", "turngate.gateway.domain.errors", VOCABULARY),
    ("model", "turngate.gateway.domain.serialization", VOCABULARY),
    *(("sessions", sdk, CORE) for sdk in SDKS),
    *(("ports", driver, CORE) for driver in DRIVERS),
    *(
        (module, "aiohttp", CORE)
        for module in ("model", "dicts", "errors", "ports", "keys", "history", "privacy", "hygiene")
    ),
    ("prompt", "sqlite3", CORE),
    ("stores/memory/store", "sqlite3", CORE),
    ("stores/sqlite/rows", "httpx", CORE),
    ("pipeline", "turngate.gateway.stores", DOWNWARDS),
    ("lanes", "turngate.gateway.pipeline", DOWNWARDS),
    ("delivery", "turngate.gateway.turns.lanes", DOWNWARDS),
    ("commands/turn", "turngate.gateway.turns.agent_run", DOWNWARDS),
    ("web/chat", "turngate.gateway.stores", DOWNWARDS),
    ("turns", "aiohttp", CORE),
    ("turngate.adapters.screens", "turngate.gateway.pipeline", ADAPTERS),
    ("turngate.adapters.screens", "turngate.gateway.rules.redaction", ADAPTERS),
    ("cli/check", "turngate.gateway.__main__", DOWNWARDS),
    ("control/server", "turngate.gateway.daemon.app", DOWNWARDS),
    ("control/sessions", "turngate.gateway.cli", DOWNWARDS),
    ("stores/memory/store", "turngate.gateway.daemon.control.requests", DOWNWARDS),
    ("state_dir", "turngate.gateway.domain.ports.adapter", DOWNWARDS),
    ("control/reach", "turngate.config.load", CORE),
    ("control/client", "rich", CORE),
    *(
        ("web/chat", module, DOWNWARDS)
        for module in ("turngate.gateway.stores", "turngate.gateway.cli", "turngate.gateway.agents")
    ),
    ("stores/memory/store", "turngate.gateway.web", DOWNWARDS),
    ("watching", "turngate.gateway.domain.ports.adapter", DOWNWARDS),
    ("watching", "aiohttp", CORE),
    ("web/chat", "turngate.config.load", CORE),
    ("stores/memory/store", "turngate.gateway.cli", DOWNWARDS),
    ("model", "turngate.config.schema", CORE),
    ("sessions", "turngate.config.schema", CORE),
    ("stores/memory/store", "turngate.config.load", CORE),
    ("__main__", "turngate.config.load", CORE),
    ("cli/check", "pydantic", CORE),
    ("cli/check", "aiohttp", CORE),
    *(
        ("turngate.config.schema", module, CONFIG)
        for module in (
            "turngate.gateway.cli",
            "turngate.gateway.stores",
            "turngate.gateway.rules.context_prompt",
        )
    ),
    *(
        ("turngate.config.load", module, CONFIG)
        for module in (
            "turngate.gateway.rules.session_keys",
            "turngate.gateway.rules.redaction",
            "typer",
            "sqlite3",
            "aiohttp",
        )
    ),
]


@pytest.fixture
def house(tmp_path: Path) -> Path:
    """A copy of the packages and their contracts, to be spoiled."""
    ignored = shutil.ignore_patterns("__pycache__")
    for package in ("adapters", "config", "gateway"):
        shutil.copytree(ROOT / package, tmp_path / package, ignore=ignored)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def run(*command: str, at: Path) -> subprocess.CompletedProcess[str]:
    """Run with the package at `at`, not the installed one."""
    env = {"PYTHONPATH": str(at), "PYTHONDONTWRITEBYTECODE": "1", "COLUMNS": "200"}
    return subprocess.run(command, cwd=at, env=env, capture_output=True, text=True, check=False)


def lint_imports(at: Path) -> subprocess.CompletedProcess[str]:
    return run(str(Path(sys.executable).with_name("lint-imports")), "--no-cache", at=at)


def add_import(house: Path, module: str, imported: str) -> None:
    """Make both ends exist, then let the one import the other."""
    target = house.joinpath(*imported.split("."))
    if imported.startswith("gateway.") and not target.is_dir():
        target.with_suffix(".py").touch()
    with house.joinpath(*full_name(module).split(".")).with_suffix(".py").open("a") as file:
        file.write(f"\nimport {imported}\n")


def full_name(module: str) -> str:
    """The table says `stores/memory/store` for what is in gateway/, and `turngate.config.load` for the rest."""
    return (
        module
        if module.startswith(("config.", "adapters."))
        else f"gateway.{module.replace('/', '.')}"
    )


def test_the_contracts_hold_here() -> None:
    result = lint_imports(ROOT)

    assert result.returncode == 0, result.stdout
    assert f"{DOWNWARDS} KEPT" in result.stdout
    assert f"{STRANGERS} KEPT" in result.stdout
    assert f"{VOCABULARY} KEPT" in result.stdout
    assert f"{CORE} KEPT" in result.stdout
    assert f"{CONFIG} KEPT" in result.stdout
    assert f"{ADAPTERS} KEPT" in result.stdout


def test_a_copy_of_the_house_is_what_is_looked_at(house: Path) -> None:
    found = run(sys.executable, "-c", "import gateway; print(gateway.__file__)", at=house)

    assert found.stdout.strip() == str(house / "gateway" / "__init__.py")


def test_an_untouched_copy_keeps_every_contract(house: Path) -> None:
    result = lint_imports(house)

    assert result.returncode == 0, result.stdout
    assert "0 broken" in result.stdout


@pytest.mark.parametrize(
    ("module", "imported", "contract"),
    OFFENCES,
    ids=[f"{module} imports {imported}" for module, imported, _ in OFFENCES],
)
def test_an_offending_import_breaks_its_contract(
    house: Path, module: str, imported: str, contract: str
) -> None:
    add_import(house, module, imported)

    result = lint_imports(house)

    assert result.returncode == 1, result.stdout
    assert f"{contract} BROKEN" in result.stdout
    assert f"{full_name(module)} -> {imported}" in result.stdout


def test_a_module_without_a_place_breaks_the_layers(house: Path) -> None:
    (house / "gateway" / "odds_and_ends.py").touch()

    result = lint_imports(house)

    assert result.returncode == 1
    assert f"{DOWNWARDS} BROKEN" in result.stdout
    assert "gateway.odds_and_ends" in result.stdout
