"""What was used, by whom: the sums that outlive every session. They cross the store's seam."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from turngate.gateway.domain.messages import CostStatus, Spent, Tokens

LAST_DAY = "9999-12-31"
_MOST_BELIEVED = 1e9  # dollars for one turn: whoever reports more has no idea
_NOT_KNOWN = (CostStatus.UNKNOWN, CostStatus.PARTIAL)


class By(StrEnum):
    """What sums are told apart by."""

    USER = "user"
    CHAT = "chat"
    AGENT = "agent"
    DAY = "day"


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Payer:
    """
    Whom a turn is charged to: a person in a chat, through an agent, on a day (2026-05-04, where the gateway lives).

    What is empty is not told apart, or not known.
    """

    day: str = ""
    platform: str = ""
    account: str = ""
    chat: str = ""
    user: str = ""
    agent: str = ""

    def only(self, by: By) -> Payer:
        """The same without everything that sums of that kind do not tell apart."""
        return Payer(**{name: getattr(self, name) for name in FIELDS[by]})


FIELDS = {
    By.USER: ("platform", "account", "user"),
    By.CHAT: ("platform", "account", "chat"),
    By.AGENT: ("agent",),
    By.DAY: ("day",),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Spending:
    """
    A sum over turns, and over what else agents were asked for, which counts as one each.

    `estimated` counts those whose tokens nobody reported, `unpriced` those of which nobody knows the whole price.
    """

    turns: int = 0
    estimated: int = 0
    unpriced: int = 0
    tokens: Tokens = Tokens()
    usd: float = 0.0

    @classmethod
    def of(cls, spent: Spent) -> Spending:
        """One turn. An agent that reports less than nothing, more than there is, or no number has told no price."""
        cost = spent.cost
        is_price = cost is None or 0 <= cost.usd <= _MOST_BELIEVED
        return cls(
            turns=1,
            estimated=int(spent.estimated),
            unpriced=int(not is_price or (cost is not None and cost.status in _NOT_KNOWN)),
            tokens=spent.tokens,
            usd=cost.usd if cost is not None and is_price else 0.0,
        )

    def __add__(self, other: Spending) -> Spending:
        """Both together."""
        return Spending(
            turns=self.turns + other.turns,
            estimated=self.estimated + other.estimated,
            unpriced=self.unpriced + other.unpriced,
            tokens=self.tokens + other.tokens,
            usd=self.usd + other.usd,
        )

    @property
    def known_usd(self) -> float | None:
        """None if no price is known at all."""
        return None if self.unpriced and self.unpriced == self.turns and not self.usd else self.usd


@dataclass(frozen=True, slots=True, kw_only=True)
class Used:
    """One line of a listing."""

    payer: Payer
    spending: Spending
