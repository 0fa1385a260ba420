"""What an agent may not see in the clear, how it is named instead, and the way back."""

from __future__ import annotations

import json
import re

import pytest

from tests.fakes import NOON, assistant, user
from turngate.gateway.domain.messages import ChatType, SessionSource
from turngate.gateway.domain.transcript import (
    Entry,
    Media,
    MediaType,
    Reasoning,
    Role,
    Text,
    ToolCall,
)
from turngate.gateway.rules.redaction import Redactor, new_key

KEY = bytes(range(32))
MEMBER = "123456789012345678"
GROUP_ID = "-1001234567890"
GROUP = SessionSource(
    platform="telegram",
    chat_type=ChatType.GROUP,
    chat_id=GROUP_ID,
    chat_id_alt="internal-77",
    user_id="987654321",
    user_id_alt="uuid-1234",
    thread_id="1700000000.0001",
    scope="T0123ABCD",
    chat_name="Ops of 987654321",
    user_name="Ann +49 151 1234567",
    chat_topic="ask <@42>",
)


def redactor(platform: str = "telegram", *, emails: bool = False) -> Redactor:
    return Redactor(KEY, platform, emails=emails)


def told(*people: str) -> Redactor:
    hide = redactor()
    for person in people:
        hide.user(person)
    return hide


class TestPseudonyms:
    def test_a_pseudonym_is_the_kind_and_sixteen_hex_digits(self) -> None:
        hide = redactor()

        assert re.fullmatch("user_[0-9a-f]{16}", hide.user("42"))
        assert re.fullmatch("chat_[0-9a-f]{16}", hide.chat("42"))
        assert re.fullmatch("thread_[0-9a-f]{16}", hide.thread("42"))
        assert re.fullmatch("<@&role_[0-9a-f]{16}>", hide.redact("<@&42>"))
        assert re.fullmatch("phone_[0-9a-f]{16}", hide.redact("+4915112345678"))
        assert re.fullmatch("email_[0-9a-f]{16}", redactor(emails=True).redact("ann@example.com"))

    def test_a_pseudonym_is_the_same_in_every_conversation_of_an_installation(self) -> None:
        # The value is written down: a change of the construction would orphan what agents remember.
        assert redactor().user("42") == redactor().user("42") == "user_8863348d5e3687eb"

    def test_another_key_gives_another_pseudonym(self) -> None:
        assert redactor().user("42") != Redactor(new_key(), "telegram").user("42")

    def test_kinds_are_apart(self) -> None:
        hide = redactor()

        digits = {
            shown.partition("_")[2]
            for shown in (hide.user("42"), hide.chat("42"), hide.thread("42"))
        }

        assert len(digits) == 3

    def test_platforms_are_apart(self) -> None:
        assert redactor("telegram").user("42") != redactor("discord").user("42")

    def test_parts_cannot_run_into_each_other(self) -> None:
        assert redactor("a").user("bc") != redactor("ab").user("c")
        assert redactor("a\0").user("b") != redactor("a").user("\0b")

    def test_a_new_key_has_thirty_two_random_bytes(self) -> None:
        assert len(new_key()) == 32
        assert new_key() != new_key()

    @pytest.mark.parametrize("length", [0, 31])
    def test_a_short_key_is_refused(self, length: int) -> None:
        with pytest.raises(ValueError, match=f"32 bytes or more, not {length}"):
            Redactor(bytes(length), "telegram")

    def test_what_was_given_out_is_known(self) -> None:
        hide = redactor()

        shown = hide.user("42")

        assert hide.known == {shown: "42"}


