"""Who is let in by the web door, and who is not."""

from __future__ import annotations

from http import HTTPStatus

import pytest

from tests.fakes import FrozenClock
from turngate.gateway.web.guard import (
    COOKIE_LASTS,
    LINK_LASTS,
    MOST_UNUSED_LINKS,
    AccessDenied,
    Guard,
    OneTimeLinks,
)

KEY = b"k" * 32


def guard(clock: FrozenClock | None = None, *, port: int = 8765, key: bytes = KEY) -> Guard:
    return Guard(port, key, clock or FrozenClock())


def jar(guard: Guard, cookie: str) -> dict[str, str]:
    return {guard.cookie_name: cookie}


def test_a_link_lets_one_browser_in_once() -> None:
    links = OneTimeLinks(FrozenClock())
    code = links.new()

    assert links.use(code)
    assert not links.use(code)


@pytest.mark.parametrize("code", ["", "x", "é", "\udc80", "a" * 10_000])
def test_a_code_that_was_never_given_out_lets_nobody_in(code: str) -> None:
    links = OneTimeLinks(FrozenClock())
    links.new()

    assert not links.use(code)


def test_a_link_is_good_for_a_day() -> None:
    clock = FrozenClock()
    links = OneTimeLinks(clock)
    early, late = links.new(), links.new()

    clock.advance(seconds=LINK_LASTS.total_seconds() - 1)
    assert links.use(early)
    clock.advance(seconds=1)
    assert not links.use(late)


def test_the_oldest_link_goes_when_there_are_too_many() -> None:
    links = OneTimeLinks(FrozenClock())
    codes = [links.new() for _ in range(MOST_UNUSED_LINKS + 1)]

    assert not links.use(codes[0])
    assert all(links.use(code) for code in codes[1:])


def test_no_two_links_are_alike_and_none_is_short() -> None:
    codes = {OneTimeLinks(FrozenClock()).new() for _ in range(100)}

    assert len(codes) == 100
    assert min(map(len, codes)) >= 22  # 128 bits in base64


def test_a_clock_that_is_set_ends_no_link_and_makes_none_last() -> None:
    clock = FrozenClock()
    links = OneTimeLinks(clock)
    first, second = links.new(), links.new()

    clock.jump(days=365)
    assert links.use(first)
    clock.jump(days=-400)
    clock.advance(seconds=LINK_LASTS.total_seconds())
    assert not links.use(second)


def test_a_cookie_is_still_good_after_a_restart() -> None:
    clock = FrozenClock()
    cookie = guard(clock).new_cookie()

    after = guard(clock)

    assert after.is_valid_cookie(jar(after, cookie))


def test_a_cookie_ends_after_thirty_days() -> None:
    clock = FrozenClock()
    door = guard(clock)
    cookie = jar(door, door.new_cookie())

    clock.advance(seconds=COOKIE_LASTS.total_seconds() - 1)
    assert door.is_valid_cookie(cookie)
    clock.advance(seconds=1)
    assert not door.is_valid_cookie(cookie)


@pytest.mark.parametrize(
    "cookie", ["", ".", "..", "9999999999", "9999999999.x.y", "x.y.z", "é.é.é", "9" * 5000]
)
def test_a_cookie_that_somebody_made_up_is_not_known(cookie: str) -> None:
    assert not guard().is_valid_cookie(jar(guard(), cookie))


def test_a_cookie_cannot_be_made_to_last_longer() -> None:
    door = guard()
    expires, rest = door.new_cookie().split(".", 1)

    assert not door.is_valid_cookie(jar(door, f"{int(expires) + 1}.{rest}"))


def test_another_installation_does_not_know_our_cookie() -> None:
    door, other = guard(), guard(key=b"o" * 32)

    assert not other.is_valid_cookie(jar(other, door.new_cookie()))


def test_doors_on_two_ports_have_cookies_of_their_own() -> None:
    assert guard(port=1).cookie_name != guard(port=2).cookie_name


@pytest.mark.parametrize("host", ["127.0.0.1:8765", "localhost:8765", "[::1]:8765"])
def test_our_own_names_are_ours(host: str) -> None:
    guard().check_host(host)


@pytest.mark.parametrize(
    "host",
    [
        "",
        "127.0.0.1",
        "localhost",
        "127.0.0.1:80",
        "example.org",
        "example.org:8765",
        "127.0.0.1.example.org:8765",
    ],
)
def test_a_name_that_is_made_to_point_here_is_not_ours(host: str) -> None:
    with pytest.raises(AccessDenied, match=r"http://127\.0\.0\.1:8765/") as kept_out:
        guard().check_host(host)

    assert kept_out.value.status is HTTPStatus.MISDIRECTED_REQUEST


def test_the_address_that_it_listens_at_is_ours() -> None:
    """Finding R21."""
    Guard(8765, KEY, FrozenClock(), host="127.0.0.2").check_host("127.0.0.2:8765")


def test_on_the_port_of_the_web_a_browser_leaves_the_port_out() -> None:
    guard(port=80).check_host("localhost")


@pytest.mark.parametrize(
    "origin", [None, "", "null", "http://example.org", "https://127.0.0.1:8765", "http://127.0.0.1"]
)
def test_only_our_own_page_is_our_origin(origin: str | None) -> None:
    guard().check_origin("127.0.0.1:8765", "http://127.0.0.1:8765")

    with pytest.raises(AccessDenied):
        guard().check_origin("127.0.0.1:8765", origin)
