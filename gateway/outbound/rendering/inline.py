"""
Find what stands together inside a paragraph: links, addresses, entities, code, emphasis. Cuts avoid
it.

One pass in linear time, more generous than the specification: taking plain text for a link costs a
few characters of a part, missing one breaks the link.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

Span = tuple[int, int]

_TICKS = re.compile(r"`+")
_SIGNS = re.compile(
    r"""
    (?P<whole>
        \\[!-/:-@\[-`{-~]                                                   # an escaped sign
      | &(?:\#[0-9]{1,7}|\#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});  # an entity
      | <[@\#:!/A-Za-z][^<>\n]*>  # an address, a mention, a tag
    )
  | (?P<emphasis>\*+|_+|~~+|\|\|)
  | (?P<bracket>!?\[|\]|\(|\))
    """,
    re.VERBOSE,
)
_ADDRESS = re.compile(
    r"\b(?:[A-Za-z][A-Za-z0-9+.-]{1,15}://|mailto:|tel:|www\.)"
    r"[^\s<>()\[\]]+(?:\([^\s<>()]*\)[^\s<>()\[\]]*)*"
)
_ADDRESS_SIGNS = ("://", "mailto:", "tel:", "www.")
_ANY = re.compile(r"[`\\&<*_~|\[]|://|mailto:|tel:|www\.")
_LONGEST_MARK = 8


@dataclass(frozen=True, slots=True)
class Spans:
    """Stretches that do not overlap, in order. A cut at either end of one leaves it whole."""

    all: Sequence[Span] = ()

    def around(self, position: int) -> Span | None:
        """Return the span that a cut here would split."""
        index = bisect_left(self.all, (position, 0)) - 1
        return self.all[index] if index >= 0 and position < self.all[index][1] else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Inline:
    """Spans that break when cut (`firm`: links, entities, marks) or only look worse (`loose`)."""

    firm: Sequence[Span]
    loose: Sequence[Span]


def find_inline(text: str, start: int, end: int) -> Inline:
    """Find the constructs of one paragraph, given by its start and end."""
    if not _ANY.search(text, start, end):
        return Inline(firm=(), loose=())

    code = list(_code(text, start, end))
    addresses = list(_addresses(text, start, end))
    literal = merged([*code, *addresses])
    signs = [
        sign for sign in _SIGNS.finditer(text, start, end) if not _is_within(literal, sign.start())
    ]
    marks = [sign.span() for sign in signs if sign["emphasis"]]
    firm = [*addresses, *(sign.span() for sign in signs if sign["whole"])]
    firm += [mark for mark in marks if mark[1] - mark[0] <= _LONGEST_MARK]
    firm += _links(text, [sign for sign in signs if sign["bracket"]])
    return Inline(firm=firm, loose=[*code, *_emphasis(text, marks)])


def _addresses(text: str, start: int, end: int) -> Iterator[Span]:
    if any(text.find(sign, start, end) >= 0 for sign in _ADDRESS_SIGNS):
        yield from (found.span() for found in _ADDRESS.finditer(text, start, end))


def merged(spans: Iterable[Span]) -> Spans:
    """Return the spans in order, with those that overlap joined."""
    result: list[Span] = []
    for start, end in sorted(spans):
        if result and start < result[-1][1]:
            result[-1] = (result[-1][0], max(end, result[-1][1]))
        else:
            result.append((start, end))
    return Spans(result)


def _is_within(spans: Spans, position: int) -> bool:
    return spans.around(position) is not None or spans.around(position + 1) is not None


def _code(text: str, start: int, end: int) -> Iterator[Span]:
    """Yield code spans: a run of ticks closes with the next run of the same length."""
    runs = [run.span() for run in _TICKS.finditer(text, start, end)]
    waiting: dict[int, list[int]] = {}
    # In reverse, so that `pop` finds the next run of a length without a search: linear time.
    for run_start, run_end in reversed(runs):
        waiting.setdefault(run_end - run_start, []).append(run_start)

    done = start
    for run_start, run_end in runs:
        if run_start < done or _is_escaped(text, run_start, start):
            continue
        same = waiting[run_end - run_start]
        while same and same[-1] <= run_start:
            same.pop()
        if same:
            done = same[-1] + run_end - run_start
            yield run_start, done


def _is_escaped(text: str, position: int, start: int) -> bool:
    before = text[max(start, position - _LONGEST_MARK) : position]
    return (len(before) - len(before.rstrip("\\"))) % 2 == 1


def _emphasis(text: str, marks: Sequence[Span]) -> Iterator[Span]:
    """Yield emphasis: a mark that may close does so with the latest of its kind, else it opens."""
    opened: dict[str, int] = {}
    for start, end in marks:
        mark = text[start:end] if end - start <= _LONGEST_MARK else ""
        before = text[start - 1 : start] or " "
        after = text[end : end + 1] or " "
        # snake_case is not emphasis.
        in_word = mark.startswith("_") and before.isalnum() and after.isalnum()
        closes = not (before.isspace() or in_word)
        opens = not (after.isspace() or in_word)
        if mark and closes and mark in opened:
            yield opened.pop(mark), end
        elif mark and opens:
            opened[mark] = start


def _links(text: str, brackets: Sequence[re.Match[str]]) -> Iterator[Span]:
    """Yield `[text](address)` with brackets in either, `[text][name]`, and images."""
    ends = _matching(brackets)
    for bracket in brackets:
        closed = ends.get(bracket.end() - 1)
        if (
            text[bracket.end() - 1] == "["
            and closed is not None
            and text[closed + 1 : closed + 2] in ("(", "[")
        ):
            last = ends.get(closed + 1)
            if last is not None:
                yield bracket.start(), last + 1


def _matching(brackets: Sequence[re.Match[str]]) -> dict[int, int]:
    """Return where each opening bracket is closed. Round and square ones are counted apart."""
    ends: dict[int, int] = {}
    opened: dict[str, list[int]] = {"[": [], "(": []}
    for bracket in brackets:
        position = bracket.end() - 1
        match bracket[0][-1]:
            case "[" | "(" as sign:
                opened[sign].append(position)
            case sign:
                stack = opened["[" if sign == "]" else "("]
                if stack:
                    ends[stack.pop()] = position

    return ends
