"""The documents say what was measured, and nothing that they name is missing."""

from __future__ import annotations

import json
import re
from pathlib import Path

from tests.benchmarks import report
from tests.crash import kill_matrix

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
PAGES = [
    README,
    ROOT / "CONTRIBUTING.md",
    ROOT / "CHANGELOG.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]

GIVEN_UP = (("storm", 0), ("poison", 1))
PLATFORMS = tuple(kill_matrix.NEVER_REACHED)
CHANGELOG_HEADINGS = (
    *("Added", "Changed", "Deprecated", "Fixed", "Removed", "Security"),
    # The first version is sorted by subject.
    *("Core", "Recovery", "Store", "Agents", "Access", "Web chat, terminal and chat commands"),
    *("Platforms", "Operation"),
)

_LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]*)(?:#([^)\s]*))?\)")
_HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
_FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"`((?:adapters|config|gateway|tests)/[\w./-]+)`")


def test_the_figures_are_those_of_the_last_benchmark() -> None:
    assert report.table(json.loads(report.RESULTS.read_text())) in report.PAGE.read_text()


def test_the_kill_matrix_is_that_of_the_last_run_and_has_zeros_where_it_must() -> None:
    found = json.loads(kill_matrix.RESULTS.read_text())
    written = kill_matrix.START + kill_matrix.table(found) + kill_matrix.END

    assert written in kill_matrix.PAGE.read_text()
    assert [row["point"] for row in found] == [*kill_matrix.ROWS]
    # Of each run with a poisoned message that message alone is given up, and of a storm nothing.
    assert {
        row["point"]: row["given up with a notice"] for row in found if "," in str(row["point"])
    } == {f"{point}, {each}": given_up for point, given_up in GIVEN_UP for each in PLATFORMS}
    assert [(row["lost"], row["answered twice"]) for row in found] == [(0, 0)] * len(found)


def leads_somewhere(target: Path, anchor: str) -> bool:
    """Whether a file exists, and has a heading for the anchor if there is one."""
    return target.exists() and (not anchor or anchor in anchors(target.read_text()))


def anchors(page: str) -> set[str]:
    """The anchors that GitHub gives the headings of a page."""
    headings = _HEADING.findall(_FENCE.sub("", page))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_anchors_are_written_as_github_does() -> None:
    page = (
        "# Tokens, cost and `budgets`\n\n```\n# no heading\n```\n\n## HTTP instead of Socket Mode\n"
    )

    assert anchors(page) == {"tokens-cost-and-budgets", "http-instead-of-socket-mode"}
    assert leads_somewhere(README, "")
    assert not leads_somewhere(README, "no-such-heading")


def test_every_link_between_pages_leads_somewhere() -> None:
    links = [
        (page, target, anchor)
        for page in PAGES
        for target, anchor in _LINK.findall(_FENCE.sub("", page.read_text()))
        if "://" not in target and not target.startswith("mailto:")
    ]

    assert len([anchor for _, _, anchor in links if anchor]) > 10
    assert [
        f"{page.relative_to(ROOT)}: {target}#{anchor}"
        for page, target, anchor in links
        if not leads_somewhere(page.parent / target if target else page, anchor)
    ] == []


def test_every_file_that_is_named_exists() -> None:
    named = [(page, name) for page in PAGES for name in _FILE.findall(page.read_text())]

    assert named
    assert [
        f"{page.relative_to(ROOT)}: {name}" for page, name in named if not (ROOT / name).exists()
    ] == []


def test_every_make_target_that_is_named_exists() -> None:
    named = {
        name
        for page in PAGES
        for name in re.findall(r"(?:^|`)make ([\w-]+)", page.read_text(), re.MULTILINE)
    }
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))

    assert named
    assert named <= targets


def changelog_problems(text: str) -> list[str]:
    """Lines that are no version, no heading and no change on one line in plain Markdown."""
    forms = (
        r"# Changelog",
        r"## (Unreleased|\d+\.\d+\.\d+ - \d{4}-\d{2}-\d{2})",
        rf"### ({'|'.join(CHANGELOG_HEADINGS)})",
        r"- .{1,128}",
        r"",
    )
    _, _, changes = text.partition("\n\n## ")  # the introduction is prose
    lines = f"## {changes}".splitlines()

    return [line for line in lines if not any(re.fullmatch(form, line) for form in forms)]


def test_the_changelog_has_one_line_for_each_change_and_known_headings() -> None:
    assert changelog_problems((ROOT / "CHANGELOG.md").read_text()) == []


def test_other_forms_of_a_changelog_are_found() -> None:
    start = "# Changelog\n\nProse.\n\n## Unreleased\n\n"

    assert changelog_problems(f"{start}### Fixed\n- One.\n- Two.\n") == []
    for wrong in ("- One\n  and a half.", "### News", "## 0.2.0", f"- {'x' * 129}", "Prose."):
        assert len(changelog_problems(start + wrong)) == 1


def test_the_readme_fits_on_a_few_screens() -> None:
    assert len(README.read_text().splitlines()) <= 150


def test_a_service_is_installed_with_hashes() -> None:
    """Finding R28: without the lock, whatever the index has that day was installed."""
    installs = [
        line[line.index("pip install") :]
        for page in (ROOT / "docs" / "operations").glob("*.md")
        for line in page.read_text().splitlines()
        if "pip install" in line
    ]

    assert len(installs) >= 2
    assert [line for line in installs if not re.search("--require-hashes|--no-deps", line)] == []
