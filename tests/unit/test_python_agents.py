"""Agents of the operator's own Python: how they are found, and what they may say."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, Callable, Iterator
from pathlib import Path

import pytest

from tests.programs import ENDING, Heard, heard, turn_in
from turngate.gateway.agents import AgentSpec, load_agent
from turngate.gateway.domain.agent_events import (
    Done,
    Turn,
    Usage,
)
from turngate.gateway.domain.errors import ConfigError
from turngate.gateway.domain.ports.agent import (
    Agent,
    Closes,
    TakesAnswers,
    TakesSessionEnd,
    TakesSteering,
)
from turngate.gateway.domain.transcript import Text
from turngate.gateway.observability.error_text import whole_reason

TURN = turn_in(Path("/work"), "hello")
Make = Callable[[str], Agent]


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Make]:
    """An agent from the source of its module, which is called `theirs`."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def load(source: str, name: str = "theirs:factory") -> Agent:
        (tmp_path / "theirs.py").write_text(source)
        return load_agent(
            AgentSpec(name="main", kind="python", object=name, options={"word": "hi"})
        )

    yield load
    sys.modules.pop("theirs", None)


AS_THEY_COME = """
from turngate.gateway.agents.api import Text, Usage
class Mine:
    def __init__(self, options):
        self.word = options["word"]
    async def run(self, turn):
        yield Text(self.word)
        yield " " + turn.messages[0].text
        yield {"type": "usage", "input": 3}
        yield {"type": "from-the-future"}
def factory(options):
    return Mine(options)
"""


class TestRunning:
    async def test_it_may_yield_events_texts_and_dicts(self, make: Make) -> None:
        assert await heard(make(AS_THEY_COME), TURN) == Heard(
            [Text("hi"), Text(" hello"), Usage(input=3), Done()]
        )

    async def test_a_class_is_a_factory_too(self, make: Make) -> None:
        agent = make(
            "class factory:\n def __init__(self, options): pass\n async def run(self, turn):\n  "
            "yield 'hi'"
        )
        assert (await heard(agent, TURN)).text == "hi"

    async def test_a_coroutine_may_return_the_whole_answer(self, make: Make) -> None:
        agent = make(
            "class factory:\n def __init__(self, options): pass\n async def run(self, turn): "
            "return 'whole'"
        )
        assert await heard(agent, TURN) == Heard([Text("whole"), Done()])

    async def test_what_comes_after_done_is_not_asked_for(self, make: Make) -> None:
        body = "  yield 'a'\n  yield {'type': 'done'}\n  yield 'b'"
        agent = make(
            "class factory:\n def __init__(self, options): pass\n async def run(self, "
            f"turn):\n{body}"
        )
        assert await heard(agent, TURN) == Heard([Text("a"), Done()])

    @pytest.mark.parametrize(
        ("run", "why"),
        [
            ("async def run(self, turn): return 3", "returned a int, and not a text"),
            ("def run(self, turn): return ['a']", "gave a list, and not an async generator"),
            ("async def run(self, turn):\n  yield 3", "yielded a int, and not an event"),
            ("async def run(self, turn):\n  yield {'type': 'text'}", "text must be a text"),
        ],
    )
    async def test_what_it_may_not_say_fails_the_turn(self, run: str, why: str, make: Make) -> None:
        agent = make(f"class factory:\n def __init__(self, options): pass\n {run}")
        assert why in str((await heard(agent, TURN)).failure)

    async def test_closing_the_turn_closes_it(self, make: Make) -> None:
        body = "  try:\n   yield 'a'\n  finally:\n   closed.append(1)"
        agent = make(
            "closed = []\nclass factory:\n def __init__(self, o): pass\n async def run(self, "
            f"turn):\n{body}"
        )
        running = agent.run(TURN)
        await anext(running)
        await running.aclose()
        assert sys.modules["theirs"].closed == [1]

    async def test_it_can_do_more_only_if_it_can(self, make: Make) -> None:
        plain = make(AS_THEY_COME)
        assert not isinstance(plain, TakesAnswers | TakesSteering | Closes | TakesSessionEnd)

    @pytest.mark.parametrize(
        "end",
        [
            "def session_end(self, e): heard.append(e.id)",
            "async def session_end(self, e): heard.append(e.id)",
        ],
    )
    async def test_one_that_wants_to_know_hears_that_a_session_is_over(
        self, end: str, make: Make
    ) -> None:
        body = " def __init__(self, options): pass\n async def run(self, turn):\n  yield 'hi'\n"
        agent = make(f"heard = []\nclass factory:\n{body} {end}")
        assert isinstance(agent, TakesSessionEnd)
        await agent.session_end(ENDING)
        assert sys.modules["theirs"].heard == [ENDING.id]

    async def test_answers_words_and_the_end_reach_one_that_takes_them(
        self, tmp_path: Path
    ) -> None:
        agent = load_agent(AgentSpec(name="main", kind="python", object=f"{__name__}:Listening"))
        assert isinstance(agent, TakesAnswers)
        assert isinstance(agent, TakesSteering)
        assert isinstance(agent, Closes)
        await agent.answer(TURN.id, "q", "yes")
        assert await agent.steer(TURN.id, "more")
        await agent.close()
        assert (await heard(agent, TURN)).text == "answer q yes, steer more, close"


