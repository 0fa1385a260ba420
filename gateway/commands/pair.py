"""/pair: approve users from a chat. For admins, and only in direct chats."""

from __future__ import annotations

from turngate.gateway.commands.registry import Command, Request
from turngate.gateway.domain.errors import Refused
from turngate.gateway.domain.messages import ChatType
from turngate.gateway.domain.pairing_records import Approved, Pending
from turngate.gateway.inbound.pairing import way_of

_USAGE = "`/pair list`, `/pair approve CODE` or `/pair revoke WHO`."
_MOST_LISTED = 50


async def _pair(request: Request) -> str:
    if not request.is_admin:
        return "Only an admin can grant or revoke access."
    if request.message.source.chat_type is not ChatType.DM:
        return "Not here, where others read along: write to me directly."

    verb, _, argument = request.argument.partition(" ")
    try:
        match verb.lower(), argument.strip():
            case "list", "":
                return _listing(*await request.pairing.listed())
            case "approve", code if code:
                way = way_of(request.message.source)
                return f"{await request.pairing.approve(code, way=way, by=way)} can talk to me now."
            case "revoke", who if who:
                gone = await request.pairing.revoke(who)
                return f"Access revoked: {', '.join(map(str, gone))}."
            case _:
                return _USAGE
    except Refused as refused:
        return f"That was not done: {refused}."


def _listing(approved: list[Approved], pending: list[Pending]) -> str:
    lines = [
        f"- `{each.person}` since {each.at:%Y-%m-%d %H:%M} UTC, by {each.by}"
        for each in approved[-_MOST_LISTED:]
    ]
    waiting = [f"- `{each.person}` with a code until {each.until:%H:%M} UTC" for each in pending]
    if not lines and not waiting:
        return "No one is paired, and no one has asked to be."

    heads = ["Paired:", ""] if lines else []
    more = (
        [*([""] if lines else []), "Waiting, each with a code that only they know:", ""]
        if waiting
        else []
    )
    return "\n".join([*heads, *lines, *more, *waiting])


COMMANDS = (
    Command(
        name="pair",
        admins_only=True,
        argument="list | approve CODE | revoke WHO",
        summary="grants or revokes access to the bot",
        run=_pair,
    ),
)
