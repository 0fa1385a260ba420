"""Formatting for people: short ids, ages instead of dates, tables that fit the terminal."""

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
# In a pipe, rich would assume 80 columns.
_PIPED_WIDTH = 160
_UNITS = ((86_400, "d"), (3600, "h"), (60, "m"))
_DAYS_COUNTED = 60


def terminal() -> Console:
    """Return a console for standard output. In a pipe it is wide, so that little is cut off."""
    is_tty = sys.stdout.isatty()
    # Without markup and emoji codes: text in square brackets or colons is printed as it is.
    return Console(
        width=None if is_tty else _PIPED_WIDTH, markup=False, highlight=False, emoji=False
    )


def table(*columns: str, flexible: str) -> Table:
    """Return a table without borders. On a narrow terminal only the flexible column wraps."""
    made = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    for column in columns:
        made.add_column(column, no_wrap=column != flexible)
    return made


def line(text: Json, style: str = "") -> Text:
    """Return untrusted text on one line, cropped at the end of the line."""
    return Text(printable_line(str(text)), style=style, no_wrap=True, overflow="ellipsis")


def short_id(session: Json) -> str:
    """Return a prefix that usually identifies the session."""
    return str(session)[:_SHORT_ID]


def age(moment: Json, now: datetime | None = None) -> str:
    """Return how long ago it was; the date if that is more than 60 days."""
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
    """Return the number with its noun: `1 session`, `2 sessions`."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def local_time(moment: Json) -> str:
    """Return the time in this machine's time zone."""
    return f"{datetime.fromisoformat(str(moment)).astimezone():%Y-%m-%d %H:%M}"


def chat_of(key: Json) -> str:
    """Return the platform and chat type of a session key."""
    # agent:NAME:PLATFORM:TYPE:..., with colons inside the parts percent-encoded.
    parts: Sequence[str] = str(key).split(":")
    return " ".join(parts[2:4]) if len(parts) >= 4 else str(key)