class Listening:
    """An agent with everything."""

    def __init__(self, options: dict[str, object]) -> None:
        self.heard: list[str] = []

    async def run(self, turn: Turn) -> AsyncGenerator[str]:
        """What it heard."""
        yield ", ".join(self.heard)

    async def answer(self, turn: int, ask: str, option: str | None) -> None:
        """Noted."""
        self.heard.append(f"answer {ask} {option}")

    async def steer(self, turn: int, text: str) -> bool:
        """Noted."""
        self.heard.append(f"steer {text}")
        return True

    async def close(self) -> None:
        """Noted."""
        self.heard.append("close")


class TestMistakes:
    @pytest.mark.parametrize(
        ("name", "why"),
        [
            (None, "agents.main: which object? write object: package.module:factory"),
            ("theirs", "agents.main: theirs is not package.module:factory"),
            (
                "nonesuch.module:factory",
                "agents.main: there is no module nonesuch; name its folder in PYTHONPATH",
            ),
            ("theirs:nonesuch", "agents.main: the module theirs has no nonesuch"),
            (
                "theirs:word",
                "agents.main: theirs:word is a str; name a function that returns the agent",
            ),
            ("theirs:broken", "agents.main: theirs:broken failed: KeyError: 'key'"),
            ("theirs:nothing", "agents.main: theirs:nothing returned a NoneType without run(turn)"),
        ],
    )
    def test_each_is_told_with_its_cure(self, name: str, why: str, make: Make) -> None:
        source = "word = ''\ndef broken(options): options['key']\ndef nothing(options): pass"
        with pytest.raises(ConfigError) as caught:
            make(source, name)  # type: ignore[call-arg]
        assert whole_reason(caught.value).startswith(why)

    def test_a_module_that_cannot_be_imported_says_why(self, make: Make) -> None:
        with pytest.raises(ConfigError, match="the module theirs cannot be imported") as caught:
            make("1 / 0")
        assert caught.value.words == "ZeroDivisionError: division by zero"

    def test_one_that_ends_the_process_is_told_and_ends_nothing(self, make: Make) -> None:
        with pytest.raises(ConfigError, match="the module theirs cannot be imported") as caught:
            make("raise SystemExit(5)")
        assert caught.value.words == "SystemExit: 5"

    def test_a_library_that_it_lacks_is_named(self, make: Make) -> None:
        with pytest.raises(ConfigError, match="there is no module nonesuch_library"):
            make("import nonesuch_library")
