"""No platform is named outside its folder: neither in the gateway, nor in the config."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDERS = sorted(path.parent.name for path in (ROOT / "adapters").glob("*/settings.py"))
_NAME = re.compile("|".join(FOLDERS), re.IGNORECASE)

# `turngate slack manifest` is a command that users depend on; decision 0048 says why it stays.
EXCEPTIONS = {"gateway/cli/slack.py", "gateway/cli/__init__.py"}


def named_platforms(source: str) -> list[str]:
    """Names and texts of the code; docstrings and comments may give examples."""
    tree = ast.parse(source)
    notes = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }

    found = []
    for node in ast.walk(tree):
        words = [value for _, value in ast.iter_fields(node) if isinstance(value, str)]
        if id(node) not in notes and _NAME.search(" ".join(words)):
            found.append(f"line {getattr(node, 'lineno', '?')}: {words}")
    return found


def test_there_are_platforms_to_look_for() -> None:
    assert len(FOLDERS) >= 3


def test_no_platform_is_named_outside_its_folder() -> None:
    files = [
        *(ROOT / "adapters").glob("*.py"),
        *(ROOT / "config").rglob("*.py"),
        *(ROOT / "gateway").rglob("*.py"),
    ]

    assert [
        f"{path.relative_to(ROOT)}: {one}"
        for path in files
        if str(path.relative_to(ROOT)) not in EXCEPTIONS
        for one in named_platforms(path.read_text())
    ] == []


def test_names_texts_and_imports_are_found_and_docstrings_are_not() -> None:
    name = FOLDERS[0]

    assert named_platforms(f'platform == "{name}"')
    assert named_platforms(f"config.platforms.{name}")
    assert named_platforms(f"from turngate.adapters.{name} import plugin")
    assert named_platforms(f"class {name.title()}Account: ...")
    assert not named_platforms(f'"""Such as {name}."""\nX = 1\n"""Such as {name}."""')
