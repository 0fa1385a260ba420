"""
What operators see: the one who is told of everything that happens, and tells the log and the metrics.

A word for what happened is chosen here, so that no other room needs to know how a line looks or what is counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

import structlog

from turngate.gateway.domain.errors import AgentError, Refused, TurngateError
from turngate.gateway.domain.messages import Part, SessionId, SessionSource, TurnId
from turngate.gateway.domain.ports.store import Accepted, Begun, Outcome, Pruned
from turngate.gateway.domain.usage import Spending
from turngate.gateway.observability.error_text import place_of, reason_of
from turngate.gateway.observability.logs import Action, tell_bug
from turngate.gateway.observability.metrics import Metrics

_MOST_BEGUN = 20_000


class Observer:
    """Told of everything that happens; tells the log and the metrics."""

    def __init__(self) -> None:
        self._log = structlog.get_logger()
        self.metrics = Metrics()
        self._first_text: dict[TurnId, timedelta] = {}
        self._store_fails = False

    def started(self, *, address: str | None, version: str, pid: int) -> None:
        """Everything is open."""
        self._log.info(
            "the gateway is up", action=Action.STARTED, address=address, version=version, pid=pid
        )

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

    def not_reloaded(self, mistakes: Sequence[str]) -> None:
        """The new config is wrong. The mistakes come without what the file says, which may be somebody's."""
        reason = f"{'; and '.join(mistakes)}; `turngate check` says more"
        self._log.error(
            "the config is refused, and nothing has changed", action=Action.RELOADED, reason=reason
        )

    def doubted(self, doubts: Sequence[str]) -> None:
        """The new config may not mean what it says."""
        for doubt in doubts:
            self._log.warning("the config is doubtful", action=Action.CONFIG, reason=doubt)

    def lagged(self, seconds: float) -> None:
        """How late the event loop came, as the probe finds several times a second."""
        self.metrics.loop_lag_seconds.observe(seconds)

    def stalled(self, where: str) -> None:
        """Something keeps the event loop from going on, and everybody waits."""
        self.metrics.stalls.inc()
        self._log.warning("the event loop is held up", action=Action.STALLED, where=where)

    def stall_over(self, lasted: timedelta) -> None:
        """It goes on."""
        self._log.warning("the event loop goes on", action=Action.STALLED, ms=_ms(lasted))

    def received(self, source: SessionSource, outcome: Action) -> None:
        """A message was accepted, known already, or refused; or something was done to one that is there."""
        self.metrics.messages.labels(source.platform, outcome.value).inc()
        self._log.debug(
            "a message came in", action=outcome, platform=source.platform, account=source.account
        )

    def stored(self, source: SessionSource, accepted: Accepted | None) -> None:
        """A message is in the inbox, or was before; None if it is not, which whoever kept it out has told."""
        if accepted is not None:
            self.received(source, Action.DUPLICATE if accepted.duplicate else Action.ACCEPTED)

    def turned_away(self, source: SessionSource, reason: str) -> None:
        """A message was not let in. The reason is one word of a small list."""
        self.metrics.refusals.labels(source.platform, reason).inc()
        self.received(source, Action.REFUSED)

    def open_to_everybody(self) -> None:
        """Said at every start, so that nobody forgets."""
        self._log.warning(
            "DANGER: everybody who finds the bot can talk to it and spend what it costs; set access.direct to pairing",
            action=Action.ACCESS,
        )

    def commanded(self, command: str, session: SessionId) -> None:
        """A chat command was answered."""
        self.metrics.commands.labels(command).inc()
        self._log.info(
            "a command was answered", action=Action.COMMAND, command=command, session=session
        )

    def dropped(self, refusal: Refused) -> None:
        """Work that nobody waits for any more."""
        self._log.info("nothing left to do", action=Action.DROPPED, reason=reason_of(refusal))

    def agent_failed(self, error: BaseException) -> None:
        """Why, it said to the person who asked, perhaps in his words: the transcript and the inbox have them."""
        self._log.warning(
            "the agent failed",
            action=Action.AGENT,
            reason=type(error).__name__,
            where=place_of(error),
        )

    def agent_unavailable(self, name: str, error: AgentError, *, again: bool) -> None:
        """It could not be asked, and is asked `again` or not. What its server said is for the operator alone."""
        if again:
            self.metrics.retries.labels("agent").inc()
        words = {"said": error.words} if error.words else {}
        self._log.warning(
            "an agent cannot be asked",
            action=Action.AGENT,
            agent=name,
            reason=reason_of(error),
            **words,
        )

    def agent_silent(self) -> None:
        """Nothing came from it for as long as the config allows."""
        self._log.warning("the agent fell silent", action=Action.AGENT)

    def file_refused(self, error: TurngateError) -> None:
        """A file was not taken from a person or from an agent; whoever is concerned is told why."""
        self._log.warning("a file was not taken", action=Action.FILE, reason=reason_of(error))

    def not_sent_elsewhere(self, error: TurngateError) -> None:
        """What an agent wanted to send to another place. Why, in words of the agent's, hears whoever asked."""
        kind, words = type(error).__name__, str(error)
        self._log.warning(
            "nothing was sent elsewhere", action=Action.AGENT, reason=kind, said=words
        )

    def files_failed(self, error: BaseException) -> None:
        """The folder of the files does not take what is done to it; it is tried again with the next sweep."""
        self._log.error("the files failed", action=Action.FILE, reason=reason_of(error))

    def turn_ended(self, begun: Begun, outcome: Outcome, agent: str, seconds: float) -> None:
        """One line per turn."""
        result = outcome.state.value
        first, platform = (
            self._first_text.pop(begun.turn, None),
            begun.opened.session.origin.platform,
        )
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
            self._log.warning("a turn failed", action=Action.TURN, outcome=result, **fields)

    def first_text(self, turn: TurnId, after: timedelta) -> None:
        """The agent has begun to speak. Turns that never end would be remembered for ever, so there is a bound."""
        self.metrics.first_text_seconds.observe(after.total_seconds())
        if len(self._first_text) < _MOST_BEGUN:
            self._first_text[turn] = after

    def summarised(self, session: SessionId, messages: int) -> None:
        """A summary stands for the older part of a conversation."""
        done = f"{messages} messages"
        self._log.info(
            "a conversation was summarised", action=Action.SUMMARY, session=session, outcome=done
        )

    def not_summarised(self, session: SessionId, refusal: Refused) -> None:
        """It goes on without: its agent is shown what fits."""
        reason = reason_of(refusal)
        self._log.warning(
            "a conversation was not summarised",
            action=Action.SUMMARY,
            session=session,
            reason=reason,
        )

    def charged(self, agent: str, spending: Spending) -> None:
        """An agent used something."""
        tokens = spending.tokens
        for kind in ("input", "output", "cache_read", "cache_write"):
            self.metrics.tokens.labels(agent, kind).inc(getattr(tokens, kind))
        self.metrics.cost.labels(agent).inc(spending.usd)

    def sent(self, part: Part) -> None:
        """A part arrived."""
        self.metrics.parts.labels(part.target.platform, "sent").inc()
        self._log.debug(
            "a part was sent", action=Action.SENT, part=part.id, platform=part.target.platform
        )

    def unsent(self, part: Part, error: TurngateError, *, dead: bool) -> None:
        """A part did not arrive: it will be tried again, or never. The outbox has all that was said of it."""
        if not dead:
            self.metrics.retries.labels("send").inc()
        self.metrics.parts.labels(part.target.platform, "dead" if dead else "failed").inc()
        words = "a part cannot be delivered" if dead else "a part is tried again"
        said = {"said": error.words} if error.words else {}
        where = {"part": part.id, "platform": part.target.platform}
        self._log.warning(words, action=Action.UNSENT, reason=reason_of(error), **where, **said)

    def hint_failed(self, target: SessionSource, error: BaseException) -> None:
        """A preview or a typing sign was not shown. The answer comes all the same."""
        reason = reason_of(error)
        self._log.debug(
            "a hint was not shown", action=Action.PREVIEW, platform=target.platform, reason=reason
        )

    def account_restarted(self) -> None:
        """An account is connected once more."""
        self.metrics.retries.labels("account").inc()

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
        """Their time had come before the next message did."""
        self._log.info("sessions were ended", action=Action.SESSION, outcome=f"{count} ended")

    def ending_not_heard(self, session: SessionId, agent: str, error: BaseException) -> None:
        """An agent failed when it was told that a session is over; it is told again."""
        reason = type(error).__name__
        self._log.debug(
            "an agent did not hear of an ending",
            action=Action.SESSION,
            session=session,
            agent=agent,
            reason=reason,
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
        self._log.warning(
            "the clock has jumped, or this host slept; nothing is swept for an hour",
            action=Action.STORE,
        )

    def store_failed(self, error: BaseException) -> None:
        """The store does not take writes. Everybody who writes finds out; the log tells it once, and now and then."""
        self._store_fails = True
        self._log.error("the store failed", action=Action.STORE, reason=reason_of(error))

    def store_works(self) -> None:
        """It takes writes; told if it did not before."""
        if self._store_fails:
            self._log.warning("the store takes writes again", action=Action.STORE)
        self._store_fails = False

    def backed_up(self, at: datetime) -> None:
        """A scheduled backup was made and verified."""
        self.found_backup(at)
        self._log.info("a backup was made", action=Action.BACKUP)

    def found_backup(self, at: datetime) -> None:
        """An earlier run made the newest there is."""
        self.metrics.last_backup.set(at.timestamp())

    def not_backed_up(self, error: BaseException) -> None:
        """It is tried again; until then the newest backup grows older."""
        self._log.error("no backup was made", action=Action.BACKUP, reason=reason_of(error))

    def bug(self, error: BaseException) -> None:
        """Nobody had foreseen this. Where it happened is told, what it said is not."""
        self.metrics.bugs.inc()
        tell_bug(error)


def _ms(took: timedelta) -> int:
    return round(max(took.total_seconds(), 0.0) * 1000)
