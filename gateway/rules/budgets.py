"""
Daily limits: per user, per chat, in total.

Today's sums are in memory, so that the check before every turn costs the same however much was
used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from zoneinfo import ZoneInfo

from turngate.gateway.domain.usage import (
    By,
    Payer,
    Spending,
    Used,
)

_WHOLE_CENTS = 0.01
# Usage may arrive after midnight, and a wrong clock may return to an earlier day.
_MOST_DAYS = 3

_Sums = dict[Payer, Spending]


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
        budgets = self._budgets()
        by_user, by_chat = (sums.get(payer.only(by), Spending()) for by in (By.USER, By.CHAT))
        of_user = [*_allowances(budgets.user, by_user, "")] if payer.user else []
        of_chat = [*_allowances(budgets.chat, by_chat, " for this chat")] if payer.chat else []

        return Standing(
            used=by_user if payer.user else Spending(),
            allowances=(*of_user, *of_chat),
            everybody=tuple(
                _allowances(budgets.total, sums.get(Payer(), Spending()), " for all users")
            ),
            begins_again=f"00:00 {budgets.zone}",
        )

    def _of(self, day: str) -> _Sums:
        """Return the sums of a day, empty for a new one. Only the last few days are kept."""
        # Out and in again: the day becomes the newest, and the least recently used is dropped.
        sums = self._days[day] = self._days.pop(day, {})
        while len(self._days) > _MOST_DAYS:
            del self._days[next(iter(self._days))]
        return sums


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
