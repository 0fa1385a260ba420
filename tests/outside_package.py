"""Install the package that a page of the documentation shows, as its reader would."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tests.commands import PATIENCE

DOCS = Path(__file__).parents[1] / "docs"

_FILE = re.compile(r"^`([\w/.]+)`:\n\n```\w+\n(.*?)^```", re.MULTILINE | re.DOTALL)


def installed_from(page: str, folder: Path) -> Path:
    """Write the page's files, install them, and return the folder for PYTHONPATH."""
    source = folder / "source"
    for name, content in _FILE.findall((DOCS / page).read_text()):
        file = source / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)

    target = folder / "installed"
    options = ("--quiet", "--no-deps", "--no-index", "--no-build-isolation", "--target")
    subprocess.run(
        [sys.executable, "-m", "pip", "install", *options, str(target), str(source)],
        check=True,
        timeout=PATIENCE,
    )
    return target
