"""
`pair`: list paired users and pending requests, approve and revoke. Codes themselves are never
shown.
"""

from __future__ import annotations

from dataclasses import dataclass

from turngate.gateway.daemon.control.requests import (
    Args,
    Line,
    Requests,
    taking,
)
from turngate.gateway.domain.pairing_records import Person
from turngate.gateway.domain.serialization import Json
from turngate.gateway.inbound.pairing import BY_COMMAND, Pairing


@dataclass(frozen=True, slots=True, kw_only=True)
class Code:
    """A pairing code as the unknown user shows it."""

    code: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Who:
    """A user as `pair list` names them."""

    who: str


def pair_requests(pairing: Pairing) -> Requests:
    """Return the verbs by name."""
    verbs = _PairVerbs(pairing)
    return {
        "pair.list": verbs.list,
        "pair.approve": taking(Code, verbs.approve),
        "pair.revoke": taking(Who, verbs.revoke),
    }


class _PairVerbs:
    def __init__(self, pairing: Pairing) -> None:
        self._pairing = pairing

    async def list(self, args: Args, line: Line) -> Json:
        """
        Return the paired users, the users whose code can still be approved, and the accounts on
        which so many codes are open that nobody else gets one.
        """
        approved, pending = await self._pairing.listed()
        return {
            "approved": [
                {**_person(each.person), "at": each.at.isoformat(), "by": each.by}
                for each in approved
            ],
            "pending": [
                {
                    **_person(each.person),
                    "asked_at": each.asked_at.isoformat(),
                    "until": each.until.isoformat(),
                }
                for each in pending
            ],
            "exhausted": [
                {
                    "platform": platform,
                    "account": account,
                    "codes": self._pairing.most_pending,
                    "until": until.isoformat(),
                }
                for (platform, account), until in self._pairing.exhausted(pending).items()
            ],
        }

    async def approve(self, asked: Code, line: Line) -> Json:
        """Grant access to the user who got this code, and notify them."""
        return _person(await self._pairing.approve(asked.code, way=BY_COMMAND, by=BY_COMMAND))

    async def revoke(self, asked: Who, line: Line) -> Json:
        """Revoke the access of a paired user; return the users that it affects."""
        return {"revoked": [_person(person) for person in await self._pairing.revoke(asked.who)]}


def _person(person: Person) -> dict[str, Json]:
    return {
        "who": str(person),
        "platform": person.platform,
        "account": person.account,
        "id": person.id,
    }
