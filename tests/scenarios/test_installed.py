"""The installed product beside an agent's project whose modules are called as our folders are."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from tests.commands import ROOT

THEIRS = {
    "config.py": "GREETING = 'hello from their config'\n",
    "adapters.py": "def shout(text):\n    return text.upper()\n",
    "gateway/__init__.py": "",
    "gateway/words.py": "LAST = 'and their gateway'\n",
    "agent.py": (
        "import config\n"
        "from adapters import shout\n"
        "from gateway.words import LAST\n"
        "from turngate.gateway.agents.api import Text\n"
        "class Mine:\n"
        "    def __init__(self, options):\n"
        "        pass\n"
        "    async def run(self, turn):\n"
        "        yield Text(f'{shout(turn.messages[-1].text)}: {config.GREETING} {LAST}')\n"
    ),
    "turngate.yaml": "agents: {main: {kind: python, object: 'agent:Mine'}}\n",
}


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment with our wheel in it, and the libraries of the one that runs this."""
    folder = tmp_path_factory.mktemp("installed")
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check"]
    build += ["--no-deps", "--no-build-isolation", "--wheel-dir", str(folder), str(ROOT)]
    subprocess.run(build, check=True, capture_output=True, cwd=folder)
    (wheel,) = folder.glob("*.whl")
    venv.create(folder / "venv", with_pip=False, symlinks=True)
    (site,) = (folder / "venv" / "lib").glob("python*/site-packages")
    unpack = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    unpack += ["--no-deps", "--target", str(site), str(wheel)]
    subprocess.run(unpack, check=True, capture_output=True)
    (libraries,) = (Path(sys.prefix) / "lib").glob("python*/site-packages")
    # The libraries only: the checkout's own packages must not be found through its editable link.
    for each in libraries.iterdir():
        if each.name != "__pycache__" and "turngate" not in each.name:
            target = site / each.name
            if not target.exists():
                target.symlink_to(each)
    return folder / "venv" / "bin" / "python"


def test_only_one_package_is_installed(installed: Path) -> None:
    (site,) = (installed.parents[1] / "lib").glob("python*/site-packages")

    assert (site / "turngate" / "gateway" / "stores" / "sqlite" / "schema").is_dir()
    assert (site / "turngate" / "gateway" / "daemon" / "units" / "turngate.service").is_file()
    assert list((site / "turngate" / "gateway" / "web" / "static").iterdir())
    assert [name for name in ("gateway", "adapters", "config") if (site / name).exists()] == []


def test_an_agent_may_have_modules_with_the_names_of_our_folders(
    installed: Path, tmp_path: Path
) -> None:
    for name, text in THEIRS.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)

    said = subprocess.run(
        [installed, "-m", "turngate", "chat", "--state-dir", tmp_path / "state"],
        input="hi\n",
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHONPATH": str(tmp_path)},
        check=False,
    )

    assert said.stdout == "HI: hello from their config and their gateway\n", said.stderr
