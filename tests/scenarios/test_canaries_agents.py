"""
Nothing of what agents, models and programs say, ask for or are given is in what the daemon prints,
however they fail.

The real daemon, at level debug; each place has a canary of its own.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

from tests import canary_agents, canary_program
from tests.canaries import Canaries, command_lines
from tests.canary_scene import ECHO, Place, Scene, scene
from tests.commands import ROOT
from tests.simulators.models import KEY
from tests.telegram_daemon import daemon

HOW_AGENTS_BREAK = (
    "bug",
    "error",
    "refusal",
    "unavailable",
    "exit",
    "sends",
    "surroundings",
    "silence",
)
HOW_MODELS_BREAK = (
    "400",
    "401",
    "403",
    "404",
    "500",
    "502 html",
    "html",
    "garbage",
    "reset",
    "error inside",
    "cut",
)

OTHERS = ("absent", "text", "jsonl", "http")

HOW_PROGRAMS_BEGIN = ("exits", "breaks", "mumbles", "locks", "forgets", "stops")
HOW_PROGRAMS_BREAK = (
    "error",
    "missing",
    "login",
    "nonsense",
    "refusal",
    "garbage",
    "permission",
    "death",
)
HIDDEN_IN_PROGRAMS = (
    *(
        "stderr",
        "result",
        "login",
        "session",
        "error",
        "data",
        "line",
        "update",
        "question",
        "option",
        "path",
    ),
    *("thought", "output", "tool", "tool_input", "tool_output"),
)


def agents(at: Scene, folder: Path) -> dict[str, str]:
    """Of every kind."""
    canaries, closed = at.canaries, "http://127.0.0.1:9"
    key, program = canaries.word("api_key"), folder / "program.py"
    program.write_text(f"import sys; sys.exit('{canaries.word('stderr')}' + sys.stdin.read())")
    model, word = f"model: m, attempts: 1, api_key: {KEY}", canaries.word("query")
    return ECHO | {
        "python": canary_agents.described(canaries),
        "openai": f"{{kind: openai, base_url: '{at.models.url}/v1', {model}}}",
        "anthropic": f"{{kind: anthropic, base_url: '{at.models.url}/v1', {model}}}",
        "absent": f"{{kind: openai, base_url: '{closed}/v1?key={word}', model: m, attempts: 2, "
        f"api_key: {key}}}",
        "text": f"{{kind: command, argv: ['{sys.executable}', '{program}'], env: {{SECRET: "
        f"{canaries.word('env')}}}}}",
        "jsonl": "{kind: command, format: jsonl, argv: ['/bin/cat']}",
        "http": f"{{kind: http, url: '{at.models.url}/_control/{canaries.word('path')}', "
        f"api_key: {key}, attempts: 1}}",
    }


async def test_no_canary_sings_when_agents_fail(tmp_path: Path) -> None:
    canaries = Canaries()
    async with scene(tmp_path, canaries) as at:
        at.write(agents(at, tmp_path), platforms=("discord",))
        async with daemon(at.file, PYTHONPATH=str(ROOT)) as running:
            await at.until_connected()
            await asyncio.gather(
                break_agent(at),
                break_model(at, "openai", "completions"),
                break_model(at, "anthropic", "messages"),
                *(at.ask(agent, "hello") for agent in OTHERS),
            )
            shown = command_lines([running.pid])
            assert await running.stop() == 0

    assert at.told("action=turn") == len(HOW_AGENTS_BREAK) + 2 * len(HOW_MODELS_BREAK) + len(OTHERS)
    assert canaries.singing(at.log, shown) == {}
    assert (
        at.untold(
            "the agent failed",
            "an agent is unavailable",
            "unexpected error",
            "a library logged a warning",
        )
        == []
    )
    assert "level=debug" in at.log


async def break_agent(at: Scene) -> None:
    for how in HOW_AGENTS_BREAK:
        await at.ask("python", f"break {how}")


async def break_model(at: Scene, agent: str, method: str) -> None:
    """Each time with words that quote us."""
    for kind in HOW_MODELS_BREAK:
        await at.models.fault(kind, says=at.canaries.word("refusal_of_model"), method=method)
        await at.ask(agent, "hello")


def programs(at: Scene) -> dict[str, str]:
    """
    Each fails in its own way, `talks` and `sits` only when they are asked to; `absent` is none.
    """
    words = json.dumps({name: at.canaries.word(name) for name in HIDDEN_IN_PROGRAMS})
    secret = at.canaries.word("env")

    def described(*argv: str) -> str:
        return (
            f"{{kind: acp, attempts: 1, argv: {list(argv)}, env: {{WORDS: '{words}', SECRET: "
            f"{secret}}}}}"
        )

    hows = (*HOW_PROGRAMS_BEGIN, "talks", "sits")
    there = {how: described(sys.executable, canary_program.__file__, how) for how in hows}
    return ECHO | there | {"absent": described("/nowhere/program")}


async def test_no_canary_sings_when_programs_of_the_agent_client_protocol_fail(
    tmp_path: Path,
) -> None:
    """
    Before there is a session each has a program of its own; after that one fails at every turn.
    """
    canaries = Canaries()
    async with scene(tmp_path, canaries) as at:
        turns = "{debounce: 10ms, drain: 1s, idle_timeout: 5s, answer_within: 3s}"
        at.write(programs(at), platforms=("discord",), turns=turns)
        async with daemon(at.file) as running:
            await at.until_connected()
            await asyncio.gather(
                *(at.ask(each, "hello") for each in (*HOW_PROGRAMS_BEGIN, "absent")),
                at.ask("sits", "break silence"),
                break_turns(at),
            )
            shown = command_lines([running.pid])
            assert await running.stop() == 0

    assert at.told("action=turn") == len(HOW_PROGRAMS_BEGIN) + len(HOW_PROGRAMS_BREAK) + 3
    assert canaries.singing(at.log, shown) == {}
    assert at.untold(
        *("the agent failed", "the agent hit its idle timeout", "a program wrote to stderr", "a file was refused"),  # noqa: E501
        *("locks is not logged in", "program cannot be started", "reports that something is not there"),  # noqa: E501
        *("the agent's program ended (exit status 1)", "the agent's program ended (exit status 3)"),
    ) == []  # fmt: skip


async def break_turns(at: Scene) -> None:
    """
    One after the other: the program is started again when it has died. Of two questions one is
    answered.
    """
    await press(await at.say("talks", "break permission"), at.canaries.word("option"))
    await at.until_told("action=turn", "agent=talks ")
    for how in HOW_PROGRAMS_BREAK:
        await at.ask("talks", f"break {how}")


async def press(place: Place, label: str) -> None:
    """The first of these buttons, once it is shown."""
    shown: list[tuple[str, str]] = []

    async def is_shown() -> bool:
        messages = [each for each in await place.sim.messages() if each["chat"] == place.chat]
        shown[:] = [
            (each["id"], it["nonce"])
            for each in messages
            for it in each["buttons"]
            if it["label"] == label
        ]
        return bool(shown)

    await place.sim.until(is_shown)
    message, nonce = shown[0]
    await place.do("press", user=place.user, message=message, nonce=nonce)
