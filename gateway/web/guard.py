"""
Access control of the web server. It listens on loopback, so the threat is other web pages in the
same browser. They are rejected by the Host header (DNS rebinding), the Origin header (cross-site
requests) and a cookie that only a one-time link sets. Browsers send a cookie to every port of a
host, so other users' servers on this machine may see it: sockets also need a key that only the
page has.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections import deque
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from http import HTTPStatus

from turngate.gateway.domain.errors import Refused
from turngate.gateway.domain.ports.clock import Clock

COOKIE_LASTS = timedelta(days=30)
LINK_LASTS = timedelta(hours=24)
MOST_UNUSED_LINKS = 20
_CODE_BYTES = 24
_LOOPBACK_NAMES = ("127.0.0.1", "localhost", "[::1]")
_HTTP_PORT = 80


class AccessDenied(Refused):
    """A rejected request; `status` is the HTTP status of the answer."""

    def __init__(self, message: str, *, status: HTTPStatus) -> None:
        super().__init__(message)
        self.status = status


class OneTimeLinks:
    """Unused codes of one-time links. They are in memory only, so a restart invalidates them."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._codes: deque[tuple[bytes, float]] = deque(maxlen=MOST_UNUSED_LINKS)

    def new(self) -> str:
        """Create an unguessable code. The oldest is dropped when there are too many."""
        code = secrets.token_urlsafe(_CODE_BYTES)
        self._codes.append((_digest(code), self._clock.monotonic() + LINK_LASTS.total_seconds()))
        return code

    def use(self, code: str) -> bool:
        """Whether the code is valid. A code is valid only once."""
        wanted = _digest(code)
        # The monotonic clock: setting the wall clock neither expires a link nor extends it.
        now = self._clock.monotonic()
        # Compare in constant time, so that timing does not reveal a code.
        matching = [item for item in self._codes if hmac.compare_digest(item[0], wanted)]
        for item in matching:
            self._codes.remove(item)
        return any(now < expires for _, expires in matching)


class Guard:
    """The checks of one server, which listens on one port."""

    def __init__(
        self, port: int, cookie_key: bytes, clock: Clock, *, host: str = "127.0.0.1"
    ) -> None:
        # Cookies are shared by all ports of a host, so each server needs its own cookie name.
        self.cookie_name = f"turngate_{port}"
        self._port = port
        self._key = hmac.digest(cookie_key, b"turngate web cookie", "sha256")
        self._page_key = hmac.digest(cookie_key, b"turngate web page", "sha256")
        self._clock = clock
        names = {*_LOOPBACK_NAMES, host}
        self._hosts = frozenset(f"{name}:{port}" for name in names)
        # Browsers omit the default port from the Host header.
        if port == _HTTP_PORT:
            self._hosts |= names

    def is_ours(self, host: str) -> bool:
        """Whether a Host header names this server."""
        return host in self._hosts

    def check_host(self, host: str) -> None:
        """
        Reject foreign host names. A page can point its own domain here, but the browser still sends
        its name.
        """
        if not self.is_ours(host):
            raise AccessDenied(
                f"This is Turngate on this machine. Open http://127.0.0.1:{self._port}/ instead.",
                status=HTTPStatus.MISDIRECTED_REQUEST,
            )

    def check_origin(self, host: str, origin: str | None) -> None:
        """Reject writes and sockets of other pages."""
        # `check_host` has accepted the host. A missing Origin is rejected too: browsers send it
        # with every request that is checked here.
        if origin != f"http://{host}":
            raise AccessDenied(
                "Only Turngate's own page may do this; the request comes from another one.",
                status=HTTPStatus.FORBIDDEN,
            )

    def new_cookie(self) -> str:
        """Return a signed cookie. It needs no storage, so it stays valid after a restart."""
        # The wall clock, because a monotonic time means nothing after a restart.
        expires = int((self._clock.now() + COOKIE_LASTS).timestamp())
        payload = f"{expires}.{secrets.token_urlsafe(12)}"
        return f"{payload}.{self._signature(payload)}"

    def is_valid_cookie(self, cookies: Mapping[str, str]) -> bool:
        """Whether the cookie has a valid signature and has not expired."""
        payload, _, signature = cookies.get(self.cookie_name, "").rpartition(".")
        if not hmac.compare_digest(
            self._signature(payload).encode(), signature.encode("utf-8", "replace")
        ):
            return False
        # The signature is valid, so the payload has the form that `new_cookie` wrote.
        expires = datetime.fromtimestamp(int(payload.partition(".")[0]), UTC)
        return self._clock.now() < expires

    def check_cookie(self, cookies: Mapping[str, str]) -> None:
        """Raise AccessDenied if the cookie is not valid."""
        if not self.is_valid_cookie(cookies):
            raise AccessDenied(
                "This browser has no access yet. `turngate web link` prints a link.",
                status=HTTPStatus.UNAUTHORIZED,
            )

    def page_key(self, cookie: str) -> str:
        """Return the key that belongs to a cookie, for the page to keep."""
        return hmac.new(self._page_key, cookie.encode("utf-8", "replace"), "sha256").hexdigest()

    def check_page_key(self, cookies: Mapping[str, str], given: str) -> None:
        """Raise AccessDenied if the key is not that of the cookie."""
        wanted = self.page_key(cookies.get(self.cookie_name, ""))
        if not hmac.compare_digest(wanted.encode(), given.encode("utf-8", "replace")):
            raise AccessDenied(
                "This page has no access yet. `turngate web link` prints a link.",
                status=HTTPStatus.UNAUTHORIZED,
            )

    def _signature(self, payload: str) -> str:
        # aiohttp decodes invalid UTF-8 in headers to lone surrogates; a strict encode would raise.
        return hmac.new(self._key, payload.encode("utf-8", "replace"), hashlib.sha256).hexdigest()


def _digest(code: str) -> bytes:
    return hashlib.sha256(code.encode("utf-8", "replace")).digest()
