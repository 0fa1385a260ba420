"""
List the chats in which an account may have missed messages while it was offline.

Some platforms keep nothing for an offline bot, and do not list its direct chats either. The gateway
knows them: chats with a session, paired users, and users named in the config.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta

from turngate.gateway.domain.messages import ChatType, SessionSource
from turngate.gateway.domain.ports.adapter import CatchUpChats
from turngate.gateway.domain.ports.store import Store
from turngate.gateway.domain.store_values import SessionFilter
from turngate.gateway.rules.authorization import Access, Allowed
from turngate.gateway.rules.policy import Policy

_REMEMBERED_FOR = timedelta(days=90)


def chats_to_catch_up(store: Store, policy: Policy, platform: str, account: str) -> CatchUpChats:
    """Return the chats of one account. Reads the store at each call, once per connection."""

    async def chats() -> Sequence[SessionSource]:
        # Without a limit: a chat that is left out here would lose what was written there.
        lately = SessionFilter(current_only=True, active_within=_REMEMBERED_FOR)
        known = [session.origin for session in await store.sessions(lately)]
        let_in = [
            SessionSource(
                platform=each.person.platform, account=each.person.account, user_id=each.person.id
            )
            for each in await store.approved()
        ]
        found = (*known, *let_in, *_named(policy.access, account))
        # Names can change: without them a chat that was found twice is listed once.
        ours = (each.nameless for each in found if each.account_key == (platform, account))

        return tuple(dict.fromkeys(ours))

    return chats


def _named(access: Access, account: str) -> Iterator[SessionSource]:
    """Yield the chats and users that the config names for this account, or for all accounts."""
    # Entries of other platforms are dropped by the caller, which compares platform and account.
    for entry in (*access.allow, *access.admins):
        if entry.account in (None, account):
            yield _chat(entry, account)


def _chat(entry: Allowed, account: str) -> SessionSource:
    return SessionSource(
        platform=entry.platform,
        account=account,
        chat_type=ChatType.DM if entry.person is not None else ChatType.GROUP,
        chat_id=entry.chat,
        user_id=entry.person,
        scope=entry.scope,
    )
