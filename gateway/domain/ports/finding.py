"""What a check of an account or an agent found."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """
    One result of a check, with its cure if it needs one.

    `is_conflict`: another program uses the same credentials, which is right if it is our daemon.
    """

    words: str
    is_error: bool = False
    is_conflict: bool = False
