"""
Endpoints for monitoring: liveness, readiness and metrics. They need no cookie and reveal no
messages; the Host header is checked as everywhere, so that no web page can read them.
"""

from __future__ import annotations

from http import HTTPStatus

from aiohttp import web

from turngate.gateway.web.dependencies import WebDependencies


def health_routes(dependencies: WebDependencies) -> list[web.RouteDef]:
    async def healthz(_: web.Request) -> web.Response:
        return web.Response(text="ok")

    async def readyz(_: web.Request) -> web.Response:
        found = await dependencies.readiness()
        status = HTTPStatus.OK if found.ready else HTTPStatus.SERVICE_UNAVAILABLE
        return web.json_response(
            {"ready": found.ready, "reasons": list(found.reasons)}, status=status
        )

    async def metrics(_: web.Request) -> web.Response:
        return web.Response(
            body=await dependencies.metrics(), headers={"Content-Type": dependencies.metrics_type}
        )

    return [web.get("/healthz", healthz), web.get("/readyz", readyz), web.get("/metrics", metrics)]
