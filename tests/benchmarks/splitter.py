"""
What cutting a megabyte of Markdown into parts costs, against the floor: the parser alone, reading
the same text once.

    python -m tests.benchmarks.splitter
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

from markdown_it import MarkdownIt

from turngate.gateway.outbound.rendering import split

_SIZE, _LARGEST, _TRIES = 1_000_000, 4096, 5
_PROSE = (
    "The quick brown fox jumps over the lazy dog. It was **bold** and [a "
    "link](http://x.y/z).\nOne more line.\n\n"
)
_CODE = "```python\n" + "def double(x):\n    return x + x\n\n" * 20 + "```\n\n"
_LIST = "- an item with some words in it\n  - and one below it, with `code`\n" * 15 + "\n"
_TABLE = "| name | value |\n|---|---|\n" + "| some words | more words |\n" * 12 + "\n"

TEXTS = {
    "an answer": _PROSE * 6 + _CODE + _LIST + _PROSE * 3 + _TABLE,
    "prose": _PROSE,
    "code": _CODE * 100,
    "code in lists": "- an item\n\n  ```py\n" + "  x = 1 + 2 + 3\n" * 9 + "  ```\n\n",
    "words without lines": "word ",
    "links without lines": "[a](http://b.c/d) ",
    "one word": "x",
    "brackets": "[",
}


def main() -> None:
    """One line for each kind of text, the median of a few tries."""
    parser = MarkdownIt("commonmark").disable("inline")
    print(f"{'1 MB of':22} {'ms':>8} {'floor ms':>9} {'of the floor':>13}")
    for name, pattern in TEXTS.items():
        text = (pattern * (_SIZE // len(pattern) + 1))[:_SIZE]
        ours = _milliseconds(lambda: split(text, _LARGEST, len))  # noqa: B023 - called at once
        floor = _milliseconds(lambda: parser.parse(text))  # noqa: B023 - called at once
        print(f"{name:22} {ours:8.0f} {floor:9.0f} {ours / floor:13.2f}")


def _milliseconds(work: Callable[[], object]) -> float:
    taken = []
    for _ in range(_TRIES):
        started = time.perf_counter()
        work()
        taken.append(time.perf_counter() - started)
    return statistics.median(taken) * 1000


if __name__ == "__main__":
    main()
