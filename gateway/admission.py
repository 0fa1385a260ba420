"""Who is let in: the one place that decides. Pure, and whoever is not named here gets nothing."""

from __future__ import annotations

from gateway.model import LOCAL_PLATFORM, WEB_PLATFORM, SessionSource

LONGEST_TEXT = 1_000_000
"""More than any platform lets a person write; what is longer is a file or an attack."""

# A browser with the web chat's cookie and the terminal of this machine are the operator himself.
_OWN_SCREENS = (LOCAL_PLATFORM, WEB_PLATFORM)


def authorize(source: SessionSource) -> bool:
    """Whether what comes from there may reach the gateway."""
    return source.platform in _OWN_SCREENS
