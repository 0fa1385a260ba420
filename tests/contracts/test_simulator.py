"""
What every simulator does, whoever's bot it is: strict, recorded, broken by rule, in this process or
its own.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import nullcontext

import aiohttp
import pytest
from aiohttp import web

from tests.simulators import common, scripted
from tests.simulators.common import Call, Json, Method, Refusal, Rule, Simulator
from tests.simulators.faults import KINDS
from tests.simulators.running import Remote, as_process, in_process
from tests.simulators.scripted import Scripted


@pytest.fixture(params=["in this process", "in its own"])
async def sim(request: pytest.FixtureRequest) -> AsyncIterator[Remote]:
    """The scripted platform, with one chat."""
    here = request.param == "in this process"
    async with (
        in_process(Simulator(Scripted()))
        if here
        else as_process("tests.simulators.scripted") as remote
    ):
        await remote.say("hi", chat="7", user="ann")
        yield remote


@pytest.fixture
async def bot() -> AsyncIterator[aiohttp.ClientSession]:
    """Anybody's."""
    async with aiohttp.ClientSession(headers={"Authorization": "Bearer main-token"}) as http:
        yield http


async def send(bot: aiohttp.ClientSession, sim: Remote, **what: object) -> tuple[int, Json]:
    async with bot.post(
        f"{sim.url}/api/send", json={"chat": "7", "text": "hello", **what}
    ) as response:
        return response.status, await response.json()


async def test_a_call_is_recorded_with_what_it_said_and_what_became_of_it(
    sim: Remote, bot: aiohttp.ClientSession
) -> None:
    await send(bot, sim)
    await send(bot, sim, chat="8")

    first, second = await sim.calls(does="send")
    assert (first["method"], first["account"], first["chat"]) == ("send", "main", "7")
    assert (first["parameters"], first["answered"]) == ({"chat": "7", "text": "hello"}, "done")
    assert second["answered"] == "refused: 404 no such chat"
    assert first["at"] <= second["at"]
    assert await sim.calls(does="send", chat="8") == [second]


@pytest.mark.parametrize(
    ("what", "trouble"),
    [
        ({"colour": "red"}, "colour is unknown"),
        ({"text": 7}, "text is int and not str"),
        ({"text": True}, "text is bool and not str"),
        ({"reply_to": None}, "reply_to is NoneType and not str"),
        ({"format": "html"}, "there is no format html"),
    ],
)
async def test_a_wrong_parameter_is_refused_and_is_a_violation(
    sim: Remote, bot: aiohttp.ClientSession, what: dict[str, object], trouble: str
) -> None:
    status, answer = await send(bot, sim, **what)

    (violation,) = await sim.violations()
    assert status == 400
    assert trouble in str(answer)
    assert trouble in violation["what"]
    assert violation["source"]
    assert await sim.texts() == []


async def test_a_missing_parameter_and_an_unknown_method_are_violations(
    sim: Remote, bot: aiohttp.ClientSession
) -> None:
    async with bot.post(f"{sim.url}/api/send", json={"chat": "7"}) as missing:
        assert missing.status == 400
    async with bot.post(f"{sim.url}/api/sned", json={}) as unknown:
        assert unknown.status == 404
    async with bot.post(f"{sim.url}/api/send", data=b"{") as unreadable:
        assert unreadable.status == 400

    assert [violation["rule"] for violation in await sim.violations()] == [
        "parameters",
        "known methods",
        "parameters",
    ]


async def test_what_a_correct_bot_may_run_into_is_no_violation(
    sim: Remote, bot: aiohttp.ClientSession
) -> None:
    assert (await send(bot, sim, text="x" * 4001))[0] == 400
    assert (await send(bot, sim, text="{{ unclosed"))[0] == 400
    assert (await send(bot, sim, text="{{ unclosed", format="plain"))[0] == 200
    assert (await send(bot, sim, chat="8"))[0] == 404

    assert await sim.violations() == []


async def test_a_fault_lets_some_calls_pass_and_then_happens_so_many_times(
    sim: Remote, bot: aiohttp.ClientSession
) -> None:
    await sim.fault("500", does="send", skip=1, times=2)

    assert [(await send(bot, sim))[0] for _ in range(5)] == [200, 500, 500, 200, 200]


