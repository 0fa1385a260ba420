"""The web door: a chat in the browser, health and metrics, for this machine only."""

from gateway.web.dependencies import Needs, Readiness
from gateway.web.server import WebServer

__all__ = ["Needs", "Readiness", "WebServer"]
