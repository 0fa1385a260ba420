"""/usage: what was used. Users see their own usage; the total is for admins."""

from __future__ import annotations

from turngate.gateway.commands.registry import Command, Request
from turngate.gateway.domain.usage import Cost, CostStatus, Tokens
from turngate.gateway.rules.budgets import money


async def _usage(request: Request) -> str:
    session = request.session
    standing = request.standing
    used = standing.used
    lines = [
        "- this conversation: "
        f"{_tokens(session.tokens, is_estimated=session.tokens_estimated)}{_cost(session.cost)}",
        f"- you, today: {_tokens(used.tokens, is_estimated=used.estimated > 0)}"
        f"{_known(used.known_usd, used.unpriced)}",
    ]
    shown = (*standing.allowances, *(standing.everybody if request.is_admin else ()))
    lines += [f"- left today: {allowance.left_in_words}" for allowance in shown]
    again = f"\n\nA new day begins at {standing.begins_again}." if shown else ""

    return "Used:\n\n" + "\n".join(lines) + again


def _tokens(tokens: Tokens, *, is_estimated: bool) -> str:
    """Format tokens; estimates are marked."""
    about = "about " if is_estimated else ""
    return f"{about}{tokens.total:,} tokens ({tokens.input:,} in, {tokens.output:,} out)"


def _cost(cost: Cost | None) -> str:
    if cost is None:
        return ""
    unknown = cost.status in (CostStatus.UNKNOWN, CostStatus.PARTIAL)
    return _known(None if cost.status is CostStatus.UNKNOWN else cost.usd, int(unknown))


def _known(usd: float | None, unpriced: int) -> str:
    if usd is None:
        return ", at an unknown price"
    more = " and more, at an unknown price" if unpriced else ""
    return f", {money(usd)}{more}"


COMMANDS = (
    Command(
        name="usage", summary="says what was used here and today, and what is left", run=_usage
    ),
)
