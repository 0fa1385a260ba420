"""What every store promises about people and pairing codes, and what pairing makes of it."""

from __future__ import annotations

import re
from collections.abc import Awaitable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from tests.fakes import NOON, FrozenClock, dm, message
from tests.talk import begin, key_of
from turngate.gateway.domain.errors import Refused
from turngate.gateway.domain.messages import (
    Attachment,
    InboxState,
    ReplyTo,
)
from turngate.gateway.domain.outbox import (
    Part,
    PartState,
    Sent,
)
from turngate.gateway.domain.pairing_records import Person
from turngate.gateway.domain.ports.store import Store
from turngate.gateway.domain.transcript import MediaType
from turngate.gateway.inbound.pairing import (
    ALPHABET,
    BY_COMMAND,
    CODE_LENGTH,
    MOST_PENDING,
    MOST_WRONG,
    WELCOME,
    Pairing,
)
from turngate.gateway.stores.sqlite import SqliteStore

KEY = b"k" * 32
WRONG = "WRNGWRNG"


class Door:
    """Pairing over a store, and the words that went out."""

    def __init__(self, store: Store) -> None:
        self.sent: list[Part] = []
        self.pairing = Pairing(store, KEY, self.sent.append)

    async def code_for(self, user: str = "42", *, account: str = "main") -> str:
        """What a stranger is told; an empty text if nothing."""
        before = len(self.sent)
        await self.pairing.invite(replace(dm(user), account=account), "m1")
        assert len(self.sent) <= before + 1
        return "".join(re.findall(r"`([^`]+)`", part.text)[0] for part in self.sent[before:])

    async def approve(self, code: str, way: str = BY_COMMAND) -> str:
        return str(await self.pairing.approve(code, way=way, by="ops"))


@pytest.fixture
def door(store: Store) -> Door:
    return Door(store)


async def refused(doing: Awaitable[object]) -> str:
    with pytest.raises(Refused) as caught:
        await doing
    return str(caught.value)


