"""The web door: a chat in the browser, health and metrics, for this machine only."""

from turngate.gateway.web.dependencies import Needs, Readiness
from turngate.gateway.web.server import WebServer

__all__ = ["Needs", "Readiness", "WebServer"]