class TestMentions:
    @pytest.mark.parametrize(
        ("written", "shown"),
        [
            ("<@1>", "<@user_H>"),
            ("<@!1>", "<@!user_H>"),
            ("<@&1>", "<@&role_H>"),
            ("<#1>", "<#chat_H>"),
            ("<@U1>", "<@user_H>"),
            ("<@U1|ann>", "<@user_H|ann>"),
            ("<#C1|general>", "<#chat_H|general>"),
            ("<!subteam^S1>", "<!subteam^role_H>"),
            ("<!subteam^S1|@ops>", "<!subteam^role_H|@ops>"),
            ("tg://user?id=1", "tg://user?id=user_H"),
            ("[Ann](tg://user?id=1)", "[Ann](tg://user?id=user_H)"),
            ("hi<@1>, hi <@2>!", "hi<@user_H>, hi <@user_H>!"),
        ],
    )
    def test_the_id_is_hidden_known_or_not_and_the_shape_stays(
        self, written: str, shown: str
    ) -> None:
        hide = redactor()

        hidden = hide.redact(written)

        assert re.sub("_[0-9a-f]{16}", "_H", hidden) == shown
        assert hide.restore(hidden) == written

    def test_a_mention_and_the_sender_have_one_pseudonym(self) -> None:
        hide = redactor()

        assert hide.redact("<@42>") == f"<@{hide.user('42')}>"

    @pytest.mark.parametrize(
        "text",
        [
            "<!here>",
            "<!channel>",
            "<https://a.example>",
            "<:smile:123456>",
            "<t:1618953630:R>",
            "<@>",
            "<@ 1>",
        ],
    )
    def test_what_mentions_nobody_stays(self, text: str) -> None:
        assert redactor().redact(text) == text

    def test_a_label_is_text_like_any_other(self) -> None:
        assert "+4915112345678" not in redactor().redact("<@U1|+4915112345678>")

    def test_a_mention_tells_nothing_about_the_rest_of_the_text(self) -> None:
        assert redactor().redact("<@everyone> means everyone").endswith("> means everyone")

    def test_the_agents_mention_reaches_the_person(self) -> None:
        hide = redactor()
        hide.redact("<@42> please")

        assert hide.restore(f"Done, <@{hide.user('42')}>.") == "Done, <@42>."


class TestToldIds:
    @pytest.mark.parametrize(
        "text",
        [
            "{}",
            "id {}, yes",
            "({})",
            "_{}_",
            "`{}`",
            "id={}",
            "用户{}你好",
            "https://a.example/{}/7",
            "{}.",
            '{{"id": {}}}',
        ],
    )
    @pytest.mark.parametrize(
        "known", ["123456", MEMBER, GROUP_ID, "+15551234567", "U0123ABCD", "UABCDEFGH", "a-b_c=="]
    )
    def test_a_told_id_is_hidden_wherever_it_is_a_token(self, text: str, known: str) -> None:
        hide = told(known)

        hidden = hide.redact(text.format(known))

        assert hidden == text.format(hide.user(known))
        assert hide.restore(hidden) == text.format(known)

    def test_nobody_is_hidden_before_he_is_told(self) -> None:
        assert redactor().redact(MEMBER) == MEMBER

    @pytest.mark.parametrize("text", [f"1{MEMBER}", f"{MEMBER}1"])
    def test_a_part_of_a_longer_number_is_another_number(self, text: str) -> None:
        assert told(MEMBER).redact(text) == text

    def test_a_short_id_is_hidden_in_mentions_and_targets_only(self) -> None:
        hide = told("42")

        hidden = hide.redact("the answer is 42, <@42>, telegram:42")

        assert hidden == f"the answer is 42, <@{hide.user('42')}>, telegram:{hide.chat('42')}"

    def test_an_id_that_is_a_plain_word_is_not_taken_out_of_sentences(self) -> None:
        assert told("holiday").redact("my holiday") == "my holiday"

    def test_a_signed_id_is_found_behind_a_word_too(self) -> None:
        hide = redactor()
        hide.chat(GROUP_ID)

        hidden = hide.redact(f"chat{GROUP_ID}")

        assert GROUP_ID[1:] not in hidden
        assert hide.restore(hidden) == f"chat{GROUP_ID}"

    def test_the_longer_of_two_ids_wins(self) -> None:
        hide = told("123456", "123456-789")

        assert hide.redact("123456-789") == hide.user("123456-789")

    def test_an_id_right_after_an_escape_of_json_text_is_a_token(self) -> None:
        hide = told(MEMBER)

        hidden = hide.redact(rf'"a\n{MEMBER}\u00e9{MEMBER}"')

        assert MEMBER not in hidden
        assert hide.restore(hidden) == rf'"a\n{MEMBER}\u00e9{MEMBER}"'

    def test_an_id_told_later_is_found_too(self) -> None:
        hide = told(MEMBER)
        hide.redact("a text in between")
        hide.user("7654321")

        assert hide.redact("7654321") == hide.user("7654321")

    def test_an_id_inside_something_like_a_pseudonym_is_found(self) -> None:
        hide = told("1234567890123456")

        assert hide.redact("user_1234567890123456") == f"user_{hide.user('1234567890123456')}"


