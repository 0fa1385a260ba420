"""A gateway with a one-time link, and a real Chromium that opens it."""

from __future__ import annotations

import asyncio
import shutil
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, TypeVar

import pytest
from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Page,
    expect,
    sync_playwright,
)

from tests.browser.scripted_agent import answer
from tests.web_door import Door, open_door
from turngate.gateway.domain.agent_events import AgentEvent

T = TypeVar("T")
Answer = Callable[[str], AsyncIterator[AgentEvent]]

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
PATIENCE_MS = 20_000
expect.set_options(timeout=PATIENCE_MS)

WATCH_FOR_VIOLATIONS = """
window.violations = [];
document.addEventListener("securitypolicyviolation", (event) =>
  window.violations.push(`${event.violatedDirective} ${event.blockedURI} ${event.sourceFile}:${event.lineNumber}`));
"""  # noqa: E501


class Gateway:
    """The web door in a thread of its own: Playwright keeps this one."""

    def __init__(self, folder: Path, answer: Answer = answer) -> None:
        self._folder = folder
        self._answer = answer
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._stack = AsyncExitStack()
        self._port = 0
        self.door: Door

    def start(self) -> None:
        """Listen; the second time on the same port."""
        if not self._thread.is_alive():
            self._thread.start()
        self.door = self.run(
            self._stack.enter_async_context(
                open_door(self._folder, answer=self._answer, port=self._port)
            )
        )
        self._port = int(self.door.server.address.rpartition(":")[2])

    def stop(self) -> None:
        """As the daemon would."""
        self.run(self._stack.aclose())

    def close(self) -> None:
        """For good."""
        self.stop()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """In the gateway's loop."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(timeout=20)

    def link(self) -> str:
        """The one-time link that `turngate run` prints."""
        return self.door.server.link()


def browser_path() -> str | None:
    """The system's Chromium, if there is one."""
    return next(filter(None, map(shutil.which, BROWSERS)), None)


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[Gateway]:
    """One that runs."""
    gateway = Gateway(tmp_path)
    gateway.start()
    yield gateway
    gateway.close()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """One worker for all of these, so that one Chromium is started instead of four."""
    for item in items:
        if item.path.parent == Path(__file__).parent:
            item.add_marker(pytest.mark.xdist_group("browser"))


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """
    The system's Chromium. Gone with its module: while Playwright lives, no other loop runs in this
    thread.
    """
    found = browser_path()
    if found is None:
        pytest.fail(
            "no Chromium here; `make browser` installs it or says how (Debian: apt-get install "
            "chromium)"
        )
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield browser
        browser.close()


OpenTab = Callable[..., Page]


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    """One person's browser."""
    context = browser.new_context(
        viewport={"width": 1280, "height": 800}, locale="en-GB", timezone_id="Europe/Berlin"
    )
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    context.set_default_timeout(PATIENCE_MS)
    context.add_init_script(WATCH_FOR_VIOLATIONS)
    yield context
    context.close()


@pytest.fixture
def complaints(context: BrowserContext) -> Iterator[list[str]]:
    """What the browser complains about; a test that expects complaints clears the list."""
    heard: list[str] = []

    def listen(message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            heard.append(message.text)

    context.on("console", listen)
    context.on("weberror", lambda error: heard.append(str(error.error)))
    context.on(
        "dialog", lambda dialog: (heard.append(f"dialog: {dialog.message}"), dialog.dismiss())
    )
    yield heard
    for page in context.pages:
        heard += page.evaluate("window.violations ?? []")
    assert heard == []


@pytest.fixture
def tab(gateway: Gateway, context: BrowserContext, complaints: list[str]) -> Page:
    """The chat, come in by the link."""
    page = context.new_page()
    page.goto(gateway.link())
    page.get_by_text("Connected", exact=True).wait_for()
    return page