class TestCodes:
    async def test_a_code_is_eight_unmistakable_characters_and_different_each_time(
        self, door: Door
    ) -> None:
        codes = {await door.code_for(str(number), account=f"a{number}") for number in range(50)}

        assert len(codes) == 50
        assert all(len(code) == CODE_LENGTH == 8 and set(code) <= set(ALPHABET) for code in codes)
        assert len(set(ALPHABET)) == 32
        assert not set(ALPHABET) & set("0O1Io")

    async def test_a_stranger_is_told_once_an_hour_without_his_name_and_without_a_session(
        self, store: Store, door: Door, clock: FrozenClock
    ) -> None:
        assert await door.code_for()
        assert await door.code_for() == ""
        clock.advance(minutes=59)
        assert await door.code_for() == ""
        clock.advance(minutes=1)
        assert await door.code_for()

        parts = await store.outbox(PartState.PENDING)
        assert parts == door.sent
        assert {(part.session, part.target.user_name, part.reply_to) for part in parts} == {
            (None, None, "m1")
        }

    async def test_three_of_an_account_wait_and_a_fourth_hears_nothing_until_there_is_room(
        self, door: Door, clock: FrozenClock
    ) -> None:
        first, *_ = [await door.code_for(str(user)) for user in range(MOST_PENDING)]

        assert await door.code_for("late") == ""
        assert await door.code_for("late", account="support")
        await door.approve(first)
        assert await door.code_for("late")

    async def test_the_operator_says_how_many_may_wait(self, door: Door) -> None:
        """Finding R30."""
        door.pairing.most_pending = MOST_PENDING + 1
        codes = [await door.code_for(str(user)) for user in range(MOST_PENDING + 2)]

        assert [bool(code) for code in codes] == [True] * 4 + [False]
        pending = await door.pairing.people.pending()
        first = min(each.until for each in pending)
        assert door.pairing.exhausted(pending) == {("telegram", "main"): first}
        assert door.pairing.exhausted(pending[1:]) == {}

    async def test_approving_lets_the_person_in_at_once_tells_him_and_works_once(
        self, store: Store, door: Door
    ) -> None:
        code = await door.code_for()

        assert await door.approve(f" {code[:4].lower()}-{code[4:]} ") == "telegram:42"
        assert door.pairing.approved == {Person(platform="telegram", account="main", id="42")}
        assert (door.sent[-1].text, door.sent[-1].target.chat_id) == (WELCOME, "42")
        assert "used already" in await refused(door.approve(code))
        (approved,), pending = await door.pairing.listed()
        assert (str(approved.person), approved.at, approved.by, pending) == (
            "telegram:42",
            NOON,
            "ops",
            [],
        )

    async def test_a_code_is_good_for_an_hour(self, door: Door, clock: FrozenClock) -> None:
        code = await door.code_for()
        (waiting,) = (await door.pairing.listed())[1]
        assert (str(waiting.person), waiting.asked_at, waiting.until) == (
            "telegram:42",
            NOON,
            NOON + timedelta(hours=1),
        )

        clock.advance(hours=1)

        assert "expired" in await refused(door.approve(code))
        assert (await door.pairing.listed()) == ([], [])
        assert door.pairing.approved == set()

    async def test_a_code_of_a_clock_that_was_set_back_is_over_and_the_person_gets_another(
        self, door: Door, clock: FrozenClock
    ) -> None:
        code = await door.code_for()
        clock.jump(days=-1)

        assert "expired" in await refused(door.approve(code))
        assert (await door.pairing.listed())[1] == []
        assert await door.approve(await door.code_for()) == "telegram:42"

    async def test_another_installation_s_code_is_no_code_here(
        self, store: Store, door: Door
    ) -> None:
        code = await door.code_for()

        other = Pairing(store, b"another key")
        assert "no such code" in await refused(other.approve(code, way="w", by="w"))

    @pytest.mark.parametrize(
        "nonsense", ["", " ", "ABCD", "X" * 10_000, "ＡＢＣＤＥＦＧＨ", "\ud800\udfff", "%' OR 1=1"]
    )
    async def test_nonsense_is_no_code(self, door: Door, nonsense: str) -> None:
        await door.code_for()

        assert "no such code" in await refused(door.approve(nonsense))


