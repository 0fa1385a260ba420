"""
Text functions of the stores: remove what no database accepts, and match words as the search index
does.
"""

import json
import re
import unicodedata
from typing import TypeVar

from turngate.gateway.domain.serialization import from_dict, to_dict

T = TypeVar("T")

_SURROGATE = re.compile("[\ud800-\udfff]")
_WORD = re.compile(r"[^\W_]+")
# Scripts written without spaces between words: a query matches anywhere in such text, not only at
# the start of a word.
_UNSPACED_LETTERS = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u9fff\uf900-\ufaff\uff66-\uff9f"
    "\U00020000-\U0003ffff"
)
_UNSPACED = re.compile(f"[{_UNSPACED_LETTERS}]")
_BOUNDARY = re.compile(
    f"(?<=[{_UNSPACED_LETTERS}])(?=[^{_UNSPACED_LETTERS}])"
    f"|(?<=[^{_UNSPACED_LETTERS}])(?=[{_UNSPACED_LETTERS}])"
)

_LONGEST_DETAIL = 200


def scrub(text: str) -> str:
    """Replace lone surrogates by U+FFFD: UTF-8 cannot encode them, and SQLite refuses them."""
    if text.isascii():
        return text
    return _SURROGATE.sub("\ufffd", text)


def query_words(query: str) -> list[str]:
    """Return the words that a hit must contain."""
    return [word for part in query.split() for word in _words(part)]


def is_unspaced(word: str) -> bool:
    """Return whether a word index cannot find this word."""
    return _UNSPACED.search(word) is not None


def set_apart(text: str) -> str:
    """Return the text with spaces between scripts that are written without spaces and others."""
    if text.isascii():
        return text
    return _BOUNDARY.sub(" ", text)


def contains_words(text: str, words: list[str]) -> bool:
    """
    Return whether each query word begins a word of the text, ignoring case and accents.
    """
    folded = fold(text)
    present = _WORD.findall(set_apart(folded))
    return all(
        word in folded
        if is_unspaced(word)
        else any(candidate.startswith(word) for candidate in present)
        for word in words
    )


def fold(text: str) -> str:
    """Return the text without case and accents."""
    if text.isascii():
        return text.lower()
    decomposed = unicodedata.normalize("NFD", text.casefold())
    return "".join(char for char in decomposed if not unicodedata.combining(char))


def _words(text: str) -> list[str]:
    return _WORD.findall(fold(text))


def on_one_line(detail: str) -> str:
    """Return the detail of a step as one line of at most 200 characters."""
    # split() breaks at every character at which splitlines() does, so reading finds one line.
    return " ".join(scrub(detail).split())[:_LONGEST_DETAIL]


def scrubbed(value: T) -> T:
    """Return a domain value with all of its texts scrubbed."""
    # ensure_ascii would escape surrogates, and `scrub` would not see them.
    text = json.dumps(to_dict(value), ensure_ascii=False)
    return value if scrub(text) == text else from_dict(type(value), json.loads(scrub(text)))
