"""What people read of an agent's text: whom it mentions, and names instead of ids."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.fakes import NOON, dm, message, said, user
from tests.full_length import examples
from turngate.gateway.domain.transcript import Entry, Origin, Role, Text
from turngate.gateway.rules.outgoing_text import OutgoingText
from turngate.gateway.rules.redaction import Redactor
from turngate.gateway.rules.stream_restorer import StreamRestorer

KEY = bytes(range(32))
ANN, CARLA, EVE = "7310000001", "7310000002", "7310000009"
HIDE = Redactor(KEY, "telegram")
ANN_SHOWN, CARLA_SHOWN, EVE_SHOWN = map(HIDE.user, (ANN, CARLA, EVE))
NUMBER = HIDE.redact("+4915123456789")


def outgoing(redactor: Redactor | None = HIDE) -> OutgoingText:
    out = OutgoingText(redactor)
    out.know_source(replace(dm(ANN), user_name="Ann"))
    out.know_history([replace(user("blue"), sender=CARLA, sender_name="Carla")])
    return out


class TestMentions:
    def test_a_pseudonym_of_this_conversation_mentions(self) -> None:
        assert outgoing().for_people(f"hey <@{CARLA_SHOWN}>!") == f"hey <@{CARLA}>!"
        assert outgoing().for_people(f"<@!{CARLA_SHOWN}|c>") == f"<@{CARLA}>"

    @pytest.mark.parametrize(
        "written",
        [
            "<@890000000000000009>",
            "<@!890000000000000009>",
            "<@U0EVE0009>",
            "<@U0EVE0009|eve>",
            f"<@{ANN}>",
            f"<@{EVE_SHOWN}>",
            "<@user_0123456789abcdef>",
            "`<@890000000000000009>`",
            "<<@890000000000000009>>",
        ],
    )
    def test_anything_else_mentions_nobody(self, written: str) -> None:
        """Finding C2."""
        told = outgoing().for_people(f"hey {written}")

        assert "<@\u2060" in told
        assert "<@" not in told.replace("<@\u2060", "")

    def test_what_a_pseudonym_stands_for_mentions_nobody(self) -> None:
        """Finding C2: an address may hold the form of a mention."""
        hide = Redactor(KEY, "discord", emails=True)
        shown = hide.redact('"<@890000000000000009>"@example.com')

        assert "<@8" not in OutgoingText(hide).for_people(f"I wrote to {shown}")

    @pytest.mark.parametrize(
        ("entry", "may"),
        [
            (user(f"ask <@{EVE}>"), True),
            (replace(user(f"ask <@{EVE}>"), forwarded=True), False),
            (said(Role.ASSISTANT, f"ask <@{EVE}>"), False),
            (said(Role.USER, f"ask <@{EVE}>", origin=Origin.SUMMARY), False),
            (Entry(role=Role.TOOL, content=(Text(f"<@{EVE}>"),), at=NOON), False),
        ],
    )
    def test_people_of_the_chat_decide_who_else_may_be_mentioned(
        self, entry: Entry, *, may: bool
    ) -> None:
        """Finding C2: a file or page that the agent reads decides nothing."""
        out = outgoing()
        out.know_history([entry])

        assert (f"<@{EVE}>" in out.for_people(f"<@{EVE_SHOWN}>")) is may

    def test_a_forwarded_message_mentions_nobody(self) -> None:
        out = outgoing()
        out.know_messages([replace(message(f"<@{EVE}>"), forwarded=True)])

        assert f"<@{EVE}>" not in out.for_people(f"<@{EVE_SHOWN}>")

    def test_without_redaction_ids_of_this_conversation_mention(self) -> None:
        out = outgoing(None)

        assert out.for_people(f"<@{CARLA}> <@{EVE}>") == f"<@{CARLA}> <@\u2060{EVE}>"
        assert out.for_people(f'[{CARLA} "Carla"] hi') == "[Carla] hi"


class TestNames:
    @pytest.mark.parametrize(
        ("written", "read"),
        [
            ("{} likes blue", "Carla likes blue"),
            ("[{}] likes blue", "[Carla] likes blue"),
            ('[{} "Carla \\u005d"] likes blue', "[Carla] likes blue"),
            ("**{}**: (_{}_)", "**Carla**: (_Carla_)"),
            ("卡{}：", "卡Carla："),
            ("@{}", "@" + "Carla"),
            ("https://a.example/{}/7", f"https://a.example/{CARLA}/7"),
            ('{{"id": "{}"}}', f'{{"id": "{CARLA}"}}'),
            ("tg://user?id={}", f"tg://user?id={CARLA}"),
        ],
    )
    def test_people_read_names_where_no_mention_is(self, written: str, read: str) -> None:
        """Finding E10."""
        assert (
            outgoing().for_people(
                written.replace("{}", CARLA_SHOWN).replace("{{", "{").replace("}}", "}")
            )
            == read
        )

    def test_a_number_is_a_number(self) -> None:
        assert outgoing().for_people(f"call {NUMBER}") == "call +4915123456789"

    @pytest.mark.parametrize(
        "name", ["<@890000000000000009>", "[x](http://evil.example)", "`a`", "@everyone", "**"]
    )
    def test_a_name_formats_and_mentions_nothing(self, name: str) -> None:
        out = OutgoingText(HIDE)
        out.know_source(replace(dm(ANN), user_name=name))

        told = out.for_people(f"{ANN_SHOWN} said so")

        assert not set("<>[](){}`*@#|/") & set(told)

    def test_the_newest_name_counts(self) -> None:
        out = outgoing()
        out.know_source(replace(dm(CARLA), user_name="Carla Maria"))

        assert out.for_people(CARLA_SHOWN) == "Carla Maria"


PIECES = st.lists(
    st.sampled_from(
        [
            f"<@{CARLA_SHOWN}>",
            f"<@{EVE}>",
            f"<@!{CARLA_SHOWN}|c>",
            f'[{CARLA_SHOWN} "Carla \\u005d"]',
            f"[{CARLA_SHOWN}]",
            CARLA_SHOWN,
            NUMBER,
            "<@",
            "<",
            "[",
            "]",
            ">",
            "|",
            '"',
            '\\"',
            " ",
            "\n",
            "\\n",
            "/",
            "a",
            "é",
            "@",
        ]
    )
    | st.text(max_size=4),
    max_size=10,
).map("".join)


@settings(max_examples=examples(600), deadline=None)
@given(text=PIECES, cuts=st.lists(st.integers(0, 300), max_size=30))
@example(text=f"<@{EVE}>", cuts=list(range(30)))
@example(text="[" + "a" * 90 + f"<@{EVE}>", cuts=list(range(200)))
@example(text="<@" + "a" * 90 + f"<@{EVE}>", cuts=list(range(200)))
def test_a_stream_reads_like_the_whole_text_however_it_is_cut(text: str, cuts: list[int]) -> None:
    """Finding C2: a preview mentions nobody either."""
    out = outgoing()
    at = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    stream = StreamRestorer(out.for_people)

    pieces = [stream.feed(text[start:end]) for start, end in pairwise(at)]

    assert "".join(pieces) + stream.rest() == out.for_people(text)


@pytest.mark.parametrize("unit", ["<@", "[", '[a "', "<@a|", CARLA_SHOWN, "<", '"\\'])
def test_a_long_text_is_written_once(unit: str) -> None:
    out = outgoing()
    text = unit * (200_000 // len(unit))
    stream = StreamRestorer(out.for_people)

    # A fraction of a second; a pattern that goes back over the text would not end here.
    out.for_people(text)
    for start in range(0, len(text), 1000):
        stream.feed(text[start : start + 1000])
