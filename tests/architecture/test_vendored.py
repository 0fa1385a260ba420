"""The page's borrowed files are what their table says, and come with their licences."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

STATIC = Path(__file__).parents[2] / "gateway" / "web" / "static"
VENDOR = STATIC / "vendor"
ROW = re.compile(
    r"^\| `(?P<file>[^`]+)` \| (?P<package>\S+) \| .* \| `(?P<sum>[0-9a-f]{64})` \|$", re.MULTILINE
)
BUNDLED = ("entities", "linkify-it", "mdurl", "punycode.js", "uc.micro")


def rows() -> list[re.Match[str]]:
    return list(ROW.finditer((VENDOR / "README.md").read_text()))


def test_every_borrowed_file_is_in_the_table() -> None:
    assert {row["file"] for row in rows()} == {path.name for path in VENDOR.glob("*.mjs")}


def test_every_borrowed_file_is_unchanged() -> None:
    sums = {
        row["file"]: hashlib.sha256((VENDOR / row["file"]).read_bytes()).hexdigest()
        for row in rows()
    }

    assert sums == {row["file"]: row["sum"] for row in rows()}


def test_every_borrowed_file_has_its_licence() -> None:
    wanted = {f"{name}.LICENSE.txt" for name in (*(row["package"] for row in rows()), *BUNDLED)}

    assert {path.name for path in VENDOR.glob("*.LICENSE.txt")} == wanted


def test_the_page_never_makes_elements_out_of_text() -> None:
    ours = [*(STATIC / "js").glob("*.js")]
    dangers = re.compile(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function|\bstyle="
    )

    assert ours
    assert [path.name for path in ours if dangers.search(path.read_text())] == []


def test_the_page_loads_nothing_from_elsewhere() -> None:
    ours = [path for path in STATIC.rglob("*") if path.suffix in (".js", ".css", ".html")]
    # The name of a format, not a place.
    allowed = ("http://www.w3.org/2000/svg",)
    found = {
        link
        for path in ours
        for link in re.findall(r"(?:https?:)?//[a-z0-9.-]+\.[a-z]{2,}[^\s\"'`]*", path.read_text())
    }

    assert found <= set(allowed)
