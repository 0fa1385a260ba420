"""What is wrong with a config file, and where: told all at once, each with its cure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import NamedTuple

from turngate.gateway.domain.errors import ConfigError

_SHOWN = 50
_LONGEST_QUOTE = 60


class Place(NamedTuple):
    """Where in a file, as editors count: from 1."""

    line: int
    column: int


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """One thing that is wrong: "what; what to do"."""

    place: Place
    text: str


def refusal(file: str, mistakes: Iterable[Problem]) -> ConfigError:
    """All of them in the order of the file. A file that is wrong throughout is not repeated line by line."""
    found = sorted(set(mistakes))
    lines = [located(file, mistake) for mistake in found[:_SHOWN]]
    if len(found) > _SHOWN:
        lines.append(f"{file}: {len(found) - _SHOWN} more mistakes; correct the ones above first")
    return ConfigError("\n".join(lines))


def located(file: str, mistake: Problem) -> str:
    """In the form that editors and terminals can jump to."""
    return f"{file}:{mistake.place.line}:{mistake.place.column}: {mistake.text}"


def without_values(text: str) -> str:
    """A mistake for a log that others read: where it is and what to do, and nothing that the file says."""
    for value in re.findall(r'"([^"\n]+)"', text):
        text = text.replace(f'"{value}"', "…").replace(f":{value}", ":…")
    return re.sub(r"(ACCOUNT:)\S+", r"\1…", text)


def quoted(text: str) -> str:
    """A word of the file, short, and without characters that would play tricks on a terminal."""
    short = text if len(text) <= _LONGEST_QUOTE else text[: _LONGEST_QUOTE - 1] + "…"
    return '"' + "".join(char if char.isprintable() else ascii(char)[1:-1] for char in short) + '"'


def near_miss(word: str, choices: Iterable[str], *, likeness: float = 0.7) -> str | None:
    """The choice that was probably meant."""
    if len(word) > _LONGEST_QUOTE:
        return None
    spelled = {choice.lower().replace("-", "_"): choice for choice in choices}
    found = get_close_matches(word.lower().replace("-", "_"), spelled, n=1, cutoff=likeness)
    return spelled[found[0]] if found else None


def one_of(word: str, choices: Iterable[str], *, instead: str) -> str:
    """The cure for a word that is none of the choices."""
    choices = list(choices)
    meant = near_miss(word, choices)
    return f"did you mean {meant}?" if meant else f"{instead} {', '.join(choices)}"
