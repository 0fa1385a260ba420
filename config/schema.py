"""
Every key of the config with its default, and the values that the rules are configured with.

Keys that only platforms have are declared by them; see `config/platforms.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import timedelta
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import BeforeValidator, Field, JsonValue, Strict, create_model

from turngate.config.access import (
    Admin,
    Allowed,
    Bot,
    Chat,
)
from turngate.config.fields import (
    AsWritten,
    ClockTime,
    Count,
    CountOrZero,
    Duration,
    Flag,
    Folder,
    Id,
    Listen,
    ListenAddress,
    Money,
    Name,
    PositiveDuration,
    Prose,
    Secret,
    Section,
    Share,
    Size,
    StorageAddress,
    Streaming,
    Text,
    Variables,
    WebAddress,
    Zone,
    unambiguous,
)
from turngate.config.platforms import PLATFORMS, account_lists
from turngate.config.wake_words import WakeWord
from turngate.gateway.domain.messages import MAIN_ACCOUNT, ChatType
from turngate.gateway.domain.ports.platform import AccountSettings
from turngate.gateway.domain.session import ResetPolicy
from turngate.gateway.rules.budgets import Budget as BudgetRule
from turngate.gateway.rules.budgets import Budgets as BudgetRules
from turngate.gateway.rules.history_window import HistoryRules
from turngate.gateway.rules.retention import CleanUpRules
from turngate.gateway.rules.session_lifecycle import ResetPolicies

BUILT_IN_KINDS = ("echo", "openai", "anthropic", "command", "acp", "http", "python")
_WITHOUT_OWN_CODE = ("echo", "openai", "anthropic", "http")
# What is installed beside the gateway counts, so these two are only known when it runs.
if TYPE_CHECKING:
    PlatformName = str
    AgentKind = str
else:
    PlatformName = Literal[*PLATFORMS, "local", "web"]
    AgentKind = Literal[*BUILT_IN_KINDS, *entry_points(group="turngate.agents").names]
ChatTypeName = Literal["dm", "group", "channel", "thread"]
GroupMode = Annotated[Literal["mention", "all", "off"], AsWritten]
LogLevel = Literal["debug", "info", "warning", "error"]

DEFAULT_STATE_DIR = Path("~/.local/state/turngate")


class Storage(Section):
    """The database of sessions."""

    url: StorageAddress = "sqlite"


class Prices(Section):
    """What a million tokens cost, in US dollars."""

    input: Money = 0.0
    output: Money = 0.0
    cache_read: Money = 0.0
    cache_write: Money = 0.0


class Agent(Section):
    """One agent. Every kind uses the keys that concern it."""

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
    timeout: PositiveDuration | None = None
    fallback: Annotated[tuple[Name, ...], Strict(False)] = ()
    images: Flag = True
    max_tokens: Count | None = None
    memory: Size | None = None
    session_end: Flag = False
    offered: Flag | None = None
    price: Prices | None = None


class Match(Section):
    """The messages that a route is for; a key that is left out matches all."""

    platform: Annotated[PlatformName, AsWritten] | None = None
    account: Name | None = None
    chat_type: Annotated[ChatTypeName, AsWritten] | None = None
    chat: Id | None = None
    thread: Id | None = None
    user: Id | None = None


class Route(Section):
    """The agent for some messages, and the ones that users may choose there."""

    match: Match
    agent: Name
    choices: Annotated[tuple[Name, ...], Strict(False)] | None = None


class AccountLists(Section):
    """The accounts, platform by platform."""

    def accounts(self) -> Iterator[tuple[str, AccountSettings]]:
        """Every account with the name of its platform."""
        for platform in type(self).model_fields:
            for account in getattr(self, platform):
                yield platform, account


if TYPE_CHECKING:
    Platforms = AccountLists
else:
    Platforms = create_model(
        "Platforms", __base__=AccountLists, __doc__=AccountLists.__doc__, **account_lists()
    )


class Access(Section):
    """Who may use the bot, and when it answers in a group."""

    direct: Annotated[Literal["pairing", "listed", "open-dangerously"], AsWritten] = "pairing"
    pairing_codes: Annotated[Count, Field(le=1000)] = 3
    groups: GroupMode = "mention"
    group_modes: Mapping[Chat, GroupMode] = Field(default={})
    wake_words: Annotated[tuple[WakeWord, ...], Strict(False)] = ()
    background: Annotated[int, Strict(), Field(ge=0, le=200), BeforeValidator(unambiguous)] = 0
    allow: Annotated[tuple[Allowed, ...], Strict(False)] = ()
    admins: Annotated[tuple[Admin, ...], Strict(False)] = ()
    bots: Annotated[tuple[Bot, ...], Strict(False)] = ()


class Reset(Section):
    """When a session is reset: after a pause, at a time of day, both, or (empty) never."""

    idle: PositiveDuration | None = None
    daily_at: ClockTime | None = None

    def policy(self, zone: str) -> ResetPolicy:
        """The policy for the session rules."""
        return ResetPolicy(idle_after=self.idle, daily_at=self.daily_at, zone=zone)


class History(Section):
    """How much of a session the agent is shown."""

    messages: CountOrZero = 120
    tokens: Count = 32_000
    threshold: Share = 0.9
    keep_recent: CountOrZero = 10
    headroom: Share = 0.75
    compact: Flag = True
    summariser: Name | None = None


class CleanUp(Section):
    """When empty sessions are deleted and unused ones archived."""

    every: PositiveDuration | None = timedelta(hours=1)
    empty_after: PositiveDuration = timedelta(hours=1)
    archive_after: PositiveDuration = timedelta(days=30)


class Sessions(Section):
    """What belongs to one session, when it is reset, and how long it is kept."""

    per_user_in_groups: Flag = True
    per_user_in_threads: Flag = False
    reset: Reset = Reset()
    reset_by_chat_type: Mapping[ChatTypeName, Reset] = Field(default_factory=dict)
    reset_by_platform: Mapping[PlatformName, Reset] = Field(default_factory=dict)
    history: History = History()
    clean_up: CleanUp = CleanUp()
    keep: PositiveDuration | None = None


class Turns(Section):
    """When turns run, and how long they may take."""

    when_busy: Annotated[Literal["collect", "follow_up", "interrupt", "steer"], AsWritten] = (
        "collect"
    )
    debounce: Duration = timedelta(milliseconds=600)
    idle_timeout: PositiveDuration = timedelta(minutes=30)
    answer_within: PositiveDuration = timedelta(hours=1)
    concurrent: Count = 64
    waiting_per_session: Count = 50
    drain: Duration = timedelta(seconds=20)


class Budget(Section):
    """What may be used in a day; null: no limit."""

    usd_per_day: Money | None = None
    tokens_per_day: CountOrZero | None = None

    def rule(self) -> BudgetRule:
        """The limit for the budget rules."""
        return BudgetRule(usd_per_day=self.usd_per_day, tokens_per_day=self.tokens_per_day)


class Budgets(Section):
    """Limits for each user, for each chat, and for all together."""

    user: Budget = Budget()
    chat: Budget = Budget()
    total: Budget = Budget()


class Privacy(Section):
    """What is replaced before an agent sees it."""

    redact: Flag = True
    redact_emails: Flag = False


class Delivery(Section):
    """How answers are sent."""

    stream: Streaming = True
    max_parts: Count = 20
    retry_for: Duration = timedelta(hours=24)
    reaction: Annotated[str, Field(min_length=1, max_length=16)] | None = None


class Files(Section):
    """Limits for files from users and agents, and how long they are kept."""

    largest: Size = 20_000_000
    largest_out: Size = 50_000_000
    per_message: Count = 10
    keep: PositiveDuration = timedelta(days=30)


class Backups(Section):
    """Copies of the database that the daemon makes regularly."""

    every: PositiveDuration | None = timedelta(hours=24)
    keep: Count = 7
    folder: Folder | None = None


class Log(Section):
    """
    What is logged on stderr. `quote`: also the error texts of model servers, platforms and
    programs.
    """

    level: Annotated[LogLevel, AsWritten] = "info"
    quote: Flag = False


class Web(Section):
    """The web chat, the console, health and metrics."""

    listen: Listen | None = ListenAddress("127.0.0.1", 8765)


class Config(Section):
    """The whole config file."""

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
        """When sessions are reset, in the installation's time zone."""
        rules = self.sessions
        zone = self.timezone

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
        """When sessions are cleaned up, and after how long."""
        written = self.sessions.clean_up

        return CleanUpRules(
            every=written.every,
            empty_after=written.empty_after,
            archive_after=written.archive_after,
            keep=self.sessions.keep,
        )

    def programs(self) -> tuple[str, ...]:
        """The agents whose own code runs on this machine: all but ours and remote ones."""
        return tuple(
            name for name, agent in self.agents.items() if agent.kind not in _WITHOUT_OWN_CODE
        )

    def history_rules(self) -> HistoryRules:
        """How much of a session agents are shown."""
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
        user = written.user.rule()
        chat = written.chat.rule()
        total = written.total.rule()
        return BudgetRules(user=user, chat=chat, total=total, zone=self.timezone)
