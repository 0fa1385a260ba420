"""
What stores do to texts: keep out what no database takes, and find words in them the way the search
index does.
"""

import json
import re
import unicodedata
from typing import TypeVar

from turngate.gateway.domain.serialization import from_dict, to_dict

T = TypeVar("T")

_SURROGATE = re.compile("[\ud800-\udfff]")
_WORD = re.compile(r"[^\W_]+")
# Scripts written without spaces between words: there a query is looked for anywhere, not at the
# start of a word.
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u9fff\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff]"
)

_LONGEST_DETAIL = 200


def scrub(text: str) -> str:
    """Lone surrogates become U+FFFD: they cannot be written as UTF-8, and SQLite refuses them."""
    if text.isascii():
        return text
    return _SURROGATE.sub("\ufffd", text)


def query_words(query: str) -> list[str]:
    """What must all be found."""
    return [word for part in query.split() for word in _words(part)]


def is_unspaced(word: str) -> bool:
    """Whether a word index cannot find this one."""
    return _UNSPACED.search(word) is not None


def contains_words(text: str, words: list[str]) -> bool:
    """
    Whether each of the query's words begins a word of the text; case and accents do not count.
    """
    folded = fold(text)
    present = _WORD.findall(folded)
    return all(
        word in folded
        if is_unspaced(word)
        else any(candidate.startswith(word) for candidate in present)
        for word in words
    )


def fold(text: str) -> str:
    """Without case and accents."""
    if text.isascii():
        return text.lower()
    decomposed = unicodedata.normalize("NFD", text.casefold())
    return "".join(char for char in decomposed if not unicodedata.combining(char))


def _words(text: str) -> list[str]:
    return _WORD.findall(fold(text))


def on_one_line(detail: str) -> str:
    """As the detail of a step: one line, not too long."""
    return " ".join(scrub(detail).split())[:_LONGEST_DETAIL]


def scrubbed(value: T) -> T:
    """The same value of the vocabulary, its texts scrubbed."""
    text = json.dumps(to_dict(value), ensure_ascii=False)
    return value if scrub(text) == text else from_dict(type(value), json.loads(scrub(text)))
