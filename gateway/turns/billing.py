"""Where turns are paid for: may this one run, what did it cost, and who is charged."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from turngate.gateway.domain.errors import UnknownSession, UnknownWork
from turngate.gateway.domain.messages import (
    InboundMessage,
    Part,
    SessionId,
    SessionSource,
    Spent,
    Turn,
)
from turngate.gateway.domain.ports.adapter import Clock, TellsWhoAnswered, can
from turngate.gateway.domain.ports.store import Begun, Outcome, Store
from turngate.gateway.domain.usage import By, Payer, Spending
from turngate.gateway.observability.observer import Observer
from turngate.gateway.rules import outcomes as replies
from turngate.gateway.rules.budgets import Standing, Today, why_not
from turngate.gateway.rules.policy import ConfiguredAgent, Policy
from turngate.gateway.rules.pricing import counted, priced
from turngate.gateway.stores.waiting_store import until_stored

USED_UP = "the budget of the day is used up"


@dataclass(slots=True)
class Billing:
    """Knows today's sums by heart. What runs while a budget is being used up is let run."""

    policy: Policy
    store: Store
    observer: Observer
    clock: Clock
    _today: Today = field(init=False)

    def __post_init__(self) -> None:
        self._today = Today(lambda: self.policy.budgets)

    async def open(self) -> None:
        """Read what was used today before this run of the daemon. Called before the first message."""
        day = self._day()
        sums = [
            await self.store.usage(by, since=day, until=day) for by in (By.USER, By.CHAT, By.DAY)
        ]
        self._today.begin(day, (used for listing in sums for used in listing))

    def refusal(self, message: InboundMessage) -> Outcome | None:
        """What is said instead of a turn whose budget is used up; None: let it run. Asked before the agent is."""
        words = why_not(self.standing(message.source))
        if words is None:
            return None
        entries, parts = (replies.notice(words, self.clock.now()),), replies.parts(message, words)
        return Outcome(entries=entries, parts=parts, failure=USED_UP, refused=True)

    def standing(self, source: SessionSource) -> Standing:
        """How whoever writes from there stands today."""
        return self._today.standing(self._payer(source, ""))

    def billed(
        self, outcome: Outcome, employed: ConfiguredAgent, turn: Turn, source: SessionSource
    ) -> Outcome:
        """With what the turn used, what that costs and who is charged; as it is if nothing was used. Asked once."""
        employed = self._answerer(employed, turn)
        spent = priced(counted(outcome.spent, turn, outcome.entries), employed.prices)
        if not spent.tokens.total and spent.cost is None:
            return outcome
        payer = self._payer(source, employed.name)
        return replace(outcome, spent=replace(spent, model=employed.model), payer=payer)

    def _answerer(self, employed: ConfiguredAgent, turn: Turn) -> ConfiguredAgent:
        """Another may have stood in for it, at a price of its own."""
        agent: object = employed.agent
        name = agent.answered_by(turn.id) if can(agent, TellsWhoAnswered) else None
        return self.policy.agents.get(name or employed.name, employed)

    async def finish(self, begun: Begun, outcome: Outcome) -> tuple[Part, ...]:
        """
        End a turn in the store, where what it used is charged with all the rest.

        If its session was deleted meanwhile nothing else is kept of it, and it was used all the same.
        """
        try:
            parts = await until_stored(
                lambda: self.store.finish(begun.turn, outcome), self.observer
            )
        except (UnknownSession, UnknownWork):
            if outcome.payer is not None:
                await self.charge(begun.opened.session.id, outcome.spent, outcome.payer)
            raise
        if outcome.payer is not None:
            self._take(outcome.payer, outcome.spent)
        return parts

    async def charge(self, session: SessionId, spent: Spent, payer: Payer) -> None:
        """What was used outside a turn."""
        await until_stored(lambda: self.store.charge(session, spent, payer), self.observer)
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
