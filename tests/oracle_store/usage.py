"""What was used, by whom and when, for the store in memory. Its caller holds the lock."""

from __future__ import annotations

from turngate.gateway.domain.usage import (
    By,
    Payer,
    Spending,
    Spent,
    Used,
)
from turngate.gateway.stores.texts import scrubbed


class MemoryUsage:
    """One sum for each payer. No session is named, so that it outlives them all."""

    def __init__(self) -> None:
        self._sums: dict[Payer, Spending] = {}

    def charge(self, payer: Payer, spent: Spent) -> None:
        """Add it to what he used."""
        payer = scrubbed(payer)
        self._sums[payer] = self._sums.get(payer, Spending()) + Spending.of(spent)

    def by(self, by: By, since: str, until: str) -> list[Used]:
        """Summed up over whatever is not asked for."""
        sums: dict[Payer, Spending] = {}
        for payer, spending in self._sums.items():
            if since <= payer.day <= until:
                sums[payer.only(by)] = sums.get(payer.only(by), Spending()) + spending
        return [Used(payer=payer, spending=sums[payer]) for payer in sorted(sums)]
