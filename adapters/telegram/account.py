"""What the operator says of one bot, and how long things may take."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

from turngate.gateway.domain.messages import MAIN_ACCOUNT
from turngate.gateway.domain.ports.adapter import MenuEntry

CLOUD = "https://api.telegram.org"


@dataclass(frozen=True, slots=True, kw_only=True)
class Webhook:
    """
    Where Telegram calls (`url`), where that arrives here, and the word by which it is known to be
    Telegram.
    """

    url: str
    host: str
    port: int
    secret: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """
    One bot. Without a webhook its updates are asked for. `files_dir` is where a Bot API server on
    this machine keeps files.
    """

    token: str = field(repr=False)
    name: str = MAIN_ACCOUNT
    api_url: str = CLOUD
    files_dir: Path | None = None
    webhook: Webhook | None = None
    commands: tuple[MenuEntry, ...] = ()

    @property
    def is_in_cloud(self) -> bool:
        """Telegram's own servers. A server of the operator's own takes and gives larger files."""
        return self.api_url.rstrip("/") == CLOUD


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """
    Seconds. `poll`: how long Telegram keeps a poll open that has nothing to say. `answer`: how long
    any answer may take beyond that, `upload` if a file goes with the question. `pause`: the rest
    after a failed poll, growing. `deaf`: the silence after which nothing would be heard any more.
    `look`: between two looks at a webhook.
    """

    poll: int = 30
    answer: float = 30.0
    upload: float = 300.0
    pause: float = 1.0
    deaf: float = 90.0
    look: float = 30.0

    @property
    def stale_after(self) -> timedelta:
        """As the port has it."""
        return timedelta(seconds=self.deaf)
