"""Where an account may have been written to while nobody listened."""

from __future__ import annotations

from tests.fakes import FrozenClock
from tests.oracle_store import MemoryStore
from tests.talk import exchange
from turngate.gateway.daemon.catch_up_chats import chats_to_catch_up
from turngate.gateway.domain.messages import ChatType, SessionSource
from turngate.gateway.rules.authorization import Access, Allowed
from turngate.gateway.rules.policy import Policy

ANN = SessionSource(platform="discord", chat_id="900", user_id="1", user_name="Ann")


async def test_conversations_come_before_what_the_config_names() -> None:
    store = MemoryStore(FrozenClock())
    await exchange(store, source=ANN)
    access = Access(
        allow=(
            Allowed(platform="discord", person="2"),
            Allowed(platform="discord", chat="77"),
            Allowed(platform="discord", scope="9"),
        )
    )

    places = await chats_to_catch_up(store, Policy(agents={}, access=access), "discord", "main")()

    assert places == (
        ANN.nameless,
        SessionSource(platform="discord", user_id="2"),
        SessionSource(platform="discord", chat_type=ChatType.GROUP, chat_id="77"),
        SessionSource(platform="discord", chat_type=ChatType.GROUP, scope="9"),
    )


async def test_another_account_s_places_are_none_of_ours() -> None:
    store = MemoryStore(FrozenClock())
    await exchange(store, source=ANN)
    access = Access(
        allow=(
            Allowed(platform="discord", account="main", person="2"),
            Allowed(platform="slack", chat="C1"),
        )
    )

    assert (
        await chats_to_catch_up(store, Policy(agents={}, access=access), "discord", "support")()
        == ()
    )
