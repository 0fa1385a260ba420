"""Every key of the config with its default. What the rest of the gateway needs of it is made here, in its own words."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    JsonValue,
    SecretStr,
    Strict,
    Tag,
)

from turngate.config.access import Admin, Allowed, Bot, Chat
from turngate.config.fields import (
    AsWritten,
    ClockTime,
    Count,
    CountOrNone,
    Duration,
    Flag,
    Folder,
    Id,
    Listen,
    ListenAddress,
    Money,
    Name,
    Prose,
    Secret,
    Share,
    Size,
    SocketAddress,
    SomeTime,
    StorageAddress,
    Streaming,
    Text,
    Variables,
    WebAddress,
    Zone,
    unambiguous,
)
from turngate.config.wake_words import WakeWord
from turngate.gateway.domain.messages import MAIN_ACCOUNT, ChatType, ResetPolicy
from turngate.gateway.rules.budgets import Budget as BudgetRule
from turngate.gateway.rules.budgets import Budgets as BudgetRules
from turngate.gateway.rules.history_window import HistoryRules
from turngate.gateway.rules.session_lifecycle import CleanUpRules, ResetPolicies

PlatformName = Literal["telegram", "discord", "slack", "local", "web"]
ChatTypeName = Literal["dm", "group", "channel", "thread"]
GroupMode = Annotated[Literal["mention", "all", "off"], AsWritten]
LogLevel = Literal["debug", "info", "warning", "error"]
AgentKind = Literal["echo", "openai", "anthropic", "command", "acp", "http", "python"]

DEFAULT_STATE_DIR = Path("~/.local/state/turngate")


class Section(BaseModel):
    """A mapping of the file. Errors do not repeat what was written: it may be a secret."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, hide_input_in_errors=True)


class Storage(Section):
    """Where conversations are kept."""

    url: StorageAddress = "sqlite"


class Prices(Section):
    """What a million tokens cost, in US dollars."""

    input: Money = 0.0
    output: Money = 0.0
    cache_read: Money = 0.0
    cache_write: Money = 0.0


class Agent(Section):
    """Who answers."""

    kind: Annotated[AgentKind, AsWritten] = "echo"
    base_url: WebAddress | None = None
    url: WebAddress | None = None
    api_key: Secret | None = None
    model: Text | None = None
    system_prompt: Prose = ""
    repeatable: Flag | None = None
    argv: Annotated[tuple[Prose, ...], Strict(False)] = ()
    format: Annotated[Literal["text", "jsonl"], AsWritten] = "text"
    env: Variables = Field(default_factory=dict)
    object: Text | None = None
    options: Mapping[str, JsonValue] = Field(default_factory=dict)
    attempts: Annotated[Count, Field(le=10)] = 3
    timeout: SomeTime | None = None
    fallback: Annotated[tuple[Name, ...], Strict(False)] = ()
    images: Flag = True
    max_tokens: Count | None = None
    memory: Size | None = None
    session_end: Flag = False
    offered: Flag | None = None
    price: Prices | None = None


class Match(Section):
    """Which messages a route is for; what is left out matches all."""

    platform: Annotated[PlatformName, AsWritten] | None = None
    account: Name | None = None
    chat_type: Annotated[ChatTypeName, AsWritten] | None = None
    chat: Id | None = None
    thread: Id | None = None
    user: Id | None = None


class Route(Section):
    """Which agent answers there."""

    match: Match
    agent: Name
    choices: Annotated[tuple[Name, ...], Strict(False)] | None = None


def _sendable(secret: SecretStr) -> SecretStr:
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,256}", secret.get_secret_value()):
        raise ValueError(
            "Telegram takes letters, digits, _ and -, at most 256 of them; write another secret"
        )
    return secret


class Webhook(Section):
    """How Telegram reaches us, where it does not wait to be asked."""

    url: WebAddress
    listen: Listen
    secret: Annotated[Secret, AfterValidator(_sendable)]


class ByWebhook(Section):
    """Being called instead of asking."""

    webhook: Webhook


def _is_mapping(value: object) -> str:
    return "webhook" if isinstance(value, dict | ByWebhook) else "polling"


Receive = Annotated[
    Annotated[Literal["polling"], AsWritten, Tag("polling")] | Annotated[ByWebhook, Tag("webhook")],
    Discriminator(_is_mapping),
]


