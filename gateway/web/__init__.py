"""The web server: a chat in the browser, health and metrics, on loopback only."""

from turngate.gateway.web.dependencies import Readiness, WebDependencies
from turngate.gateway.web.server import WebServer

__all__ = ["Readiness", "WebDependencies", "WebServer"]
