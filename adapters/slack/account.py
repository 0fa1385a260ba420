"""What the operator says of one app in one workspace, and how long things may take."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta

from turngate.gateway.domain.messages import MAIN_ACCOUNT
from turngate.gateway.domain.ports.adapter import MenuEntry

CLOUD = "https://slack.com/api/"
EVENTS_PATH = "/slack/events"
"""Where Slack sends everything, events and commands and buttons: the app's manifest says so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Http:
    """Where Slack's requests arrive here, and the secret that signs them."""

    host: str
    port: int
    signing_secret: str = field(repr=False)
    path: str = EVENTS_PATH


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """
    One workspace. It is heard by Socket Mode, which needs the app token, or by HTTP.

    `dm_threads`: in a direct chat, too, every thread is a session. `follow_threads`: in a thread
    that the bot takes part in it needs no new mention.
    """

    bot_token: str = field(repr=False)
    app_token: str | None = field(default=None, repr=False)
    http: Http | None = None
    name: str = MAIN_ACCOUNT
    api_url: str = CLOUD
    dm_threads: bool = False
    follow_threads: bool = True
    commands: tuple[MenuEntry, ...] = ()

    def __post_init__(self) -> None:
        """One that nothing can reach is a mistake."""
        if self.app_token is None and self.http is None:
            raise ValueError("an account of Slack needs an app token, or an address for requests")


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """
    Seconds. `connect`: until a socket has said hello. `answer`: for any answer of Slack, `upload`
    if a file goes with the question. `ack`: for looking up people and places, while Slack waits to
    hear that we have the message. `ping`: between two questions whether a socket is still alive.
    `look`: the same without a socket. `deaf`: the silence after which nothing would be heard any
    more. `good`: how long a connection lasts before the next one may be opened without a pause.
    """

    connect: float = 20.0
    answer: float = 30.0
    upload: float = 300.0
    ack: float = 2.5
    ping: float = 10.0
    look: float = 30.0
    deaf: float = 90.0
    good: float = 30.0

    @property
    def stale_after(self) -> timedelta:
        """As the port has it."""
        return timedelta(seconds=self.deaf)
