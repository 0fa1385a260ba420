"""
The observer: every event of the gateway is reported here and becomes log lines and metrics.

The wording of log lines is decided here, so that no other module needs to know it.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

import structlog

from turngate.gateway.domain.errors import (
    AgentError,
    Refused,
    RowDamaged,
    TurngateError,
)
from turngate.gateway.domain.ids import SessionId, TurnId
from turngate.gateway.domain.messages import SessionSource
from turngate.gateway.domain.outbox import Part
from turngate.gateway.domain.store_values import (
    Accepted,
    Begun,
    Outcome,
    Pruned,
)
from turngate.gateway.domain.usage import Spending
from turngate.gateway.observability.error_text import code_location, reason_of
from turngate.gateway.observability.logs import Action, tell_bug
from turngate.gateway.observability.metrics import Metrics

# Turns whose first text is remembered until they end.
_MOST_BEGUN = 20_000


class Observer:
    """Turns events into log lines and metrics."""

    def __init__(self) -> None:
        # A proxy: it uses the configuration that is current when a line is logged.
        self._log = structlog.get_logger()
        self.metrics = Metrics()
        self._first_text: dict[TurnId, timedelta] = {}
        self._store_fails = False

    def started(self, *, address: str | None, version: str, pid: int) -> None:
        """Everything is open."""
        self._log.info(
            "the gateway started", action=Action.STARTED, address=address, version=version, pid=pid
        )

    def crashed(self, crashes: int, *, suspects: int) -> None:
        """The previous run crashed; the turns that were running run again one at a time."""
        self._log.warning(
            "the previous run crashed; its turns run again one at a time",
            action=Action.STARTED,
            attempt=crashes,
            outcome=f"{suspects} turns",
        )

    def stopping(self) -> None:
        """The drain begins."""
        self._log.info("stopping: waiting for running turns", action=Action.STOPPING)

    def stopped(self) -> None:
        """Everything is closed."""
        self._log.info("the gateway stopped", action=Action.STOPPED)

    def cut_off(self, turns: int) -> None:
        """The drain timed out. What is cut off resumes after the next start."""
        self._log.warning("the drain is over", action=Action.STOPPING, outcome=f"{turns} cut off")

    def closing_takes_too_long(self) -> None:
        """Something cannot be closed in time. Nothing is lost: state is on disk."""
        self._log.warning("closing timed out; not waited for any longer", action=Action.STOPPED)

    def reloaded(self, changed: Sequence[str], needs_restart: Sequence[str]) -> None:
        """The config was reloaded. Keys are logged, never values."""
        fields = {"changed": ", ".join(changed) or "nothing"}
        if needs_restart:
            fields["needs_restart"] = ", ".join(needs_restart)
        tell = self._log.warning if needs_restart else self._log.info
        tell("the config was reloaded", action=Action.RELOADED, **fields)

    def not_reloaded(self, mistakes: Sequence[str]) -> None:
        """The new config is invalid. Problems are logged without the file's values."""
        reason = f"{'; and '.join(mistakes)}; `turngate check` says more"
        self._log.error(
            "the new config is invalid; nothing has changed", action=Action.RELOADED, reason=reason
        )

    def doubted(self, doubts: Sequence[str]) -> None:
        """The new config has warnings."""
        for doubt in doubts:
            self._log.warning("the config has a warning", action=Action.CONFIG, reason=doubt)

    def lagged(self, seconds: float) -> None:
        """The event loop was late by so many seconds; measured several times a second."""
        self.metrics.loop_lag_seconds.observe(seconds)

    def stalled(self, where: str) -> None:
        """Something blocks the event loop. Called on the watchdog's thread."""
        self.metrics.stalls.inc()
        self._log.warning("the event loop is blocked", action=Action.STALLED, where=where)

    def stall_over(self, lasted: timedelta) -> None:
        """The event loop continues."""
        self._log.warning("the event loop runs again", action=Action.STALLED, ms=_ms(lasted))

    def received(self, source: SessionSource, outcome: Action) -> None:
        """A message was accepted, deduplicated or refused, or an existing one changed."""
        self.metrics.messages.labels(source.platform, outcome.value).inc()
        self._log.debug(
            "a message came in", action=outcome, platform=source.platform, account=source.account
        )

    def stored(self, source: SessionSource, accepted: Accepted | None) -> None:
        """
        A message was stored, or was before; None if it was refused, which is reported elsewhere.
        """
        if accepted is not None:
            self.received(source, Action.DUPLICATE if accepted.duplicate else Action.ACCEPTED)

    def unreadable(self, source: SessionSource, accepted: Accepted) -> None:
        """An event could not be converted and was set aside."""
        outcome = Action.DUPLICATE if accepted.duplicate else Action.UNREADABLE
        self.received(source, outcome)
        if not accepted.duplicate:
            self._log.warning(
                "an event could not be read and was set aside; see `turngate queue list`",
                action=outcome,
                platform=source.platform,
                account=source.account,
                inbox=accepted.id,
            )

    def message_rejected(self, source: SessionSource, reason: str) -> None:
        """A message was refused, with the reason as a short word."""
        self.metrics.refusals.labels(source.platform, reason).inc()
        self.received(source, Action.REFUSED)

    def open_to_everybody(self) -> None:
        """Logged at every start of a gateway that is open to everyone."""
        self._log.warning(
            "DANGER: anyone who finds the bot can talk to it and spend what it costs; set "
            "access.direct to pairing",
            action=Action.ACCESS,
        )

    def commanded(self, command: str, session: SessionId) -> None:
        """A chat command was answered."""
        self.metrics.commands.labels(command).inc()
        self._log.info(
            "a command was answered", action=Action.COMMAND, command=command, session=session
        )

    def dropped(self, refusal: Refused) -> None:
        """Work that is no longer needed."""
        self._log.info(
            "the work is no longer needed", action=Action.DROPPED, reason=reason_of(refusal)
        )

    def agent_failed(self, error: BaseException) -> None:
        """
        The agent failed. Its message may quote the user, so only the transcript and the inbox have
        it.
        """
        self._log.warning(
            "the agent failed",
            action=Action.AGENT,
            reason=type(error).__name__,
            where=code_location(error),
        )

    def agent_unavailable(self, name: str, error: AgentError, *, again: bool) -> None:
        """
        The agent could not be reached, and is retried (`again`) or not. Its server's message is for
        the operator only.
        """
        if again:
            self.metrics.retries.labels("agent").inc()

        words = {"said": error.words} if error.words else {}
        self._log.warning(
            "an agent is unavailable",
            action=Action.AGENT,
            agent=name,
            reason=reason_of(error),
            **words,
        )

    def agent_silent(self) -> None:
        """The agent hit the idle timeout."""
        self._log.warning("the agent hit its idle timeout", action=Action.AGENT)

    def file_refused(self, error: TurngateError) -> None:
        """A file of a user or an agent was refused; the chat shows the reason."""
        self._log.warning("a file was refused", action=Action.FILE, reason=reason_of(error))

    def not_sent_elsewhere(self, error: TurngateError) -> None:
        """An agent's message to another chat was not sent. The user sees the reason."""
        # The message may contain the target that the agent wrote, so it is a quotation.
        kind = type(error).__name__
        words = str(error)
        self._log.warning(
            "a message to another chat was not sent", action=Action.AGENT, reason=kind, said=words
        )

    def files_failed(self, error: BaseException) -> None:
        """The files folder cannot be written; the next sweep tries again."""
        self._log.error("the files failed", action=Action.FILE, reason=reason_of(error))

    def turn_ended(self, begun: Begun, outcome: Outcome, agent: str, seconds: float) -> None:
        """A turn ended: one log line for each."""
        result = outcome.state.value
        first = self._first_text.pop(begun.turn, None)
        platform = begun.opened.session.origin.platform
        self.metrics.turns.labels(agent, result).inc()
        self.metrics.turn_seconds.observe(seconds)
        fields: dict[str, object] = {
            "turn": begun.turn,
            "session": begun.opened.session.id,
            "platform": platform,
        }
        fields |= {"agent": agent, "ms": round(seconds * 1000)}
        if first is not None:
            fields["first_ms"] = _ms(first)
        if begun.attempt > 1:
            fields["attempt"] = begun.attempt

        if outcome.failure is None:
            self._log.info("a turn was answered", action=Action.TURN, outcome=result, **fields)
        elif outcome.refused:
            self._log.info(
                "a turn was refused",
                action=Action.TURN,
                outcome=result,
                reason=outcome.failure,
                **fields,
            )
        else:
            # Without the reason: an agent's message may quote the user. The inbox row has it.
            self._log.warning("a turn failed", action=Action.TURN, outcome=result, **fields)

    def first_text(self, turn: TurnId, after: timedelta) -> None:
        """The agent's first text. Bounded, because some turns never end."""
        self.metrics.first_text_seconds.observe(after.total_seconds())
        if len(self._first_text) < _MOST_BEGUN:
            self._first_text[turn] = after

    def summarised(self, session: SessionId, messages: int) -> None:
        """A summary replaces the older part of a session."""
        done = f"{messages} messages"
        self._log.info(
            "a conversation was summarised", action=Action.SUMMARY, session=session, outcome=done
        )

    def not_summarised(self, session: SessionId, refusal: Refused) -> None:
        """A summary failed: the agent is shown what fits."""
        reason = reason_of(refusal)
        self._log.warning(
            "a conversation was not summarised",
            action=Action.SUMMARY,
            session=session,
            reason=reason,
        )

    def charged(self, agent: str, spending: Spending) -> None:
        """Usage of an agent was charged."""
        tokens = spending.tokens
        for kind in ("input", "output", "cache_read", "cache_write"):
            self.metrics.tokens.labels(agent, kind).inc(getattr(tokens, kind))
        self.metrics.cost.labels(agent).inc(spending.usd)

    def sent(self, part: Part) -> None:
        self.metrics.parts.labels(part.target.platform, "sent").inc()
        self._log.debug(
            "a part was sent", action=Action.SENT, part=part.id, platform=part.target.platform
        )

    def unsent(self, part: Part, error: TurngateError, *, dead: bool) -> None:
        """A part was not sent: it is retried or given up. The outbox has the whole reason."""
        if not dead:
            self.metrics.retries.labels("send").inc()
        self.metrics.parts.labels(part.target.platform, "dead" if dead else "failed").inc()
        words = "a part cannot be delivered" if dead else "a part is tried again"
        quoted = {"said": error.words} if error.words else {}
        where = {"part": part.id, "platform": part.target.platform}
        self._log.warning(words, action=Action.UNSENT, reason=reason_of(error), **where, **quoted)

    def hint_failed(self, target: SessionSource, error: BaseException) -> None:
        """A preview or typing indicator failed. The answer is not affected."""
        reason = reason_of(error)
        self._log.debug(
            "a hint was not shown", action=Action.PREVIEW, platform=target.platform, reason=reason
        )

    def account_restarted(self) -> None:
        """An account reconnects."""
        self.metrics.retries.labels("account").inc()

    def account_changed(self, platform: str, account: str, state: str, reason: str | None) -> None:
        fields = {"platform": platform, "account": account, "outcome": state}
        if reason is None:
            self._log.info("an account changed", action=Action.ACCOUNT, **fields)
        else:
            self._log.warning("an account changed", action=Action.ACCOUNT, reason=reason, **fields)

    def swept(self, pruned: Pruned) -> None:
        """The clean-up ran. Deleted sessions and text are logged; forgotten work is not."""
        done = (
            f"{pruned.deleted} deleted, {pruned.archived} archived, {pruned.entries} "
            "messages deleted"
        )
        tell = (
            self._log.info
            if pruned.deleted or pruned.archived or pruned.entries
            else self._log.debug
        )
        tell(
            "the store was swept",
            action=Action.STORE,
            outcome=f"{done}, {pruned.forgotten} forgotten",
        )

    def sessions_ended(self, count: int) -> None:
        """The sweep ended sessions that were due."""
        self._log.info("sessions were ended", action=Action.SESSION, outcome=f"{count} ended")

    def ending_not_heard(self, session: SessionId, agent: str, error: BaseException) -> None:
        """An agent failed when notified of an ended session; it is retried."""
        reason = type(error).__name__
        self._log.debug(
            "an agent was not notified that a session ended",
            action=Action.SESSION,
            session=session,
            agent=agent,
            reason=reason,
        )

    def session_end_dropped(self, session: SessionId, agent: str, tries: int) -> None:
        """The notification of an ended session was given up. The transcript is unaffected."""
        self._log.warning(
            "an agent could not be notified that a session ended",
            action=Action.SESSION,
            session=session,
            agent=agent,
            outcome=f"given up after {tries} tries",
        )

    def clock_jumped(self) -> None:
        """The clock jumped. Deleting by age waits until it has been steady for a while."""
        self._log.warning(
            "the clock has jumped, or this host slept; nothing is swept for an hour",
            action=Action.STORE,
        )

    def store_failed(self, error: BaseException) -> None:
        """
        The store takes no writes. Every writer reports it; the log has it once and at intervals.
        """
        self._store_fails = True
        self._log.error("the store failed", action=Action.STORE, reason=reason_of(error))

    def row_damaged(self, found: RowDamaged) -> None:
        """A row is not what was written and was set aside. Called on the store's writer thread."""
        self.metrics.damaged_rows.inc()
        self._log.error(
            "a row is damaged and was set aside; see `turngate repair`",
            action=Action.STORE,
            reason=reason_of(found),
        )

    def store_works(self) -> None:
        """The store takes writes; logged if it did not before."""
        if self._store_fails:
            self._log.warning("the store takes writes again", action=Action.STORE)
        self._store_fails = False

    def backed_up(self, at: datetime) -> None:
        """A scheduled backup was made and verified."""
        self.found_backup(at)
        self._log.info("a backup was made", action=Action.BACKUP)

    def found_backup(self, at: datetime) -> None:
        """The newest backup is of an earlier run."""
        self.metrics.last_backup.set(at.timestamp())

    def not_backed_up(self, error: BaseException) -> None:
        """A backup failed and is retried."""
        self._log.error("no backup was made", action=Action.BACKUP, reason=reason_of(error))

    def bug(self, error: BaseException) -> None:
        """Log an unexpected error: its location, not its message."""
        self.metrics.bugs.inc()
        tell_bug(error)


def _ms(took: timedelta) -> int:
    return round(max(took.total_seconds(), 0.0) * 1000)
