"""aiogram's types are built when they are first used, and are then what they would have been."""

from __future__ import annotations

import subprocess
import sys

from tests.commands import ROOT

READ_ALL = """
import json, sys
from pathlib import Path
from importlib import import_module
import_module(sys.argv[1])
from aiogram.types import Update
for file in sorted(Path("tests/golden/telegram").glob("*.json")):
    try:
        print(repr(Update.model_validate(json.loads(file.read_text())["update"])))
    except ValueError:
        print(file.name, "has types that aiogram does not know")
"""
BUILD_ALL = """
import turngate.adapters.telegram.plugin
from aiogram import methods, types
known = [getattr(kind, name) for kind in (types, methods) for name in kind.__all__]
models = [each for each in known if hasattr(each, "model_rebuild")]
print(sum(each.__pydantic_complete__ for each in models if issubclass(each, types.TelegramObject)) < 10)
for each in models:
    each.model_rebuild()
print(all(each.__pydantic_complete__ for each in models), len(models) > 500)
"""  # noqa: E501


def test_most_of_them_are_not_built_by_an_import_and_all_can_be() -> None:
    assert run(BUILD_ALL).split() == ["True", "True", "True"]


def test_every_update_reads_as_with_types_that_were_built_at_once() -> None:
    late = run(READ_ALL, "turngate.adapters.telegram.plugin")
    assert late == run(READ_ALL, "aiogram")
    assert len(late.splitlines()) > 50


def run(program: str, *arguments: str) -> str:
    """In a process of its own: here others have imported aiogram already."""
    return subprocess.run(
        [sys.executable, "-c", program, *arguments],
        cwd=ROOT,
        check=True,
        text=True,
        stdout=subprocess.PIPE,
    ).stdout
