"""What Telegram sends that this version does not know: told once, by its name."""

from __future__ import annotations

import logging
import re

_log = logging.getLogger(__name__)
_NAME = re.compile(r"[a-z_.]{1,80}")
_MOST_NAMES = 100


class Unsupported:
    """
    Names of types and fields, as Telegram's documentation has them. They say nothing about anybody,
    unlike the values beside them.
    """

    def __init__(self) -> None:
        self._noted: set[str] = set()

    def note(self, name: str) -> None:
        """Log a name, the first time. What does not look like one is not repeated."""
        shown = name if _NAME.fullmatch(name) else "something without a proper name"
        if shown in self._noted or len(self._noted) >= _MOST_NAMES:
            return
        self._noted.add(shown)
        _log.warning(f"Telegram sent what this version does not know: {shown}")