class TelegramAccount(Section):
    """One Telegram bot."""

    account: Name = MAIN_ACCOUNT
    token: Secret
    api_url: WebAddress = "https://api.telegram.org"
    receive: Receive = "polling"
    home: Id | None = None


class DiscordAccount(Section):
    """One Discord bot."""

    account: Name = MAIN_ACCOUNT
    token: Secret
    api_url: WebAddress = "https://discord.com/api/v10"
    gateway_url: SocketAddress | None = None
    cdn_url: WebAddress = "https://cdn.discordapp.com"
    threads: Flag = False
    home: Id | None = None


class Requests(Section):
    """Where Slack's requests arrive, and the secret that signs them."""

    listen: Listen
    signing_secret: Secret


class ByHttp(Section):
    """Being called by Slack instead of holding a connection to it."""

    http: Requests


def _is_by_http(value: object) -> str:
    return "http" if isinstance(value, dict | ByHttp) else "socket"


ReceiveAtSlack = Annotated[
    Annotated[Literal["socket"], AsWritten, Tag("socket")] | Annotated[ByHttp, Tag("http")],
    Discriminator(_is_by_http),
]


class SlackAccount(Section):
    """One Slack workspace. Only Socket Mode needs the app token."""

    account: Name = MAIN_ACCOUNT
    bot_token: Secret
    app_token: Secret | None = None
    api_url: WebAddress = "https://slack.com/api/"
    receive: ReceiveAtSlack = "socket"
    dm_threads: Flag = False
    follow_threads: Flag = True
    home: Id | None = None


class Platforms(Section):
    """The accounts, platform by platform."""

    telegram: Annotated[tuple[TelegramAccount, ...], Strict(False)] = ()
    discord: Annotated[tuple[DiscordAccount, ...], Strict(False)] = ()
    slack: Annotated[tuple[SlackAccount, ...], Strict(False)] = ()


class Access(Section):
    """Who may talk to the bot, and when it answers in a group."""

    direct: Annotated[Literal["pairing", "listed", "open-dangerously"], AsWritten] = "pairing"
    groups: GroupMode = "mention"
    group_modes: Mapping[Chat, GroupMode] = Field(default={})
    wake_words: Annotated[tuple[WakeWord, ...], Strict(False)] = ()
    background: Annotated[int, Strict(), Field(ge=0, le=200), BeforeValidator(unambiguous)] = 0
    allow: Annotated[tuple[Allowed, ...], Strict(False)] = ()
    admins: Annotated[tuple[Admin, ...], Strict(False)] = ()
    bots: Annotated[tuple[Bot, ...], Strict(False)] = ()


class Reset(Section):
    """When a conversation starts anew: after a pause, at a time of day, both, or (empty) never."""

    idle: SomeTime | None = None
    daily_at: ClockTime | None = None

    def policy(self, zone: str) -> ResetPolicy:
        """The same in the words of the session rules."""
        return ResetPolicy(idle_after=self.idle, daily_at=self.daily_at, zone=zone)


class History(Section):
    """How much of a conversation the agent is shown."""

    messages: CountOrNone = 120
    tokens: Count = 32_000
    threshold: Share = 0.9
    keep_recent: CountOrNone = 10
    headroom: Share = 0.75
    compact: Flag = True
    summariser: Name | None = None


class CleanUp(Section):
    """What becomes of sessions in which nothing was said, and of those that nobody uses."""

    every: SomeTime | None = timedelta(hours=1)
    empty_after: SomeTime = timedelta(hours=1)
    archive_after: SomeTime = timedelta(days=30)


class Sessions(Section):
    """What belongs to one conversation, when it starts anew, and what becomes of it."""

    per_user_in_groups: Flag = True
    per_user_in_threads: Flag = False
    reset: Reset = Reset()
    reset_by_chat_type: Mapping[ChatTypeName, Reset] = Field(default_factory=dict)
    reset_by_platform: Mapping[PlatformName, Reset] = Field(default_factory=dict)
    history: History = History()
    clean_up: CleanUp = CleanUp()
    keep: SomeTime | None = None


