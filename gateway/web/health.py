"""
Endpoints for monitoring: liveness, readiness and metrics. They need no cookie and reveal no
messages.
"""

from __future__ import annotations

from http import HTTPStatus

from aiohttp import web

from turngate.gateway.web.dependencies import WebDependencies

PATHS = frozenset({"/healthz", "/readyz", "/metrics"})


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
