"""
What operators see: one log line and one number for everything that happens.

A line is a fixed sentence with an `action` word and fields from a fixed list. Texts, names and ids of people and chats
are on no list, so they cannot be logged by accident; of an unexpected error the place is told and not the words, which
may be somebody's.
"""

from __future__ import annotations

import logging
import time
import traceback
from collections.abc import MutableMapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, TextIO

import structlog
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from gateway.errors import AgentError, Refused, TurngateError
from gateway.model import Part, SessionId, SessionSource
from gateway.reminding import Reminding
from gateway.spending import Spending
from gateway.storing import Accepted, Begun, Outcome, Pruned

METRICS_TYPE = CONTENT_TYPE_LATEST


class Action(StrEnum):
    """What a line is about; operators search for these."""

    STARTED = "started"
    STOPPING = "stopping"
    STOPPED = "stopped"
    RELOADED = "reloaded"
    STALLED = "stalled"
    ACCEPTED = "accepted"
    DUPLICATE = "duplicate"
    REFUSED = "refused"
    AMENDED = "amended"
    NOTED = "noted"
    COMMAND = "command"
    AGENT = "agent"
    TURN = "turn"
    SUMMARY = "summary"
    SESSION = "session"
    DROPPED = "dropped"
    SENT = "sent"
    UNSENT = "unsent"
    PREVIEW = "preview"
    ACCESS = "access"
    ACCOUNT = "account"
    STORE = "store"
    FILE = "file"
    BACKUP = "backup"
    BUG = "bug"


# fmt: off
_FIELDS = frozenset((
    "timestamp", "level", "event", "action", "reason", "where", "changed", "needs_restart",
    "account", "address", "agent", "command", "ms", "outcome", "part", "pid", "platform", "session", "turn", "version",
))
# fmt: on


