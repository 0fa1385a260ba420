"""
How large Markdown becomes when it is converted, told before it is done.

The converter writes the indentation of nested lists and pads the columns of tables. Both grow with
the square of the text: a list mark repeated 60,000 times in one line would become gigabytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import zip_longest
from typing import Any

import pyromark
from telegramify_markdown.converter import STANDARD_OPTIONS

_INDENT = 2
_BORDER = 3

Event = tuple[Any, Any]


def converted_size(markdown: str) -> int:
    """
    Return about how many characters the converted text has; never far too few. Empty formulas count
    for what they cost: before each, the converter counts all line breaks of those before it.
    """
    events: Iterable[Event] = pyromark.events_with_range(markdown, options=STANDARD_OPTIONS)
    lists = 0
    empty_formulas = 0
    size = len(markdown)
    table = list[list[int]]()
    for event, at in events:
        match event:
            case {"Start": {"List": _}}:
                lists += 1
            case {"End": {"List": _}}:
                lists -= 1
            case {"Start": "Item"}:
                size += _INDENT * lists
            case {"DisplayMath": str(formula)} if not formula.strip():
                empty_formulas += 1
                size += empty_formulas
            case {"Start": {"Table": _}}:
                table = []
            case {"Start": "TableHead" | "TableRow"}:
                table.append([])
            case {"Start": "TableCell"}:
                table[-1].append(at["end"] - at["start"])
            case {"End": "Table"}:
                size += (len(table) + 1) * sum(_widths(table))
            case _:
                pass

    return size


def _widths(rows: Iterable[list[int]]) -> Iterator[int]:
    return (max(column) + _BORDER for column in zip_longest(*rows, fillvalue=0))
