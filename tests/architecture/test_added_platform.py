"""A folder below adapters/ and its page are a platform: no other file has to be edited."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.commands import PATIENCE

ROOT = Path(__file__).parents[2]
COPIED = ("adapters", "config", "docs", "gateway", "tests", "turngate")
COPIED_FILES = ("LICENSE", "Makefile", "pyproject.toml")
CHECKS = (
    "tests/architecture/test_documents.py",
    "tests/architecture/test_glossary.py",
    "tests/architecture/test_platforms.py",
    "tests/architecture/test_reference.py",
    "tests/unit/test_config_example.py",
)
PAGE = """# Rhubarb

## Keys

| key | default | meaning |
|---|---|---|
| `account` | `main` | |
| `listen` | required | a loopback address |
| `secret` | required | the first word of every line |
| `home` | null | a name |
"""
CONTRACT = """from tests.contracts.platforms.scripted import ScriptedUnderTest

UNDER_TEST = (ScriptedUnderTest(name="rhubarb", capabilities=frozenset()),)
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A copy of the project, in which the platform of the documentation is a built-in one."""
    for name in COPIED:
        shutil.copytree(
            ROOT / name,
            tmp_path / name,
            symlinks=True,
            ignore=shutil.ignore_patterns("__pycache__", "screenshots"),
        )
    for file in [*ROOT.glob("*.md"), *(ROOT / name for name in COPIED_FILES)]:
        shutil.copy(file, tmp_path)

    page = (ROOT / "docs" / "adding-a-platform.md").read_text()
    folder = tmp_path / "adapters" / "rhubarb"
    folder.mkdir()
    for name, module in (("__init__", "settings"), ("plugin", "plugin")):
        start = f"`turngate_lines/{name}.py`:\n\n```python\n"
        code = page.partition(start)[2].partition("\n```")[0]
        code = code.replace("turngate_lines", "turngate.adapters.rhubarb")
        (folder / f"{module}.py").write_text(code.replace("lines", "rhubarb"))
    (folder / "__init__.py").write_text('"""Rhubarb."""\n')
    (tmp_path / "docs" / "platforms" / "rhubarb.md").write_text(PAGE)
    (tmp_path / "tests" / "contracts" / "platforms" / "rhubarb.py").write_text(CONTRACT)
    return tmp_path


def run(project: Path, *arguments: str) -> str:
    """The output of pytest in the copy, which must succeed."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
    return done.stdout


def test_a_platform_that_is_only_added_passes_every_check(project: Path) -> None:
    passed = run(project, *CHECKS)
    cases = run(project, "tests/contracts/test_adapter.py", "--collect-only", "-k", "rhubarb")

    assert "passed" in passed
    assert "[rhubarb]" in cases
