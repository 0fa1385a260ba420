"""
Check budgets before a turn, and charge usage after it.

Today's sums are in memory, so that the check before every turn costs the same however much was
used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from turngate.gateway.domain.agent_events import Turn
from turngate.gateway.domain.errors import UnknownSession, UnknownWork
from turngate.gateway.domain.ids import SessionId
from turngate.gateway.domain.messages import InboundMessage, SessionSource
from turngate.gateway.domain.outbox import Part
from turngate.gateway.domain.ports.agent import TellsWhoAnswered
from turngate.gateway.domain.ports.capability import can
from turngate.gateway.domain.ports.clock import Clock
from turngate.gateway.domain.ports.store import Store
from turngate.gateway.domain.store_values import Begun, Outcome
from turngate.gateway.domain.usage import By, Payer, Spending, Spent, Used
from turngate.gateway.observability.observer import Observer
from turngate.gateway.rules import outcomes
from turngate.gateway.rules.budgets import Budgets, Standing, standing_of, why_not
from turngate.gateway.rules.policy import ConfiguredAgent, Policy
from turngate.gateway.rules.pricing import counted, priced

USED_UP = "the budget of the day is used up"
# Usage may arrive after midnight, and a wrong clock may return to an earlier day.
_MOST_DAYS = 3

_Sums = dict[Payer, Spending]


class Today:
    """
    What was used since midnight, and what may be. Belongs to one event loop.

    Earlier days are kept, because a clock that is corrected may return to one.
    """

    def __init__(self, budgets: Callable[[], Budgets]) -> None:
        self._budgets = budgets
        self._days: dict[str, _Sums] = {}

    def begin(self, day: str, used: Iterable[Used]) -> None:
        """Set the sums of a day, by user, by chat and by day."""
        sums = self._of(day)
        for each in used:
            # Sums by day name no platform: they are the total.
            key = each.payer if each.payer.platform else Payer()
            sums[key] = sums.get(key, Spending()) + each.spending

    def take(self, payer: Payer, spending: Spending) -> None:
        """Add usage to the day on which it happened."""
        sums = self._of(payer.day)
        # A set: without a user and a chat two of the keys are equal and would be charged twice.
        for key in {payer.only(By.USER), payer.only(By.CHAT), Payer()}:
            sums[key] = sums.get(key, Spending()) + spending

    def standing(self, payer: Payer) -> Standing:
        """Return the usage and limits of a user in a chat on the payer's day."""
        sums = self._of(payer.day)
        keys = (payer.only(By.USER), payer.only(By.CHAT), Payer())
        return standing_of(payer, self._budgets(), *(sums.get(key, Spending()) for key in keys))

    def _of(self, day: str) -> _Sums:
        """Return the sums of a day, empty for a new one. Only the last few days are kept."""
        # Out and in again: the day becomes the newest, and the least recently used is dropped.
        sums = self._days[day] = self._days.pop(day, {})
        while len(self._days) > _MOST_DAYS:
            del self._days[next(iter(self._days))]
        return sums


@dataclass(slots=True)
class Billing:
    """Checks and charges. A turn that runs while a budget is used up is not stopped."""

    policy: Policy
    store: Store
    observer: Observer
    clock: Clock
    _today: Today = field(init=False)

    def __post_init__(self) -> None:
        self._today = Today(lambda: self.policy.budgets)

    async def open(self) -> None:
        """Read today's usage from earlier runs. Called before the first message."""
        day = self._day()
        sums = [
            await self.store.usage(by, since=day, until=day) for by in (By.USER, By.CHAT, By.DAY)
        ]
        self._today.begin(day, (used for listing in sums for used in listing))

    def refusal(self, message: InboundMessage) -> Outcome | None:
        """Return what to say instead of a turn whose budget is used up; None: run it."""
        words = why_not(self.standing(message.source))
        if words is None:
            return None
        entries = (outcomes.notice(words, self.clock.now()),)
        parts = outcomes.parts(message, words)
        return Outcome(entries=entries, parts=parts, failure=USED_UP, refused=True)

    def standing(self, source: SessionSource) -> Standing:
        """Return today's usage and limits for the sender and chat of this source."""
        return self._today.standing(self._payer(source, ""))

    def billed(
        self,
        outcome: Outcome,
        configured: ConfiguredAgent,
        name: str,
        turn: Turn,
        source: SessionSource,
    ) -> Outcome:
        """
        Add what the turn used, what that costs and who is charged. `name` is the agent that
        answered.

        An outcome for which nothing was used is returned unchanged.
        """
        # A fallback has prices of its own.
        answering = self.policy.agents.get(name, configured)
        spent = priced(counted(outcome.spent, turn, outcome.entries), answering.prices)
        if not spent.tokens.total and spent.cost is None:
            return outcome

        payer = self._payer(source, answering.name)
        return replace(outcome, spent=replace(spent, model=answering.model), payer=payer)

    async def finish(self, begun: Begun, outcome: Outcome) -> tuple[Part, ...]:
        """
        End a turn in the store, charging its usage in the same transaction.

        If its session was deleted in between, nothing else is kept of it, but the usage is charged.
        """
        try:
            parts = await self.store.finish(begun.turn, outcome)
        # The session was deleted while its turn ran. The cost was incurred nevertheless.
        except (UnknownSession, UnknownWork):
            if outcome.payer is not None:
                await self.charge(begun.opened.session.id, outcome.spent, outcome.payer)
            raise

        # In memory only after the commit: a failed write must not use up a budget.
        if outcome.payer is not None:
            self._take(outcome.payer, outcome.spent)

        return parts

    async def charge(self, session: SessionId, spent: Spent, payer: Payer) -> None:
        """Charge usage outside a turn."""
        await self.store.charge(session, spent, payer)
        self._take(payer, spent)

    def _take(self, payer: Payer, spent: Spent) -> None:
        spending = Spending.of(spent)
        self._today.take(payer, spending)
        self.observer.charged(payer.agent, spending)

    def _payer(self, source: SessionSource, agent: str) -> Payer:
        return Payer(
            day=self._day(),
            platform=source.platform,
            account=source.account,
            chat=source.chat_id or "",
            user=source.participant_id or "",
            agent=agent,
        )

    def _day(self) -> str:
        return self.policy.budgets.day(self.clock.now())


def answered_by(configured: ConfiguredAgent, turn: Turn) -> str:
    """Return the name of the agent that answered a turn: a fallback, or the configured one."""
    agent: object = configured.agent
    name = agent.answered_by(turn.id) if can(agent, TellsWhoAnswered) else None
    return name or configured.name
