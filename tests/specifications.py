"""
Where the platforms' own specifications lie. They stay outside this repository: their licences
differ and they are large. `docs/specifications.md` names the public repositories.
"""

from __future__ import annotations

import json
import os
from functools import cache
from pathlib import Path
from typing import Any

import pytest

_BESIDE_THE_PROJECT = Path(__file__).parents[2] / "shared" / "specs"


def folder() -> Path:
    """Return the folder that TURNGATE_SPECS names, or the one beside the project."""
    return Path(os.environ.get("TURNGATE_SPECS") or _BESIDE_THE_PROJECT)


def is_there() -> bool:
    """Return whether there are specifications on this machine."""
    return folder().is_dir()


NEEDED = pytest.mark.skipif(
    not is_there(), reason=f"no specifications in {folder()}: set TURNGATE_SPECS"
)
"""Mark of a test that cannot run without them."""


@cache
def load(name: str) -> Any:
    """Return one file of them, such as "discord-openapi.json"."""
    return json.loads((folder() / name).read_text(encoding="utf-8"))
