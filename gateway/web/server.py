"""The HTTP server on one loopback port, with every request checked by the guard."""

from __future__ import annotations

import errno
import ipaddress
import socket
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from http import HTTPStatus

from aiohttp import hdrs, web

from turngate.gateway.domain.errors import AddressTaken, ConfigError
from turngate.gateway.web import health
from turngate.gateway.web.assets import Asset, read_assets
from turngate.gateway.web.chat import Chat
from turngate.gateway.web.dependencies import WebDependencies
from turngate.gateway.web.guard import (
    COOKIE_LASTS,
    AccessDenied,
    Guard,
    OneTimeLinks,
)

_BACKLOG = 256
_SOCKET = "/chat/socket"

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'{socket}; "
    "img-src 'self' data:; "
    "font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)


class WebServer:
    """
    The web server. `host` and `port` as in `web.listen`; port 0 means any free one, see `address`.
    """

    def __init__(self, host: str, port: int, dependencies: WebDependencies) -> None:
        self._host = host
        self._port = port
        self._dependencies = dependencies
        self._links = OneTimeLinks(dependencies.clock)
        self._serving = AsyncExitStack()

    @property
    def address(self) -> str:
        """The address for a browser on this machine."""
        return f"http://{_bracketed(self._host)}:{self._port}"

    def link(self) -> str:
        """Return a new one-time link."""
        return f"{self.address}/enter?code={self._links.new()}"

    async def start(self) -> None:
        """Start listening. Raises AddressTaken if the port is in use."""
        # Bind first: with port 0 the guard needs the actual port.
        listening = _listen(self._host, self._port)
        self._port = listening.getsockname()[1]

        routes = _Routes(
            Guard(
                self._port,
                self._dependencies.cookie_key,
                self._dependencies.clock,
                host=_bracketed(self._host),
            ),
            self._links,
            self._dependencies,
        )
        await self._serving.enter_async_context(
            self._dependencies.serve(routes.application(), listening)
        )

    async def stop(self) -> None:
        """Close the port, then every tab. Idempotent."""
        await self._serving.aclose()


