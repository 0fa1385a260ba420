"""
Agents that are programs, with real ones: good ones in both formats, and many that are not good at
all.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.fakes import message
from tests.programs import ENV, Heard, heard, is_gone, program, turn_in
from turngate.gateway.agents import AgentSpec, load_agent
from turngate.gateway.agents.bounded_output import MOST_OUTPUT
from turngate.gateway.agents.command import JsonlCommand, TextCommand
from turngate.gateway.domain.agent_events import (
    LONGEST_ANSWER,
    Ask,
    Done,
    Tool,
    ToolStatus,
    Usage,
)
from turngate.gateway.domain.errors import (
    AgentError,
    AgentRefused,
    ConfigError,
)
from turngate.gateway.domain.ids import TurnId
from turngate.gateway.domain.messages import Attachment
from turngate.gateway.domain.ports.agent import TakesAnswers, TakesSteering
from turngate.gateway.domain.transcript import (
    MediaType,
    Reasoning,
    Text,
)


def text_agent(body: str, **more: object) -> TextCommand:
    """Speaks plain text."""
    agent = load_agent(_spec(body, "text", **more))
    assert isinstance(agent, TextCommand)
    return agent


def jsonl_agent(body: str, **more: object) -> JsonlCommand:
    """Speaks events."""
    tell = "import json\ndef tell(**event): say(json.dumps(event))\n"
    agent = load_agent(_spec(tell + body, "jsonl", **more))
    assert isinstance(agent, JsonlCommand)
    return agent


def _spec(body: str, form: str, **more: object) -> AgentSpec:
    return AgentSpec(
        name="main", kind="command", argv=tuple(program(body)), format=form, env=ENV, **more
    )  # type: ignore[arg-type]


class TestText:
    async def test_the_message_is_on_stdin_and_the_answer_on_stdout(self, tmp_path: Path) -> None:
        result = await heard(
            text_agent("say(sys.stdin.read().upper())"), turn_in(tmp_path, "grüße")
        )
        assert (result.text, result.events[-1], result.failure) == ("GRÜSSE\n\n", Done(), None)

    async def test_messages_that_came_together_are_one_text_with_the_paths_of_their_files(
        self, tmp_path: Path
    ) -> None:
        photo = Attachment(type=MediaType.IMAGE, path="/in/1.png", name="cat.png")
        voice = Attachment(type=MediaType.AUDIO, path="/in/2")
        turn = replace(
            turn_in(tmp_path),
            messages=(
                replace(message("look"), attachments=(photo, voice)),
                message("and?"),
                message(""),
            ),
        )
        result = await heard(text_agent("say(repr(sys.stdin.read()))"), turn)
        assert (
            result.text
            == repr("look\n[file cat.png: /in/1.png]\n[file audio: /in/2]\n\nand?\n") + "\n"
        )

    async def test_the_answer_comes_while_it_is_written(self, tmp_path: Path) -> None:
        body = "say('one')\nwhile not os.path.exists('seen'): time.sleep(0.01)\nsay('two')"
        running = text_agent(body).run(turn_in(tmp_path))
        assert await anext(running) == Text("one\n")
        (tmp_path / "seen").touch()
        assert [event async for event in running] == [Text("two\n"), Done()]

    async def test_a_character_that_comes_in_pieces_is_one(self, tmp_path: Path) -> None:
        body = "for byte in 'ü€😀'.encode(): os.write(1, bytes([byte])); time.sleep(0.02)"
        result = await heard(text_agent(body), turn_in(tmp_path))
        assert result.text == "ü€😀"

    async def test_bytes_that_are_no_text_do_not_end_the_answer(self, tmp_path: Path) -> None:
        result = await heard(text_agent(r"os.write(1, b'a\xff\xfeb\xe2\x82')"), turn_in(tmp_path))
        assert (result.text, result.failure) == ("a��b�", None)

    async def test_a_crash_keeps_what_was_said_and_tells_how_it_ended(self, tmp_path: Path) -> None:
        result = await heard(text_agent("say('half'); sys.exit(3)"), turn_in(tmp_path))
        assert result.text == "half\n"
        assert (
            str(result.failure)
            == "exit status 3; its last words are in the log, at level debug, where log.quote is on"
        )

    async def test_a_program_that_was_killed_is_a_failed_turn(self, tmp_path: Path) -> None:
        result = await heard(text_agent("os.kill(os.getpid(), signal.SIGSEGV)"), turn_in(tmp_path))
        assert str(result.failure).startswith("ended by SIGSEGV;")

    async def test_a_program_that_never_reads_is_not_waited_for(self, tmp_path: Path) -> None:
        result = await heard(text_agent("say('hi')"), turn_in(tmp_path, "long " * 500_000))
        assert (result.text, result.failure) == ("hi\n", None)

    async def test_a_large_message_is_read_whole(self, tmp_path: Path) -> None:
        result = await heard(
            text_agent("say(len(sys.stdin.read()))"), turn_in(tmp_path, "x" * 3_000_000)
        )
        assert result.text == "3000001\n"

    async def test_endless_output_fails_and_keeps_its_beginning(self, tmp_path: Path) -> None:
        result = await heard(
            text_agent("for _ in range(100): os.write(1, b'x' * 1_000_000)"), turn_in(tmp_path)
        )
        assert str(result.failure) == "the agent wrote more than 32 MB"
        assert LONGEST_ANSWER < len(result.text) <= MOST_OUTPUT
        assert is_gone(tmp_path)

    async def test_a_program_that_closes_its_stdout_and_stays_has_answered(
        self, tmp_path: Path
    ) -> None:
        result = await heard(text_agent("say('all'); os.close(1); wait()"), turn_in(tmp_path))
        assert (result.text, result.events[-1], result.failure) == ("all\n", Done(), None)
        assert is_gone(tmp_path)

    async def test_a_program_without_memory_fails(self, tmp_path: Path) -> None:
        result = await heard(
            text_agent("say(len(bytes(400_000_000)))", memory=200_000_000), turn_in(tmp_path)
        )
        assert str(result.failure).startswith("exit status 1;")

    async def test_a_program_that_is_not_there_is_for_the_operator_to_mend(
        self, tmp_path: Path
    ) -> None:
        agent = load_agent(AgentSpec(name="main", kind="command", argv=("nonesuch",), env=ENV))
        result = await heard(agent, turn_in(tmp_path))
        assert isinstance(result.failure, AgentRefused)

    async def test_it_neither_waits_for_answers_nor_listens(self) -> None:
        agent = text_agent("")
        assert not isinstance(agent, TakesAnswers)
        assert not isinstance(agent, TakesSteering)

    @pytest.mark.parametrize(
        "body",
        [
            "say(); wait()",
            "signal.signal(signal.SIGTERM, signal.SIG_IGN); say(); wait()",
            "os.fork() or os.setsid(); os.fork(); say(); wait()",
            "while True: say('endless')",
        ],
    )
    async def test_closing_the_turn_ends_whatever_runs(self, body: str, tmp_path: Path) -> None:
        running = text_agent(body).run(turn_in(tmp_path))
        await anext(running)
        await running.aclose()
        assert is_gone(tmp_path)

    async def test_a_turn_that_is_cancelled_while_the_program_hangs_ends_it(
        self, tmp_path: Path
    ) -> None:
        hearing = asyncio.ensure_future(
            heard(text_agent("open('ready', 'w'); wait()"), turn_in(tmp_path))
        )
        while not (tmp_path / "ready").exists():
            await asyncio.sleep(0.01)
        hearing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await hearing
        assert is_gone(tmp_path)


class TestJsonl:
    async def test_the_turn_is_the_first_line_and_events_come_back(self, tmp_path: Path) -> None:
        body = """
