"""
The metrics: every series that Prometheus is shown, with its help text.

Labels are words of short lists (platforms, accounts and agents of the config, states, outcomes),
never user data, so their number is bounded.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

METRICS_TYPE = CONTENT_TYPE_LATEST

# Histogram buckets: seconds, except for batches, which count writes.
_OF_TURNS = (0.1, 0.3, 1, 3, 10, 30, 100, 300, 1000)
_OF_COMMITS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10)
_OF_LAG = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10)
_OF_BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256)


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountGauges:
    """One account: its state, and how many seconds ago its platform last answered."""

    platform: str
    account: str
    state: str
    states: tuple[str, ...]
    age: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Now:
    """
    Values that are read at scrape time.

    `queues` holds depth, dead letters and the age of the oldest in seconds by queue; None while the
    store cannot be read.
    """

    busy: int
    waiting: int
    tasks: int
    sessions_in_memory: int
    store_ok: bool
    log_lines_lost: int
    accounts: Iterable[AccountGauges] = ()
    queues: Mapping[str, tuple[int, int, float]] | None = None


class Metrics:
    """
    The metrics of a process. Counters and histograms change as things happen, gauges at scrape
    time.
    """

    def __init__(self) -> None:
        # Not the library's global registry, in which two gateways of one process would collide.
        self._registry = CollectorRegistry()
        ProcessCollector(namespace="turngate", registry=self._registry)
        self.messages = self._counter(
            "messages", "Inbound messages by what became of them.", "platform", "outcome"
        )
        self.refusals = self._counter(
            "refusals", "Messages that were not let in, by reason.", "platform", "reason"
        )
        self.commands = self._counter("commands", "Chat commands that were run.", "command")
        self.turns = self._counter("turns", "Turns by agent and outcome.", "agent", "outcome")
        self.parts = self._counter(
            "parts", "Outbound parts by what became of them.", "platform", "outcome"
        )
        self.tokens = self._counter("tokens", "Tokens that agents used, by kind.", "agent", "kind")
        self.cost = self._counter("cost_usd", "What agents cost, as far as that is known.", "agent")
        self.bugs = self._counter("unexpected_errors", "Unexpected errors: look in the log.")
        self.damaged_rows = self._counter(
            "damaged_rows", "Rows that were found damaged and set aside: `turngate repair`."
        )
        self.stalls = self._counter(
            "loop_stalls", "How often the event loop was blocked; the log says by what."
        )
        self.retries = self._counter(
            "retries", "What had to be done again: a send, an agent, an account.", "what"
        )
        for what in ("send", "agent", "account"):
            # Shown as 0 from the start: rate() cannot see the first increment of a new series.
            self.retries.labels(what)

        self.turn_seconds = self._histogram(
            "turn_seconds", "From the beginning of a turn until it was stored.", _OF_TURNS
        )
        self.first_text_seconds = self._histogram(
            "first_text_seconds",
            "From the beginning of a turn until the agent's first text.",
            _OF_TURNS,
        )
        self.loop_lag_seconds = self._histogram(
            "loop_lag_seconds", "How late the event loop comes.", _OF_LAG
        )
        self._commit_seconds = self._histogram(
            "commit_seconds", "How long a commit took, its fsync included.", _OF_COMMITS
        )
        self._commit_writes = self._histogram(
            "commit_batch_size", "How many writes shared a commit.", _OF_BATCHES
        )
        self._make_gauges()

    def _make_gauges(self) -> None:
        self._busy = self._gauge("lanes_busy", "Conversations with a turn at work.")
        self._waiting = self._gauge("lanes_waiting", "Messages that wait for their turn.")
        self._tasks = self._gauge("tasks", "Tasks of the event loop.")
        self._sessions = self._gauge(
            "sessions_in_memory", "Conversations of which the newest entries are kept decoded."
        )
        self._store_ok = self._gauge("store_ok", "1 while the store takes writes.")
        self._lost = self._gauge(
            "log_lines_lost", "Log lines dropped because the reader was too slow."
        )
        self.last_backup = self._gauge(
            "last_backup_timestamp_seconds", "When the newest scheduled backup was made; 0: never."
        )
        self._state = self._gauge(
            "account_state", "1 for the state an account is in.", "platform", "account", "state"
        )
        self._age = self._gauge(
            "account_receive_age_seconds",
            "Since the platform last answered this account.",
            "platform",
            "account",
        )
        self._depth = self._gauge(
            "queue_depth", "Messages and parts that are on their way.", "queue"
        )
        self._oldest = self._gauge(
            "queue_oldest_seconds", "How long the oldest of them has been there.", "queue"
        )
        self._dead = self._gauge(
            "dead_letters", "Messages and parts that were given up: see turngate queue.", "queue"
        )

    def committed(self, seconds: float, writes: int) -> None:
        """Count a commit. Called on the store's writer thread."""
        self._commit_seconds.observe(seconds)
        self._commit_writes.observe(writes)

    def text(self, now: Now) -> bytes:
        """Return the Prometheus text format."""
        self._busy.set(now.busy)
        self._waiting.set(now.waiting)
        self._tasks.set(now.tasks)
        self._sessions.set(now.sessions_in_memory)
        self._store_ok.set(now.store_ok)
        self._lost.set(now.log_lines_lost)
        for account in now.accounts:
            # Every state is set, or the previous one would stay at 1.
            for state in account.states:
                self._state.labels(account.platform, account.account, state).set(
                    state == account.state
                )
            if account.age is not None:
                self._age.labels(account.platform, account.account).set(account.age)

        self._show_queues(now.queues)
        return generate_latest(self._registry)

    def _show_queues(self, queues: Mapping[str, tuple[int, int, float]] | None) -> None:
        """Leave out unknown values: an old number would look like a fresh one."""
        for gauge in (self._depth, self._dead, self._oldest):
            gauge.clear()
        for name, (depth, dead, oldest) in (queues or {}).items():
            self._depth.labels(name).set(depth)
            self._dead.labels(name).set(dead)
            self._oldest.labels(name).set(oldest)

    def _counter(self, name: str, words: str, *labels: str) -> Counter:
        return Counter(f"turngate_{name}", words, labels, registry=self._registry)

    def _gauge(self, name: str, words: str, *labels: str) -> Gauge:
        return Gauge(f"turngate_{name}", words, labels, registry=self._registry)

    def _histogram(self, name: str, words: str, buckets: tuple[float, ...]) -> Histogram:
        return Histogram(f"turngate_{name}", words, buckets=buckets, registry=self._registry)
