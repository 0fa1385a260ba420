"""
No secret, and nothing of what strangers send to where platforms call, is in what the daemon prints.

The real daemon, at level debug; each place has a canary of its own.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import time
from io import BytesIO
from pathlib import Path

import aiohttp

from tests.canaries import Canaries
from tests.canary_scene import WORKSPACE, Scene, break_sending, crowd, scene
from tests.ports import free_port
from tests.telegram_daemon import daemon

SECRET = "X-Telegram-Bot-Api-Secret-Token"  # noqa: S105 - the name of a header
SIGNATURE, SIGNED_AT = "X-Slack-Signature", "X-Slack-Request-Timestamp"
TOO_LARGE = 5 * 1024 * 1024


async def test_no_canary_sings_when_strangers_call_in_the_name_of_platforms(tmp_path: Path) -> None:
    canaries = Canaries()
    async with scene(tmp_path, canaries) as at:
        people = crowd(
            at, ("400", "403", "429", "500", "garbage", "lost answer"), "telegram", "slack"
        )
        group = f"-100{canaries.number('supergroup')}"
        hook, events = address(f"/{canaries.word('path')}"), address("/slack/events")
        secret, signing = canaries.word("webhook_secret"), canaries.word("signing_secret")
        webhook = f"{{webhook: {{url: '{hook}', listen: '{host_of(hook)}', secret: {secret}}}}}"
        requests = f"{{http: {{listen: '{host_of(events)}', signing_secret: {signing}}}}}"
        at.write(
            platforms=("telegram", "slack"),
            telegram=f", receive: {webhook}",
            slack=f", receive: {requests}",
            allow=(f"telegram:chat:{group}",),
        )
        async with daemon(at.file) as running:
            await until_open(at, events, signing)
            await asyncio.gather(
                call_as_telegram(at, hook, secret, group),
                call_as_slack(at, events, signing),
                break_sending(at, people),
            )
            assert await running.stop() == 0

    assert canaries.singing(at.log) == {}
    assert at.untold(
        *("an update was set aside: its form is unknown", "an event cannot be converted; it was set aside"),  # noqa: E501
        *("a message came in", "a part cannot be delivered", "a part is tried again"),
    ) == []  # fmt: skip


def address(path: str) -> str:
    """Where nobody listens yet."""
    return f"http://127.0.0.1:{free_port()}{path}"


def host_of(url: str) -> str:
    return url.removeprefix("http://").partition("/")[0]


async def until_open(at: Scene, events: str, signing: str) -> None:
    """
    Telegram has been told where to call; Slack is told by whoever runs the app, and calls there at
    once.
    """

    async def is_set() -> object:
        return await at.telegram.calls(method="setWebhook")

    await at.telegram.until(is_set)
    await at.slack.do("app", account=WORKSPACE, secret=signing, socket_mode=False)
    async with asyncio.timeout(30), aiohttp.ClientSession() as http:
        while await post(http, events, b"") is None:
            await asyncio.sleep(0.02)
    await at.slack.do("app", account=WORKSPACE, url=events)


async def post(
    http: aiohttp.ClientSession, url: str, body: bytes, headers: dict[str, str] | None = None
) -> int | None:
    """What it is answered with; None where nobody listens."""
    try:
        async with http.post(url, data=BytesIO(body), headers=headers) as response:
            return response.status
    except aiohttp.ClientConnectorError:
        return None


async def call_as_telegram(at: Scene, hook: str, secret: str, group: str) -> None:
    """
    Without the secret, with another one, and with the right one in words that nobody understands.
    """
    word, number = at.canaries.word, at.canaries.number
    said = json.dumps({"update_id": 7, "message": {"text": word("stranger_text")}}).encode()
    person = {
        "id": int(number("member")),
        "is_bot": False,
        "first_name": word("first"),
        "username": word("nick"),
    }
    chat = {"id": int(group), "type": "supergroup", "title": word("title"), "is_forum": True}
    told = {
        "message_id": int(number("message")),
        "message_thread_id": int(number("topic")),
        "is_topic_message": True,
        "date": 1_700_000_000,
        "chat": chat,
        "from": person,
        "text": f"/new@main_bot {word('text')}",
        "entities": [{"type": "bot_command", "offset": 0, "length": len("/new@main_bot")}],
    }
    understood = {"update_id": int(number("update")), "message": told}
    strange = (
        b"{",
        word("garbage").encode(),
        json.dumps([word("garbage")]).encode(),
        json.dumps({"update_id": word("garbage")}).encode(),
        json.dumps({word("garbage"): word("garbage")}).encode(),
        b"\xff" + word("garbage").encode(),
    )
    left_out = (
        {"update_id": 1, "message": {"text": word("garbage"), word("garbage"): []}},
        {"update_id": 2, "callback_query": {"id": word("query"), "data": word("garbage")}},
        {"update_id": 3, word("kind"): {"text": word("garbage")}},
    )
    known = {SECRET: secret}
    async with aiohttp.ClientSession() as http:
        refused = [
            await post(http, hook, said, headers)
            for headers in (
                {},
                {SECRET: word("wrong_secret")},
                {SECRET: secret[:-1]},
                {SECRET: "\xff", "X": word("header")},
            )
        ]
        wrong = [await post(http, hook, body, known) for body in strange]
        taken = [
            await post(http, hook, json.dumps(each).encode(), known)
            for each in (*left_out, understood)
        ]
        elsewhere = await post(
            http, f"{hook}/{word('elsewhere')}?{word('request')}={word('request')}", said, known
        )
        large = await post(http, hook, b"x" * TOO_LARGE, known)
    assert (refused, wrong, taken) == ([403] * 4, [400] * len(strange), [200] * 4)
    assert (elsewhere, large) == (404, 413)
    await rattle(hook, word("raw"), SECRET)


def signed(body: bytes, secret: str, *, late: float = 0.0) -> dict[str, str]:
    """As Slack does it."""
    moment = str(int(time.time() - late))
    digest = hmac.new(secret.encode(), f"v0:{moment}:".encode() + body, hashlib.sha256).hexdigest()
    return {SIGNED_AT: moment, SIGNATURE: f"v0={digest}", "Content-Type": "application/json"}


async def call_as_slack(at: Scene, events: str, secret: str) -> None:
    """Unsigned, signed by another, too late; and signed well in words that nobody understands."""
    word, number = at.canaries.word, at.canaries.number
    said = {
        "type": "message",
        "channel": f"D{number('strange_dm')}",
        "user": f"U{number('strange_user')}",
    }
    said |= {
        "text": word("stranger_text"),
        "ts": at.canaries.keep("ts", "1700000000.867530"),
        "channel_type": "im",
    }
    event = {"type": "event_callback", "event_id": word("event"), "team_id": at.team, "event": said}
    body = json.dumps(event).encode()
    strange = [
        {**event, "event": word("garbage")},
        {
            **event,
            "event": {
                "type": "message",
                "channel": {"id": word("garbage")},
                "user": [],
                "text": 7,
                "ts": "x",
            },
        },
        {**event, "event": {**said, "ts": f"{number('early')}{number('late')}.000100"}},
        {**event, "team_id": word("other_team")},
        {"type": word("kind"), word("garbage"): word("garbage")},
        {"type": "block_actions", "actions": word("garbage"), "user": word("garbage")},
    ]
    garbage = (
        b"{",
        word("garbage").encode(),
        b'["' + word("garbage").encode() + b'"]',
        b"\xff",
        b"payload=%7B",
    )
    async with aiohttp.ClientSession() as http:
        refused = [
            await post(http, events, body, headers)
            for headers in (
                {},
                signed(body, word("wrong_secret")),
                signed(body + b" ", secret),
                signed(body, secret, late=330),
                {**signed(body, secret), SIGNATURE: word("signature")},
                {**signed(body, secret), SIGNED_AT: word("timestamp"), "X": word("header")},
            )
        ]
        for each in (*garbage, *(json.dumps(one).encode() for one in strange)):
            assert await post(http, events, each, signed(each, secret)) in (200, 400)
        elsewhere = await post(
            http, f"{events}/{word('elsewhere')}?{word('request')}", body, signed(body, secret)
        )
        large = await post(http, events, b"x" * TOO_LARGE, signed(b"", secret))
        assert await post(http, f"{events}?{word('request')}", body, signed(body, secret)) == 200
    assert refused == [401] * 6
    assert (elsewhere, large) == (404, 413)
    await rattle(events, word("raw"), SIGNATURE)


async def rattle(url: str, word: str, header: str) -> None:
    """What is no request at all, and one with a header that is no text."""
    place, path = host_of(url), url.removeprefix(f"http://{host_of(url)}")
    for raw in (
        f"POST /{word}\r\n\r\n",
        f"{word} / HTTP/9.9\r\n\r\n",
        f"POST {path} HTTP/1.1\r\nHost {word}\r\n\r\n",
        f"POST {path} HTTP/1.1\r\nHost: {word}\r\n{header}: \xff{word}\r\nContent-Length: "
        "0\r\n\r\n",
    ):
        reader, writer = await asyncio.open_connection(*place.split(":"))
        writer.write(raw.encode("latin-1"))
        assert (await reader.readline()).split()[1].startswith(b"4")
        writer.close()
