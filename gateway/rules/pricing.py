"""
What a turn used and what that costs. Pure.

What the agent reports counts. Where it reports no tokens they are estimated from what it was shown and what it said,
and where it reports no money the prices of the config say what the tokens cost.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from turngate.gateway.domain.messages import (
    Cost,
    CostStatus,
    Entry,
    Origin,
    Role,
    Spent,
    Tokens,
    Turn,
)
from turngate.gateway.rules.history_window import estimate_text_tokens, estimate_tokens

BY_AGENT = "agent"
BY_CONFIG = "config"
_MILLION = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """What a million tokens cost, in US dollars."""

    input: float = 0.0
    output: float = 0.0
    cache_read: float = 0.0
    cache_write: float = 0.0

    def cost_of(self, tokens: Tokens) -> float:
        """In US dollars."""
        millionths = (
            self.input * tokens.input
            + self.output * tokens.output
            + self.cache_read * tokens.cache_read
            + self.cache_write * tokens.cache_write
        )
        return millionths / _MILLION


def counted(spent: Spent, turn: Turn, said: Sequence[Entry]) -> Spent:
    """With tokens: those that were reported, else an estimate that says so. None where nothing was said either."""
    answer = [entry for entry in said if entry.origin is Origin.CHAT]
    if spent.tokens.total or not answer:
        return spent
    results = [entry for entry in answer if entry.role is Role.TOOL]
    shown = _shown(turn) + _sum(results)
    output = _sum(entry for entry in answer if entry.role is not Role.TOOL)
    return replace(
        spent, tokens=Tokens(input=shown, output=output), prompt_tokens=shown, estimated=True
    )


def priced(spent: Spent, prices: Prices | None) -> Spent:
    """With a cost: the agent's own word, else what the prices say, else one that nobody knows."""
    if spent.cost is not None:
        return replace(spent, cost=replace(spent.cost, source=BY_AGENT))
    if not spent.tokens.total:
        return spent
    if prices is None:
        return replace(spent, cost=Cost(status=CostStatus.UNKNOWN))
    cost = Cost(usd=prices.cost_of(spent.tokens), status=CostStatus.ESTIMATED, source=BY_CONFIG)
    return replace(spent, cost=cost)


def _shown(turn: Turn) -> int:
    words = (turn.system, turn.context, *(message.text for message in turn.messages))
    return sum(map(estimate_text_tokens, words)) + _sum(turn.history)


def _sum(entries: Iterable[Entry]) -> int:
    return sum(map(estimate_tokens, entries))
