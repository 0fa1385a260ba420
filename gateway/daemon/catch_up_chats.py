"""
Where an account may have been written to while nobody listened.

Some platforms keep nothing for a bot that is away, and do not even tell it which direct chats it has. The gateway
knows: whoever has a conversation, whoever was let in, and whoever the config names.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta

from turngate.gateway.domain.messages import ChatType, SessionSource
from turngate.gateway.domain.ports.adapter import Places
from turngate.gateway.domain.ports.store import SessionFilter, Store
from turngate.gateway.rules.authorization import Access, Allowed
from turngate.gateway.rules.policy import Policy

_REMEMBERED_FOR = timedelta(days=90)
_MOST_CONVERSATIONS = 10_000


def places_of(store: Store, policy: Policy, platform: str, account: str) -> Places:
    """Of one account, read anew with every call: once for each time that it connects."""

    async def places() -> Sequence[SessionSource]:
        lately = SessionFilter(
            current_only=True, active_within=_REMEMBERED_FOR, limit=_MOST_CONVERSATIONS
        )
        known = [session.origin for session in await store.sessions(lately)]
        let_in = [
            SessionSource(
                platform=each.person.platform, account=each.person.account, user_id=each.person.id
            )
            for each in await store.approved()
        ]
        found = (*known, *let_in, *_named(policy.access, account))
        ours = (
            each.nameless for each in found if (each.platform, each.account) == (platform, account)
        )
        return tuple(dict.fromkeys(ours))

    return places


def _named(access: Access, account: str) -> Iterator[SessionSource]:
    """Those that the config names for this account, or for every account of their platform."""
    for entry in (*access.allow, *access.admins):
        if entry.account in (None, account):
            yield _place(entry, account)


def _place(entry: Allowed, account: str) -> SessionSource:
    return SessionSource(
        platform=entry.platform,
        account=account,
        chat_type=ChatType.DM if entry.person is not None else ChatType.GROUP,
        chat_id=entry.chat,
        user_id=entry.person,
        scope=entry.scope,
    )
