"""The Slack adapter when Slack calls: signed requests, and an answer that means stored."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import logging
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from io import BytesIO

import aiohttp
import pytest

from tests.contracts.adapter_scene import Ear, Scene, listening, part
from tests.contracts.platforms.slack import SlackUnderTest
from tests.fakes import FrozenClock
from tests.oracle_store import MemoryStore
from turngate.adapters import http_server
from turngate.adapters.http_server import ConnectionLimits
from turngate.adapters.slack import plugin as slack
from turngate.gateway.daemon.system_clock import SystemClock
from turngate.gateway.domain.errors import (
    AddressTaken,
    Refused,
    Retryable,
    StoreUnavailable,
    Unauthorized,
)
from turngate.gateway.domain.messages import MessageKind
from turngate.gateway.domain.outbox import Button

SECRET = "main-signing-secret"  # noqa: S105 - the simulator's
ANN = "U71001"
LARGE = 5 * 1024 * 1024


@pytest.fixture
def http() -> slack.Http:
    """A free place to listen at."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return slack.Http(host="127.0.0.1", port=int(taken.getsockname()[1]), signing_secret=SECRET)


@pytest.fixture
async def at(http: slack.Http) -> AsyncIterator[Scene]:
    """A fresh Slack and an app that it calls."""
    tested = SlackUnderTest()
    async with tested.simulator() as sim:
        account = slack.Account(bot_token="xoxb-main", http=http, api_url=f"{sim.url}/api/")  # noqa: S106
        adapter = slack.SlackAdapter(account, SystemClock(), timeouts=slack.Timeouts(look=0.1))
        try:
            yield Scene(tested=tested, sim=sim, adapter=adapter)
        finally:
            await adapter.close()
        assert await sim.violations() == []


@asynccontextmanager
async def called(at: Scene, http: slack.Http, ear: Ear) -> AsyncIterator[str]:
    """While Slack has its address, which it takes only from whoever answers its challenge."""
    url = f"http://{http.host}:{http.port}{http.path}"
    async with listening(at.adapter, ear.receive):

        async def is_open() -> bool:
            return at.adapter.progress is not None

        await at.sim.until(is_open)
        await at.sim.do("app", url=url)
        yield url
        await at.sim.do("app", url="")


def signed(body: bytes, *, at: float | None = None, secret: str = SECRET) -> dict[str, str]:
    moment = str(int(time.time() if at is None else at))
    digest = hmac.new(secret.encode(), f"v0:{moment}:".encode() + body, hashlib.sha256).hexdigest()
    return {
        "X-Slack-Request-Timestamp": moment,
        "X-Slack-Signature": f"v0={digest}",
        "Content-Type": "application/json",
    }


def event(text: str = "hello", ts: str = "1700000000.000100") -> bytes:
    said = {
        "type": "message",
        "channel": "D71001",
        "channel_type": "im",
        "user": ANN,
        "ts": ts,
        "text": text,
    }
    return json.dumps(
        {"type": "event_callback", "event_id": f"Ev{ts}", "team_id": "T0001", "event": said}
    ).encode()


async def post(url: str, body: bytes, headers: dict[str, str]) -> int:
    async with (
        aiohttp.ClientSession() as client,
        client.post(url, data=BytesIO(body), headers=headers) as response,
    ):
        return response.status


async def test_a_message_is_taken_when_it_is_stored(at: Scene, http: slack.Http) -> None:
    ear = Ear()
    ear.may_go_on.clear()
    async with called(at, http, ear):
        await at.say("by HTTP")
        await ear.until(lambda: bool(ear.tried))
        assert not await at.all_is_acknowledged()
        ear.may_go_on.set()
        await at.sim.until(at.all_is_acknowledged)

    assert ear.texts == ["by HTTP"]


async def test_what_could_not_be_stored_is_refused_and_comes_again(
    at: Scene, http: slack.Http
) -> None:
    ear = Ear(StoreUnavailable("full"))
    async with called(at, http, ear):
        await at.say("keep me")
        await ear.until_heard()
        await at.sim.until(at.all_is_acknowledged)

    assert [message.text for message in ear.tried] == ["keep me", "keep me"]
    assert "http_error" in str((await at.sim.updates())[0]["attempts"])


async def test_what_is_never_taken_is_acknowledged(at: Scene, http: slack.Http) -> None:
    async with called(at, http, Ear(Refused("too long"))):
        await at.say()
        await at.sim.until(at.all_is_acknowledged)


async def test_only_what_slack_has_signed_lately_is_heard(at: Scene, http: slack.Http) -> None:
    ear = Ear()
    async with called(at, http, ear) as url:
        body, now = event(), time.time()
        statuses = [
            await post(url, body, {}),
            await post(url, body, signed(body, secret="another")),  # noqa: S106 - nobody's
            await post(url, body, signed(body + b" ")),
            await post(url, body, signed(body, at=now - 330)),
            await post(url, body, signed(body, at=now + 330)),
            await post(url, body, {**signed(body), "X-Slack-Request-Timestamp": "yesterday"}),
            await post(url, body, {**signed(body), "X-Slack-Request-Timestamp": "9" * 5000}),
            await post(url, body, {**signed(body), "X-Slack-Signature": "v0=\xe9"}),
        ]
        assert await post(url, body, signed(body)) == 200

    assert statuses == [401] * 8
    assert ear.texts == ["hello"]