async def test_a_fault_happens_to_what_it_matches_only(
    sim: Remote, bot: aiohttp.ClientSession
) -> None:
    await sim.say("hi", chat="8", user="bob")
    await sim.fault("500", does="send", chat="8", text="unlucky", times=None)

    assert (await send(bot, sim, text="unlucky"))[0] == 200
    assert (await send(bot, sim, chat="8"))[0] == 200
    assert (await send(bot, sim, chat="8", text="unlucky"))[0] == 500
    await sim.heal()
    assert (await send(bot, sim, chat="8", text="unlucky"))[0] == 200


@pytest.mark.parametrize(("after", "texts"), [(False, []), (True, ["hello"])])
async def test_a_reset_before_and_after_the_effect_look_the_same(
    sim: Remote, bot: aiohttp.ClientSession, after: bool, texts: list[str]
) -> None:
    await sim.fault("reset", does="send", after=after)

    with pytest.raises(aiohttp.ClientConnectionError):
        await send(bot, sim)

    assert await sim.texts() == texts


async def test_a_rule_that_nobody_could_follow_is_refused_with_what_would_be_right(
    sim: Remote,
) -> None:
    with pytest.raises(
        ValueError, match="no such kind of fault: 'flood'; there are reset, lost answer"
    ):
        await sim.fault("flood")
    with pytest.raises(
        ValueError,
        match="nothing here answers POST /_control/shout; GET /_control/ lists the names",
    ):
        await sim.do("shout")
    with pytest.raises(ValueError, match="say: user is missing; colour is unknown"):
        await sim.do("say", chat="7", text="hi", colour="red")


async def test_every_rule_names_its_source(sim: Remote) -> None:
    rules = await sim.rules()

    assert {"parameters", "largest message", "credentials"} <= {rule["name"] for rule in rules}
    assert all(rule["source"] for rule in rules)


def test_what_people_can_do_and_what_can_go_wrong_is_documented() -> None:
    platform = Scripted()

    assert [deed for deed in platform.deeds if f"    {deed} {{" not in common.__doc__] == []
    assert [method for method in platform.methods if f"/api/{method}" not in scripted.__doc__] == []
    assert all({**KINDS, **platform.own_faults}.values())


class Careless:
    """A platform that is wrong itself."""

    own_faults: dict[str, str] = {}  # noqa: RUF012 - nobody changes it
    rules: tuple[Rule, ...] = ()
    deeds: dict[str, Method] = {}  # noqa: RUF012 - as above

    def __init__(self) -> None:
        self.methods = {
            "me": Method(answer=self._me, validate=lambda answer: answer["id"]),  # type: ignore[index]
            "no": Method(answer=self._no),
        }

    def routes(self, simulator: Simulator) -> Iterable[web.RouteDef]:
        async def answer(request: web.Request) -> web.StreamResponse:
            return await simulator.serve(request, request.match_info["method"], {})

        return [web.get("/{method}", answer)]

    def at_work(self) -> nullcontext[None]:
        return nullcontext()

    def reply(self, answer: Json) -> web.Response:
        return web.json_response(answer)

    def refuse(self, refusal: Refusal) -> web.Response:
        return web.json_response({"error": refusal.text}, status=refusal.status)

    async def _me(self, call: Call) -> Json:
        return {"name": "a reply without the id that the types ask for"}

    async def _no(self, call: Call) -> Json:
        raise Refusal(400, "because", rule=Rule("made up", source="nowhere"))


@pytest.mark.parametrize(
    ("method", "trouble"),
    [
        ("me", "the simulator's own reply is wrong: 'id'"),
        ("no", "made up is enforced and not listed"),
    ],
)
async def test_a_simulator_that_is_wrong_itself_is_a_violation(
    bot: aiohttp.ClientSession, method: str, trouble: str
) -> None:
    async with in_process(Simulator(Careless())) as sim:
        async with bot.get(f"{sim.url}/{method}") as response:
            assert response.status >= 400

        assert [violation["what"] for violation in await sim.violations()] == [trouble]


async def test_a_frame_on_a_socket_is_checked_recorded_and_broken_like_a_request() -> None:
    simulator = Simulator(Scripted())
    simulator.faults.add({"kind": "reorder", "match": {"does": "receive", "account": "main"}})

    frame = simulator.frame("updates", {"wait": 1.0}, account="main")
    with pytest.raises(Refusal, match="colour is unknown"):
        simulator.frame("updates", {"colour": "red"}, account="main")

    assert frame.fault is not None
    assert frame.fault.kind == "reorder"
    async with in_process(simulator) as sim:
        assert [call["answered"].split(":")[0] for call in await sim.calls(method="updates")] == [
            "done",
            "refused",
        ]
        assert [violation["rule"] for violation in await sim.violations()] == ["parameters"]
