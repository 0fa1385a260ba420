"""The README says what was measured, and nothing it names is missing."""

from __future__ import annotations

import json
import re
from pathlib import Path

from tests.benchmarks.report import README, RESULTS, table
from tests.crash import kill_matrix
from tests.crash.kills import ALL_POINTS

ROOT = README.parent


def test_the_figures_in_the_readme_are_those_of_the_last_benchmark() -> None:
    assert table(json.loads(RESULTS.read_text())) in README.read_text()


def test_the_kill_matrix_in_the_readme_is_that_of_the_last_run_and_has_zeros_where_it_must() -> (
    None
):
    found = json.loads(kill_matrix.RESULTS.read_text())

    assert kill_matrix.START + kill_matrix.table(found) + kill_matrix.END in README.read_text()
    assert {row["point"] for row in found} == {*ALL_POINTS, "random", "power cut"}
    assert [(row["lost"], row["answered twice"]) for row in found] == [(0, 0)] * len(found)


def test_every_file_the_readme_names_exists() -> None:
    named = re.findall(r"`((?:config|gateway|tests)/[\w./]+)`", README.read_text())

    assert named
    assert [name for name in named if not Path(ROOT, name).exists()] == []


def test_every_make_target_the_documents_name_exists() -> None:
    texts = README.read_text() + (ROOT / "CONTRIBUTING.md").read_text()
    named = set(re.findall(r"(?:^|`)make ([\w-]+)", texts, re.MULTILINE))
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))

    assert named
    assert named <= targets
