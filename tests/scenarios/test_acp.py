"""Agents that speak the Agent Client Protocol, each a real process at the other end of a pipe."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from tests.acp_rig import AcpRig, heard, is_running, words
from tests.fakes import assistant, message, user
from turngate.gateway.agents import load_agent
from turngate.gateway.agents.acp import agent as acp_agent
from turngate.gateway.agents.acp.agent import AcpAgent
from turngate.gateway.domain.agent_events import (
    AgentEvent,
    Ask,
    Done,
    File,
    Tool,
    ToolStatus,
    Turn,
    Usage,
)
from turngate.gateway.domain.errors import (
    AgentError,
    AgentRefused,
    AgentUnavailable,
    ConfigError,
)
from turngate.gateway.domain.messages import Attachment
from turngate.gateway.domain.ports.agent import Closes, TakesAnswers
from turngate.gateway.domain.transcript import (
    MediaType,
    Reasoning,
    Text,
)


@pytest.fixture
def rig(tmp_path: Path) -> AcpRig:
    return AcpRig(tmp_path)


async def stopped_after_first(agent: AcpAgent, rig: AcpRig, text: str) -> list[AgentEvent]:
    """Listens to one event and then to nothing more."""
    async with aclosing(agent.run(rig.turn(text))) as events:
        return [await anext(events)]


class TestWhatIsHeard:
    async def test_an_answer_comes_in_pieces_and_ends(self, rig: AcpRig) -> None:
        async with rig.agent() as agent:
            events = await heard(agent, rig.turn("hello there"))

        assert words(events) == "You said: hello there"
        assert [type(event) for event in events] == [Text] * 4 + [Usage, Done]

    async def test_thoughts_are_told_apart_from_words(self, rig: AcpRig) -> None:
        async with rig.agent() as agent:
            assert (await heard(agent, rig.turn("think hard")))[:2] == [
                Reasoning(text="hard"),
                Text("thought"),
            ]

    @pytest.mark.parametrize(
        ("how", "status"), [("works", ToolStatus.DONE), ("fails", ToolStatus.FAILED)]
    )
    async def test_a_tool_is_shown_when_it_has_its_input_and_when_it_ends(
        self, how: str, status: ToolStatus, rig: AcpRig
    ) -> None:
        async with rig.agent() as agent:
            events = await heard(agent, rig.turn(f"tool {how}"))

        begun = Tool(
            id="t1",
            name="execute",
            title="List files",
            status=ToolStatus.STARTED,
            input='{"command": "ls"}',
            output=None,
        )
        assert events[:2] == [begun, replace(begun, status=status, output="a.txt")]

    async def test_pictures_and_files_of_the_agent_are_for_the_user(self, rig: AcpRig) -> None:
        async with rig.agent() as agent:
            turn = rig.turn("picture")
            picture, made, *_ = await heard(agent, turn)

        assert isinstance(picture, File)
        assert Path(picture.path).parent == Path(turn.workdir or "")
        assert Path(picture.path).read_bytes().startswith(b"\x89PNG")
        assert made == File(path="/made.txt", name="made.txt")

    async def test_tokens_are_counted_as_reported(self, rig: AcpRig) -> None:
        async with rig.agent() as agent:
            assert Usage(input=1, output=5, cache_read=4) in await heard(agent, rig.turn("usage"))

    async def test_what_a_session_has_cost_before_is_not_counted_again(self, rig: AcpRig) -> None:
        async with rig.agent("--load") as agent:
            first = await heard(agent, rig.turn("cost 0.25"))
        async with rig.agent("--load") as agent:
            second = await heard(agent, rig.turn("cost 0.75", user("cost 0.25"), assistant("")))

        assert Usage(cost_usd=0.25) in first
        assert Usage(cost_usd=0.5) in second

    @pytest.mark.parametrize(
        ("reason", "words"),
        [
            ("max_tokens", "may not say more"),
            ("max_turn_requests", "more steps"),
            ("refusal", "refuses"),
        ],
    )
    async def test_an_answer_that_was_not_finished_is_kept_and_said_to_be_so(
        self, reason: str, words: str, rig: AcpRig
    ) -> None:
        async with rig.agent() as agent, aclosing(agent.run(rig.turn(f"ends {reason}"))) as events:
            assert await anext(events) == Text("partly ")
            with pytest.raises(AgentError, match=words):
                await anext(events)

    async def test_many_turns_run_in_one_process_at_once(self, rig: AcpRig) -> None:
        async with rig.agent() as agent:
            turns = [rig.turn(f"hello {number}", session=f"s{number}") for number in range(20)]
            answers = await asyncio.gather(*(heard(agent, turn) for turn in turns))

        assert [words(events) for events in answers] == [
            f"You said: hello {number}" for number in range(20)
        ]
        assert len(rig.asked("initialize")) == 1

    async def test_a_second_turn_of_one_conversation_is_apart_from_the_first(
        self, rig: AcpRig
    ) -> None:
        async with rig.agent() as agent:
            await heard(agent, rig.turn("zero"))
            before = user("zero"), assistant("You said: zero")
            first = rig.turn("permission", *before)
            async with aclosing(agent.run(first)) as events:
                ask = await anext(events)
                aside = await heard(agent, rig.turn("hello", *before, user("permission")))
                await agent.answer(first.id, ask.id, "allow once")  # type: ignore[union-attr]
                rest = [event async for event in events]
            after = await heard(
                agent, rig.turn("recall", *before, user("permission"), assistant("outcome"))
            )

        assert words(aside) == "You said: hello"
        assert words(rest) == "outcome allow_once"
        assert words(after) == "zero | permission | recall"

    async def test_an_agent_that_talks_faster_than_it_is_heard_is_waited_for(
        self, rig: AcpRig
    ) -> None:
        async with rig.agent() as agent:
            said: list[str] = []
            async for event in agent.run(rig.turn("much 3000")):
                await asyncio.sleep(0)
                said += [event.text.strip()] if isinstance(event, Text) else []

        assert said == [str(number) for number in range(3000)]


class TestWhatItIsTold:
    async def test_it_knows_who_is_there_and_nothing_of_our_environment(self, rig: AcpRig) -> None:
        async with rig.agent(env={**rig.spec().env, "KEY": "of its own"}) as agent:
            await heard(agent, rig.turn("hello"))

        (met,) = rig.asked("initialize")
        assert met["info"]["name"] == "turngate"  # type: ignore[index]
        assert set(met["env"]) - {"LC_CTYPE"} == {"PATH", "HOME", "PYTHONPATH", "KEY"}  # type: ignore[call-overload]
        assert list(Path(str(met["cwd"])).iterdir()) == []
        assert rig.asked("new")[0]["cwd"] == str(rig.folder / "s1")

    async def test_the_first_prompt_says_who_it_is_and_what_was_said_before(
        self, rig: AcpRig
    ) -> None:
        async with rig.agent() as agent:
            await heard(agent, rig.turn("go on", user("my name is Ann"), assistant("hello Ann")))

        (preface, asked), *_ = rig.prompts()
        assert preface["text"].startswith("Be brief.\n\nYou are in a test.\n\n")
        assert "They: my name is Ann\n\nYou: hello Ann" in preface["text"]
        assert asked == {"type": "text", "text": "go on"}

    async def test_an_agent_that_holds_the_conversation_gets_only_what_is_new(
        self, rig: AcpRig
    ) -> None:
        async with rig.agent() as agent:
            await heard(agent, rig.turn("one"))
            await heard(agent, rig.turn("two", user("one"), assistant("You said: one")))

        assert rig.prompts()[1] == [{"type": "text", "text": "two"}]
        assert len(rig.asked("new")) == 1

    async def test_it_is_told_of_the_place_again_when_something_changed_there(
        self, rig: AcpRig
    ) -> None:
        async with rig.agent() as agent:
            await heard(agent, rig.turn("one"))
            await heard(
                agent, rig.turn("two", user("one"), assistant(""), context="Somebody came in.")
            )

        assert rig.prompts()[1][0]["text"] == "Somebody came in."

    async def test_it_is_told_anew_who_it_is_when_the_operator_changed_that(
        self, rig: AcpRig
    ) -> None:
        async with rig.agent() as agent:
            await heard(agent, rig.turn("one"))
            await heard(agent, rig.turn("two", user("one"), assistant(""), system="Be long."))

        assert rig.prompts()[1][0]["text"] == "Be long."

    async def test_it_is_told_what_another_agent_answered_meanwhile(self, rig: AcpRig) -> None:
        others = (user("and this?"), assistant("said by another"))
        async with rig.agent() as agent:
            await heard(agent, rig.turn("one"))
            await heard(agent, rig.turn("two", user("one"), assistant("You said: one"), *others))

        preface, asked = rig.prompts()[1]
        assert "They: and this?\n\nYou: said by another" in preface["text"]
        assert "You said: one" not in preface["text"]
        assert asked["text"] == "two"

    async def test_what_was_taken_back_is_not_remembered(self, rig: AcpRig) -> None:
        before = user("zero"), assistant("You said: zero")
        async with rig.agent() as agent:
            await heard(agent, rig.turn("zero"))
            await heard(agent, rig.turn("a secret", *before))
            await heard(agent, rig.turn("recall", *before))

        first, other = rig.asked("new")
        assert first["session"] != other["session"]
        assert rig.asked("prompt")[2]["session"] == other["session"]

    async def test_pictures_sounds_and_texts_go_inline_where_the_agent_takes_them(
        self, rig: AcpRig
    ) -> None:
        turn = with_files(rig)
        async with rig.agent("--images") as agent:
            await heard(agent, turn)

        assert [block["type"] for block in rig.prompts()[0][1:]] == [
            "text",
            "image",
            "audio",
            "resource",
            "resource_link",
        ]

    async def test_elsewhere_files_are_named_by_their_paths(self, rig: AcpRig) -> None:
        turn = with_files(rig)
        async with rig.agent() as agent:
            await heard(agent, turn)

        links = rig.prompts()[0][2:]
        assert [block["type"] for block in links] == ["resource_link"] * 4
        assert links[0]["uri"] == (rig.folder / "photo").as_uri()
        assert links[0]["name"] == "photo.png"

    async def test_pictures_are_not_shown_where_the_operator_does_not_want_it(
        self, rig: AcpRig
    ) -> None:
        turn = with_files(rig)
        async with rig.agent("--images", images=False) as agent:
            await heard(agent, turn)

        assert rig.prompts()[0][2]["type"] == "resource_link"


def with_files(rig: AcpRig) -> Turn:
    files = {
        "photo": (MediaType.IMAGE, "image/png", "photo.png", b"\x89PNG\r\n\x1a\n..."),
        "voice": (MediaType.AUDIO, "audio/ogg", "voice.ogg", b"OggS\0..."),
        "notes": (MediaType.DOCUMENT, "text/plain", "notes.txt", b"some words"),
        "blob": (MediaType.FILE, "application/zip", "all.zip", b"PK\0\0"),
    }
    for name, (*_, content) in files.items():
        (rig.folder / name).write_bytes(content)
    attachments = tuple(
        Attachment(type=type_, path=str(rig.folder / path), mime=mime, name=name)
        for path, (type_, mime, name, _) in files.items()
    )
    return rig.turn("look", messages=(replace(message("look"), attachments=attachments),))


class TestPermission:
    async def test_a_permission_request_is_a_question_and_the_choice_goes_back(
        self, rig: AcpRig
    ) -> None:
        async with rig.agent() as agent:
            events = await heard(agent, rig.turn("permission"), answer="allow always")

        ask = events[0]
        assert isinstance(ask, Ask)
        assert ask.text == "The agent asks for permission: Delete everything\n\ncommand: rm -rf ."
        assert ask.options == ("allow once", "allow always", "reject once")
        assert words(events) == "outcome allow_always"

    async def test_no_answer_is_a_no(self, rig: AcpRig) -> None:
        async with rig.agent() as agent:
            assert (
                words(await heard(agent, rig.turn("permission"), answer=None))
                == "outcome reject_once"
            )

    async def test_no_answer_where_there_is_no_word_for_no_ends_the_turn(self, rig: AcpRig) -> None:
        async with rig.agent() as agent:
            with pytest.raises(AgentError, match="was not answered"):
                await heard(agent, rig.turn("permission only yes"), answer=None)

    async def test_a_stop_takes_the_question_back(self, rig: AcpRig) -> None:
        async with rig.agent() as agent:
            await stopped_after_first(agent, rig, "permission")
            await heard(agent, rig.turn("hello", user("permission")))

        assert rig.asked("outcome")[0]["outcome"] == {"outcome": "cancelled"}
        assert len(rig.asked("new")) == 1

    async def test_a_late_answer_harms_nobody(self, rig: AcpRig) -> None:
        async with rig.agent() as agent:
            turn = rig.turn("permission")
            (ask, *_) = await heard(agent, turn, answer="allow once")
            await agent.answer(turn.id, ask.id, "allow once")  # type: ignore[union-attr]

    async def test_the_time_a_person_takes_is_not_the_agents(self, rig: AcpRig) -> None:
        async with rig.agent(timeout=timedelta(seconds=0.5)) as agent:
            turn = rig.turn("permission")
            async with aclosing(agent.run(turn)) as events:
                ask = await anext(events)
                await asyncio.sleep(0.7)
                await agent.answer(turn.id, ask.id, "allow once")  # type: ignore[union-attr]
                assert [event async for event in events][-1] == Done()

    async def test_our_files_and_terminals_are_not_the_agents(self, rig: AcpRig) -> None:
        async with rig.agent() as agent:
            assert (
                words(await heard(agent, rig.turn("read /etc/hostname")))
                == "refused -32601 refused -32601"
            )


class TestStopping:
    async def test_a_turn_that_is_stopped_is_cancelled_and_its_session_goes_on(
        self, rig: AcpRig
    ) -> None:
        async with rig.agent() as agent:
            await stopped_after_first(agent, rig, "slow")
            after = await heard(agent, rig.turn("recall", user("slow"), assistant("working")))

        assert len(rig.asked("cancel")) == 1
        assert words(after) == "slow | recall"

    async def test_an_agent_that_does_not_stop_is_ended_and_nothing_of_it_is_heard_again(
        self, rig: AcpRig
    ) -> None:
        async with rig.agent() as agent:
            await stopped_after_first(agent, rig, "stubborn")
            first = int(str(rig.asked("initialize")[0]["pid"]))
            was_ended = not is_running(first)
            after = await heard(agent, rig.turn("hello", user("stubborn"), assistant("working")))

        assert was_ended
        assert words(after) == "You said: hello"
        assert "They: stubborn" in rig.prompts()[1][0]["text"]

    async def test_others_go_on_in_the_program_that_one_of_them_would_not_leave(
        self, rig: AcpRig
    ) -> None:
        async with rig.agent() as agent:
            other = rig.turn("permission", session="s2")
            async with aclosing(agent.run(other)) as events:
                ask = await anext(events)
                await stopped_after_first(agent, rig, "stubborn")
                meanwhile = await heard(agent, rig.turn("hello", user("stubborn")))
                await agent.answer(other.id, ask.id, "allow once")  # type: ignore[union-attr]
                rest = [event async for event in events]
            pids = [int(str(met["pid"])) for met in rig.asked("initialize")]
            alive = [is_running(pid) for pid in pids]

        assert words(meanwhile) == "You said: hello"
        assert words(rest) == "outcome allow_once"
        assert alive == [False, True]

    async def test_a_turn_may_take_only_so_long(self, rig: AcpRig) -> None:
        async with rig.agent(timeout=timedelta(seconds=0.3)) as agent:
            with pytest.raises(AgentError, match="longer"):
                await heard(agent, rig.turn("slow"))

        assert len(rig.asked("cancel")) == 1

    async def test_closing_ends_the_program_and_all_that_came_out_of_it(self, rig: AcpRig) -> None:
        async with rig.agent() as agent:
            pids = list(map(int, words(await heard(agent, rig.turn("spawn"))).split()))

        assert len(pids) == 2
        assert not any(map(is_running, pids))

    async def test_it_takes_answers_and_closes(self, rig: AcpRig) -> None:
        async with rig.agent() as agent:
            assert isinstance(agent, TakesAnswers)
            assert isinstance(agent, Closes)


class TestAfterARestart:
    @pytest.mark.parametrize(
        ("flags", "how"), [(["--load"], "load"), (["--resume", "--load"], "resume")]
    )
    async def test_an_agent_that_can_goes_on_where_it_was_and_is_not_told_again(
        self, flags: list[str], how: str, rig: AcpRig
    ) -> None:
        async with rig.agent(*flags) as agent:
            await heard(agent, rig.turn("one"))
        async with rig.agent(*flags) as agent:
            after = await heard(agent, rig.turn("recall", user("one"), assistant("You said: one")))

        assert words(after) == "one | recall"
        assert [len(rig.asked(each)) for each in ("new", how)] == [1, 1]
        assert rig.prompts()[1] == [{"type": "text", "text": "recall"}]

    async def test_any_other_is_told_what_was_said_once(self, rig: AcpRig) -> None:
        said = user("one"), assistant("You said: one")
        async with rig.agent() as agent:
            await heard(agent, rig.turn("one"))
        async with rig.agent() as agent:
            await heard(agent, rig.turn("two", *said))
            await heard(agent, rig.turn("three", *said, user("two"), assistant("You said: two")))

        assert "They: one\n\nYou: You said: one" in rig.prompts()[1][0]["text"]
        assert rig.prompts()[2] == [{"type": "text", "text": "three"}]

    async def test_so_is_one_that_has_forgotten(self, rig: AcpRig) -> None:
        async with rig.agent("--load") as agent:
            await heard(agent, rig.turn("one"))
        rig.state.unlink()
        async with rig.agent("--load") as agent:
            await heard(agent, rig.turn("two", user("one"), assistant("You said: one")))

        assert "They: one" in rig.prompts()[1][0]["text"]


class TestFaults:
    async def test_a_program_that_dies_before_a_word_may_be_asked_again(self, rig: AcpRig) -> None:
        async with rig.agent() as agent:
            with pytest.raises(AgentUnavailable, match="exit status 3"):
                await heard(agent, rig.turn("crash"))
            assert words(await heard(agent, rig.turn("hello", user("crash")))) == "You said: hello"

    async def test_one_that_dies_later_has_failed_the_turn(self, rig: AcpRig) -> None:
        async with rig.agent() as agent, aclosing(agent.run(rig.turn("crash something"))) as events:
            assert await anext(events) == Text("something")
            with pytest.raises(AgentError, match="exit status 3") as caught:
                await anext(events)

        assert not isinstance(caught.value, AgentUnavailable)

    async def test_all_turns_of_a_program_that_dies_fail_and_it_is_started_once(
        self, rig: AcpRig
    ) -> None:
        async with rig.agent() as agent:
            turns = [rig.turn("slow", session=f"s{number}") for number in range(3)]
            running = [asyncio.ensure_future(heard(agent, turn)) for turn in turns]
            while len(rig.asked("prompt")) < 3:
                await asyncio.sleep(0.02)
            with pytest.raises(AgentUnavailable):
                await heard(agent, rig.turn("crash", session="s9"))
            failed = await asyncio.gather(*running, return_exceptions=True)
            again = await asyncio.gather(
                *(heard(agent, rig.turn("hello", session=f"t{n}")) for n in range(3))
            )

        assert all(isinstance(each, AgentError) for each in failed)
        assert [words(each) for each in again] == ["You said: hello"] * 3
        assert len(rig.asked("initialize")) == 2

    async def test_one_that_keeps_dying_is_left_in_peace_for_a_while(self, rig: AcpRig) -> None:
        spec_that_ends = rig.spec(argv=("/bin/false",))
        agent = load_agent(spec_that_ends)
        delays = []
        for _ in range(4):
            with pytest.raises(AgentUnavailable) as caught:
                await heard(agent, rig.turn("hello"))  # type: ignore[arg-type]
            delays.append(caught.value.retry_after)

        assert delays[:3] == [None] * 3
        assert delays[3] is not None
        assert 1 < delays[3] <= 2

    @pytest.mark.parametrize("trick", ["garbage", "long"])
    async def test_lines_that_are_no_messages_are_passed_over(
        self, trick: str, rig: AcpRig, caplog: pytest.LogCaptureFixture
    ) -> None:
        async with rig.agent() as agent:
            assert words(await heard(agent, rig.turn(trick))) == "fine"

        assert caplog.records == []

    async def test_an_error_of_the_agent_is_told_and_the_next_turn_begins_anew(
        self, rig: AcpRig
    ) -> None:
        async with rig.agent() as agent:
            with pytest.raises(AgentError, match="Internal error: out of paper"):
                await heard(agent, rig.turn("error out of paper"))
            await heard(agent, rig.turn("hello", user("error out of paper")))

        assert len(rig.asked("new")) == 2

    async def test_one_that_has_lost_its_session_may_be_asked_again_and_is_told_anew(
        self, rig: AcpRig
    ) -> None:
        async with rig.agent() as agent:
            with pytest.raises(AgentUnavailable, match="not there"):
                await heard(agent, rig.turn("lost"))
            await heard(agent, rig.turn("hello"))

        assert len(rig.asked("new")) == 2

    async def test_an_agent_that_must_be_logged_in_is_the_operators(self, rig: AcpRig) -> None:
        async with rig.agent("--login") as agent:
            with pytest.raises(AgentRefused, match="main is not logged in") as refused:
                await heard(agent, rig.turn("hello"))

        assert refused.value.words == "Log in with a browser"

    async def test_so_is_one_of_another_version(self, rig: AcpRig) -> None:
        async with rig.agent("--speaks", "7") as agent:
            with pytest.raises(AgentRefused, match="version 7"):
                await heard(agent, rig.turn("hello"))

    async def test_so_is_one_that_is_not_there(self, rig: AcpRig) -> None:
        async with rig.agent(argv=("/no/such/agent",)) as agent:
            with pytest.raises(AgentRefused, match="cannot be started"):
                await heard(agent, rig.turn("hello"))

    async def test_one_that_has_fallen_silent_is_ended(
        self, rig: AcpRig, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        # A real program is silent here, so the wait cannot be hurried, only made short.
        monkeypatch.setattr(acp_agent, "SECONDS_TO_BEGIN", 0.2)
        async with rig.agent("--mute") as agent:
            with pytest.raises(AgentUnavailable, match="does not respond"):
                await heard(agent, rig.turn("hello"))
            assert not is_running(int(str(rig.asked("initialize")[0]["pid"])))

    async def test_a_stop_while_it_starts_leaves_nothing(self, rig: AcpRig) -> None:
        async with rig.agent("--hang") as agent:
            running = asyncio.ensure_future(heard(agent, rig.turn("hello")))
            while not rig.asked("initialize"):
                await asyncio.sleep(0.02)
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
            assert not is_running(int(str(rig.asked("initialize")[0]["pid"])))

    def test_it_needs_a_program(self, rig: AcpRig) -> None:
        with pytest.raises(ConfigError, match="argv"):
            load_agent(rig.spec(argv=()))
