"""
How much of its checking the suite does: `make test` a part that fits into minutes, `make test-all`
everything.

The tests are the same. At full length, Hypothesis tries all examples, waits are long, and every
process is started anew instead of forked (see tests/zygote.py).
"""

from __future__ import annotations

import os

VARIABLE = "TURNGATE_TESTS_AT_FULL_LENGTH"
_PART_OF_EXAMPLES = 3


def is_full_length() -> bool:
    """Whether everything is checked."""
    return VARIABLE in os.environ


def examples(count: int) -> int:
    """So many of Hypothesis's examples at full length, a third of them otherwise."""
    return count if is_full_length() else count // _PART_OF_EXAMPLES