async def test_the_same_request_twice_is_one_message(at: Scene, http: slack.Http) -> None:
    ear, store = Ear(), MemoryStore(FrozenClock())
    async with called(at, http, ear) as url:
        body = event()
        headers = signed(body)
        assert [await post(url, body, headers) for _ in range(2)] == [200, 200]
    accepted = [await store.accept(each, "key") for each in ear.heard]  # type: ignore[arg-type]

    assert [each.duplicate for each in accepted] == [False, True]


@pytest.mark.parametrize(
    "body", [b"{", b"[]", b"7", b"payload=%7B", b"\xff\xfe", b"{}", event(ts=f"{'9' * 20}.000100")]
)
async def test_what_nobody_understands_disturbs_nobody(
    at: Scene, http: slack.Http, body: bytes
) -> None:
    ear = Ear()
    async with called(at, http, ear) as url:
        assert await post(url, body, signed(body)) < 500
        await at.say("still here")
        await ear.until_heard()

    assert ear.texts == ["still here"]


async def test_what_strangers_send_is_not_even_parsed(
    at: Scene, http: slack.Http, caplog: pytest.LogCaptureFixture
) -> None:
    """Finding R23: they made errors and lines in the log before the signature was looked at."""
    deep = b"[" * 100_000 + b"]" * 100_000
    unknown = {"Content-Type": "application/json; charset=foo"}
    async with called(at, http, Ear()) as url:
        unsigned = [await post(url, each, {**signed(b""), **unknown}) for each in (deep, b"\x00")]
        by_slack = [await post(url, each, {**signed(each), **unknown}) for each in (deep, event())]

    assert (unsigned, by_slack) == ([401, 401], [400, 200])
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


async def test_a_request_that_does_not_end_is_hung_up(
    at: Scene, http: slack.Http, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Finding R10: 200 unfinished bodies stayed open before any signature."""
    scaled = replace(ConnectionLimits(), first_request=0.2, body=0.2)
    monkeypatch.setattr(http_server, "ConnectionLimits", lambda: scaled)
    async with called(at, http, Ear()):
        reader, writer = await asyncio.open_connection(http.host, http.port)
        head = f"POST {http.path} HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n"
        told = "".join(f"{name}: {value}\r\n" for name, value in signed(b"").items())
        writer.write(f"{head}{told}\r\nhalf".encode())
        assert b"408" in await reader.readline()
        writer.close()


async def test_a_request_has_its_limits(at: Scene, http: slack.Http) -> None:
    async with called(at, http, Ear()) as url:
        body = event("x" * LARGE)
        assert await post(url, body, signed(body)) == 413


async def test_commands_and_presses_come_the_same_way(at: Scene, http: slack.Http) -> None:
    ear, button = Ear(), Button(label="Yes", nonce="0f" * 16)
    async with called(at, http, ear):
        asked = await at.adapter.ask(replace(part(at.here, "Sure?"), buttons=(button,)))
        await at.sim.do(
            "press", chat=at.here.chat_id, user=ANN, message=asked.message_id, nonce=button.nonce
        )
        await ear.until_heard()
        await at.sim.do(
            "command", chat=at.here.chat_id, user=ANN, command="/new", text="with a payload"
        )
        await ear.until_heard(2)
        await at.sim.until(at.all_is_acknowledged)

    assert [(each.kind, each.text) for each in ear.heard] == [
        (MessageKind.BUTTON, button.nonce),
        (MessageKind.COMMAND, "/new with a payload"),
    ]


async def test_if_slack_says_that_it_left_out_events_the_past_is_to_be_read(
    at: Scene, http: slack.Http
) -> None:
    running = asyncio.ensure_future(at.adapter.run(Ear().receive))
    url = f"http://{http.host}:{http.port}{http.path}"
    body = json.dumps(
        {"type": "app_rate_limited", "team_id": "T0001", "minute_rate_limited": 1700000000}
    ).encode()

    async def is_open() -> bool:
        return at.adapter.progress is not None

    await at.sim.until(is_open)
    assert await post(url, body, signed(body)) == 200

    with pytest.raises(Retryable, match="dropped events"):
        await running


async def test_progress_is_that_slack_answers(at: Scene, http: slack.Http) -> None:
    async with listening(at.adapter, Ear().receive):
        for _ in range(3):
            before = at.adapter.progress
            async with asyncio.timeout(10):
                while at.adapter.progress == before:
                    await asyncio.sleep(0.01)


async def test_a_token_that_is_revoked_ends_the_run(at: Scene, http: slack.Http) -> None:
    running = asyncio.ensure_future(at.adapter.run(Ear().receive))
    await at.sim.do("app", revoked=True)

    with pytest.raises(Unauthorized, match="revoked"):
        await running


async def test_an_address_that_another_program_has_is_told_as_such(
    at: Scene, http: slack.Http
) -> None:
    with socket.socket() as taken:
        taken.bind((http.host, http.port))
        taken.listen()
        with pytest.raises(AddressTaken, match=str(http.port)):
            await at.adapter.run(Ear().receive)
