"""
Nothing of what could not be delivered, of what could not be stored, or of what a killed daemon left
behind is printed.

The real daemon, at level debug, on all platforms; each place has a canary of its own.
"""

from __future__ import annotations

import asyncio
import json
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import aiohttp

from tests import canary_agents
from tests.canaries import Canaries
from tests.canary_scene import ECHO, Place, Scene, scene, until_used_up
from tests.commands import PATIENCE, ROOT, turngate
from tests.ports import free_port
from tests.simulators.models import KEY
from tests.telegram_daemon import daemon

LONG = "x" * 1900
"""Fills pages, and fits into a message everywhere."""


async def test_no_canary_sings_while_nothing_can_be_stored(tmp_path: Path) -> None:
    """The disk is full, later it has room again, and in the end the database is gone."""
    canaries, port = Canaries(), free_port()
    async with scene(tmp_path, canaries) as at:
        at.write(web=f"{{listen: '127.0.0.1:{port}'}}")
        async with daemon(at.file, NOTIFY_SOCKET=str(tmp_path / "nobody")) as running:
            await at.until_connected()
            await asyncio.gather(*(be_answered(at, place) for place in at.direct))
            with full_disk(at, running.pid):
                await asyncio.gather(*(talk_in_vain(at, place) for place in at.direct))
                typed = f"{canaries.word('typed')} {LONG}"
                refused = await asyncio.to_thread(turngate, at.state, "chat", said=typed)
                shown = await look_from_outside(at, port)
            await at.until_told("the store takes writes again")
            await asyncio.gather(*(be_answered(at, place) for place in at.direct))
            (at.state / "turngate.db").unlink()
            await asyncio.gather(*(place.say(canaries.word("last_text")) for place in at.direct))
            await at.until_told("the store failed", "was deleted or moved away")
            shown += await look_from_outside(at, port)
            assert await running.stop() == 0

    assert canaries.singing(at.log, *shown, refused.stderr) == {}
    assert at.untold("a file may not grow any further", "backing off", "a message came in") == []
    assert any("the store is damaged" in each for each in shown)


async def test_no_canary_sings_of_what_is_given_up_or_left_behind(tmp_path: Path) -> None:
    """
    Answers become dead letters and are sent again by hand; then everything is cut off at once, and
    goes on.
    """
    canaries, port = Canaries(), free_port()
    around = {"PYTHONPATH": str(ROOT), "NOTIFY_SOCKET": str(tmp_path / "nobody")}
    async with scene(tmp_path, canaries) as at:
        write(at, port)
        async with daemon(at.file, **around) as running:
            await at.until_connected()
            await give_up(at)
            await work_through_queue(at)
            shown = await look_from_outside(at, port)
            await leave_everything_open(at)
            await running.kill()
        await at.models.do("script", pieces=[canaries.word("answer_of_model")])
        for place in at.direct:
            await place.sim.heal()
            await place.sim.fault("500", does="send", says=canaries.word("words_of_platform"))
        async with daemon(at.file, **around) as running:
            await at.until_told("action=turn", "agent=talks ", "attempt=2")
            await at.until_settled()
            shown += await look_from_outside(at, port)
            assert await running.stop() == 0

    assert canaries.singing(at.log, *shown) == {}
    assert at.untold(
        *("a part cannot be delivered", "a part is tried again", "a part was sent", "the agent failed", "attempt=2"),  # noqa: E501
    ) == []  # fmt: skip
    assert any("turngate_dead_letters" in each for each in shown)


def write(at: Scene, port: int) -> None:
    """With a web door, and agents that talk for long and give files."""
    model = f"{{kind: openai, base_url: '{at.models.url}/v1', model: m, api_key: {KEY}}}"
    at.write(
        ECHO | {"talks": model, "gives": canary_agents.described(at.canaries)},
        platforms=("discord", "slack"),
        web=f"{{listen: '127.0.0.1:{port}'}}",
        turns="{debounce: 10ms, drain: 1s}",
        delivery="{retry_for: 1m, stream: false}",
    )


