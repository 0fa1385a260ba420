"""
A program for an agent, through the whole life of a message: what people get of it, and what the
store keeps.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.at_work import AtWork, at_desk, at_work
from tests.fakes import FileAdapter
from tests.oracle_store import MemoryStore
from tests.programs import ENV, is_gone, program
from turngate.gateway.agents import AgentSpec, load_agent
from turngate.gateway.daemon.system_clock import SystemClock
from turngate.gateway.domain.agent_events import LONGEST_ANSWER
from turngate.gateway.rules.policy import ConfiguredAgent, Policy
from turngate.gateway.stores.session_files import SessionFiles

TELL = "import json\ndef tell(**event): say(json.dumps(event))\n"


@asynccontextmanager
async def working_for_us(body: str, folder: Path, *, form: str = "text") -> AsyncIterator[AtWork]:
    """A gateway whose agent is that program."""
    argv = tuple(program(TELL + body if form == "jsonl" else body))
    agent = load_agent(AgentSpec(name="main", kind="command", argv=argv, format=form, env=ENV))
    policy = Policy(agents={"main": ConfiguredAgent(name="main", agent=agent, has_workdir=True)})
    store, files = MemoryStore(SystemClock()), SessionFiles(folder / "files")
    async with at_work(policy, store, SystemClock(), adapter=FileAdapter(), files=files) as work:
        yield work


async def workdir(work: AtWork, folder: Path) -> Path:
    """Where the program worked."""
    session = await work.session(at_desk())
    return Path(SessionFiles(folder / "files").workdir(session.id))


async def test_a_program_answers_in_the_folder_of_its_conversation(tmp_path: Path) -> None:
    async with working_for_us(
        "open('notes', 'a').write('x'); say(len(open('notes').read()))", tmp_path
    ) as work:
        await work.say("one")
        await work.adapter.until_sent(1)
        await work.say("two")
        await work.adapter.until_sent(2)
        await work.say("elsewhere", source=at_desk("another"))
        await work.adapter.until_sent(3)
        assert work.adapter.texts == ["1", "2", "1"]


async def test_a_crash_is_told_with_what_was_said_and_without_what_is_only_for_the_operator(
    tmp_path: Path,
) -> None:
    body = "say('half an answer'); print('canary', file=sys.stderr); sys.exit(3)"
    async with working_for_us(body, tmp_path) as work:
        await work.say("go")
        await work.adapter.until_sent(1)
        (text,) = work.adapter.texts
        assert text.startswith("half an answer\n\n*(incomplete: exit status 3;")
        assert "canary" not in text
        assert "half an answer" in (await work.texts())[-1]


async def test_of_a_hundred_megabytes_the_beginning_is_kept(tmp_path: Path) -> None:
    body = "for _ in range(100_000): os.write(1, b'word ' * 200)"
    async with working_for_us(body, tmp_path) as work:
        await work.say("go")
        await work.adapter.until_sent(1)
        kept = (await work.texts())[-1]
        assert len(kept) > LONGEST_ANSWER / 2
        assert "incomplete: it said more than 2,000,000 characters" in kept
        assert is_gone(await workdir(work, tmp_path))


async def test_a_program_that_was_stopped_is_gone_when_that_is_told(tmp_path: Path) -> None:
    body = (
        "signal.signal(signal.SIGTERM, signal.SIG_IGN); say('working'); open('ready', 'w'); wait()"
    )
    async with working_for_us(body, tmp_path) as work:
        await work.say("go")
        while not list(tmp_path.glob("files/*/work/ready")):
            await asyncio.sleep(0.01)
        await work.say("/stop")
        await work.adapter.until_sent(2)
        # Its word may still have been on its way when it was stopped.
        assert any(
            text.endswith(("(incomplete: stopped)*", "(Stopped before the first word.)"))
            for text in work.adapter.texts
        )
        assert is_gone(await workdir(work, tmp_path))


async def test_a_program_asks_and_hears_the_answer(tmp_path: Path) -> None:
    body = """
sys.stdin.readline()
tell(type="ask", id="q", text="Deploy?", options=["now", "never"])
tell(type="text", text="You said " + json.loads(sys.stdin.readline())["option"])
"""
    async with working_for_us(body, tmp_path, form="jsonl") as work:
        await work.say("go")
        await work.adapter.until_sent(1)
        await work.say("2")
        while "You said never" not in work.adapter.texts:
            await work.adapter.until_sent(len(work.adapter.sent) + 1)


async def test_a_program_sends_a_file_that_it_made(tmp_path: Path) -> None:
    body = (
        "open('plan.txt', 'w').write('all of it'); tell(type='file', path='plan.txt'); "
        "tell(type='text', text='Here.')"
    )
    async with working_for_us(body, tmp_path, form="jsonl") as work:
        await work.say("go")
        await work.adapter.until_sent(2)
        assert [part.file.name for part in work.adapter.sent if part.file] == ["plan.txt"]
