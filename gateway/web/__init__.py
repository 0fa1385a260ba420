"""The web door: a chat in the browser, health and metrics, for this machine only."""

from turngate.gateway.web.dependencies import Readiness, WebDependencies
from turngate.gateway.web.server import WebServer

__all__ = ["WebDependencies", "Readiness", "WebServer"]
