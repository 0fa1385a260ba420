"""
Markdown in parts that fit a platform's limits.

An agent writes as much as it likes, a platform takes so much at once, and counts in its own way. Here a text is cut so
that no reader stumbles: code stays code, links stay links, and what the parts say together is what the agent said.
Turning Markdown into what the platform shows is the adapter's work.
"""

from turngate.gateway.outbound.rendering.parts import Measure, beginning, join, split

__all__ = ["Measure", "beginning", "join", "split"]