turn = json.loads(sys.stdin.readline())
tell(type="reasoning", text="hm")
tell(type="tool", id="1", name="look", status="started", input={})
tell(type="text", text=turn["messages"][0]["text"] + " in " + turn["workdir"])
tell(type="usage", input=3, output=4)
tell(type="done")
"""
        result = await heard(jsonl_agent(body), turn_in(tmp_path))
        assert result == Heard(
            [
                Reasoning(text="hm"),
                Tool(id="1", name="look", status=ToolStatus.STARTED, input="{}"),
                Text(f"hello in {tmp_path}"),
                Usage(input=3, output=4),
                Done(),
            ]
        )

    async def test_ending_well_is_being_done(self, tmp_path: Path) -> None:
        result = await heard(jsonl_agent("tell(type='text', text='hi')"), turn_in(tmp_path))
        assert result == Heard([Text("hi"), Done()])

    async def test_a_last_line_without_an_end_counts(self, tmp_path: Path) -> None:
        result = await heard(
            jsonl_agent("""os.write(1, b'{"type":"text","text":"hi"}')"""), turn_in(tmp_path)
        )
        assert result.text == "hi"

    async def test_a_program_that_is_done_and_stays_is_ended(self, tmp_path: Path) -> None:
        result = await heard(jsonl_agent("tell(type='done'); wait()"), turn_in(tmp_path))
        assert result == Heard([Done()])
        assert is_gone(tmp_path)

    async def test_a_program_that_is_done_may_put_its_things_away(self, tmp_path: Path) -> None:
        body = "tell(type='done'); sys.stdin.read(); open('tidy', 'w')"
        await heard(jsonl_agent(body), turn_in(tmp_path))
        assert (tmp_path / "tidy").exists()

    async def test_a_crash_is_a_failed_turn(self, tmp_path: Path) -> None:
        result = await heard(
            jsonl_agent("tell(type='text', text='half'); sys.exit(9)"), turn_in(tmp_path)
        )
        assert result.text == "half"
        assert str(result.failure).startswith("exit status 9;")

    @pytest.mark.parametrize("line", ["hello", '{"type":"text"}', "[]"])
    async def test_a_line_that_is_no_event_fails_the_turn_and_ends_the_program(
        self, line: str, tmp_path: Path
    ) -> None:
        body = f"tell(type='text', text='half'); say({line!r}); wait()"
        result = await heard(jsonl_agent(body), turn_in(tmp_path))
        assert result.text == "half"
        assert isinstance(result.failure, AgentError)
        assert is_gone(tmp_path)

    async def test_events_of_another_version_are_left_out(self, tmp_path: Path) -> None:
        result = await heard(
            jsonl_agent("tell(type='new'); tell(type='text', text='hi')"), turn_in(tmp_path)
        )
        assert result == Heard([Text("hi"), Done()])

    async def test_bytes_that_are_no_text_do_not_end_the_turn(self, tmp_path: Path) -> None:
        body = r"""os.write(1, b'{"type":"text","text":"a\xffb"}\n')"""
        assert (await heard(jsonl_agent(body), turn_in(tmp_path))).text == "a�b"

    async def test_long_lines_are_read_and_endless_ones_are_not(self, tmp_path: Path) -> None:
        long = await heard(
            jsonl_agent("tell(type='text', text='x' * 1_500_000)"), turn_in(tmp_path)
        )
        endless = await heard(
            jsonl_agent("while True: os.write(1, b'x' * 65536)"), turn_in(tmp_path)
        )
        assert len(long.text) == 1_500_000
        assert str(endless.failure) == "the agent wrote a line of more than 8 MB"

    async def test_events_that_say_nothing_cannot_go_on_for_ever(self, tmp_path: Path) -> None:
        body = "while True: os.write(1, (b' ' * 1000 + b'\\n') * 65)"
        result = await heard(jsonl_agent(body), turn_in(tmp_path))
        assert str(result.failure) == "the agent wrote more than 32 MB"

    async def test_it_hears_the_answer_to_its_question(self, tmp_path: Path) -> None:
        body = """
