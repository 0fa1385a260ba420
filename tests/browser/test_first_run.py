"""
A stranger types `turngate run`, opens the link it prints, and talks. The real daemon, killed and
started again.
"""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Locator, Page, expect


class Daemon:
    """`turngate run` with nothing but a folder of its own and a free port."""

    def __init__(self, folder: Path) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        config = folder / "turngate.yaml"
        config.write_text(f"web:\n  listen: 127.0.0.1:{port}\n")
        self._command = [
            sys.executable,
            "-m",
            "gateway",
            "run",
            "--config",
            str(config),
            "--state-dir",
            str(folder / "s"),
        ]
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> str:
        """Returns the link."""
        self._process = subprocess.Popen(
            self._command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        assert self._process.stdout is not None
        assert "The gateway runs" in self._process.stdout.readline()
        asking = [*self._command[:3], "web", "link", *self._command[4:]]
        return subprocess.check_output(asking, text=True).strip()

    def end(self, how: signal.Signals) -> int:
        """Returns the exit status."""
        assert self._process is not None
        self._process.send_signal(how)
        with self._process:
            return self._process.wait(timeout=20)


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    daemon = Daemon(tmp_path)
    yield daemon
    daemon.end(signal.SIGKILL)


def say(page: Page, text: str) -> None:
    page.get_by_label("Message", exact=True).fill(text)
    page.get_by_label("Message", exact=True).press("Enter")


def answers(page: Page) -> Locator:
    return page.locator("article.answer:not(.live)")


def test_a_stranger_writes_and_is_answered_and_nothing_is_lost_when_the_daemon_is_killed(
    daemon: Daemon, context: BrowserContext
) -> None:
    page = context.new_page()
    page.goto(daemon.start())
    say(page, "hello from a stranger")
    expect(answers(page)).to_contain_text("hello from a stranger")

    say(page, "and this while you die")
    daemon.end(signal.SIGKILL)
    expect(page.get_by_text("Connected", exact=True)).to_have_count(0)
    say(page, "and this while you are dead")
    daemon.start()

    expect(page.get_by_text("Connected", exact=True)).to_be_visible(timeout=20_000)
    expect(answers(page).last).to_contain_text("and this while you are dead")
    page.reload()
    expect(page.locator(".said")).to_have_text(
        [
            re.compile("hello from a stranger"),
            re.compile("while you die"),
            re.compile("while you are dead"),
        ]
    )
    said = " ".join(answers(page).all_inner_texts())
    assert said.count("and this while you die") == 1

    say(page, "/new Plans")
    expect(page.get_by_role("article", name="Turngate")).to_contain_text("has begun")
    say(page, "fresh")
    expect(answers(page)).to_contain_text("Turn 1 of session")
    assert daemon.end(signal.SIGTERM) == 0
    daemon.start()
