"""Steps of a work item in one column, a line each: time in microseconds, step, detail."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from turngate.gateway.domain.store_values import Step
from turngate.gateway.stores.sqlite.rows import micros, moment
from turngate.gateway.stores.texts import on_one_line

# A part that is retried for a day has hundreds of steps: keep the newest 8000 characters.
ADD_STEP = "steps = substr(steps, -8000) || ?"


def step_line(now: datetime, step: str, detail: str = "") -> str:
    """Return the line of a step; line breaks in the detail are removed."""
    return f"{micros(now)}\t{step}\t{on_one_line(detail)}\n"


def read_steps(column: str) -> Iterator[Step]:
    """Yield the steps of a column."""
    # ADD_STEP may have cut the first line anywhere: only complete lines are read.
    for line in column.splitlines():
        at, _, rest = line.partition("\t")
        step, tab, detail = rest.partition("\t")
        if tab and at.isdecimal():
            yield Step(at=moment(int(at)), step=step, detail=detail)
