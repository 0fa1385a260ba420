"""
Wake words: regular expressions that a person writes once and that every message of a group is searched by.

One that takes exponential time would let anybody in that group stop the gateway, so those are refused: a repetition of
something that is itself repeated or has alternatives, and more repetitions than any wake word needs.
"""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema

from turngate.config.fields import unambiguous

_LONGEST = 200
_MOST_REPEATED, _MOST_OPTIONAL = 2, 4
# A class, an escaped character, what begins or ends a group, an alternative, a repetition. The rest stands for itself.
_PIECE = re.compile(
    r"\[\^?\]?(?:\\.|[^\]\\])*\]|\\.|\((?:\?[^)]*?[:=!>])?|\)|\||[*+?]|\{[0-9]*,?[0-9]*\}",
    re.DOTALL,
)
_REPEATS = re.compile(r"[*+]|\{[0-9]*,?[0-9]*\}")


def parse_wake_word(value: object) -> re.Pattern[str]:
    """Raises ValueError with the cure."""
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
            f"this is no regular expression ({exc.msg}); put a \\ before a sign that stands for itself"
        ) from None
    if pattern.search(""):
        raise ValueError(
            "this pattern fits an empty message, and so every message; write groups: all instead"
        )
    if _may_take_for_ever(written):
        raise ValueError(
            "this pattern could take for ever on some messages; repeat single signs only, and seldom"
        )
    return pattern


def _may_take_for_ever(written: str) -> bool:
    """By its text: groups are followed from the inside out, and each repetition of one is looked at."""
    groups, closed, repeated, optional = [False], False, 0, 0
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