PHONES = [
    "+4915112345678",
    "+49 151 12345678",
    "+49 (0) 151 12345678",
    "+49 (0)151/12345678",
    "+49(0)15112345678",
    "+49-151-1234-5678",
    "+49.151.12345678",
    "+49\u00a0151\u00a012345678",
    "+49\u202f151\u201112345678",
    "+1 (555) 123-4567",
    "+(1) 555 123 4567",
    "+33 6 00 00 12 34",
    "+1 212 555 0012",
    "+1 555 123 4567x89",
    "+12345678",
    "+123456789012345",
    "0049 151 12345678",
    "004915112345678",
    "00 49 (0) 151 12345678",
    "＋４９１５１１２３４５６７８",
    "＋４９　１５１　１２３４５６７８",
    "００４９１５１１２３４５６７８",
    "+٤٩١٥١١٢٣٤٥٦٧٨",
]

NO_PHONES = [
    "2026-05-04",
    "04.05.2026",
    "2026-05-04T12:00:00+0200",
    "2026-05-04 12:00:00 +0200",
    "at 10:00 15.01.2026",
    "9,00 2026-01-15",
    "0000-00-00 00:00:00",
    "order 1234567890",
    "order 000123456789",
    "#0012345678",
    "ORD-0012345678",
    "v1.0.0+20130313144700",
    "1.0.0-rc+20130313144700",
    "3.14159265358979",
    "12345678",
    "015112345678",
    "+1,234.50",
    "+1.234.567,00 €",
    "+1234567",
    "001234567",
    "+1234567890123456",
    "001234567890123456",
    "tel:1234567",
    "tel:1234567890123456",
    "hotel:12345678",
    "1+12345678",
    "x + 12345678",
    "192.168.100.200",
    "00112233445566778899aabbccddeeff",
    "4111 1111 1111 1111",
]


class TestPhoneNumbers:
    @pytest.mark.parametrize(
        "text", ["{}", "call {}.", "({})", "**{}**, please", "电话{}谢谢", "a\n{}\nb", r"a\n{}\nb"]
    )
    @pytest.mark.parametrize("number", PHONES)
    def test_a_number_is_hidden_as_it_is_written(self, number: str, text: str) -> None:
        hide = redactor()

        hidden = hide.redact(text.format(number))

        assert re.fullmatch(
            "phone_[0-9a-f]{16}",
            hidden[len(text.split("{}")[0]) : -len(text.split("{}")[1]) or None],
        )
        assert hide.restore(hidden) == text.format(number)

    @pytest.mark.parametrize("number", NO_PHONES)
    def test_dates_orders_versions_and_prices_survive(self, number: str) -> None:
        assert redactor().redact(f"see {number} there") == f"see {number} there"

    @pytest.mark.parametrize(
        "number", ["030 12345678", "+49 30 12345678", "0049-30-12345678", "03012345678"]
    )
    @pytest.mark.parametrize("lead", ["tel:", "Tel: ", "[call](tel:"])
    def test_a_number_after_tel_needs_no_prefix_and_the_tel_stays(
        self, lead: str, number: str
    ) -> None:
        hide = redactor()

        hidden = hide.redact(f"{lead}{number})")

        assert re.fullmatch(re.escape(lead) + r"phone_[0-9a-f]{16}\)", hidden)
        assert hide.restore(hidden) == f"{lead}{number})"

    def test_a_second_form_of_a_number_is_another_pseudonym(self) -> None:
        assert redactor().redact("+4915112345678") != redactor().redact("+49 15112345678")

    def test_groups_are_taken_up_to_fifteen_digits_and_never_cut(self) -> None:
        assert redactor().redact("+49 151 12345678 1234").endswith(" 1234")
        assert " 12" not in redactor().redact("+49 151 12345678 12")

    @pytest.mark.parametrize("gap", [" ", ", ", " / ", "\n", "; "])
    @pytest.mark.parametrize("second", ["0049 151 7654321", "+49 151 7654321"])
    def test_two_numbers_in_a_row_are_two(self, gap: str, second: str) -> None:
        hidden = redactor().redact(f"+49 30 1234{gap}{second}")

        assert re.fullmatch(f"phone_[0-9a-f]{{16}}{gap}phone_[0-9a-f]{{16}}", hidden)

    def test_the_user_gets_the_number_he_asked_about(self) -> None:
        hide = redactor()
        number = hide.redact("format 0049 151 12345678").removeprefix("format ")

        assert hide.restore(f"Here: **{number}**") == "Here: **0049 151 12345678**"