def only_known_fields(_: object, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Drop what is on no list: a new field is a decision, not an accident."""
    return {name: value for name, value in event.items() if name in _FIELDS}


def configure_logging(level: str, stream: TextIO) -> None:
    """Ours in full; of the libraries only what they warn of, and of that only who warned: their words may be data."""
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            only_known_fields,
            structlog.processors.LogfmtRenderer(key_order=["timestamp", "level", "action", "event"]),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        logger_factory=lambda *_: _Lines(stream),
        cache_logger_on_first_use=False,
    )
    logging.basicConfig(handlers=[_Libraries(logging.WARNING)], level=logging.WARNING, force=True)


class _Lines:
    """On their way out. One that cannot be written is lost: a disk that is full of logs must not end the daemon."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def msg(self, line: str) -> None:
        """From any thread: it is one write."""
        with suppress(OSError):
            self._stream.write(f"{line}\n")
            self._stream.flush()

    debug = info = warning = error = critical = msg


class _Libraries(logging.Handler):
    """Our own adapters warn in fixed sentences, which are kept; anything that was put into one may be data."""

    def emit(self, record: logging.LogRecord) -> None:
        if record.name.startswith("adapters.") and not record.args:
            structlog.get_logger().warning(str(record.msg), action=Action.ACCOUNT, where=record.name)
            return
        cause = record.exc_info[1] if record.exc_info else None
        where = place_of(cause) if cause else record.name
        structlog.get_logger().warning("a library complained", action=Action.BUG, where=where, reason=record.name)


def place_of(error: BaseException) -> str:
    """Where it happened, innermost last, without a word of what it said."""
    frames = traceback.extract_tb(error.__traceback__)[-6:]
    return " > ".join(f"{frame.filename.rpartition('/')[2]}:{frame.lineno}" for frame in frames) or "unknown"


def reason_of(error: BaseException) -> str:
    """Our own errors are written to be read; of others only the kind is safe to repeat."""
    return str(error) if isinstance(error, TurngateError) else type(error).__name__


class Observer:
    """Told of everything that happens; tells the log and the metrics."""

    def __init__(self) -> None:
        self._log = structlog.get_logger()
        self._registry = CollectorRegistry()
        ProcessCollector(namespace="turngate", registry=self._registry)
        self._messages = self._counter("messages", "Inbound messages by what became of them.", "platform", "outcome")
        self._refusals = self._counter("refusals", "Messages that were not let in, by reason.", "platform", "reason")
        self._commands = self._counter("commands", "Chat commands that were run.", "command")
        self._turns = self._counter("turns", "Turns by agent and outcome.", "agent", "outcome")
        self._parts = self._counter("parts", "Outbound parts by what became of them.", "platform", "outcome")
        self._tokens = self._counter("tokens", "Tokens that agents used, by kind.", "agent", "kind")
        self._cost = self._counter("cost_usd", "What agents cost, as far as that is known.", "agent")
        self._bugs = self._counter("unexpected_errors", "Errors nobody had foreseen: look in the log.")
        self._stalls = self._counter("loop_stalls", "How often the event loop was held up: the log says by what.")
        self._turn_seconds = Histogram(
            "turngate_turn_seconds",
            "From the beginning of a turn until it was stored.",
            buckets=(0.1, 0.3, 1, 3, 10, 30, 100, 300, 1000),
            registry=self._registry,
        )
        self._store_troubles = Reminding()
        self._busy = Gauge("turngate_lanes_busy", "Conversations with a turn at work.", registry=self._registry)
        self._last_backup = Gauge(
            "turngate_last_backup_timestamp_seconds",
            "When the newest scheduled backup was made; 0: never.",
            registry=self._registry,
        )
        self._waiting = Gauge("turngate_lanes_waiting", "Messages that wait for their turn.", registry=self._registry)

    def started(self, *, address: str | None, version: str, pid: int) -> None:
        """Everything is open."""
        self._log.info("the gateway is up", action=Action.STARTED, address=address, version=version, pid=pid)

    def stopping(self) -> None:
        """Nothing new is taken."""
        self._log.info("finishing what runs", action=Action.STOPPING)

    def stopped(self) -> None:
        """Everything is closed."""
        self._log.info("the gateway is down", action=Action.STOPPED)

    def cut_off(self, turns: int) -> None:
        """The time for finishing is over. What is cut off goes on with the next start."""
        self._log.warning("the drain is over", action=Action.STOPPING, outcome=f"{turns} cut off")

    def closing_takes_too_long(self) -> None:
        """Something does not let itself be closed. Nothing is lost: whatever matters is on disk."""
        self._log.warning("closing takes too long, so it is left", action=Action.STOPPED)

    def reloaded(self, changed: Sequence[str], needs_restart: Sequence[str]) -> None:
        """The config was read again. Keys are named and never what they say."""
        fields = {"changed": ", ".join(changed) or "nothing"}
        if needs_restart:
            fields["needs_restart"] = ", ".join(needs_restart)
        tell = self._log.warning if needs_restart else self._log.info
        tell("the config was read again", action=Action.RELOADED, **fields)

    def not_reloaded(self, error: TurngateError) -> None:
        """The new config is wrong. What it says may be data, so that only whoever asked is shown the mistakes."""
        reason = f"{type(error).__name__}; `turngate check` says what is wrong"
        self._log.error("the config is refused, and nothing has changed", action=Action.RELOADED, reason=reason)

    def stalled(self, where: str) -> None:
        """Something keeps the event loop from going on, and everybody waits."""
        self._stalls.inc()
        self._log.warning("the event loop is held up", action=Action.STALLED, where=where)

    def stall_over(self, lasted: timedelta) -> None:
        """It goes on."""
        ms = round(lasted.total_seconds() * 1000)
        self._log.warning("the event loop goes on", action=Action.STALLED, ms=ms)

    def received(self, source: SessionSource, outcome: Action) -> None:
        """A message was accepted, known already, or refused; or something was done to one that is there."""
        self._messages.labels(source.platform, outcome.value).inc()
        self._log.debug("a message came in", action=outcome, platform=source.platform, account=source.account)

    def stored(self, source: SessionSource, accepted: Accepted | None) -> None:
        """A message is in the inbox, or was before; None if it is not, which whoever kept it out has told."""
        if accepted is not None:
            self.received(source, Action.DUPLICATE if accepted.duplicate else Action.ACCEPTED)

    def turned_away(self, source: SessionSource, reason: str) -> None:
        """A message was not let in. The reason is one word of a small list."""
        self._refusals.labels(source.platform, reason).inc()
        self.received(source, Action.REFUSED)

    def open_to_everybody(self) -> None:
        """Said at every start, so that nobody forgets."""
        self._log.warning(
            "DANGER: everybody who finds the bot can talk to it and spend what it costs; set access.direct to pairing",
            action=Action.ACCESS,
        )

    def commanded(self, command: str, session: SessionId) -> None:
        """A chat command was answered."""
        self._commands.labels(command).inc()
        self._log.info("a command was answered", action=Action.COMMAND, command=command, session=session)

    def dropped(self, refusal: Refused) -> None:
        """Work that nobody waits for any more."""
        self._log.info("nothing left to do", action=Action.DROPPED, reason=reason_of(refusal))

    def agent_failed(self, error: BaseException) -> None:
        """Why, it said to the person who asked, perhaps in his words: the transcript and the inbox have them."""
        self._log.warning("the agent failed", action=Action.AGENT, reason=type(error).__name__, where=place_of(error))

    def agent_unavailable(self, name: str, error: AgentError) -> None:
        """It could not be asked. What its server said of that is for the operator alone, so it may stand behind."""
        reason, cause = reason_of(error), error.__cause__
        if isinstance(cause, TurngateError) and reason_of(cause) not in reason:
            reason = f"{reason}: {reason_of(cause)}"
        self._log.warning("an agent cannot be asked", action=Action.AGENT, agent=name, reason=reason)

    def agent_silent(self) -> None:
        """Nothing came from it for as long as the config allows."""
        self._log.warning("the agent fell silent", action=Action.AGENT)

    def file_refused(self, error: TurngateError) -> None:
        """A file was not taken from a person or from an agent; whoever is concerned is told why."""
        self._log.warning("a file was not taken", action=Action.FILE, reason=reason_of(error))

    def not_sent_elsewhere(self, error: TurngateError) -> None:
        """What an agent wanted to send to another place; the person whose turn it is hears why."""
        self._log.warning("nothing was sent elsewhere", action=Action.AGENT, reason=reason_of(error))

    def files_failed(self, error: BaseException) -> None:
        """The folder of the files does not take what is done to it; it is tried again with the next sweep."""
        self._log.error("the files failed", action=Action.FILE, reason=reason_of(error))

    def turn_ended(self, begun: Begun, outcome: Outcome, agent: str, seconds: float) -> None:
        """One line per turn."""
        result = outcome.state.value
        self._turns.labels(agent, result).inc()
        self._turn_seconds.observe(seconds)
        fields = {"turn": begun.turn, "session": begun.opened.session.id, "agent": agent, "ms": round(seconds * 1000)}
        if outcome.failure is None:
            self._log.info("a turn was answered", action=Action.TURN, outcome=result, **fields)
        elif outcome.refused:
            self._log.info("a turn was refused", action=Action.TURN, outcome=result, reason=outcome.failure, **fields)
        else:
            self._log.warning("a turn failed", action=Action.TURN, outcome=result, **fields)

    def summarised(self, session: SessionId, messages: int) -> None:
        """A summary stands for the older part of a conversation."""
        done = f"{messages} messages"
        self._log.info("a conversation was summarised", action=Action.SUMMARY, session=session, outcome=done)

    def not_summarised(self, session: SessionId, refusal: Refused) -> None:
        """It goes on without: its agent is shown what fits."""
        reason = reason_of(refusal)
        self._log.warning("a conversation was not summarised", action=Action.SUMMARY, session=session, reason=reason)

    def charged(self, agent: str, spending: Spending) -> None:
        """An agent used something."""
        tokens = spending.tokens
        for kind in ("input", "output", "cache_read", "cache_write"):
            self._tokens.labels(agent, kind).inc(getattr(tokens, kind))
        self._cost.labels(agent).inc(spending.usd)

    def sent(self, part: Part) -> None:
        """A part arrived."""
        self._parts.labels(part.target.platform, "sent").inc()
        self._log.debug("a part was sent", action=Action.SENT, part=part.id, platform=part.target.platform)

    def unsent(self, part: Part, reason: str, *, dead: bool) -> None:
        """A part did not arrive: it will be tried again, or never."""
        self._parts.labels(part.target.platform, "dead" if dead else "failed").inc()
        words = "a part cannot be delivered" if dead else "a part is tried again"
        self._log.warning(words, action=Action.UNSENT, part=part.id, platform=part.target.platform, reason=reason)

    def hint_failed(self, target: SessionSource, error: BaseException) -> None:
        """A preview or a typing sign was not shown. The answer comes all the same."""
        reason = reason_of(error)
        self._log.debug("a hint was not shown", action=Action.PREVIEW, platform=target.platform, reason=reason)

    def account_changed(self, platform: str, account: str, state: str, reason: str | None) -> None:
        """An account is now in another state."""
        fields = {"platform": platform, "account": account, "outcome": state}
        if reason is None:
            self._log.info("an account changed", action=Action.ACCOUNT, **fields)
        else:
            self._log.warning("an account changed", action=Action.ACCOUNT, reason=reason, **fields)

    def swept(self, pruned: Pruned) -> None:
        """The store was tidied up. Sessions and words that went are worth a line; work that is forgotten is not."""
        done = f"{pruned.deleted} deleted, {pruned.archived} archived, {pruned.entries} messages deleted"
        tell = self._log.info if pruned.deleted or pruned.archived or pruned.entries else self._log.debug
        tell("the store was swept", action=Action.STORE, outcome=f"{done}, {pruned.forgotten} forgotten")

    def sessions_ended(self, count: int) -> None:
        """Their time had come before the next message did."""
        self._log.info("sessions were ended", action=Action.SESSION, outcome=f"{count} ended")

    def ending_not_heard(self, session: SessionId, agent: str, error: BaseException) -> None:
        """An agent failed when it was told that a session is over; it is told again."""
        reason = type(error).__name__
        self._log.debug(
            "an agent did not hear of an ending", action=Action.SESSION, session=session, agent=agent, reason=reason
        )

    def ending_let_go(self, session: SessionId, agent: str, tries: int) -> None:
        """The agent keeps nothing of that session. What was said stays in the transcript."""
        self._log.warning(
            "an agent could not be told that a session is over",
            action=Action.SESSION,
            session=session,
            agent=agent,
            outcome=f"given up after {tries} tries",
        )

    def clock_jumped(self) -> None:
        """Whoever deletes by the time of day waits until it has been steady for a while."""
        self._log.warning("the clock has jumped, or this host slept; nothing is swept for an hour", action=Action.STORE)

    def store_failed(self, error: BaseException) -> None:
        """The store does not take writes. Told once, and then now and then: everybody who writes finds out."""
        reason = reason_of(error)
        if self._store_troubles.is_due(reason, time.monotonic()):
            self._log.error("the store failed", action=Action.STORE, reason=reason)

    def store_works(self) -> None:
        """It takes writes; told if it did not before."""
        lasted = self._store_troubles.is_over(time.monotonic())
        if lasted is not None:
            ms = round(lasted.total_seconds() * 1000)
            self._log.warning("the store takes writes again", action=Action.STORE, ms=ms)

    def backed_up(self, at: datetime) -> None:
        """A scheduled backup was made and verified."""
        self.found_backup(at)
        self._log.info("a backup was made", action=Action.BACKUP)

    def found_backup(self, at: datetime) -> None:
        """An earlier run made the newest there is."""
        self._last_backup.set(at.timestamp())

    def not_backed_up(self, error: BaseException) -> None:
        """It is tried again; until then the newest backup grows older."""
        self._log.error("no backup was made", action=Action.BACKUP, reason=reason_of(error))

    def bug(self, error: BaseException) -> None:
        """Nobody had foreseen this. Where it happened is told, what it said is not."""
        self._bugs.inc()
        self._log.error("unexpected error", action=Action.BUG, reason=type(error).__name__, where=place_of(error))

    def metrics(self, *, busy: int, waiting: int) -> bytes:
        """In the text format of Prometheus."""
        self._busy.set(busy)
        self._waiting.set(waiting)
        return generate_latest(self._registry)

    def _counter(self, name: str, words: str, *labels: str) -> Counter:
        return Counter(f"turngate_{name}", words, labels, registry=self._registry)
