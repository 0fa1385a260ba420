"""What other programs ask: is it alive, is it ready, how is it doing. No cookie needed, and nothing said in a chat."""

from __future__ import annotations

from http import HTTPStatus

from aiohttp import web

from turngate.gateway.web.dependencies import WebDependencies

PATHS = frozenset({"/healthz", "/readyz", "/metrics"})


def health_routes(needs: WebDependencies) -> list[web.RouteDef]:
    """The three of them."""

    async def healthz(_: web.Request) -> web.Response:
        return web.Response(text="ok")

    async def readyz(_: web.Request) -> web.Response:
        found = await needs.readiness()
        status = HTTPStatus.OK if found.ready else HTTPStatus.SERVICE_UNAVAILABLE
        return web.json_response(
            {"ready": found.ready, "reasons": list(found.reasons)}, status=status
        )

    async def metrics(_: web.Request) -> web.Response:
        return web.Response(
            body=await needs.metrics(), headers={"Content-Type": needs.metrics_type}
        )

    return [web.get("/healthz", healthz), web.get("/readyz", readyz), web.get("/metrics", metrics)]