class TestEmails:
    @pytest.mark.parametrize(
        "address",
        [
            "ann@example.com",
            "a.b+c_d%e-f@mail.example.co.uk",
            "müller@exämple.de",
            "+4915112345678@sms.example",
            "a@b.xn--p1ai",
        ],
    )
    @pytest.mark.parametrize("text", ["{}", "to {}.", "<mailto:{}|{}>", "邮件{}谢谢", "({}), or"])
    def test_addresses_are_hidden_when_asked(self, text: str, address: str) -> None:
        hide = redactor(emails=True)

        hidden = hide.redact(text.replace("{}", address))

        assert re.sub("email_[0-9a-f]{16}", "{}", hidden) == text
        assert hide.restore(hidden) == text.replace("{}", address)

    def test_addresses_stay_when_not_asked(self) -> None:
        assert redactor().redact("ann@example.com") == "ann@example.com"

    @pytest.mark.parametrize(
        "text", ["react@18.2.0", "@ann", "a@b", "foo@", "@example.com", "x @ y.example"]
    )
    def test_versions_and_handles_are_no_addresses(self, text: str) -> None:
        assert redactor(emails=True).redact(text) == text


class TestTargets:
    @pytest.mark.parametrize("target", ["origin", "local", "telegram", ""])
    def test_a_target_without_an_id_stays(self, target: str) -> None:
        assert redactor().target(target) == target

    @pytest.mark.parametrize(
        ("target", "shown"),
        [
            ("telegram:-100123", "telegram:chat_H"),
            ("telegram:-100123:7", "telegram:chat_H:thread_H"),
            ("telegram/support:-100123", "telegram/support:chat_H"),
            ("slack/work:C1:1700000000.0001", "slack/work:chat_H:thread_H"),
            ("telegram:", "telegram:"),
        ],
    )
    def test_the_ids_are_hidden_and_platform_and_account_stay(
        self, target: str, shown: str
    ) -> None:
        hide = redactor()

        hidden = hide.target(target)

        assert re.sub("_[0-9a-f]{16}", "_H", hidden) == shown
        assert hide.restore(hidden) == target

    def test_a_chat_has_one_pseudonym_per_platform_whoever_asks(self) -> None:
        assert (
            redactor("discord").target("telegram:-100123")
            == f"telegram:{redactor().chat('-100123')}"
        )
        assert redactor("discord").chat("-100123", platform="telegram") == redactor().chat(
            "-100123"
        )

    def test_an_id_with_a_colon_is_one_id_once_it_was_told(self) -> None:
        hide = redactor("signal")
        hide.chat("group:abc")

        assert hide.target("signal:group:abc") == f"signal:{hide.chat('group:abc')}"

    def test_a_hidden_target_stays_hidden_as_it_is(self) -> None:
        hide = redactor()
        hidden = hide.target("telegram:-100123:7")

        assert hide.target(hidden) == hidden

    def test_a_target_in_a_text_is_hidden_known_or_not(self) -> None:
        hide = redactor()

        hidden = hide.redact('send to "telegram/support:-1:2", then telegram:5.')

        assert re.sub("_[0-9a-f]{16}", "_H", hidden) == (
            'send to "telegram/support:chat_H:thread_H", then telegram:chat_H.'
        )
        assert hide.restore(hidden) == 'send to "telegram/support:-1:2", then telegram:5.'

    def test_a_target_on_another_platform_is_hidden_in_texts_once_that_was_told(self) -> None:
        hide = redactor()
        hide.target("discord:77")

        assert hide.redact("discord:78") == f"discord:{redactor('discord').chat('78')}"

    @pytest.mark.parametrize(
        "text", ["telegram: 5", "telegram:hello", "telegram:chat:5", "xtelegram:5", "telegram"]
    )
    def test_a_platform_and_a_colon_are_not_yet_a_target(self, text: str) -> None:
        assert redactor().redact(text) == text

    def test_a_target_in_a_text_tells_nothing(self) -> None:
        hide = redactor()
        hide.redact("telegram:1234567")

        assert hide.redact("1234567") == "1234567"


