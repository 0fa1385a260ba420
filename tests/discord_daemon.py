"""
A config for `turngate run` with bots at a simulated Discord; the process itself is in
`tests/telegram_daemon.py`.
"""

from __future__ import annotations

from pathlib import Path

from tests.simulators.discord import CHANNEL, GUILD, TOKENS
from tests.simulators.running import Remote

PERSON, DM = "81001", "81501"
HERE = str(CHANNEL)

_REST = """
web: {{listen: null}}
turns: {{debounce: 50ms, drain: 5s}}
access:
  allow: ["discord:{person}", "discord:guild:{guild}"]
  admins: ["discord:{person}"]
"""


def bot(sim: Remote, account: str = "main", *, token: str | None = None, more: str = "") -> str:
    """One account of the config."""
    there = (
        f"api_url: '{sim.url}/api/v10', gateway_url: '{sim.url.replace('http', 'ws', 1)}/gateway'"
    )
    files = f"cdn_url: '{sim.url}/cdn'"
    return (
        f"    - {{account: {account}, token: '{token or TOKENS[account]}', {there}, "
        f"{files}{more}}}\n"
    )


def config(folder: Path, *bots: str, more: str = "") -> Path:
    """A config file. `more` takes the place of what it says in other sections."""
    path = folder / "turngate.yaml"
    rest = _REST.format(person=PERSON, guild=GUILD)
    kept = "\n".join(line for line in rest.splitlines() if line.partition(":")[0] not in more)
    path.write_text(f"platforms:\n  discord:\n{''.join(bots)}{kept}\n{more}\n")
    return path