class TestGuessing:
    async def test_five_wrong_codes_lock_that_way_in_for_an_hour_even_for_the_right_one(
        self, door: Door, clock: FrozenClock
    ) -> None:
        code = await door.code_for()
        for _ in range(MOST_WRONG):
            assert "no such code" in await refused(door.approve(WRONG))

        assert "until 2026-05-04 13:00 UTC" in await refused(door.approve(code))
        assert await door.approve(code, way="telegram:1") == "telegram:42"
        clock.advance(minutes=59)
        assert "no code is taken here" in await refused(door.approve(WRONG))
        clock.advance(minutes=1)
        assert "no such code" in await refused(door.approve(WRONG))

    async def test_a_clock_that_was_set_back_locks_nobody_out_for_a_day(
        self, door: Door, clock: FrozenClock
    ) -> None:
        for _ in range(MOST_WRONG):
            await refused(door.approve(WRONG))
        clock.jump(days=-1)

        assert await door.approve(await door.code_for()) == "telegram:42"

    async def test_the_lock_outlives_the_process(self, store: Store, door: Door) -> None:
        code = await door.code_for()
        for _ in range(MOST_WRONG):
            await refused(door.approve(WRONG))

        assert "no code is taken here" in await refused(Door(store).approve(code))

    async def test_a_right_code_clears_what_was_wrong_before_it(self, door: Door) -> None:
        code = await door.code_for()
        for _ in range(MOST_WRONG - 1):
            await refused(door.approve(WRONG))
        await door.approve(code)

        for _ in range(MOST_WRONG - 1):
            assert "no such code" in await refused(door.approve(WRONG))

    async def test_wrong_codes_of_long_ago_do_not_count(
        self, door: Door, clock: FrozenClock
    ) -> None:
        for _ in range(3 * MOST_WRONG):
            assert "no such code" in await refused(door.approve(WRONG))
            clock.advance(minutes=20)

    async def test_ten_thousand_guesses_let_nobody_in(
        self, store: Store, door: Door, clock: FrozenClock
    ) -> None:
        code = await door.code_for()
        tried = 0
        for number in range(10_000):
            guess = "".join(ALPHABET[number // 32**place % 32] for place in range(CODE_LENGTH))
            assert guess != code
            tried += "no such code" in await refused(door.approve(guess))

        assert tried == MOST_WRONG
        assert await store.approved() == []

    async def test_codes_that_were_right_once_lock_nobody_out(self, door: Door) -> None:
        code = await door.code_for()
        await door.approve(code)

        for _ in range(2 * MOST_WRONG):
            assert "used already" in await refused(door.approve(code))


class TestRevoking:
    async def approved(self, door: Door, user: str = "42", account: str = "main") -> None:
        await door.approve(await door.code_for(user, account=account))

    async def test_it_takes_a_person_out_at_once_and_for_good(
        self, store: Store, door: Door
    ) -> None:
        await self.approved(door)
        await self.approved(door, "43")

        gone = await door.pairing.revoke("telegram:42")

        assert [str(person) for person in gone] == ["telegram:42"]
        assert [str(person) for person in door.pairing.approved] == ["telegram:43"]
        again = Pairing(store, KEY)
        await again.open()
        assert again.approved == door.pairing.approved

    async def test_without_an_account_it_concerns_all_of_them_with_one_that_one(
        self, door: Door
    ) -> None:
        for account in ("main", "support", "sales"):
            await self.approved(door, account=account)

        assert list(map(str, await door.pairing.revoke("telegram/support:42"))) == [
            "telegram/support:42"
        ]
        assert list(map(str, await door.pairing.revoke("telegram:42"))) == [
            "telegram:42",
            "telegram/sales:42",
        ]

    async def test_it_takes_back_a_code_and_gives_no_new_one_for_it(self, door: Door) -> None:
        code = await door.code_for()

        assert list(map(str, await door.pairing.revoke("telegram:42"))) == ["telegram:42"]
        assert "taken back" in await refused(door.approve(code))
        assert await door.code_for() == ""

    @pytest.mark.parametrize("who", ["telegram:44", "slack:42", "telegram/other:42"])
    async def test_who_was_not_paired_cannot_be_revoked(self, door: Door, who: str) -> None:
        await self.approved(door)

        assert "was not paired" in await refused(door.pairing.revoke(who))

    @pytest.mark.parametrize(
        "who", ["", "42", "telegram:", ":42", "telegram:4 2", "telegram:chat:42"]
    )
    async def test_who_is_no_person_is_told_so(self, door: Door, who: str) -> None:
        assert "PLATFORM:ID" in await refused(door.pairing.revoke(who))


class TestRows:
    STRANGE = replace(
        message(
            "secret words", source=replace(dm(), chat_name="Secret Chat", chat_topic="Secret Topic")
        ),
        attachments=(Attachment(type=MediaType.FILE, name="secret.txt"),),
        reply_to=ReplyTo(message_id="0", text="secret quote"),
    )

    async def test_who_is_turned_away_leaves_a_row_without_words_and_names(
        self, store: Store
    ) -> None:
        await store.reject(self.STRANGE, key_of(), "a stranger")

        (item,) = await store.inbox(InboxState.REFUSED)
        assert item.message == self.STRANGE.wordless
        assert (item.reason, item.received_at) == ("a stranger", NOON)
        assert [step.step for step in (await store.trace(item.id)).steps] == ["stored", "refused"]
        assert await store.find("1") == [item.id]
        assert (await store.account("telegram", "main")).received_at == NOON

    async def test_the_same_message_leaves_one_row_however_often_it_comes(
        self, store: Store
    ) -> None:
        first = await store.reject(self.STRANGE, key_of(), "a stranger")
        again = await store.reject(self.STRANGE, key_of(), "a stranger")
        accepted = await store.accept(self.STRANGE, key_of())

        assert first.id == again.id == accepted.id
        assert again.duplicate
        assert accepted.duplicate
        assert await store.inbox(InboxState.WAITING) == []

    async def test_what_was_refused_for_good_is_not_among_the_work(self, store: Store) -> None:
        await store.reject(self.STRANGE, key_of(), "a stranger")
        await store.accept(message(id="2"), key_of())

        states = (InboxState.WAITING, InboxState.REFUSED)
        assert [item.message.id for item in await store.inbox(*states, with_settled=False)] == ["2"]
        assert (await store.depth()).inbox_waiting == 1

    async def test_rows_and_old_codes_are_forgotten_and_people_are_not(
        self, store: Store, door: Door, clock: FrozenClock
    ) -> None:
        await store.reject(self.STRANGE, key_of(), "a stranger")
        await door.approve(await door.code_for("1"))
        await door.code_for("2")
        await refused(door.approve(WRONG))
        clock.advance(days=8)

        week = timedelta(days=7)
        pruned = await store.prune(empty_after=week, archive_after=week, forget_after=week)

        assert (
            pruned.forgotten == 1 + 2 + 2 + 1
        )  # the row, its two names, two codes, one wrong guess
        assert await store.inbox(InboxState.REFUSED) == []
        assert [str(each.person) for each in await store.approved()] == ["telegram:1"]

    async def test_words_for_somebody_without_a_session_go_out_like_any_other(
        self, store: Store
    ) -> None:
        (part,) = await store.say(Part(target=dm(), text="who are you?"))

        assert await store.outbox(PartState.PENDING) == [part]
        assert (await store.record_sending(part.id)).text == "who are you?"
        await store.record_sent(part.id, Sent(message_id="9", at=NOON))
        assert [each.sent_id for each in await store.outbox(PartState.SENT)] == ["9"]


class TestAmending:
    async def test_a_message_that_waits_says_what_its_sender_made_of_it(self, store: Store) -> None:
        accepted = await store.accept(message("helo"), key_of())

        assert await store.amend(accepted.id, "hello \ud83d")
        (item,) = await store.inbox(InboxState.WAITING)
        assert item.message == message("hello \ufffd")

    async def test_what_is_answered_or_was_refused_stays_as_it_is(self, store: Store) -> None:
        await begin(store, message("helo"))
        refused = await store.reject(message(id="2"), key_of(), "a stranger")
        (running,) = await store.inbox(InboxState.RUNNING)

        assert not await store.amend(running.id, "hello")
        assert not await store.amend(refused.id, "hello")
        assert (await store.inbox(InboxState.RUNNING))[0].message.text == "helo"


async def test_nothing_of_a_stranger_s_words_is_ever_in_the_file_nor_his_code_once_it_was_sent(
    tmp_path: Path, clock: FrozenClock
) -> None:
    store = await SqliteStore.connect(tmp_path / "turngate.db", clock)
    door = Door(store)
    await store.reject(TestRows.STRANGE, key_of(), "a stranger")
    code = await door.code_for()
    kept = await store._reader.rows("SELECT * FROM pairings")

    assert len(code) == CODE_LENGTH
    assert code not in repr(kept)
    assert all(b"ecret" not in file.read_bytes() for file in tmp_path.iterdir())
    await store.record_sending(door.sent[0].id)
    await store.record_sent(door.sent[0].id, Sent(message_id="9", at=NOON))
    assert [part.text for part in await store.outbox(PartState.SENT)] == [""]
    await store.close()
