"""What was used as rows, inside the caller's transaction."""

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
# A sum past the largest number would become a float; it stays where it cannot grow.
_GROWN = ", ".join(
    f"{name} = min({name}, {LARGEST_NUMBER} - excluded.{name}) + excluded.{name}"
    for name in _COUNTS
)
_CHARGE = (
    f"INSERT INTO usage VALUES (?, ?, ?, ?, ?, ?, {', '.join('?' * len(_COUNTS))}, ?)"
    f" ON CONFLICT DO UPDATE SET {_GROWN}, usd = usd + excluded.usd"
)
# total() is a float and knows no overflow; the value that is shown is cut off at the largest
# number.
_SUMS = ", ".join(f"cast(min(total({name}), {LARGEST_NUMBER}) AS INTEGER)" for name in _COUNTS)


def charge(db: sqlite3.Connection, payer: Payer, spending: Spending) -> None:
    """Onto what he used before on that day, in that chat, through that agent."""
    names = (payer.day, payer.platform, payer.account, payer.chat, payer.user, payer.agent)
    tokens = spending.tokens
    counts = (spending.turns, spending.estimated, spending.unpriced)
    used = (tokens.input, tokens.output, tokens.cache_read, tokens.cache_write)
    db.execute(_CHARGE, (*map(scrub, names), *counts, *used, spending.usd))


def select(by: By) -> str:
    """The sums from one day to another."""
    names = ", ".join(FIELDS[by])
    sums = f"SELECT {names}, {_SUMS}, total(usd) FROM usage"
    return f"{sums} WHERE day BETWEEN ? AND ? GROUP BY {names} ORDER BY {names}"


def used_from_row(by: By, row: Fetched) -> Used:
    """From the columns of `select`."""
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
