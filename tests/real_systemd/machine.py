"""
Short ways to operate a machine with systemd: Turngate installed for everybody, and what systemd
says of it.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

from tests.commands import PATIENCE, ROOT

CONFIG = Path("/etc/turngate/turngate.yaml")
UNITS = Path("/etc/systemd/system")


def install_for_everybody() -> None:
    """
    Into /opt, as the README says, but without a network: the packages are those of the checkout.
    """
    packages, version = (
        Path("/opt/packages"),
        f"python{sys.version_info.major}.{sys.version_info.minor}",
    )
    packages.mkdir()
    run("mount", "--bind", sysconfig.get_path("purelib"), str(packages))
    run(_python(version), "-m", "venv", "--without-pip", "/opt/turngate")
    Path("/opt/turngate/lib", version, "site-packages/packages.pth").write_text(f"{packages}\n")
    pip = (sys.executable, "-m", "pip", "--python=/opt/turngate/bin/python", "install", "--quiet")
    run(
        *pip,
        "--no-deps",
        "--no-build-isolation",
        "--ignore-installed",
        "--root-user-action=ignore",
        str(ROOT),
    )


def _python(version: str) -> str:
    """The checkout's own may be in somebody's home, where services do not see it."""
    prefixes = (sys.base_prefix, "/usr/local", "/usr")
    visible = (f"{prefix}/bin" for prefix in prefixes if not prefix.startswith(("/home", "/root")))
    found = shutil.which(version, path=":".join(visible))
    if found is None:
        raise SystemExit(
            f"services see no {version}, which the packages here are for; install one outside of "
            "homes"
        )
    return found


def run(*command: str) -> str:
    """What it printed. It must succeed."""
    done = attempt(*command)
    assert done.returncode == 0, f"{' '.join(command)}: {done.stdout}{done.stderr}"
    return done.stdout


def attempt(*command: str) -> subprocess.CompletedProcess[str]:
    """For those that need not succeed."""
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE)


def systemctl(*arguments: str) -> str:
    """As root."""
    return run("systemctl", *arguments)


def turngate(*arguments: str, config: Path = CONFIG) -> str:
    """The installed one, as root."""
    return run("/opt/turngate/bin/turngate", *arguments, "--config", str(config))


def install(*options: str, config: Path = CONFIG) -> None:
    """The unit, in the words of the README."""
    turngate("service", "install", *options, config=config)
    systemctl("daemon-reload")


def show(what: str, unit: str = "turngate") -> str:
    """A property."""
    return systemctl("show", unit, f"--property={what}", "--value").strip()


def drop_in(name: str, text: str) -> None:
    """An operator's own."""
    folder = UNITS / "turngate.service.d"
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"[Service]\n{text}\n")
    systemctl("daemon-reload")


def journal(unit: str = "turngate") -> str:
    """Everything the daemon said, and what systemd said of it."""
    return run("journalctl", "--no-pager", "--output=cat", f"--unit={unit}")
