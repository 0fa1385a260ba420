"""What a model says, in no protocol's words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """
    One answer. Without pieces it says back what it was told; without `usage` it counts its words.
    What is longer than `window`, in tokens, is refused in the words of the server `wording`.
    """

    pieces: Sequence[str] | None = None
    thoughts: Sequence[str] = ()
    signature: str | None = None
    calls: Sequence[Mapping[str, str]] = ()
    finish: str = "stop"
    usage: Mapping[str, int] = field(default_factory=dict)
    pause: float = 0.0
    ways: Sequence[str] = ()
    window: int | None = None
    wording: str = "openai"

    def counted(self, pieces: Sequence[str]) -> dict[str, int]:
        """The tokens, in our own words."""
        return {"input": 7, "output": len(pieces), "cache_read": 4, "cache_write": 0} | dict(
            self.usage
        )
