"""What all parts of the simulator share: the bots, the settings, and the ways to reach the bots."""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace

from tests.simulators.common import Call, Json, Simulator
from tests.simulators.slack import rules
from tests.simulators.slack.tiers import Tiers
from tests.simulators.slack.world import App, Bot, Clock, StoredFile

ACCOUNTS = ("main", "support")


@dataclass(kw_only=True)
class Settings:
    """How Slack behaves. All times are in seconds."""

    ack_within: float = 3.0
    retries: tuple[float, ...] = (0.0, 60.0, 300.0)
    """The pauses before an event comes again: https://docs.slack.dev/apis/events-api#retries."""
    waits: float = 0.0
    """For a connection, where there is none, before an attempt has failed."""
    connections: int = 10
    grace: float = 10.0
    """Between a disconnect frame and the end of the connection."""
    ping_every: float = 30.0
    lifetime: float | None = None
    """Of a connection, until it is to be refreshed."""
    streaming: bool = True
    """Whether the workspace has streams at all."""
    stream_lasts: float = 300.0
    """Without anything appended."""
    rates: bool = False
    """Whether a message a second per channel is enforced, and the tiers of all other methods."""
    minute: float = 60.0
    """Of the tiers."""
    echo: bool = True
    """Whether the bot hears of what it wrote itself, as it does at Slack."""

    def at_pace(self, pace: float) -> Settings:
        """Everything that is waited for takes this much of its time."""
        retries = tuple(pause * pace for pause in self.retries)
        return replace(
            self, ack_within=self.ack_within * pace, retries=retries, grace=self.grace * pace
        )


@dataclass(kw_only=True)
class ResponseUrl:
    """Where a bot may answer to a command or a button, for a while."""

    bot: Bot
    chat: str
    user: str
    message: str | None
    thread: str | None
    until: float
    left: int = 5


@dataclass(kw_only=True)
class Server:
    """Slack."""

    settings: Settings
    clock: Clock = field(default_factory=Clock)
    bots: dict[str, Bot] = field(default_factory=dict)
    response_urls: dict[str, ResponseUrl] = field(default_factory=dict)
    uploads: dict[str, tuple[Bot, StoredFile]] = field(default_factory=dict)
    posted: dict[tuple[str, str], list[float]] = field(default_factory=dict)
    tiers: Tiers = field(default_factory=Tiers)
    simulator: Simulator | None = None

    @property
    def url(self) -> str:
        """Where everything of Slack is to be found."""
        return self.running.url

    @property
    def running(self) -> Simulator:
        """The simulator around it."""
        assert self.simulator is not None
        return self.simulator

    def add_bot(self, name: str, *, token: str, app_token: str, team: str) -> Bot:
        """
        One more account; with the app token of another it is the same app in another workspace.
        """
        word = name.upper()
        shared = next((bot.app for bot in self.bots.values() if bot.app.token == app_token), None)
        app = shared or App(id=f"A0{word}", token=app_token, secret=f"{name}-signing-secret")
        self.bots[name] = Bot(
            name=name,
            token=token,
            app=app,
            team=team,
            user=f"U0BOT{word}",
            bot_id=f"B0{word}",
            clock=self.clock,
        )
        self.bots[name].person(f"U0BOT{word}")
        return self.bots[name]

    def bot_of(self, token: object) -> Bot | None:
        """Whose token that is."""
        return next((bot for bot in self.bots.values() if bot.token == token), None)

    def app_of(self, token: object) -> App | None:
        """Whose app-level token that is."""
        return next((bot.app for bot in self.bots.values() if bot.app.token == token), None)

    def response_url(
        self, bot: Bot, *, chat: str, user: str, message: str | None, thread: str | None
    ) -> str:
        """A fresh one."""
        word = secrets.token_hex(12)
        until = self.clock.now() + 1800
        self.response_urls[word] = ResponseUrl(
            bot=bot, chat=chat, user=user, message=message, thread=thread, until=until
        )
        return f"{self.url}/response/{bot.team}/{word}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One method of the Web API: what it does and what the token must be allowed."""

    answer: Callable[[Server, Bot, Call], Awaitable[Json]]
    does: str | None = None
    scopes: tuple[str, ...] = ()
    """Any one of these."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deed:
    """What people do, or whoever runs the app: the names of what it needs and of what it takes."""

    act: Callable[[Server, Bot, Call], Awaitable[Json]]
    required: Mapping[str, type] = field(default_factory=dict)
    optional: Mapping[str, type] = field(default_factory=dict)


def allow(bot: Bot, *any_of: str) -> None:
    """Raises No unless the token has one of these scopes."""
    if any_of and not bot.scopes.intersection(any_of):
        provided = ",".join(sorted(bot.scopes))
        raise rules.No("missing_scope", rules.SCOPES, needed=any_of[0], provided=provided)