class _Routes:
    """Routes and middleware of the server."""

    def __init__(self, guard: Guard, links: OneTimeLinks, dependencies: WebDependencies) -> None:
        self._guard = guard
        self._links = links
        self._dependencies = dependencies
        self._chat = Chat(dependencies)
        self._assets = read_assets()

    def application(self) -> web.Application:
        app = web.Application(middlewares=[self._authorize])
        app.add_routes(health.health_routes(self._dependencies))
        app.add_routes(
            [
                web.get("/", self._home),
                # A HEAD request must not use up a code.
                web.get("/enter", self._enter, allow_head=False),
                web.get("/chat", self._page),
                web.get(_SOCKET, self._chat.handle, allow_head=False),
                web.get("/static/{path:.+}", self._static),
            ]
        )
        app.on_response_prepare.append(self._add_headers)
        # aiohttp waits for open handlers only after this; otherwise each open tab would use up the
        # shutdown timeout.
        app.on_shutdown.append(self._close_tabs)

        return app

    @web.middleware
    async def _authorize(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Check Host, Origin and cookie before the handler; health and metrics need no cookie."""
        try:
            self._guard.check_host(request.host)
            # A WebSocket handshake is a GET that browsers allow across origins, so it is checked
            # like a write.
            if (
                request.method not in (hdrs.METH_GET, hdrs.METH_HEAD)
                or hdrs.UPGRADE in request.headers
            ):
                self._guard.check_origin(request.host, request.headers.get(hdrs.ORIGIN))
            if request.path.startswith("/chat"):
                self._guard.check_cookie(request.cookies)
            # The page itself holds nothing private. It asks with its key whether that is valid.
            if request.path == _SOCKET or "key" in request.query:
                self._guard.check_page_key(request.cookies, request.query.get("key", ""))
            return await handler(request)
        except AccessDenied as exc:
            if exc.status is HTTPStatus.UNAUTHORIZED:
                return self._html("enter.html", exc.status)
            return web.Response(text=f"{exc}\n", status=exc.status)

    async def _home(self, _: web.Request) -> web.Response:
        raise web.HTTPSeeOther("/chat")

    async def _enter(self, request: web.Request) -> web.Response:
        if "prefetch" in request.headers.get("Sec-Purpose", ""):
            # A prefetching browser would use up the code before the user clicks the link.
            raise web.HTTPServiceUnavailable(text="this link must be opened, not prefetched\n")
        if not self._links.use(request.query.get("code", "")):
            return self._html("enter.html", HTTPStatus.UNAUTHORIZED)

        cookie = self._guard.new_cookie()
        # In the fragment, which browsers send to no server; the page keeps it in a storage that
        # other ports cannot read.
        location = f"/chat#key={self._guard.page_key(cookie)}"
        response = web.Response(status=HTTPStatus.SEE_OTHER, headers={hdrs.LOCATION: location})
        response.set_cookie(
            self._guard.cookie_name,
            cookie,
            max_age=int(COOKIE_LASTS.total_seconds()),
            path="/",
            # Not `secure`: the server speaks plain HTTP, on loopback.
            httponly=True,
            samesite="Strict",
        )

        return response

    async def _page(self, _: web.Request) -> web.Response:
        return self._html("chat.html", HTTPStatus.OK)

    def _html(self, name: str, status: HTTPStatus) -> web.Response:
        return web.Response(
            body=self._assets[name].body, status=status, content_type="text/html", charset="utf-8"
        )

    async def _static(self, request: web.Request) -> web.Response:
        asset = self._assets.get(request.match_info["path"])
        # HTML pages are served by their own routes only.
        if asset is None or asset.content_type == "text/html":
            raise web.HTTPNotFound
        known = any(tag.value == asset.etag for tag in request.if_none_match or ())
        return _not_modified(asset) if known else _whole(asset)

    async def _add_headers(self, request: web.BaseRequest, response: web.StreamResponse) -> None:
        response.headers.update(_HEADERS)
        # Not every browser takes ws: as part of 'self'. A foreign Host header is not echoed here:
        # this also runs for responses that the guard has rejected.
        socket_source = f" ws://{request.host}" if self._guard.is_ours(request.host) else ""
        response.headers["Content-Security-Policy"] = _POLICY.format(socket=socket_source)
        response.headers.setdefault(hdrs.CACHE_CONTROL, "no-store")

    async def _close_tabs(self, _: web.Application) -> None:
        await self._chat.close()


def _whole(asset: Asset) -> web.Response:
    response = web.Response(body=asset.body, content_type=asset.content_type, charset="utf-8")
    response.etag = asset.etag
    # The browser may keep it but must ask each time, so an upgrade takes effect at once.
    response.headers[hdrs.CACHE_CONTROL] = "no-cache"
    return response


def _not_modified(asset: Asset) -> web.Response:
    response = web.Response(status=HTTPStatus.NOT_MODIFIED)
    response.etag = asset.etag
    response.headers[hdrs.CACHE_CONTROL] = "no-cache"
    return response


def _listen(host: str, port: int) -> socket.socket:
    name = "127.0.0.1" if host == "localhost" else host
    # The guard protects against other web pages only, and the traffic is plain HTTP.
    address = ipaddress.ip_address(name)
    if not address.is_loopback:
        raise ConfigError(f"web.listen {host}:{port} is not on this machine; use 127.0.0.1:{port}")

    family = socket.AF_INET6 if address.version == 6 else socket.AF_INET
    try:
        return socket.create_server((name, port), family=family, backlog=_BACKLOG)
    except OSError as exc:
        if exc.errno != errno.EADDRINUSE:
            raise ConfigError(
                f"cannot listen on web.listen {_bracketed(host)}:{port}: {exc.strerror}"
            ) from exc
        raise AddressTaken(
            f"web.listen {_bracketed(host)}:{port} is in use; "
            "stop the other program or set web.listen to another port (or null)"
        ) from exc


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