class TestSources:
    def test_no_id_is_left_and_the_rest_stays(self) -> None:
        hide = redactor()

        shown = hide.source(GROUP)

        assert shown == SessionSource(
            platform="telegram",
            chat_type=ChatType.GROUP,
            chat_id=hide.chat(GROUP_ID),
            chat_id_alt=hide.chat("internal-77"),
            user_id=hide.user("987654321"),
            user_id_alt=hide.user("uuid-1234"),
            thread_id=hide.thread("1700000000.0001"),
            scope=hide.chat("T0123ABCD"),
            chat_name=f"Ops of {hide.user('987654321')}",
            user_name=f"Ann {hide.redact('+49 151 1234567')}",
            chat_topic=f"ask <@{hide.user('42')}>",
        )

    def test_what_a_source_does_not_have_stays_missing(self) -> None:
        empty = SessionSource(platform="telegram")

        assert redactor().source(empty) == empty

    @pytest.mark.parametrize(
        "known", [GROUP_ID, "internal-77", "987654321", "uuid-1234", "1700000000.0001", "T0123ABCD"]
    )
    def test_every_id_of_a_known_source_is_found_in_texts(self, known: str) -> None:
        hide = redactor()

        hide.know_source(GROUP)

        assert known not in hide.redact(f"it is {known}.")

    def test_a_person_comes_before_a_chat_of_the_same_id(self) -> None:
        hide = redactor()

        hide.know_source(
            SessionSource(platform="telegram", chat_id="123456789", user_id="123456789")
        )

        assert hide.redact("123456789") == hide.user("123456789")


class TestHistory:
    def test_words_calls_results_thoughts_and_file_names_are_hidden(self) -> None:
        hide = told(MEMBER)
        number = hide.redact("+4915112345678")
        entry = Entry(
            role=Role.TOOL,
            content=(
                Text(f"found {MEMBER}"),
                Media(type=MediaType.FILE, path="/f/1", name="+4915112345678.pdf"),
            ),
            at=NOON,
            sender="42",
            message_id="777",
            tool_calls=(ToolCall(id="c1", name="look", arguments='{"q": "+4915112345678"}'),),
            tool_call_id="c1",
            reasoning=Reasoning(text=f"who is {MEMBER}?", signature="s"),
        )

        shown = hide.entry(entry)

        assert shown == Entry(
            role=Role.TOOL,
            content=(
                Text(f"found {hide.user(MEMBER)}"),
                Media(type=MediaType.FILE, path="/f/1", name=f"{number}.pdf"),
            ),
            at=NOON,
            sender=hide.user("42"),
            message_id=None,
            tool_calls=(ToolCall(id="c1", name="look", arguments=f'{{"q": "{number}"}}'),),
            tool_call_id="c1",
            reasoning=Reasoning(text=f"who is {hide.user(MEMBER)}?", signature="s"),
        )

    def test_a_sender_is_hidden_in_what_was_said_before_he_wrote(self) -> None:
        hide = redactor()
        before = user(f"ask {MEMBER}")
        own = Entry(role=Role.USER, content=(Text("me?"),), at=NOON, sender=MEMBER)

        shown = hide.history([before, own, assistant("yes")])

        assert [entry.text for entry in shown] == [f"ask {hide.user(MEMBER)}", "me?", "yes"]

    def test_an_entry_without_anything_sensitive_stays(self) -> None:
        assert redactor().entry(user("hello")) == user("hello")

    def test_arguments_stay_json_when_an_id_is_a_number(self) -> None:
        hide = redactor()
        hide.chat(GROUP_ID)
        call = ToolCall(
            id="c1",
            name="send",
            arguments=f'{{"to": [{GROUP_ID}, 5, true, null], "{GROUP_ID}": 1.5}}',
        )

        shown = hide.entry(Entry(role=Role.ASSISTANT, content=(), at=NOON, tool_calls=(call,)))

        assert json.loads(shown.tool_calls[0].arguments) == {
            "to": [hide.chat(GROUP_ID), 5, True, None],
            hide.chat(GROUP_ID): 1.5,
        }

    @pytest.mark.parametrize(
        "arguments",
        [
            '{"q":\n  "\\u002b49 151 12345678"}',
            '{"q": "x\\n+4915112345678"}',
            '{"q": "+4915112345678',
            "[" * 9999 + "+4915112345678",
        ],
    )
    def test_no_way_of_writing_arguments_hides_a_number_from_us(self, arguments: str) -> None:
        hide = redactor()
        call = ToolCall(id="c1", name="send", arguments=arguments)

        shown = hide.entry(Entry(role=Role.ASSISTANT, content=(), at=NOON, tool_calls=(call,)))

        assert "phone_" in shown.tool_calls[0].arguments
        assert "12345678" not in shown.tool_calls[0].arguments

    def test_harmless_arguments_stay_as_the_model_wrote_them(self) -> None:
        call = ToolCall(id="c1", name="send", arguments='{ "q" :\t"\\u00e9" , "n": 1e3 }')

        shown = redactor().entry(
            Entry(role=Role.ASSISTANT, content=(), at=NOON, tool_calls=(call,))
        )

        assert shown.tool_calls == (call,)


