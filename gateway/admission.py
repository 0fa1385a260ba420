"""Who is let in: the one place that decides. Pure, and whoever is not named here gets nothing."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from gateway.model import LOCAL_PLATFORM, WEB_PLATFORM, ChatType, SessionSource

LONGEST_TEXT = 1_000_000
"""More than any platform lets a person write; what is longer is a file or an attack."""

# A browser with the web chat's cookie and the terminal of this machine are the operator himself.
_OWN_SCREENS = (LOCAL_PLATFORM, WEB_PLATFORM)


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowed:
    """A person, or everybody inside a chat or a scope. Without an account: on every account of the platform."""

    platform: str
    account: str | None = None
    person: str | None = None
    chat: str | None = None
    scope: str | None = None

    def lets_in(self, source: SessionSource) -> bool:
        """A person is let in for direct messages alone, a chat or scope for everything but those."""
        if self.platform != source.platform or self.account not in (None, source.account):
            return False
        if source.chat_type is ChatType.DM:
            return self.person is not None and self.person in (source.user_id, source.user_id_alt)
        inside = (self.chat is not None and self.chat == source.chat_id, self.scope and self.scope == source.scope)
        return any(inside)


def authorize(source: SessionSource, allowed: Collection[Allowed]) -> bool:
    """Whether what comes from there may reach the gateway."""
    return source.platform in _OWN_SCREENS or any(entry.lets_in(source) for entry in allowed)
