"""The web door from outside: real requests on a real port."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import ClientResponse, ClientSession, CookieJar, TCPConnector, WSServerHandshakeError

from tests.web_door import Door, enter, needs_of, open_door
from turngate.gateway.domain.errors import AddressTaken, ConfigError
from turngate.gateway.web import Readiness, WebServer
from turngate.gateway.web.chat import MOST_TABS


@pytest.fixture
async def door(tmp_path: Path) -> AsyncIterator[Door]:
    """One that is open."""
    async with open_door(tmp_path) as door:
        yield door


@pytest.fixture
async def stranger() -> AsyncIterator[ClientSession]:
    """A browser without a cookie."""
    async with ClientSession(cookie_jar=CookieJar(unsafe=True)) as client:
        yield client


@pytest.fixture
async def guest(door: Door, stranger: ClientSession) -> ClientSession:
    """A browser that has opened its link."""
    async with stranger.get(door.server.link()) as response:
        assert response.status == 200
    return stranger


async def get(client: ClientSession, door: Door, path: str, **headers: str) -> ClientResponse:
    async with client.get(
        door.server.address + path, headers=headers, allow_redirects=False
    ) as response:
        await response.read()
    return response


async def test_the_link_gives_a_cookie_and_leads_to_the_chat(
    door: Door, stranger: ClientSession
) -> None:
    async with stranger.get(door.server.link(), allow_redirects=False) as response:
        cookie = response.headers["Set-Cookie"]

    assert response.status == 303
    assert response.headers["Location"].startswith("/chat#key=")
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    assert "Path=/" in cookie
    assert (await get(stranger, door, "/chat")).status == 200


async def test_a_used_link_says_how_to_get_another(door: Door, stranger: ClientSession) -> None:
    link = door.server.link()
    await stranger.get(link, allow_redirects=False)

    async with ClientSession() as other, other.get(link) as response:
        page = await response.text()

    assert response.status == 401
    assert "turngate web link" in page
    assert "Set-Cookie" not in response.headers


async def test_a_browser_that_looks_ahead_does_not_use_up_the_link(
    door: Door, stranger: ClientSession
) -> None:
    link = door.server.link()

    async with stranger.get(link, headers={"Sec-Purpose": "prefetch;prerender"}) as looked_ahead:
        assert looked_ahead.status == 503
    async with stranger.head(link) as asked:
        assert asked.status == 405

    async with stranger.get(link, allow_redirects=False) as response:
        assert response.status == 303


async def test_without_a_cookie_the_chat_says_how_to_come_in(
    door: Door, stranger: ClientSession
) -> None:
    async with stranger.get(f"{door.server.address}/chat") as response:
        page = await response.text()

    assert response.status == 401
    assert "turngate web link" in page


async def test_the_cookie_is_good_after_a_restart(tmp_path: Path, stranger: ClientSession) -> None:
    async with open_door(tmp_path) as door:
        await stranger.get(door.server.link())
        port = int(door.server.address.rpartition(":")[2])

    async with open_door(tmp_path, port=port) as door:
        assert (await get(stranger, door, "/chat")).status == 200


async def test_the_front_page_leads_to_the_chat(door: Door, guest: ClientSession) -> None:
    response = await get(guest, door, "/")

    assert (response.status, response.headers["Location"]) == (303, "/chat")


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/chat",
        "/enter?code=x",
        "/static/chat.css",
        "/nothing",
        "/healthz",
        "/readyz",
        "/metrics",
    ],
)
async def test_a_name_of_somebody_else_is_answered_with_nothing_but_our_address(
    door: Door, guest: ClientSession, path: str
) -> None:
    """Finding R21: a page whose own name points here could read accounts and costs."""
    response = await get(guest, door, path, Host="evil.example:80")

    assert response.status == 421


async def test_health_needs_no_cookie(door: Door, stranger: ClientSession) -> None:
    async with stranger.get(f"{door.server.address}/healthz") as response:
        assert (response.status, await response.text()) == (200, "ok")
    async with stranger.get(f"{door.server.address}/metrics") as response:
        assert (response.status, await response.text()) == (200, "turngate_up 1\n")
        assert response.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"


async def test_readiness_gives_its_reasons(door: Door, stranger: ClientSession) -> None:
    async with stranger.get(f"{door.server.address}/readyz") as response:
        assert (response.status, await response.json()) == (200, {"ready": True, "reasons": []})

    door.readiness = Readiness(ready=False, reasons=("telegram has not answered yet",))
    async with stranger.get(f"{door.server.address}/readyz") as response:
        assert response.status == 503
        assert await response.json() == {
            "ready": False,
            "reasons": ["telegram has not answered yet"],
        }


@pytest.mark.parametrize("path", ["/chat", "/enter", "/nothing", "/static/js/main.js", "/healthz"])
async def test_every_answer_forbids_what_the_page_does_not_need(
    door: Door, stranger: ClientSession, path: str
) -> None:
    response = await get(stranger, door, path)
    host = door.server.address.removeprefix("http://")
    policy = response.headers["Content-Security-Policy"].split("; ")

    assert {
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "frame-ancestors 'none'",
    } <= set(policy)
    assert {f"connect-src 'self' ws://{host}", "base-uri 'none'", "form-action 'none'"} <= set(
        policy
    )
    assert response.headers["X-Content-Type-Options"] == "nosniff"
    assert response.headers["Referrer-Policy"] == "no-referrer"
    assert response.headers["Cross-Origin-Opener-Policy"] == "same-origin"
    assert response.headers["Cross-Origin-Resource-Policy"] == "same-origin"


async def test_pages_are_not_kept_and_files_are_asked_for_again(
    door: Door, guest: ClientSession
) -> None:
    page = await get(guest, door, "/chat")
    first = await get(guest, door, "/static/js/main.js")
    again = await get(guest, door, "/static/js/main.js", **{"If-None-Match": first.headers["ETag"]})

    assert page.headers["Cache-Control"] == "no-store"
    assert first.headers["Cache-Control"] == "no-cache"
    assert first.headers["Content-Type"] == "text/javascript; charset=utf-8"
    assert again.status == 304


@pytest.mark.parametrize(
    "path",
    [
        "/static/",
        "/static/chat.html",
        "/static/../server.py",
        "/static/%2e%2e/server.py",
        "/static/..%2fserver.py",
        "/static//etc/passwd",
        "/static/vendor/README.md",
        "/static/vendor/preact.LICENSE.txt",
    ],
)
async def test_only_the_files_of_the_page_are_given_out(
    door: Door, guest: ClientSession, path: str
) -> None:
    response = await get(guest, door, path)

    assert response.status == 404


async def test_the_page_holds_no_script_or_style_of_its_own(
    door: Door, guest: ClientSession
) -> None:
    async with guest.get(f"{door.server.address}/chat") as response:
        page = await response.text()

    assert "<style" not in page
    assert "style=" not in page
    assert page.count("<script") == page.count("<script src=") + page.count(
        '<script type="module" src='
    )


@pytest.mark.parametrize("origin", [None, "http://evil.example", "null"])
async def test_a_socket_needs_our_own_origin(
    door: Door, guest: ClientSession, origin: str | None
) -> None:
    with pytest.raises(WSServerHandshakeError) as refused:
        await guest.ws_connect(f"{door.server.address}/chat/socket", origin=origin)

    assert refused.value.status == 403


async def test_a_socket_needs_the_cookie(door: Door, stranger: ClientSession) -> None:
    async with ClientSession(cookie_jar=CookieJar(unsafe=True)) as other:
        address = await enter(other, door)

    with pytest.raises(WSServerHandshakeError) as refused:
        await stranger.ws_connect(address, origin=door.server.address)

    assert refused.value.status == 401


async def test_a_cookie_that_another_port_saw_opens_no_socket(
    door: Door, stranger: ClientSession
) -> None:
    """Finding R29: a browser sends the cookie to every port of this machine."""
    await enter(stranger, door)
    socket = f"{door.server.address}/chat/socket"

    for address in (socket, f"{socket}?key=", f"{socket}?key={'0' * 64}", f"{socket}?key=%ff"):
        with pytest.raises(WSServerHandshakeError) as refused:
            await stranger.ws_connect(address, origin=door.server.address)
        assert refused.value.status == 401


async def test_the_key_of_one_cookie_is_not_that_of_another(
    door: Door, stranger: ClientSession
) -> None:
    """Finding R29."""
    address = await enter(stranger, door)
    async with stranger.ws_connect(address, origin=door.server.address):
        pass

    assert await enter(stranger, door) != address
    with pytest.raises(WSServerHandshakeError):
        await stranger.ws_connect(address, origin=door.server.address)


async def test_the_page_can_ask_whether_its_key_is_valid(
    door: Door, stranger: ClientSession
) -> None:
    """Finding R29: a failed handshake tells a page no reason."""
    key = (await enter(stranger, door)).partition("?")[2]

    assert (await get(stranger, door, f"/chat?{key}")).status == 200
    assert (await get(stranger, door, "/chat?key=")).status == 401


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS"])
async def test_whatever_could_change_something_needs_our_own_origin(
    door: Door, guest: ClientSession, method: str
) -> None:
    async with guest.request(
        method, f"{door.server.address}/chat", headers={"Origin": "http://evil.example"}
    ) as response:
        assert response.status == 403
    async with guest.request(
        method, f"{door.server.address}/chat", headers={"Origin": door.server.address}
    ) as response:
        assert response.status == 405


async def test_there_is_room_for_so_many_tabs_and_no_more(door: Door, guest: ClientSession) -> None:
    address = await enter(guest, door)
    origin = door.server.address
    async with ClientSession(cookie_jar=guest.cookie_jar, connector=TCPConnector(limit=0)) as crowd:
        tabs = [await crowd.ws_connect(address, origin=origin) for _ in range(MOST_TABS)]

        with pytest.raises(WSServerHandshakeError) as refused:
            await crowd.ws_connect(address, origin=origin)
        assert refused.value.status == 503

        await tabs.pop().close()
        tabs.append(await crowd.ws_connect(address, origin=origin))
        await asyncio.gather(*(tab.close() for tab in tabs))


async def test_a_port_that_is_taken_is_said_so(door: Door, tmp_path: Path) -> None:
    port = int(door.server.address.rpartition(":")[2])
    second = WebServer("127.0.0.1", port, needs_of(door))

    with pytest.raises(
        AddressTaken,
        match=rf"^web\.listen 127\.0\.0\.1:{port} is in use; stop the other program or",
    ):
        await second.start()


async def test_the_door_does_not_open_to_the_network(door: Door) -> None:
    with pytest.raises(ConfigError, match="not on this machine"):
        await WebServer("0.0.0.0", 0, needs_of(door)).start()  # noqa: S104


async def test_nothing_that_lets_people_in_or_that_they_say_is_logged(
    door: Door, stranger: ClientSession, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        link = door.server.link()
        await stranger.get(link)
        address = await enter(stranger, door)
        socket = await stranger.ws_connect(address, origin=door.server.address)
        await socket.send_str('{"type": "say", "conversation": "c", "id": "m", "text": "a-canary"}')
        await socket.receive()
        await socket.close()

    assert link.rpartition("=")[2] not in caplog.text
    assert address.rpartition("=")[2] not in caplog.text
    assert "a-canary" not in caplog.text