class TestTheWayBack:
    def test_every_pseudonym_is_turned_back_and_nothing_else(self) -> None:
        hide = redactor()
        person, chat, thread = hide.user("42"), hide.chat(GROUP_ID), hide.thread("7")

        text = (
            f"\t{person}: <#{chat}>\r\n telegram:{chat}:{thread} _{person}_ \0 \ud800 "
            "user_ffffffffffffffff"
        )

        assert hide.restore(text) == (
            f"\t42: <#{GROUP_ID}>\r\n telegram:{GROUP_ID}:7 _42_ \0 \ud800 user_ffffffffffffffff"
        )

    @pytest.mark.parametrize("text", ["x{}", "{}0", "{}x", "9{}"])
    def test_a_pseudonym_inside_a_longer_token_is_none(self, text: str) -> None:
        hide = redactor()

        assert hide.restore(text.format(hide.user("42"))) == text.format(hide.user("42"))

    def test_a_pseudonym_in_capitals_is_none(self) -> None:
        hide = redactor()

        assert hide.restore(hide.user("42").upper()) == hide.user("42").upper()

    def test_a_pseudonym_of_another_conversation_stays(self) -> None:
        elsewhere = redactor().user("42")

        assert redactor().restore(elsewhere) == elsewhere
        assert redactor().redact(elsewhere) == elsewhere

    def test_a_pseudonym_of_an_earlier_turn_is_turned_back(self) -> None:
        earlier = redactor()
        earlier.redact("<@42> +4915112345678")

        now = Redactor(KEY, "telegram", known=earlier.known)

        assert now.restore(f"{earlier.user('42')}") == "42"
        assert now.known == earlier.known

    def test_what_is_turned_back_is_not_looked_at_again(self) -> None:
        hide = redactor()
        inner = hide.user("42")
        outer = Redactor(KEY, "telegram", known={**hide.known, "user_00000000000000aa": inner})

        assert outer.restore("user_00000000000000aa") == inner

    def test_what_is_hidden_is_not_hidden_again(self) -> None:
        hide = redactor(emails=True)
        hide.know_source(GROUP)
        text = (
            f"<@42> tg://user?id=5 {GROUP_ID} telegram:5:6 tel:030 12345678 +4915112345678 "
            "ann@example.com"
        )
        hidden = hide.redact(text)

        assert hide.redact(hidden) == hidden

    def test_a_pseudonym_that_looks_like_a_phone_number_is_not_hidden_again(self) -> None:
        hide = Redactor(KEY, "telegram", known={"user_0049151123456789": "42"})

        assert hide.redact("user_0049151123456789") == "user_0049151123456789"


class TestHostileTexts:
    @pytest.mark.parametrize(
        "text", ["\0", "\ud800", "<@\ud800>", "+49\0151", "\udfff+4915112345678\ud800", ""]
    )
    def test_broken_characters_raise_nothing(self, text: str) -> None:
        hide = redactor(emails=True)

        assert hide.restore(hide.redact(text)) == text

    def test_an_id_may_be_a_lone_surrogate(self) -> None:
        assert redactor().user("\ud800") != redactor().user("\ud801")

    @pytest.mark.parametrize(
        "unit",
        [
            "a",
            "+",
            "0",
            "<",
            "@",
            "7",
            "<@",
            "<@a",
            "a@",
            "a@a.",
            "a.",
            "-",
            "+1 ",
            "00 1",
            "+1(0)",
            "tel:",
            "telegram:",
            "telegram:a.",
            "user_",
            "\\n",
        ],
    )
    def test_a_text_of_a_megabyte_is_read_once(self, unit: str) -> None:
        hide = redactor(emails=True)
        hide.know_source(GROUP)
        text = unit * (1_000_000 // len(unit))

        # A fraction of a second; a pattern that goes back over the text would not come to an end
        # here.
        assert hide.restore(hide.redact(text)) == text

    def test_a_thousand_known_people_are_found_in_one_reading(self) -> None:
        people = [str(100_000_000 + number) for number in range(1000)]
        hide = told(*people)
        text = " ".join(people)

        hidden = hide.redact(text)

        assert hidden == " ".join(hide.user(person) for person in people)
