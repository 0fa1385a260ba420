"""
Who may come in. The door is on loopback, so the danger is other people's web pages in the same browser: they are kept
out by the Host header (a name of theirs that points here), the Origin (a request of theirs) and a cookie that only a
one-time link gives.
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
from turngate.gateway.domain.ports.adapter import Clock

COOKIE_LASTS = timedelta(days=30)
LINK_LASTS = timedelta(hours=24)
MOST_UNUSED_LINKS = 20
_CODE_BYTES = 24
_OUR_NAMES = ("127.0.0.1", "localhost", "[::1]")
_HTTP_PORT = 80


class AccessDenied(Refused):
    """A request that is not let in; `status` is what it is answered with."""

    def __init__(self, message: str, *, status: HTTPStatus) -> None:
        super().__init__(message)
        self.status = status


class OneTimeLinks:
    """The codes that were given out and not used. They are in memory only: a restart makes them worthless."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._codes: deque[tuple[bytes, float]] = deque(maxlen=MOST_UNUSED_LINKS)

    def new(self) -> str:
        """A code nobody can guess. The oldest goes when there are too many."""
        code = secrets.token_urlsafe(_CODE_BYTES)
        self._codes.append((_digest(code), self._clock.monotonic() + LINK_LASTS.total_seconds()))
        return code

    def use(self, code: str) -> bool:
        """Whether it lets somebody in; it never does so twice."""
        wanted, now = _digest(code), self._clock.monotonic()
        matching = [item for item in self._codes if hmac.compare_digest(item[0], wanted)]
        for item in matching:
            self._codes.remove(item)
        return any(now < expires for _, expires in matching)


class Guard:
    """The checks of one door, which listens on one port."""

    def __init__(self, port: int, cookie_key: bytes, clock: Clock) -> None:
        # Browsers send one jar of cookies to all ports of a host, so each door has a name of its own.
        self.cookie_name = f"turngate_{port}"
        self._port = port
        self._key = hmac.digest(cookie_key, b"turngate web cookie", "sha256")
        self._clock = clock
        self._hosts = frozenset(f"{name}:{port}" for name in _OUR_NAMES)
        if port == _HTTP_PORT:
            self._hosts |= frozenset(_OUR_NAMES)

    def is_ours(self, host: str) -> bool:
        """Whether a Host header names this door."""
        return host in self._hosts

    def check_host(self, host: str) -> None:
        """A page elsewhere can have its own name point here; the browser still tells that name."""
        if not self.is_ours(host):
            raise AccessDenied(
                f"This is Turngate on this machine. Open http://127.0.0.1:{self._port}/ instead.",
                status=HTTPStatus.MISDIRECTED_REQUEST,
            )

    def check_origin(self, host: str, origin: str | None) -> None:
        """Only a page of ours may write or open a socket."""
        if origin != f"http://{host}":
            raise AccessDenied(
                "Only Turngate's own page may do this; the request comes from another one.",
                status=HTTPStatus.FORBIDDEN,
            )

    def new_cookie(self) -> str:
        """Signed rather than remembered, so that it is still good after a restart."""
        expires = int((self._clock.now() + COOKIE_LASTS).timestamp())
        said = f"{expires}.{secrets.token_urlsafe(12)}"
        return f"{said}.{self._signature(said)}"

    def knows(self, cookies: Mapping[str, str]) -> bool:
        """Whether this browser came in by a link of ours, not too long ago."""
        said, _, signature = cookies.get(self.cookie_name, "").rpartition(".")
        if not hmac.compare_digest(
            self._signature(said).encode(), signature.encode("utf-8", "replace")
        ):
            return False
        expires = datetime.fromtimestamp(int(said.partition(".")[0]), UTC)
        return self._clock.now() < expires

    def check_cookie(self, cookies: Mapping[str, str]) -> None:
        """Raises if it does not."""
        if not self.knows(cookies):
            raise AccessDenied(
                "This browser has not been let in. `turngate web link` gives a link.",
                status=HTTPStatus.UNAUTHORIZED,
            )

    def _signature(self, said: str) -> str:
        return hmac.new(self._key, said.encode("utf-8", "replace"), hashlib.sha256).hexdigest()


def _digest(code: str) -> bytes:
    return hashlib.sha256(code.encode("utf-8", "replace")).digest()
