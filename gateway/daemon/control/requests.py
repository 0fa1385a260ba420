"""
The verbs of the control socket: a table of names and functions, the same in the daemon and in a
command that runs without one.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol, TypeVar

from turngate.gateway.domain.errors import Refused
from turngate.gateway.domain.serialization import Json, from_dict

Args = Mapping[str, Json]
T = TypeVar("T")


class Line(Protocol):
    """The client of a request, while the response is produced."""

    async def item(self, value: Json) -> None:
        """
        Send one of many results. Waits while the client is slow; raises ConnectionError if the
        connection was closed.
        """

    async def next(self) -> dict[str, Json] | None:
        """
        Return the next line that the client sends during the request; None at the end of its input.
        Raises MalformedRecord.
        """


Verb = Callable[[Args, Line], Awaitable[Json]]
Requests = Mapping[str, Verb]


def taking(arguments: type[T], verb: Callable[[T, Line], Awaitable[Json]]) -> Verb:
    """Return a verb that reads its arguments from JSON; MalformedRecord names the invalid one."""

    async def read_and_do(args: Args, line: Line) -> Json:
        return await verb(from_dict(arguments, args), line)

    return read_and_do


async def carry_out(requests: Requests, request: Args, line: Line) -> Json:
    """Run a request. Raises Refused for one that is malformed or unknown."""
    name = request.get("do")
    args = request.get("args", {})
    if not isinstance(name, str) or not isinstance(args, dict):
        raise Refused('a request is {"do": NAME, "args": {...}}')
    if name not in requests:
        raise Refused(
            f"this daemon does not know {name!r}; it may be of another version: restart it"
        )
    return await requests[name](args, line)
