"""What a message, a turn and a command leave behind."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.at_work import policy_for
from tests.fakes import NOON, ScriptedAgent, assistant, dm, message, said, user
from turngate.gateway.commands.turn import last_question
from turngate.gateway.domain.ids import SessionId, SessionKey
from turngate.gateway.domain.messages import Attachment
from turngate.gateway.domain.session import (
    EndReason,
    ResetNotice,
    Session,
)
from turngate.gateway.domain.transcript import (
    Entry,
    Media,
    MediaType,
    Origin,
    Role,
    Text,
)
from turngate.gateway.rules.outcomes import (
    asked,
    broken,
    commanded,
    parts,
    words_before,
)
from turngate.gateway.stores.session_files import SessionFiles
from turngate.gateway.turns.agent_input import as_recorded

PHOTO = Attachment(
    type=MediaType.IMAGE,
    ref="file-id",
    path="/tmp/x.png",  # noqa: S108
    mime="image/png",
    name="x.png",  # noqa: RUF100, S108
)
NO_FILES = SessionFiles(Path("/no-files-here"))


def kept_photo(folder: Path) -> Attachment:
    """One whose bytes are there."""
    path = folder / "s_ann" / "in" / "photo"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"x")
    return replace(PHOTO, path=str(path))


def reset_session(reason: EndReason | None, *, had_activity: bool) -> Session:
    """One whose predecessor ended by itself."""
    notice = reason and ResetNotice(
        reason=reason, had_activity=had_activity, previous=SessionId("s")
    )
    return Session(
        id=SessionId("n"),
        key=SessionKey("k"),
        origin=dm(),
        started_at=NOON,
        last_interaction_at=NOON,
        updated_at=NOON,
        notice=notice,
    )


class TestAsked:
    def test_a_message_is_kept_with_its_sender_its_id_and_its_time(self) -> None:
        entry = asked(message("hello", id="m1"))

        assert (entry.role, entry.text, entry.sender, entry.message_id, entry.at) == (
            Role.USER,
            "hello",
            "42",
            "m1",
            NOON,
        )

    def test_files_are_kept_beside_the_words_and_without_words_alone(self) -> None:
        photo = Media(type=MediaType.IMAGE, path="/tmp/x.png", mime="image/png", name="x.png")  # noqa: S108

        assert asked(replace(message("look"), attachments=(PHOTO,))).content == (
            Text("look"),
            photo,
        )
        assert asked(replace(message(""), attachments=(PHOTO,))).content == (photo,)

    def test_a_message_without_anything_is_still_a_message(self) -> None:
        assert asked(message("")).content == (Text(""),)


class TestOurOwnWords:
    def test_a_command_and_its_answer_are_kept_as_such_and_the_answer_goes_back(self) -> None:
        entries, outgoing = commanded(message("/help", id="m1"), "Commands:", NOON)

        assert [(entry.role, entry.text, entry.origin) for entry in entries] == [
            (Role.USER, "/help", Origin.COMMAND),
            (Role.ASSISTANT, "Commands:", Origin.COMMAND),
        ]
        assert [(part.text, part.target, part.reply_to) for part in outgoing] == [
            ("Commands:", dm(), "m1")
        ]

    def test_parts_are_numbered_in_order(self) -> None:
        assert [(part.ordinal, part.text) for part in parts(message(), "a", "b")] == [
            (0, "a"),
            (1, "b"),
        ]

    @pytest.mark.parametrize(
        ("reason", "words"),
        [(EndReason.IDLE, "after a long silence"), (EndReason.DAILY, "with the day")],
    )
    def test_a_reset_is_told_with_its_reason_and_the_way_back(
        self, reason: EndReason, words: str
    ) -> None:
        (told,) = words_before(
            policy_for(ScriptedAgent()), reset_session(reason, had_activity=True)
        )

        assert words in told
        assert "/resume" in told

    def test_a_reset_that_took_nothing_is_not_told(self) -> None:
        assert (
            words_before(
                policy_for(ScriptedAgent()), reset_session(EndReason.IDLE, had_activity=False)
            )
            == []
        )
        assert (
            words_before(policy_for(ScriptedAgent()), reset_session(None, had_activity=False)) == []
        )

    def test_an_agent_that_is_no_longer_there_is_named(self) -> None:
        (told,) = words_before(
            policy_for(ScriptedAgent()),
            replace(reset_session(None, had_activity=False), agent="coder"),
        )

        assert told == "The agent coder is no longer there; main answers."

    def test_an_agent_that_is_no_longer_there_is_named_once(self) -> None:
        """Finding C14."""
        session = replace(reset_session(None, had_activity=False), agent="coder")
        (told,) = words_before(policy_for(ScriptedAgent()), session)
        notice = said(Role.ASSISTANT, told, origin=Origin.COMMAND)
        history = (user("hello"), notice, assistant("hi"))

        assert words_before(policy_for(ScriptedAgent()), session, history) == []

    def test_what_broke_here_is_told_without_details(self) -> None:
        outcome = broken(message(id="m1"), NOON)

        assert outcome.failure
        assert [part.reply_to for part in outcome.parts] == ["m1"]
        assert [entry.origin for entry in outcome.entries] == [Origin.COMMAND]


class TestHeard:
    def test_messages_are_heard_as_they_came(self) -> None:
        first, second = message("a", id="1"), message("b", id="2")

        assert as_recorded([asked(first), asked(second)], [first, second], NO_FILES) == [
            first,
            second,
        ]

    def test_a_question_that_is_asked_again_is_heard_with_its_own_words_and_files(
        self, tmp_path: Path
    ) -> None:
        photo = kept_photo(tmp_path)
        question = asked(replace(message("look", id="old"), attachments=(photo,)))
        command = message("/retry", id="new")

        (again,) = as_recorded([question], [command], SessionFiles(tmp_path))

        assert (again.id, again.text, again.source) == ("old", "look", command.source)
        assert [each.path for each in again.attachments] == [photo.path]

    def test_after_a_crash_the_transcript_knows_where_the_files_are(self, tmp_path: Path) -> None:
        photo = kept_photo(tmp_path)
        stored = replace(message("look"), attachments=(replace(photo, path=None),))

        (again,) = as_recorded(
            [asked(replace(stored, attachments=(photo,)))], [stored], SessionFiles(tmp_path)
        )

        assert (again.id, again.text) == (stored.id, "look")
        assert [each.path for each in again.attachments] == [photo.path]

    def test_a_file_that_is_gone_is_named_and_not_handed_over(self) -> None:
        question = asked(replace(message("look", id="old"), attachments=(PHOTO,)))

        (again,) = as_recorded([question], [message("/retry")], NO_FILES)

        assert again.text == "look\n\n[file x.png is no longer here]"
        assert again.attachments == ()

    def test_a_path_that_no_file_of_ours_has_is_not_handed_over(self, tmp_path: Path) -> None:
        """A transcript may have been imported."""
        secret = tmp_path / "secret"
        secret.write_bytes(b"x")
        question = asked(
            replace(message("look", id="old"), attachments=(replace(PHOTO, path=str(secret)),))
        )

        (again,) = as_recorded([question], [message("/retry")], SessionFiles(tmp_path / "files"))

        assert again.attachments == ()

    def test_without_an_entry_the_messages_themselves_are_heard(self) -> None:
        assert as_recorded([], [message("a")], NO_FILES) == [message("a")]


class TestLastQuestion:
    def test_it_is_what_the_last_turn_answered(self) -> None:
        one, two, three = user("one"), user("two"), user("three")

        assert last_question([one, assistant("x"), two, three, assistant("y")]) == (two, three)

    def test_commands_after_it_are_passed_over(self) -> None:
        question = user("one")
        command = said(Role.USER, "/help", origin=Origin.COMMAND)

        assert last_question([question, assistant("x"), command]) == (question,)

    def test_a_failed_question_before_it_is_another_one(self) -> None:
        one, two = user("one"), user("two")
        notice = said(Role.ASSISTANT, "There is no answer", origin=Origin.COMMAND)

        assert last_question([one, notice, two, assistant("y")]) == (two,)

    @pytest.mark.parametrize(
        "entries", [[], [assistant("x")], [said(Role.USER, "/help", origin=Origin.COMMAND)]]
    )
    def test_there_may_be_none(self, entries: list[Entry]) -> None:
        assert last_question(entries) == ()
