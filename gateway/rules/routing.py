"""
Which agent answers where. Pure: the first matching route wins; without one the main agent answers.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from turngate.gateway.domain.messages import SessionSource

MAIN_AGENT = "main"


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """
    A route. An omitted field matches everything. `choices`: which other agents may be chosen there;
    None leaves it to the agents' settings.
    """

    agent: str
    choices: tuple[str, ...] | None = None
    platform: str | None = None
    account: str | None = None
    chat_type: str | None = None
    chat: str | None = None
    thread: str | None = None
    user: str | None = None

    def fits(self, source: SessionSource) -> bool:
        # Both tuples name the same fields in the same order; strict=True notices a missing one.
        wanted = (self.platform, self.account, self.chat_type, self.chat, self.thread, self.user)
        chat_fields = (
            source.platform,
            source.account,
            source.chat_type.value,
            source.chat_id,
            source.thread_id,
        )
        found = (*chat_fields, source.participant_id)

        return all(want in (None, value) for want, value in zip(wanted, found, strict=True))


_NO_ROUTE = Route(agent=MAIN_AGENT)


def route_of(source: SessionSource, routes: Iterable[Route]) -> Route:
    return next((route for route in routes if route.fits(source)), _NO_ROUTE)


def agent_for(source: SessionSource, routes: Iterable[Route]) -> str:
    return route_of(source, routes).agent
