"""What the operator says of one bot, and how long things may take."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta

from turngate.gateway.domain.messages import MAIN_ACCOUNT
from turngate.gateway.domain.ports.adapter import MenuEntry

API = "https://discord.com/api/v10"
CDN = "https://cdn.discordapp.com"


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """One bot. `threads`: what it is asked in a channel it answers in a thread of its own."""

    token: str = field(repr=False)
    name: str = MAIN_ACCOUNT
    api_url: str = API
    gateway_url: str | None = None
    cdn_url: str = CDN
    threads: bool = False
    commands: tuple[MenuEntry, ...] = ()

    @property
    def command_names(self) -> frozenset[str]:
        """Everything that is understood behind a slash."""
        return frozenset(entry.name for entry in self.commands)


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """
    Seconds. `answer`: how long any answer may take, `upload` if a file goes with the question.
    `pause`: the rest after a lost connection, growing. `silence`: how long a connection may bring
    nothing, not even a sign of life. `deaf`: the silence after which nothing would be heard any
    more. `look`: between two looks whether Discord has said more than was heard. `identify`:
    between two new sessions; Discord takes one in five seconds. `open`: between two direct chats
    that are opened beside listening. `lasting`: how long a connection must last to count as good.
    """

    answer: float = 30.0
    upload: float = 300.0
    pause: float = 1.0
    silence: float = 60.0
    deaf: float = 90.0
    look: float = 60.0
    identify: float = 5.0
    open: float = 5.0
    lasting: float = 45.0

    @property
    def stale_after(self) -> timedelta:
        """As the port has it."""
        return timedelta(seconds=self.deaf)
