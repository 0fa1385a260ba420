"""
What a turn used and what it costs. Pure.

Reported values count. Tokens that were not reported are estimated from what was shown and said; a
cost that was not reported is computed from the configured prices.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from turngate.gateway.domain.agent_events import Turn
from turngate.gateway.domain.transcript import (
    Entry,
    Origin,
    Role,
)
from turngate.gateway.domain.usage import (
    Cost,
    CostStatus,
    Spent,
    Tokens,
)
from turngate.gateway.rules.token_estimate import estimate_text_tokens, estimate_tokens

BY_AGENT = "agent"
BY_CONFIG = "config"
_MILLION = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """Prices of a million tokens, in US dollars."""

    input: float = 0.0
    output: float = 0.0
    cache_read: float = 0.0
    cache_write: float = 0.0

    def cost_of(self, tokens: Tokens) -> float:
        millionths = (
            self.input * tokens.input
            + self.output * tokens.output
            + self.cache_read * tokens.cache_read
            + self.cache_write * tokens.cache_write
        )
        return millionths / _MILLION


def counted(spent: Spent, turn: Turn, answer_entries: Sequence[Entry]) -> Spent:
    """
    Return the usage with tokens: the reported ones, else an estimate that is marked as such.

    Unchanged if the agent said nothing either.
    """
    answer = [entry for entry in answer_entries if entry.origin is Origin.CHAT]
    if spent.tokens.total or not answer:
        return spent
    # The model reads the results of its tools, so they are input although they come after its call.
    results = [entry for entry in answer if entry.role is Role.TOOL]
    shown = _shown(turn) + _sum(results)
    output = _sum(entry for entry in answer if entry.role is not Role.TOOL)
    return replace(
        spent, tokens=Tokens(input=shown, output=output), prompt_tokens=shown, estimated=True
    )


def priced(spent: Spent, prices: Prices | None) -> Spent:
    """Add the cost: as reported, else from the prices, else unknown."""
    if spent.cost is not None:
        return replace(spent, cost=replace(spent.cost, source=BY_AGENT))
    # No tokens: nothing was called, which is not the same as a call with an unknown price.
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
