"""Problems with a config file: position, text and remedy, all reported at once."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import NamedTuple

from turngate.gateway.domain.errors import ConfigError
from turngate.gateway.domain.text import cut

_SHOWN = 50
_LONGEST_QUOTE = 60


class Position(NamedTuple):
    """Line and column in a file, counted from 1 as editors do."""

    line: int
    column: int


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """One problem; the text is "what is wrong; what to do"."""

    position: Position
    text: str


def config_error(file: str, mistakes: Iterable[Problem]) -> ConfigError:
    """
    The error with all problems in the order of the file, at most 50 of them.
    """
    found = sorted(set(mistakes))
    lines = [located(file, mistake) for mistake in found[:_SHOWN]]
    if len(found) > _SHOWN:
        lines.append(f"{file}: {len(found) - _SHOWN} more mistakes; correct the ones above first")
    return ConfigError("\n".join(lines))


def located(file: str, mistake: Problem) -> str:
    """`file:line:column: text`, which editors and terminals can jump to."""
    return f"{file}:{mistake.position.line}:{mistake.position.column}: {mistake.text}"


def without_values(text: str) -> str:
    """
    A problem for the log: its position and remedy, without any value from the file.
    """
    # Values are in quotes, and once more behind a colon where the remedy repeats them.
    for value in re.findall(r'"([^"\n]+)"', text):
        text = text.replace(f'"{value}"', "…").replace(f":{value}", ":…")
    return re.sub(r"(ACCOUNT:)\S+", r"\1…", text)


def quoted(text: str) -> str:
    """A word of the file in quotes, shortened, with unprintable characters escaped."""
    short = cut(text, _LONGEST_QUOTE)
    return '"' + "".join(char if char.isprintable() else ascii(char)[1:-1] for char in short) + '"'


def near_miss(word: str, choices: Iterable[str], *, likeness: float = 0.7) -> str | None:
    """The choice that was probably meant, if one is similar enough."""
    # Comparing is quadratic in the length.
    if len(word) > _LONGEST_QUOTE:
        return None
    spelled = {choice.lower().replace("-", "_"): choice for choice in choices}
    found = get_close_matches(word.lower().replace("-", "_"), spelled, n=1, cutoff=likeness)
    return spelled[found[0]] if found else None


def one_of(word: str, choices: Iterable[str], *, instead: str) -> str:
    """The remedy for a word that is none of the choices."""
    choices = list(choices)
    meant = near_miss(word, choices)
    return f"did you mean {meant}?" if meant else f"{instead} {', '.join(choices)}"
