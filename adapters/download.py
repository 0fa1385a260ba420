"""
Downloads of files over HTTP for all adapters: from the platform's servers only.

The URL comes from a user's message and is not trusted. So the host must be on the adapter's list,
the checked address is the one that is connected to, redirects are not followed, and the body is not
decompressed.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

import aiohttp
from aiohttp.abc import AbstractResolver
from yarl import URL

from turngate.gateway.domain.errors import (
    Refused,
    Throttled,
    Unreachable,
)

_HTTPS_PORT = 443
_CONNECT_TIMEOUT = 20.0
_LONGEST_HEADER = 8190
_MOST_HEADERS = 64
_PAUSE_IF_ASKED = 5.0
_LONGEST_PAUSE = 60.0
_PAGES = b"<!doctype html", b"<html"
# NAT64: how networks without IPv4 write IPv4 addresses.
_TRANSLATED = ipaddress.IPv6Network("64:ff9b::/96")
_INTERNET = ipaddress.IPv6Network("2000::/3")

_Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_AddressInfo = tuple[
    int | socket.AddressFamily, int | socket.SocketKind, int, str, tuple[object, ...]
]


class _Forbidden(OSError):
    """The resolved address is not public."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Downloads:
    """
    Hosts that an adapter may download from.

    `hosts` are the platform's: https, default port, public addresses. `own_server` is the
    operator's own server in place of the platform's, from the config: its scheme, host and port are
    allowed wherever they lead. None for the platform itself. Seconds: `silence` is the read
    timeout, `longest` the total timeout.
    """

    hosts: frozenset[str]
    own_server: str | None = None
    silence: float = 60.0
    longest: float = 300.0
    resolver: AbstractResolver | None = field(default=None, repr=False)

    async def fetch(
        self,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        pages_are_refusals: bool = False,
    ) -> AsyncIterator[bytes]:
        """
        Yield the body in chunks as they arrive. `headers` are sent to that server only.

        `pages_are_refusals`: an HTML page is a login page and not the file. Raises Refused,
        Throttled or Unreachable, with texts for users that do not contain the address.
        """
        address = self._checked(url)
        with _translate_errors():
            async with self._session(is_own=self._is_own(address)) as session:
                asking = {"Accept-Encoding": "identity", **(headers or {})}
                async with session.get(address, headers=asking, allow_redirects=False) as response:
                    _check(response, pages_are_refusals=pages_are_refusals)
                    # A login page may be sent as another content type: look at the first bytes too.
                    is_first = True
                    async for piece in response.content.iter_any():
                        if is_first and pages_are_refusals and _is_page(piece):
                            raise Refused("the platform answered with a page instead of the file")
                        is_first = False
                        yield piece

    def _checked(self, url: str) -> URL:
        try:
            address = URL(url)
            is_whole = (
                address.raw_host is not None and address.user is None and address.password is None
            )
        except (ValueError, TypeError) as exc:
            raise Refused("the platform gave no proper address for it") from exc
        if not is_whole or not (self._is_own(address) or self._is_of_platform(address)):
            raise Refused("its address is none of the platform's")
        return address

    def _is_own(self, address: URL) -> bool:
        return self.own_server is not None and address.origin() == URL(self.own_server).origin()

    def _is_of_platform(self, address: URL) -> bool:
        return (
            address.scheme == "https"
            and address.port == _HTTPS_PORT
            and address.raw_host in self.hosts
        )

    def _session(self, *, is_own: bool) -> aiohttp.ClientSession:
        connector = aiohttp.TCPConnector(
            resolver=self.resolver,
            # Every connection resolves and checks its address anew.
            use_dns_cache=False,
            force_close=True,
            socket_factory=_socket if is_own else _socket_to_public,
        )
        return aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(
                total=self.longest,
                connect=_CONNECT_TIMEOUT,
                sock_connect=_CONNECT_TIMEOUT,
                sock_read=self.silence,
            ),
            # A small compressed body could expand to any size.
            auto_decompress=False,
            trust_env=False,
            max_line_size=_LONGEST_HEADER,
            max_field_size=_LONGEST_HEADER,
            max_headers=_MOST_HEADERS,
        )


def is_public(address: str) -> bool:
    """Check for an address of the public internet, outside the operator's own networks."""
    try:
        found = _carried(ipaddress.ip_address(address))
    except ValueError:
        return False

    if isinstance(found, ipaddress.IPv6Address) and found not in _INTERNET:
        return False

    return found.is_global and not found.is_multicast and not found.is_reserved


def _carried(address: _Address) -> _Address:
    """Return the IPv4 address that an IPv6 address embeds, or the address itself."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    if address in _TRANSLATED:
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour or address


def _socket_to_public(info: _AddressInfo) -> socket.socket:
    """Open a socket; called with the address that is connected to, so DNS cannot change it."""
    if not is_public(str(info[4][0])):
        raise _Forbidden("not a public address")
    return _socket(info)


def _socket(info: _AddressInfo) -> socket.socket:
    family, kind, protocol, _, _ = info
    return socket.socket(family, kind, protocol)


@contextmanager
def _translate_errors() -> Iterator[None]:
    try:
        yield
    except aiohttp.ClientConnectorError as exc:
        if isinstance(exc.os_error, _Forbidden) or isinstance(exc.__cause__, _Forbidden):
            raise Refused("its address leads into a private network") from exc
        raise Unreachable("the platform cannot be reached") from exc
    except (aiohttp.ClientError, TimeoutError, OSError) as exc:
        raise Unreachable("the connection broke off") from exc


def _check(response: aiohttp.ClientResponse, *, pages_are_refusals: bool) -> None:
    if response.status == 429:
        raise Throttled(
            "the platform asks for a pause", retry_after=_pause(response.headers.get("Retry-After"))
        )
    if response.status >= 500:
        raise Unreachable(f"the platform has trouble of its own ({response.status})")
    if response.status != 200:
        raise Refused(f"the platform does not give it ({response.status})")
    if pages_are_refusals and response.content_type == "text/html":
        raise Refused("the platform answered with a page instead of the file")


def _pause(asked: str | None) -> float:
    return (
        min(float(asked), _LONGEST_PAUSE)
        if asked and asked.isascii() and asked.isdigit()
        else _PAUSE_IF_ASKED
    )


def _is_page(piece: bytes) -> bool:
    return piece.lstrip()[:16].lower().startswith(_PAGES)
