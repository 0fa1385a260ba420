"""
Split Markdown into parts that fit a platform's limits.

An agent writes as much as it likes; a platform takes a limited amount at once and counts in its own
way. The text is cut so that code stays code, links stay links, and the parts together are the whole
text. Converting Markdown to the platform's format is the adapter's work.
"""

from turngate.gateway.outbound.rendering.parts import (
    Measure,
    beginning,
    join,
    last_part,
    split,
)

__all__ = ["Measure", "beginning", "join", "last_part", "split"]
