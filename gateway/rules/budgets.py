"""Daily limits: per user, per chat, in total. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from zoneinfo import ZoneInfo

from turngate.gateway.domain.usage import Payer, Spending

_WHOLE_CENTS = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """The limit of a day. None: unlimited."""

    usd_per_day: float | None = None
    tokens_per_day: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Budgets:
    """
    All of them hold at once: `user` for every user, `chat` for every chat, `total` for all
    together.
    """

    user: Budget = field(default_factory=Budget)
    chat: Budget = field(default_factory=Budget)
    total: Budget = field(default_factory=Budget)
    zone: str = "UTC"

    def day(self, now: datetime) -> str:
        """Return the date in the gateway's time zone."""
        return now.astimezone(ZoneInfo(self.zone)).date().isoformat()


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowance:
    """
    One limit of one day and what was used of it. `whose` is shown to users: "", "for this chat".
    """

    whose: str
    limit: float
    used: float
    is_money: bool

    @property
    def is_used_up(self) -> bool:
        return self.used >= self.limit

    @property
    def in_words(self) -> str:
        """The limit, as text for users."""
        return amount(self.limit, is_money=self.is_money) + self.whose

    @property
    def left_in_words(self) -> str:
        """What is left, as text for users."""
        left = amount(max(self.limit - self.used, 0.0), is_money=self.is_money)
        return f"{left} of {self.in_words}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """
    A user's usage and limits of today, as they may read them. The total is left out of
    `allowances`: it would reveal the usage of others.
    """

    used: Spending = Spending()
    allowances: tuple[Allowance, ...] = ()
    everybody: tuple[Allowance, ...] = ()
    begins_again: str = ""


def standing_of(
    payer: Payer, budgets: Budgets, by_user: Spending, by_chat: Spending, total: Spending
) -> Standing:
    """Return the usage and limits of a user in a chat, from the sums of the day."""
    of_user = [*_allowances(budgets.user, by_user, "")] if payer.user else []
    of_chat = [*_allowances(budgets.chat, by_chat, " for this chat")] if payer.chat else []

    return Standing(
        used=by_user if payer.user else Spending(),
        allowances=(*of_user, *of_chat),
        everybody=tuple(_allowances(budgets.total, total, " for all users")),
        begins_again=f"00:00 {budgets.zone}",
    )


def _allowances(budget: Budget, used: Spending, whose: str) -> Iterator[Allowance]:
    if budget.usd_per_day is not None:
        yield Allowance(whose=whose, limit=budget.usd_per_day, used=used.usd, is_money=True)
    if budget.tokens_per_day is not None:
        yield Allowance(
            whose=whose, limit=budget.tokens_per_day, used=used.tokens.total, is_money=False
        )


def why_not(standing: Standing) -> str | None:
    """Return one sentence for a user who may use nothing more today; None if they may."""
    for allowance in (*standing.allowances, *standing.everybody):
        if allowance.is_used_up:
            return (
                f"Today's budget of {allowance.in_words} is used up; it starts again at "
                f"{standing.begins_again}."
            )
    return None


def amount(number: float, *, is_money: bool) -> str:
    """Format for users: $1.00, $0.0042, 100,000 tokens."""
    return money(number) if is_money else f"{int(number):,} tokens"


def money(usd: float) -> str:
    """Format dollars; amounts below a cent with two more digits."""
    return f"${usd:,.2f}" if usd >= _WHOLE_CENTS or usd == 0 else f"${usd:.4f}"
