"""
Module names consist of the words that docs/glossary.md defines or lists as common terms. The name
of a platform's folder is a word by itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GLOSSARY = ROOT / "docs" / "glossary.md"
PACKAGES = ("adapters", "config", "gateway")
MOST_WORDS = 60
PLATFORM_FOLDERS = [path.parent.name for path in (ROOT / "adapters").glob("*/settings.py")]

_ROW = re.compile(r"^\| (?P<first>[^|]+) \| (?P<second>[^|]+) \|$", re.MULTILINE)
_ENDINGS = ("s", "es", "ed", "er", "or", "ing")


def _rows(section: str) -> list[tuple[str, str]]:
    """Return the rows of a section's table, without its head."""
    return [(row["first"], row["second"]) for row in _ROW.finditer(section)][1:]


def _sections() -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """Return the rows of the defined words, and those of the common terms."""
    defined, common = GLOSSARY.read_text().split("## Common terms")

    return _rows(defined), _rows(common)


def _known() -> frozenset[str]:
    defined, common = _sections()
    texts = [word for word, _ in defined] + [words for _, words in common] + PLATFORM_FOLDERS

    return frozenset(word for text in texts for word in re.findall(r"[a-z]+", text.lower()))


def _forms(word: str) -> Iterator[str]:
    """Yield what a word may be a form of: "polling" of "poll", "entries" of "entry"."""
    yield word

    for ending in _ENDINGS:
        if word.endswith(ending):
            stem = word.removesuffix(ending)
            yield stem
            yield stem + "e"
            if stem[-2:-1] == stem[-1:]:
                yield stem[:-1]  # "splitting": split

    if word.endswith("ies"):
        yield word.removesuffix("ies") + "y"


def _unknown(module: Path, known: frozenset[str]) -> list[str]:
    """Return the words of a module's path that the glossary does not have."""
    names = [name for name in module.with_suffix("").parts if not name.startswith("__")]
    words = [word for name in names for word in name.split("_") if word]

    return [word for word in words if known.isdisjoint(_forms(word))]


def _modules() -> list[Path]:
    return [
        path.relative_to(ROOT) for package in PACKAGES for path in (ROOT / package).rglob("*.py")
    ]


def test_every_module_name_consists_of_words_of_the_glossary() -> None:
    modules = _modules()
    known = _known()

    assert len(modules) > 100
    assert {str(module): words for module in modules if (words := _unknown(module, known))} == {}


def test_every_common_term_is_in_the_name_of_a_module() -> None:
    _, common = _sections()
    terms = {term for _, text in common for term in text.split(", ")}
    words = {word for module in _modules() for word in re.findall(r"[a-z]+", str(module))}

    assert terms - {form for word in words for form in _forms(word)} == set()


@pytest.mark.parametrize(
    "module",
    [
        "gateway/turns/desk.py",
        "gateway/turns/till.py",
        "gateway/inbound/doorkeeper.py",
        "gateway/rules/hygiene.py",
        "gateway/outbound/governor.py",
        "gateway/farewell/shutdown.py",
    ],
)
def test_a_metaphor_is_no_word_of_the_glossary(module: str) -> None:
    assert len(_unknown(Path(module), _known())) == 1


@pytest.mark.parametrize(
    "module",
    ["gateway/turns/billing.py", "gateway/stores/sqlite/entries.py", "adapters/slack/sending.py"],
)
def test_forms_of_a_word_are_recognised(module: str) -> None:
    assert _unknown(Path(module), _known()) == []


def test_the_glossary_is_short_sorted_and_defines_each_word_once() -> None:
    defined, common = _sections()
    words = [word for word, _ in defined]
    terms = [term for _, text in common for term in text.split(", ")]

    assert len(words) <= MOST_WORDS
    assert words == sorted(set(words))
    assert len(terms) == len(set(terms))
    assert {word for word in words if word in terms} == set()
