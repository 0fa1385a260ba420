"""What was used and by whom: sums that outlive every session."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from turngate.gateway.domain.ids import LARGEST_NUMBER


class CostStatus(StrEnum):
    """How reliable an amount is; `partial`: some turns had no price."""

    UNKNOWN = "unknown"
    REPORTED = "reported"
    ESTIMATED = "estimated"
    PARTIAL = "partial"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokens:
    """Tokens used. Sums add up; `last_prompt` of the session does not."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0

    def __post_init__(self) -> None:
        """Clamp impossible numbers: agents may report anything, and sums must fit the database."""
        # Checked before anything is set: nearly all values are valid, and every sum makes one.
        counts = (self.input, self.output, self.cache_read, self.cache_write)
        if min(counts) >= 0 and max(counts) <= LARGEST_NUMBER:
            return
        for name in ("input", "output", "cache_read", "cache_write"):
            object.__setattr__(self, name, min(max(getattr(self, name), 0), LARGEST_NUMBER))

    @property
    def total(self) -> int:
        """All four kinds together."""
        return self.input + self.output + self.cache_read + self.cache_write

    def __add__(self, other: Tokens) -> Tokens:
        return Tokens(
            input=self.input + other.input,
            output=self.output + other.output,
            cache_read=self.cache_read + other.cache_read,
            cache_write=self.cache_write + other.cache_write,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """An amount of money, and how it is known."""

    usd: float = 0.0
    status: CostStatus = CostStatus.UNKNOWN
    source: str | None = None

    def __add__(self, other: Cost) -> Cost:
        """Add; the sum is as reliable as the less reliable amount."""
        statuses = {self.status, other.status}
        if len(statuses) == 1:
            status = self.status
        elif statuses <= {CostStatus.REPORTED, CostStatus.ESTIMATED}:
            status = CostStatus.ESTIMATED
        else:
            status = CostStatus.PARTIAL
        return Cost(usd=self.usd + other.usd, status=status, source=other.source or self.source)


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """Which model answered, from which provider, at which address."""

    name: str
    provider: str | None = None
    base_url: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """
    What one turn used. `cost` is None if nothing was called that could cost. `estimated`: the
    tokens were not reported but estimated.
    """

    tokens: Tokens = Tokens()
    estimated: bool = False
    prompt_tokens: int = 0
    cost: Cost | None = None
    model: Model | None = None


LAST_DAY = "9999-12-31"
# Dollars for one turn. A larger report is an error and would exhaust every budget.
_MOST_BELIEVED = 1e9
_NOT_KNOWN = (CostStatus.UNKNOWN, CostStatus.PARTIAL)


class By(StrEnum):
    """What sums are grouped by."""

    USER = "user"
    CHAT = "chat"
    AGENT = "agent"
    DAY = "day"


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Payer:
    """
    Who a turn is charged to: a user in a chat, through an agent, on a date (2026-05-04, in the
    gateway's time zone).

    An empty field is unknown or not distinguished.
    """

    day: str = ""
    platform: str = ""
    account: str = ""
    chat: str = ""
    user: str = ""
    agent: str = ""

    def only(self, by: By) -> Payer:
        """Return the payer with only the fields that sums of that kind distinguish."""
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
    A sum over turns and other calls of agents, each counted as one.

    `estimated` counts those without reported tokens, `unpriced` those without a known price.
    """

    turns: int = 0
    estimated: int = 0
    unpriced: int = 0
    tokens: Tokens = Tokens()
    usd: float = 0.0

    @classmethod
    def of(cls, spent: Spent) -> Spending:
        """
        Return the sum of one turn. A reported cost that is negative, infinite or not a number
        counts as unknown.
        """
        cost = spent.cost
        # NaN fails both comparisons, so it is no price either.
        is_price = cost is None or 0 <= cost.usd <= _MOST_BELIEVED
        return cls(
            turns=1,
            estimated=int(spent.estimated),
            unpriced=int(not is_price or (cost is not None and cost.status in _NOT_KNOWN)),
            tokens=spent.tokens,
            usd=cost.usd if cost is not None and is_price else 0.0,
        )

    def __add__(self, other: Spending) -> Spending:
        return Spending(
            turns=self.turns + other.turns,
            estimated=self.estimated + other.estimated,
            unpriced=self.unpriced + other.unpriced,
            tokens=self.tokens + other.tokens,
            usd=self.usd + other.usd,
        )

    @property
    def known_usd(self) -> float | None:
        """The known cost; None if no price is known at all."""
        return None if self.unpriced and self.unpriced == self.turns and not self.usd else self.usd


@dataclass(frozen=True, slots=True, kw_only=True)
class Used:
    """One line of a usage listing."""

    payer: Payer
    spending: Spending
