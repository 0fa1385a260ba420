"""Usage as rows, inside the caller's transaction."""

from __future__ import annotations

import sqlite3

from turngate.gateway.domain.ids import LARGEST_NUMBER
from turngate.gateway.domain.usage import (
    FIELDS,
    By,
    Payer,
    Spending,
    Tokens,
    Used,
)
from turngate.gateway.stores.sqlite.rows import Fetched
from turngate.gateway.stores.texts import scrub

_COUNTS = ("turns", "estimated", "unpriced", "input", "output", "cache_read", "cache_write")
# SQLite turns a sum above 64 bits into a float; this one stops at the largest integer.
_GROWN = ", ".join(
    f"{name} = min({name}, {LARGEST_NUMBER} - excluded.{name}) + excluded.{name}"
    for name in _COUNTS
)
_CHARGE = (
    f"INSERT INTO usage VALUES (?, ?, ?, ?, ?, ?, {', '.join('?' * len(_COUNTS))}, ?)"
    f" ON CONFLICT DO UPDATE SET {_GROWN}, usd = usd + excluded.usd"
)
# sum() raises an error on overflow; total() is a float, which is limited to the largest integer.
_SUMS = ", ".join(f"cast(min(total({name}), {LARGEST_NUMBER}) AS INTEGER)" for name in _COUNTS)


def charge(db: sqlite3.Connection, payer: Payer, spending: Spending) -> None:
    """Add usage to the payer's row for the day, chat and agent."""
    names = (payer.day, payer.platform, payer.account, payer.chat, payer.user, payer.agent)
    tokens = spending.tokens
    counts = (spending.turns, spending.estimated, spending.unpriced)
    used = (tokens.input, tokens.output, tokens.cache_read, tokens.cache_write)
    db.execute(_CHARGE, (*map(scrub, names), *counts, *used, spending.usd))


def select(by: By) -> str:
    """Return the query for sums from one day to another."""
    names = ", ".join(FIELDS[by])
    sums = f"SELECT {names}, {_SUMS}, total(usd) FROM usage"
    return f"{sums} WHERE day BETWEEN ? AND ? GROUP BY {names} ORDER BY {names}"


def used_from_row(by: By, row: Fetched) -> Used:
    """Return the usage of a row of `select`."""
    names = FIELDS[by]
    turns, estimated, unpriced, input_, output, cache_read, cache_write, usd = row[len(names) :]
    return Used(
        payer=Payer(**dict(zip(names, row, strict=False))),
        spending=Spending(
            turns=turns,
            estimated=estimated,
            unpriced=unpriced,
            tokens=Tokens(
                input=input_, output=output, cache_read=cache_read, cache_write=cache_write
            ),
            usd=usd,
        ),
    )