async def give_up(at: Scene) -> None:
    """No platform takes anything, neither words nor files."""
    word = at.canaries.word
    await at.models.do("script", pieces=[f"{word('answer_of_model')} "] * 3)
    for place in at.direct:
        for does in ("send", "send_file"):
            await place.sim.fault(
                "400", does=does, times=None, says=f"{word('words_of_platform')} {place.chat}"
            )
    await asyncio.gather(at.ask("talks", "hello"), *(be_answered(at, place) for place in at.direct))
    for how in ("gives", "error"):
        await at.ask("gives", f"break {how}")
    await at.until_settled()


async def be_answered(at: Scene, place: Place) -> None:
    """A turn ends, whether its answer arrives or not."""
    turns = at.told("action=turn", f"platform={place.platform}", "agent=main ")
    await place.say(at.canaries.word("text"))
    await at.until_told("action=turn", f"platform={place.platform}", "agent=main ", times=turns + 1)


async def work_through_queue(at: Scene) -> None:
    """Everything that an operator can do with what was given up, and with what was never there."""
    listed = await at.control("queue.list")
    letters = [each["id"] for each in listed["done"]["outbox"]]
    assert len(letters) >= len(at.direct)
    for letter in letters[: len(at.direct) + 1]:
        await at.control("queue.show", id=letter)
        await at.control("queue.retry", id=letter)
    await at.until_settled()
    await at.control("queue.drop", id=letters[0])
    for verb in (
        "queue.show",
        "queue.retry",
        "queue.drop",
        "trace",
        "sessions.show",
        "sessions.search",
    ):
        await at.control(verb, id=at.canaries.word("nowhere"), words=at.canaries.word("nowhere"))


async def look_from_outside(at: Scene, port: int) -> list[str]:
    """What whoever watches over the daemon is shown: numbers, and nobody's words."""
    shown = [json.dumps(await at.control("status"))]
    async with aiohttp.ClientSession() as http:
        for path in ("metrics", "readyz", "healthz"):
            async with http.get(f"http://127.0.0.1:{port}/{path}") as response:
                shown.append(await response.text())
    return shown


@contextmanager
def full_disk(at: Scene, pid: int) -> Iterator[None]:
    """
    No file may grow beyond what the database's log has now, as an operator would have it with
    prlimit(1).
    """
    size = (at.state / "turngate.db-wal").stat().st_size
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
    try:
        yield
    finally:
        resource.prlimit(
            pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
        )


async def talk_in_vain(at: Scene, place: Place) -> None:
    """Until the disk has no room left, and then in every other way."""
    word = at.canaries.word
    async with asyncio.timeout(PATIENCE):
        while not at.told("the store failed"):
            said = await place.say(f"{word('unstored_text')} {LONG}")
            await asyncio.sleep(0.05)
    await place.do("change", id=said, text=f"{word('unstored_correction')} {LONG}")
    await place.do("react", user=place.user, message=said, emoji="👍")
    await place.say(
        f"{word('unstored_caption')} {LONG}", file=(word("unstored_file"), b"CanaryInAFile")
    )
    await place.say(f"/title {word('unstored_argument')} {LONG}")


async def leave_everything_open(at: Scene) -> None:
    """A model that talks, a question that waits, and an answer on its way at every platform."""
    word = at.canaries.word
    await at.models.do("script", pieces=[f"{word('answer_of_model')} "] * 100, pause=0.1)
    for place in at.direct:
        await place.sim.heal()
    await at.say("talks", "hello")
    await at.say("gives", "break asks")

    async def are_at_work() -> bool:
        asked = [each for each in await at.discord.messages() if each["buttons"]]
        return bool(asked) and await at.models.do("streaming") > 0

    await at.discord.until(are_at_work)
    for place in at.direct:
        await place.sim.fault("half-open", does="send", chat=place.chat)
        await place.say(word("late_text"))
    await asyncio.gather(*(until_used_up(place, "half-open") for place in at.direct))
