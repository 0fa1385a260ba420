"""`turngate run` as its own process, with apps in simulated workspaces of Slack."""

from __future__ import annotations

from pathlib import Path

from tests.simulators.running import Remote

PERSON = "U71001"
DM = "D71001"
CHANNEL = "C5001"

_REST = """
web: {{listen: null}}
turns: {{debounce: 50ms, drain: 5s}}
access:
  allow: ["slack/main:{person}", "slack/support:{person}", "slack/main:chat:{channel}"]
  admins: ["slack/main:{person}"]
"""


def workspace(
    sim: Remote, account: str = "main", *, token: str | None = None, more: str = ""
) -> str:
    """One account of the config."""
    tokens = f"bot_token: '{token or f'xoxb-{account}'}', app_token: xapp-{account}"
    return f"    - {{account: {account}, {tokens}, api_url: '{sim.url}/api/'{more}}}\n"


def config(folder: Path, *workspaces: str, more: str = "") -> Path:
    """A config file. `more` takes the place of what it says in other sections."""
    path = folder / "turngate.yaml"
    rest = _REST.format(person=PERSON, channel=CHANNEL)
    kept = "\n".join(
        line for line in rest.splitlines() if not line or line.partition(":")[0] not in more
    )
    path.write_text(f"platforms:\n  slack:\n{''.join(workspaces)}{kept}\n{more}\n")
    return path
