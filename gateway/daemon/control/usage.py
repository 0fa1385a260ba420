"""`usage`: tokens and cost by user, chat, agent or day."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date

from turngate.gateway.daemon.control.requests import (
    Line,
    Requests,
    taking,
)
from turngate.gateway.domain.errors import Refused
from turngate.gateway.domain.messages import MAIN_ACCOUNT
from turngate.gateway.domain.ports.store import Store
from turngate.gateway.domain.serialization import Json
from turngate.gateway.domain.usage import (
    By,
    Payer,
    Spending,
    Tokens,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageArgs:
    """The grouping, and the first day to count; empty means from the beginning."""

    by: By = By.DAY
    since: str = ""


def usage_requests(store: Store) -> Requests:
    """Return the verb by name."""

    async def usage(asked: UsageArgs, line: Line) -> Json:
        """Return a row per group, and the total."""
        _check_day(asked.since)
        found = await store.usage(asked.by, since=asked.since)
        total = sum((used.spending for used in found), Spending())
        rows: list[Json] = [
            {asked.by.value: name_of(used.payer, asked.by), **_spending_json(used.spending)}
            for used in found
        ]

        return {
            "by": asked.by.value,
            "since": asked.since or None,
            "usage": rows,
            "total": _spending_json(total),
        }

    return {"usage": taking(UsageArgs, usage)}


def name_of(payer: Payer, by: By) -> str | None:
    """
    Return the name of a group, written as in the config: `telegram:12345`,
    `telegram/support:-100123`. None if it is unknown.
    """
    if by in (By.DAY, By.AGENT):
        return payer.day or payer.agent
    id_ = payer.user if by is By.USER else payer.chat
    account = "" if payer.account == MAIN_ACCOUNT else f"/{payer.account}"
    return f"{payer.platform}{account}:{id_}" if id_ else None


def tokens_json(tokens: Tokens) -> dict[str, Json]:
    """Return tokens as `--json` prints them. The names are part of the contract."""
    return {
        "input": tokens.input,
        "output": tokens.output,
        "cache_read": tokens.cache_read,
        "cache_write": tokens.cache_write,
        "total": tokens.total,
    }


def _spending_json(spending: Spending) -> dict[str, Json]:
    return {
        "turns": spending.turns,
        "tokens": tokens_json(spending.tokens),
        "cost_usd": spending.known_usd,
        "estimated_turns": spending.estimated,
        "unpriced_turns": spending.unpriced,
    }


def _check_day(written: str) -> None:
    # The store compares days as text, and `fromisoformat` also takes forms such as 20260504.
    try:
        is_day = not written or date.fromisoformat(written).isoformat() == written
    except ValueError:
        is_day = False
    if not is_day:
        raise Refused(f"{written!r} is no day; write one as 2026-05-04")