sys.stdin.readline()
tell(type="ask", id="q1", text="Sure?", options=["yes", "no"])
tell(type="text", text=sys.stdin.readline())
"""
        agent = jsonl_agent(body)
        running = agent.run(turn_in(tmp_path))
        assert await anext(running) == Ask(id="q1", text="Sure?", options=("yes", "no"))
        await agent.answer(TurnId(7), "q1", "yes")
        said = await anext(running)
        assert isinstance(said, Text)
        assert json.loads(said.text) == {"type": "answer", "id": "q1", "option": "yes"}
        await running.aclose()

    async def test_it_hears_more_words_while_it_works(self, tmp_path: Path) -> None:
        body = (
            "sys.stdin.readline(); tell(type='reasoning', text=''); tell(type='text', "
            "text=sys.stdin.readline())"
        )
        agent = jsonl_agent(body)
        running = agent.run(turn_in(tmp_path))
        await anext(running)
        assert await agent.steer(TurnId(7), "faster\nplease")
        said = await anext(running)
        assert isinstance(said, Text)
        assert json.loads(said.text) == {"type": "steer", "text": "faster\nplease"}
        await running.aclose()

    async def test_answers_and_words_for_a_turn_that_is_over_go_nowhere(self) -> None:
        agent = jsonl_agent("")
        await agent.answer(TurnId(1), "q", None)
        assert not await agent.steer(TurnId(1), "hello?")

    async def test_it_is_told_to_stop_before_it_is_ended(self, tmp_path: Path) -> None:
        body = """
sys.stdin.readline()
tell(type="text", text="working")
heard = sys.stdin.readline()
open("heard", "w").write(heard)
"""
        running = jsonl_agent(body).run(turn_in(tmp_path))
        await anext(running)
        await running.aclose()
        assert json.loads((tmp_path / "heard").read_text()) == {"type": "stop"}
        assert is_gone(tmp_path)

    async def test_one_that_does_not_listen_is_ended_all_the_same(self, tmp_path: Path) -> None:
        body = "signal.signal(signal.SIGTERM, signal.SIG_IGN); tell(type='text', text='no'); wait()"
        running = jsonl_agent(body).run(turn_in(tmp_path, "long " * 100_000))
        await anext(running)
        await running.aclose()
        assert is_gone(tmp_path)

    async def test_turns_side_by_side_are_told_apart(self, tmp_path: Path) -> None:
        body = """
turn = json.loads(sys.stdin.readline())["turn"]
tell(type="ask", id="q", text="?", options=["a"])
tell(type="text", text=f"{turn} {json.loads(sys.stdin.readline())['option']}")
"""
        agent = jsonl_agent(body)
        turns = [
            replace(turn_in(_folder(tmp_path, number)), id=TurnId(number)) for number in (1, 2)
        ]
        running = [agent.run(turn) for turn in turns]
        for each in running:
            await anext(each)
        await agent.answer(TurnId(2), "q", "two")
        await agent.answer(TurnId(1), "q", "one")
        assert [await anext(each) for each in running] == [Text("1 one"), Text("2 two")]
        for each in running:
            await each.aclose()


def _folder(parent: Path, number: int) -> Path:
    folder = parent / str(number)
    folder.mkdir()
    return folder


def test_a_command_without_a_program_is_a_mistake_in_the_config() -> None:
    with pytest.raises(ConfigError, match=r"agents\.main: which program"):
        load_agent(AgentSpec(name="main", kind="command"))
