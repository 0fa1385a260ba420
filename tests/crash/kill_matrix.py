"""
`make kill-matrix`: the proof that nothing is lost and nothing answered twice.

    python -m tests.crash.kill_matrix [--kills 1000] [--cuts 50] [--only POINT ...] [--storms]
    [--telegram | --slack | --discord]

Kills the real daemon at every crash point the first, second and third time it is reached, then in a
storm and by a poisoned message, also through each real adapter, then at random moments under load,
then cuts its power. Shows progress, prints a table, writes tests/crash/results.json and the table
of docs/guarantees.md, and ends with status 1 if a single message was lost or answered twice, or
given up without being the poisoned one. `--storms` does only the storms and the poisoned messages,
in a few minutes, and replaces their rows.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from functools import partial
from pathlib import Path

from tests import full_length
from tests.crash.daemon import DISCORD, SLACK, TELEGRAM
from tests.crash.kills import (
    ALL_POINTS,
    AT_THE_END,
    KIND_OF,
    POISONED,
    STORM,
    Outcome,
    kill_at,
    kill_at_random,
    poison,
    storm,
)

RESULTS = Path(__file__).with_name("results.json")
PAGE = Path(__file__).parents[2] / "docs" / "guarantees.md"
START, END = "<!-- kill matrix -->\n", "<!-- /kill matrix -->"
NTH = (1, 2, 3)
# A daemon comes there once in its life.
ONCE = ("migration-step", *AT_THE_END)
# Where a send may be in doubt, all shapes of platforms are tried; elsewhere they do not differ.
IN_DOUBT = ("sending", "sent", "between-parts", "mid-stream")
KINDS = ("finding", "editing", "plain", "catching-up")
BATCH = 25

# What a platform that is polled, edits, and cannot be asked afterwards never comes to; and what
# only a test's does.
NEVER_REACHED = {
    TELEGRAM: ("acking", "acked", "catching-up"),
    SLACK: ("acking", "acked"),
    DISCORD: ("acking", "acked"),
}

# Of the table, in this order.
ROWS = (
    *ALL_POINTS,
    *(
        f"{point}{platform}"
        for point in (STORM, POISONED)
        for platform in ("", *(f", {platform}" for platform in NEVER_REACHED))
    ),
    "random",
    "power cut",
)

Way = Callable[[Path], Outcome]
Row = dict[str, str | int | float]


def ways(points: Iterable[str], kills: int, cuts: int) -> Iterator[Way]:
    """Everything that is done, in pieces that can be done side by side."""
    for point in points:
        for nth in NTH if point not in ONCE else (1,):
            for kind in KINDS[:3] if point in IN_DOUBT else (KIND_OF.get(point, KINDS[0]),):
                yield partial(kill_at, point=point, nth=nth, kind=kind)
    if kills:
        yield from storms()
    for batch in range(0, kills, BATCH):
        kind = KINDS[batch // BATCH % len(KINDS)]
        yield partial(kill_at_random, kills=min(BATCH, kills - batch), kind=kind, seed=batch)
    for batch in range(0, cuts, BATCH):
        kind = KINDS[batch // BATCH % 2]
        yield partial(
            kill_at_random, kills=min(BATCH, cuts - batch), kind=kind, with_power=True, seed=batch
        )


def storms() -> Iterator[Way]:
    """Many kills in a few seconds, and a message that kills; on every kind and every platform."""
    for kind in (*KINDS, *NEVER_REACHED):
        yield partial(_named, storm, kind)
        yield partial(_named, poison, kind)


def _named(way: Callable[..., Outcome], kind: str, folder: Path) -> Outcome:
    """Give a real platform a row of its own."""
    outcome = way(folder, kind=kind)
    outcome.platform = kind if kind in NEVER_REACHED else None
    return outcome


def real_ways(platform: str, points: Iterable[str], kills: int) -> Iterator[Way]:
    """Through the real adapter: every point once, then at random."""
    for point in points:
        if point not in NEVER_REACHED[platform]:
            yield partial(kill_at, point=point, nth=1, kind=platform)
    if kills:
        yield partial(_named, storm, platform)
        yield partial(_named, poison, platform)
    for batch in range(0, kills, BATCH):
        yield partial(kill_at_random, kills=min(BATCH, kills - batch), kind=platform, seed=batch)


def run(all_ways: list[Way]) -> list[Outcome]:
    """On all cores, telling how far it is."""
    outcomes: list[Outcome] = []
    began = time.monotonic()
    with ThreadPoolExecutor(max_workers=os.cpu_count() or 2) as pool:
        for done in as_completed([pool.submit(_in_a_folder, way) for way in all_ways]):
            outcomes.append(done.result())
            _tell(outcomes, len(all_ways), time.monotonic() - began)
    return outcomes


def _in_a_folder(way: Way) -> Outcome:
    with tempfile.TemporaryDirectory(prefix="turngate-kill-") as folder:
        return way(Path(folder))


def _tell(outcomes: list[Outcome], whole: int, seconds: float) -> None:
    last = outcomes[-1]
    bad = sum(not outcome.is_good for outcome in outcomes)
    kills = sum(outcome.kills for outcome in outcomes)
    word = "" if last.verdict.is_clean else f"  LOST {last.verdict.lost} TWICE {last.verdict.twice}"
    print(
        f"{len(outcomes)}/{whole}  {kills} kills  {seconds:.0f} s  bad: {bad}  {last.point}{word}",
        file=sys.stderr,
    )


def rows(outcomes: Iterable[Outcome]) -> list[Row]:
    """One for each point, in the order in which a message meets them."""
    found: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        found.setdefault(outcome.row, []).append(outcome)
    return in_order(_row(name, each) for name, each in found.items())


def in_order(found: Iterable[Row]) -> list[Row]:
    """As a message meets them, then what happens to all of them."""
    return sorted(found, key=lambda row: ROWS.index(str(row["point"])))


def _row(point: str, outcomes: list[Outcome]) -> Row:
    verdicts = [outcome.verdict for outcome in outcomes]
    return {
        "point": point,
        "kills": sum(outcome.kills for outcome in outcomes if outcome.reached),
        "messages": sum(verdict.said for verdict in verdicts),
        "lost": sum(len(verdict.lost) for verdict in verdicts),
        "answered twice": sum(len(verdict.twice) for verdict in verdicts),
        "marked repeats": sum(verdict.marked for verdict in verdicts),
        "given up with a notice": sum(verdict.noticed for verdict in verdicts),
        "seconds to ready": round(max(outcome.seconds_to_ready for outcome in outcomes), 2),
    }


def table(found: list[Row]) -> str:
    """As Markdown."""
    head = list(found[0])
    body = [[_cell(row[name]) for name in head] for row in found]
    return "".join(f"| {' | '.join(line)} |\n" for line in (head, ["---"] * len(head), *body))


def _cell(value: str | int | float) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)


def write_readme(text: str) -> None:
    """Between its marks."""
    page = PAGE.read_text()
    PAGE.write_text(re.sub(f"{START}.*?{END}", lambda _: START + text + END, page, flags=re.DOTALL))


def main() -> int:
    """0 if all is well."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[1])
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--cuts", type=int, default=50)
    parser.add_argument("--only", nargs="*", choices=ALL_POINTS)
    for platform in NEVER_REACHED:
        through = f"through the {platform.capitalize()} adapter; nothing is written"
        parser.add_argument(
            f"--{platform}", action="store_const", dest="platform", const=platform, help=through
        )
    parser.add_argument("--storms", action="store_true", help="storms and poison only")
    asked = parser.parse_args()
    # The times to readiness in the table are those of real starts.
    os.environ[full_length.VARIABLE] = "1"
    points = ALL_POINTS if asked.only is None else asked.only
    if asked.platform is not None:
        outcomes = run([*real_ways(asked.platform, points, asked.kills)])
    elif asked.storms:
        outcomes = run([*storms()])
    else:
        outcomes = run([*ways(points, asked.kills, asked.cuts)])
    found = rows(outcomes)
    print(table(found))
    missed = sorted({outcome.point for outcome in outcomes if not outcome.reached})
    if missed:
        print(f"never reached: {', '.join(missed)}", file=sys.stderr)
    if asked.storms:
        found = in_order([*_kept(found), *found])
    if asked.only is None and asked.platform is None:
        RESULTS.write_text(json.dumps(found, indent=2) + "\n")
        write_readme(table(found))
    return int(bool(missed) or not all(outcome.is_good for outcome in outcomes))


def _kept(found: list[Row]) -> list[Row]:
    """The rows of the last whole run that these do not replace."""
    new = {row["point"] for row in found}
    return [row for row in json.loads(RESULTS.read_text()) if row["point"] not in new]


if __name__ == "__main__":
    sys.exit(main())
