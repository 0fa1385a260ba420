"""
What happened to a piece of work, as a column keeps it: one line each, the time, a word and a
detail.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from turngate.gateway.domain.store_values import Step
from turngate.gateway.stores.sqlite.rows import micros, moment
from turngate.gateway.stores.texts import on_one_line

# A part that is tried for a day has hundreds of steps; the newest are worth keeping.
ADD_STEP = "steps = substr(steps, -8000) || ?"


def step_line(now: datetime, step: str, detail: str = "") -> str:
    """One line, whatever is in the detail."""
    return f"{micros(now)}\t{step}\t{on_one_line(detail)}\n"


def read_steps(column: str) -> Iterator[Step]:
    """The lines that are whole: the first may have been cut."""
    for line in column.splitlines():
        at, _, rest = line.partition("\t")
        step, tab, detail = rest.partition("\t")
        if tab and at.isdecimal():
            yield Step(at=moment(int(at)), step=step, detail=detail)