class Turns(Section):
    """How turns are taken."""

    when_busy: Annotated[Literal["collect", "follow_up", "interrupt", "steer"], AsWritten] = (
        "collect"
    )
    debounce: Duration = timedelta(milliseconds=600)
    idle_timeout: SomeTime = timedelta(minutes=30)
    answer_within: SomeTime = timedelta(hours=1)
    concurrent: Count = 64
    waiting_per_session: Count = 50
    drain: Duration = timedelta(seconds=20)


class Budget(Section):
    """What may be used in a day; null: as much as they like."""

    usd_per_day: Money | None = None
    tokens_per_day: CountOrNone | None = None

    def rule(self) -> BudgetRule:
        """The same in the words of the core."""
        return BudgetRule(usd_per_day=self.usd_per_day, tokens_per_day=self.tokens_per_day)


class Budgets(Section):
    """For every person, for every chat, and for all of them together."""

    user: Budget = Budget()
    chat: Budget = Budget()
    total: Budget = Budget()


class Privacy(Section):
    """What agents never see."""

    redact: Flag = True
    redact_emails: Flag = False


class Delivery(Section):
    """How answers go out."""

    stream: Streaming = True
    max_parts: Count = 20
    retry_for: Duration = timedelta(hours=24)
    reaction: Annotated[str, Field(min_length=1, max_length=16)] | None = None


class Files(Section):
    """What is taken from people and from agents, and for how long it is kept."""

    largest: Size = 20_000_000
    largest_out: Size = 50_000_000
    per_message: Count = 10
    keep: SomeTime = timedelta(days=30)


class Backups(Section):
    """Copies of the database that the daemon makes by itself."""

    every: SomeTime | None = timedelta(hours=24)
    keep: Count = 7
    folder: Folder | None = None


class Log(Section):
    """How much is told on stderr. `quote`: also what model servers, platforms and programs say of a failure."""

    level: Annotated[LogLevel, AsWritten] = "info"
    quote: Flag = False


class Web(Section):
    """The web chat, the console, health and metrics."""

    listen: Listen | None = ListenAddress("127.0.0.1", 8765)


class Config(Section):
    """Everything an operator can decide."""

    state_dir: Folder = DEFAULT_STATE_DIR
    timezone: Zone = "UTC"
    storage: Storage = Storage()
    agents: Mapping[Name, Agent] = Field(default_factory=lambda: {MAIN_ACCOUNT: Agent()})
    routes: Annotated[tuple[Route, ...], Strict(False)] = ()
    platforms: Platforms = Platforms()
    access: Access = Access()
    sessions: Sessions = Sessions()
    turns: Turns = Turns()
    budgets: Budgets = Budgets()
    privacy: Privacy = Privacy()
    delivery: Delivery = Delivery()
    files: Files = Files()
    backups: Backups = Backups()
    log: Log = Log()
    web: Web = Web()

    def reset_policies(self) -> ResetPolicies:
        """When conversations start anew, in the installation's time zone."""
        rules, zone = self.sessions, self.timezone
        return ResetPolicies(
            default=rules.reset.policy(zone),
            by_chat_type={
                ChatType(name): reset.policy(zone)
                for name, reset in rules.reset_by_chat_type.items()
            },
            by_platform={
                name: reset.policy(zone) for name, reset in rules.reset_by_platform.items()
            },
        )

    def clean_up_rules(self) -> CleanUpRules:
        """When sessions are tidied up, and how old is old."""
        written = self.sessions.clean_up
        return CleanUpRules(
            every=written.every,
            empty_after=written.empty_after,
            archive_after=written.archive_after,
            keep=self.sessions.keep,
        )

    def programs(self) -> tuple[str, ...]:
        """The agents whose code runs on this machine, with whatever that code needs of it."""
        return tuple(
            name
            for name, agent in self.agents.items()
            if agent.kind in ("command", "acp", "python")
        )

    def history_rules(self) -> HistoryRules:
        """How much of a conversation agents are shown."""
        history = self.sessions.history
        return HistoryRules(
            messages=history.messages,
            tokens=history.tokens,
            threshold=history.threshold,
            keep_recent=history.keep_recent,
            headroom=history.headroom,
            zone=self.timezone,
        )

    def budget_rules(self) -> BudgetRules:
        """How much may be used in a day of the installation's time zone."""
        written = self.budgets
        user, chat, total = written.user.rule(), written.chat.rule(), written.total.rule()
        return BudgetRules(user=user, chat=chat, total=total, zone=self.timezone)
