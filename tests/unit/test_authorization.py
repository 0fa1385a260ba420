"""Who is let in: every rule by name."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from tests.fakes import message
from turngate.gateway.domain.messages import (
    ChatType,
    InboundMessage,
    MessageKind,
    ReplyTo,
    SessionSource,
)
from turngate.gateway.domain.pairing_records import Person
from turngate.gateway.rules.authorization import (
    Access,
    Allowed,
    Decision,
    Direct,
    Groups,
    Refusal,
    authorize,
)

DM = SessionSource(platform="telegram", chat_id="42", user_id="42", user_name="Ann")
GROUP = SessionSource(
    platform="telegram", chat_type=ChatType.GROUP, chat_id="-100", user_id="42", scope="9"
)
ANN = Allowed(platform="telegram", person="42")
OPS = Allowed(platform="telegram", chat="-100")
LET_IN = Decision()


def said(source: SessionSource, text: str = "hello", **more: object) -> InboundMessage:
    return replace(message(text, source=source), **more)  # type: ignore[arg-type]


def called(source: SessionSource, text: str = "hello", **more: object) -> InboundMessage:
    return said(source, text, addressed_to_bot=True, **more)


def refusal(
    message: InboundMessage, access: Access, approved: set[Person] | None = None
) -> Refusal | None:
    return authorize(message, access, approved or set()).refusal


@pytest.mark.parametrize(
    "source", [SessionSource.terminal(), SessionSource.terminal("x"), SessionSource.browser("y")]
)
@pytest.mark.parametrize("kind", MessageKind)
def test_whoever_sits_at_this_machine_is_its_admin(
    source: SessionSource, kind: MessageKind
) -> None:
    assert authorize(said(source, kind=kind), Access(direct=Direct.LISTED)) == Decision(
        is_admin=True
    )


@pytest.mark.parametrize(
    "platform", ["telegram", "discord", "slack", "", "Web", "web ", "webhook", "locaI"]
)
def test_everybody_else_is_not(platform: str) -> None:
    source = SessionSource(platform=platform, chat_id="cli", user_id="cli")

    assert refusal(said(source), Access(direct=Direct.LISTED)) is Refusal.STRANGER
    assert (
        refusal(said(replace(source, chat_type=ChatType.GROUP)), Access(direct=Direct.OPEN))
        is Refusal.CHAT
    )


def test_by_default_nobody_is_let_in() -> None:
    assert refusal(said(DM), Access()) is Refusal.UNPAIRED
    assert refusal(called(GROUP), Access()) is Refusal.CHAT


class TestDirectly:
    def test_a_person_who_is_allowed_is_let_in_for_direct_messages_alone(self) -> None:
        access = Access(allow=(ANN,))

        assert authorize(said(DM), access) == LET_IN
        assert refusal(called(GROUP), access) is Refusal.CHAT
        assert refusal(said(replace(DM, user_id="43")), access) is Refusal.UNPAIRED
        assert refusal(said(replace(DM, platform="discord")), access) is Refusal.UNPAIRED

    @pytest.mark.parametrize(
        "user_id", ["042", "42 ", " 42", "４２", "42\u200b", "4２", "telegram:42", "Ann", "@ann"]
    )
    def test_a_look_alike_is_somebody_else(self, user_id: str) -> None:
        assert refusal(said(replace(DM, user_id=user_id)), Access(allow=(ANN,))) is Refusal.UNPAIRED

    def test_a_name_counts_for_nothing(self) -> None:
        disguised = replace(
            DM,
            user_id="666",
            user_name="42",
            chat_name="42",
            chat_topic="telegram:42",
            chat_id="42",
        )

        assert refusal(said(disguised), Access(allow=(ANN,), admins=(ANN,))) is Refusal.UNPAIRED
        assert (
            authorize(said(replace(DM, user_name="Somebody Else")), Access(allow=(ANN,))) == LET_IN
        )

    def test_where_a_platform_has_two_ids_the_lasting_one_counts(self) -> None:
        numbered = replace(DM, user_id="42", user_id_alt="uuid-1")

        assert refusal(said(numbered), Access(allow=(ANN,))) is Refusal.UNPAIRED
        assert (
            authorize(
                said(numbered), Access(allow=(Allowed(platform="telegram", person="uuid-1"),))
            )
            == LET_IN
        )

    @pytest.mark.parametrize("direct", Direct)
    def test_what_nobody_wrote_is_refused_however_open_the_door_is(self, direct: Direct) -> None:
        nobody = replace(DM, user_id=None)

        assert (
            refusal(said(nobody), Access(direct=direct, allow=(Allowed(platform="telegram"),)))
            is Refusal.NAMELESS
        )

    @pytest.mark.parametrize(
        ("direct", "expected"),
        [
            (Direct.PAIRING, Refusal.UNPAIRED),
            (Direct.LISTED, Refusal.STRANGER),
            (Direct.OPEN, None),
        ],
    )
    def test_the_mode_says_what_becomes_of_strangers(
        self, direct: Direct, expected: Refusal | None
    ) -> None:
        assert refusal(said(DM), Access(direct=direct)) is expected

    def test_an_open_door_gives_nothing_in_groups_and_nobody_an_admin_s_rights(self) -> None:
        access = Access(direct=Direct.OPEN)

        assert authorize(said(DM), access) == LET_IN
        assert refusal(called(GROUP), access) is Refusal.CHAT

    def test_who_was_paired_is_let_in_for_direct_messages_of_that_account_alone(self) -> None:
        approved = {Person(platform="telegram", account="main", id="42")}

        assert refusal(said(DM), Access(), approved) is None
        assert refusal(said(replace(DM, account="support")), Access(), approved) is Refusal.UNPAIRED
        assert refusal(said(replace(DM, platform="slack")), Access(), approved) is Refusal.UNPAIRED
        assert refusal(called(GROUP), Access(), approved) is Refusal.CHAT

    def test_where_only_the_listed_may_write_a_pairing_of_old_counts_no_longer(self) -> None:
        approved = {Person(platform="telegram", account="main", id="42")}

        assert refusal(said(DM), Access(direct=Direct.LISTED), approved) is Refusal.STRANGER

    def test_an_entry_for_one_account_holds_for_that_account(self) -> None:
        access = Access(allow=(replace(ANN, account="support"),))

        assert refusal(said(replace(DM, account="support")), access) is None
        assert refusal(said(DM), access) is Refusal.UNPAIRED

    def test_an_admin_is_let_in_with_his_rights_and_gives_them_to_nobody(self) -> None:
        access = Access(allow=(Allowed(platform="telegram", person="7"),), admins=(ANN,))
        from_seven = replace(DM, user_id="7", chat_id="7")

        assert authorize(said(DM), access) == Decision(is_admin=True)
        assert authorize(said(from_seven), access) == LET_IN
        assert authorize(said(from_seven, forwarded=True), access) == LET_IN
        quoting = said(from_seven, reply_to=ReplyTo(message_id="1", text="/pair approve ABCDEFGH"))
        assert authorize(quoting, access) == LET_IN


class TestInChats:
    def test_a_chat_or_scope_that_is_allowed_lets_everybody_in_there_and_nobody_elsewhere(
        self,
    ) -> None:
        for entry in (OPS, Allowed(platform="telegram", scope="9")):
            access = Access(allow=(entry,))
            assert refusal(called(GROUP), access) is None
            assert refusal(called(DM), access) is Refusal.UNPAIRED
            assert (
                refusal(called(replace(DM, chat_id="-100", scope="9")), access) is Refusal.UNPAIRED
            )
            assert (
                refusal(called(replace(GROUP, chat_id="-200", scope=None)), access) is Refusal.CHAT
            )
            assert refusal(called(replace(GROUP, platform="discord")), access) is Refusal.CHAT

    def test_an_entry_that_names_nobody_lets_nobody_in(self) -> None:
        nameless = SessionSource(platform="telegram", chat_type=ChatType.GROUP)
        access = Access(allow=(Allowed(platform="telegram"),))

        assert refusal(called(nameless), access) is Refusal.CHAT
        assert refusal(called(replace(nameless, chat_type=ChatType.DM)), access) is Refusal.NAMELESS

    def test_somebody_without_an_id_may_speak_in_an_allowed_chat_and_is_never_an_admin(
        self,
    ) -> None:
        access = Access(allow=(OPS,), admins=(Allowed(platform="telegram"), ANN))

        assert authorize(called(replace(GROUP, user_id=None)), access) == LET_IN

    @pytest.mark.parametrize(
        ("heard", "expected"),
        [
            (said(GROUP), Refusal.UNADDRESSED),
            (called(GROUP), None),
            (said(GROUP, reply_to=ReplyTo(message_id="1", to_bot=True)), None),
            (said(GROUP, reply_to=ReplyTo(message_id="1")), Refusal.UNADDRESSED),
            (said(GROUP, "/new"), Refusal.UNADDRESSED),
            (said(GROUP, "/new", kind=MessageKind.COMMAND), Refusal.UNADDRESSED),
            (called(GROUP, "/new"), None),
            (said(GROUP, kind=MessageKind.EDIT), Refusal.UNADDRESSED),
            (said(GROUP, "nonce", kind=MessageKind.BUTTON), None),
            (said(GROUP, kind=MessageKind.REACTION), None),
            (said(GROUP, kind=MessageKind.DELETE), None),
        ],
        ids=lambda value: value.kind.value if isinstance(value, InboundMessage) else None,
    )
    def test_what_is_said_must_be_addressed_to_the_bot(
        self, heard: InboundMessage, expected: Refusal | None
    ) -> None:
        assert refusal(heard, Access(allow=(OPS,))) is expected

    def test_an_account_that_follows_no_thread_wants_an_address_each_time(self) -> None:
        in_thread = said(replace(GROUP, thread_id="7"))
        strict = Access(allow=(OPS,), called_each_time=frozenset({("telegram", "main")}))
        elsewhere = Access(allow=(OPS,), called_each_time=frozenset({("telegram", "support")}))

        assert authorize(in_thread, strict, takes_part=True).refusal is Refusal.UNADDRESSED
        assert (
            authorize(replace(in_thread, addressed_to_bot=True), strict, takes_part=True) == LET_IN
        )
        assert authorize(in_thread, elsewhere, takes_part=True) == LET_IN

    def test_in_a_thread_that_it_takes_part_in_the_bot_needs_no_address(self) -> None:
        in_thread = said(replace(GROUP, thread_id="7"))

        assert authorize(in_thread, Access(allow=(OPS,)), takes_part=True) == LET_IN
        assert authorize(in_thread, Access(), takes_part=True).refusal is Refusal.CHAT
        assert (
            authorize(in_thread, Access(allow=(OPS,), groups=Groups.OFF), takes_part=True).refusal
            is Refusal.OFF
        )

    def test_everything_or_nothing_may_be_answered(self) -> None:
        assert refusal(said(GROUP), Access(allow=(OPS,), groups=Groups.ALL)) is None
        assert refusal(called(GROUP), Access(allow=(OPS,), groups=Groups.OFF)) is Refusal.OFF

    def test_a_chat_may_have_a_mode_of_its_own_and_is_not_allowed_by_it(self) -> None:
        scope = Allowed(platform="telegram", scope="9")
        modes = (
            (OPS, Groups.ALL),
            (scope, Groups.OFF),
            (replace(scope, account="main"), Groups.OFF),
        )
        access = Access(allow=(scope,), modes=modes)

        assert refusal(said(GROUP), access) is None
        assert refusal(called(replace(GROUP, chat_id="-200")), access) is Refusal.OFF
        assert refusal(said(GROUP), replace(access, allow=())) is Refusal.CHAT
        for_account = replace(access, modes=(*modes, (replace(OPS, account="main"), Groups.OFF)))
        assert refusal(said(GROUP), for_account) is Refusal.OFF

    def test_a_wake_word_counts_as_an_address_in_the_person_s_own_words_at_their_beginning(
        self,
    ) -> None:
        access = Access(allow=(OPS,), wake_words=(re.compile("hey bot", re.IGNORECASE),))

        assert refusal(said(GROUP, "Hey Bot, what time is it?"), access) is None
        assert refusal(said(GROUP, "x" * 500 + "hey bot"), access) is Refusal.UNADDRESSED
        assert refusal(said(GROUP, "hey bot", forwarded=True), access) is Refusal.UNADDRESSED
        quoted = ReplyTo(message_id="1", text="hey bot")
        assert refusal(said(GROUP, "look", reply_to=quoted), access) is Refusal.UNADDRESSED


class TestOtherBots:
    BOT = Allowed(platform="telegram", person="42")

    @pytest.mark.parametrize("source", [DM, GROUP])
    def test_they_are_ignored_however_open_the_door_is(self, source: SessionSource) -> None:
        access = Access(allow=(ANN, OPS), admins=(ANN,), direct=Direct.OPEN, groups=Groups.ALL)
        approved = {Person(platform="telegram", account="main", id="42")}

        assert refusal(called(source, from_bot=True), access, approved) is Refusal.BOT

    def test_those_in_the_config_are_let_in_where_people_are_and_are_never_admins(self) -> None:
        access = Access(allow=(OPS,), admins=(ANN,), bots=(self.BOT,))

        assert authorize(called(GROUP, from_bot=True), access) == LET_IN
        assert authorize(said(DM, from_bot=True), access) == LET_IN
        assert refusal(said(GROUP, from_bot=True), access) is Refusal.UNADDRESSED
        assert refusal(called(replace(GROUP, chat_id="-2"), from_bot=True), access) is Refusal.CHAT

    def test_an_entry_for_a_bot_lets_no_person_in(self) -> None:
        assert refusal(said(DM), Access(bots=(self.BOT,))) is Refusal.UNPAIRED
