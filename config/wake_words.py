"""
Wake words: regular expressions by which every message of a group is searched.

With a pattern that takes exponential time, any member of the group could stop the gateway. Such
patterns are refused: a repetition of something that is itself repeated or has alternatives, and
more repetitions than a wake word needs.
"""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema

from turngate.config.fields import unambiguous

_LONGEST = 200
_MOST_REPEATED = 2
_MOST_OPTIONAL = 4
# A class, an escaped character, the start or end of a group, an alternative, a repetition. All
# other characters stand for themselves.
_PIECE = re.compile(
    r"\[\^?\]?(?:\\.|[^\]\\])*\]|\\.|\((?:\?[^)]*?[:=!>])?|\)|\||[*+?]|\{[0-9]*,?[0-9]*\}",
    re.DOTALL,
)
_REPEATS = re.compile(r"[*+]|\{[0-9]*,?[0-9]*\}")


def parse_wake_word(value: object) -> re.Pattern[str]:
    """Compile a wake word. Raises ValueError with the remedy."""
    if isinstance(value, re.Pattern):
        return value

    written = unambiguous(value)
    if not isinstance(written, str) or not written.strip():
        raise ValueError('this must be a pattern; write words in quotes, such as "^hey bot"')
    if len(written) > _LONGEST:
        raise ValueError(f"this pattern is too long; {_LONGEST} characters are the most")

    try:
        pattern = re.compile(written, re.IGNORECASE)
    except re.error as exc:
        raise ValueError(
            f"this is not a regular expression ({exc.msg}); put a \\ before a sign that stands for "
            "itself"
        ) from None

    if pattern.search(""):
        raise ValueError(
            "this pattern fits an empty message, and so every message; write groups: all instead"
        )
    if _may_backtrack(written):
        raise ValueError(
            "this pattern could take for ever on some messages; repeat single signs only, and "
            "seldom"
        )
    return pattern


def _may_backtrack(written: str) -> bool:
    """
    Whether matching may take exponential time, judged by the pattern's text.

    Example: (a+)+ repeats a group that has a repetition inside.
    """
    # For each open group, the innermost last: whether it has a repetition or alternatives.
    groups = [False]
    # The same for the group that has just been closed; a repetition after it is the dangerous one.
    closed = False
    repeated = 0
    optional = 0

    for piece in _PIECE.findall(written):
        if piece.startswith("("):
            groups.append(False)
        elif piece == ")" and len(groups) > 1:
            closed = groups.pop()
            groups[-1] |= closed
            continue
        elif _REPEATS.fullmatch(piece):
            repeated += 1
            if closed:
                return True
            groups[-1] = True
        elif piece in "|?":
            optional += piece == "?"
            groups[-1] = True
        closed = False

    return repeated > _MOST_REPEATED or optional > _MOST_OPTIONAL


WakeWord = Annotated[
    re.Pattern[str],
    BeforeValidator(parse_wake_word),
    PlainSerializer(lambda pattern: pattern.pattern, return_type=str),
    WithJsonSchema(
        {"type": "string", "format": "regex", "maxLength": _LONGEST, "examples": ["^hey bot"]}
    ),
]
