"""How things look to people: short ids, ages instead of dates, tables that fit the terminal."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import UTC, datetime

from rich.console import Console
from rich.table import Table
from rich.text import Text

from turngate.gateway.cli.printable import printable_line
from turngate.gateway.domain.serialization import Json

_SHORT_ID = 10
_PIPED_WIDTH = 160
_UNITS = ((86_400, "d"), (3600, "h"), (60, "m"))
_DAYS_COUNTED = 60


def terminal() -> Console:
    """Standard output. In a pipe there is no width to keep to, so nothing is cut that need not be."""
    is_tty = sys.stdout.isatty()
    return Console(
        width=None if is_tty else _PIPED_WIDTH, markup=False, highlight=False, emoji=False
    )


def table(*columns: str, yielding: str) -> Table:
    """Without lines, which say nothing. Where the terminal is narrow, the yielding column is cut and no other."""
    made = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    for column in columns:
        made.add_column(column, no_wrap=column != yielding)
    return made


def line(text: Json, style: str = "") -> Text:
    """Somebody's words on one line, cut where it ends."""
    return Text(printable_line(str(text)), style=style, no_wrap=True, overflow="ellipsis")


def short_id(session: Json) -> str:
    """Enough of an id to name the session by."""
    return str(session)[:_SHORT_ID]


def age(moment: Json, now: datetime | None = None) -> str:
    """How long ago; a date when that says more."""
    if not isinstance(moment, str):
        return "-"
    then = datetime.fromisoformat(moment)
    seconds = int(((now or datetime.now(UTC)) - then).total_seconds())
    for size, unit in _UNITS:
        if seconds >= size:
            return (
                f"{seconds // size}{unit} ago"
                if seconds < _DAYS_COUNTED * 86_400
                else f"{then:%Y-%m-%d}"
            )
    return "just now"


def counted(number: int, one: str, many: str | None = None) -> str:
    """`1 session`, `2 sessions`."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def local_time(moment: Json) -> str:
    """On the clock of this machine."""
    return f"{datetime.fromisoformat(str(moment)).astimezone():%Y-%m-%d %H:%M}"


def place(key: Json) -> str:
    """The platform and the kind of chat, out of a session key."""
    parts: Sequence[str] = str(key).split(":")
    return " ".join(parts[2:4]) if len(parts) >= 4 else str(key)
