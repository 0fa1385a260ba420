"""
A question of an agent in the browser: shown at once with its options, answered by a button, a
number or the words of an option, and there again after a reload.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Locator, Page, expect

from tests.configs import config_of
from tests.ports import free_port
from turngate.gateway.daemon.app import running
from turngate.gateway.daemon.gateway import Gateway
from turngate.gateway.daemon.state_dir import take_lock

CONFIG = """
state_dir: {state}
agents: {{main: {{kind: python, object: "tests.browser.asking_agent:build"}}}}
web: {{listen: "127.0.0.1:{port}"}}
turns: {{debounce: 10ms}}
"""


@pytest.fixture
def link(tmp_path: Path) -> Iterator[str]:
    """The link to a whole gateway, in a thread of its own."""
    started: Future[tuple[asyncio.AbstractEventLoop, asyncio.Event, str]] = Future()
    thread = threading.Thread(target=lambda: asyncio.run(_live(tmp_path, free_port(), started)))
    thread.start()
    loop, stop, url = started.result(timeout=20)
    yield url
    loop.call_soon_threadsafe(stop.set)
    thread.join()


async def _live(
    folder: Path, port: int, started: Future[tuple[asyncio.AbstractEventLoop, asyncio.Event, str]]
) -> None:
    config = config_of(CONFIG.format(state=folder / "state", port=port))
    stop = asyncio.Event()
    try:
        with take_lock(config.state_dir) as lock:
            async with running(config, lock, doors=True) as gateway:
                started.set_result((asyncio.get_running_loop(), stop, _link(gateway)))
                await stop.wait()
                gateway.hurry.set()
    except BaseException as exc:
        if not started.done():
            started.set_exception(exc)
        raise


def _link(gateway: Gateway) -> str:
    assert gateway.web is not None
    return gateway.web.link()


@pytest.fixture
def chat(link: str, context: BrowserContext, complaints: list[str]) -> Page:
    """The chat, where the agent has asked its question."""
    page = context.new_page()
    page.goto(link)
    page.get_by_text("Connected", exact=True).wait_for()
    _say(page, "ask me")
    expect(_question(page)).to_contain_text("Shall I go on?")
    return page


def _say(page: Page, text: str) -> None:
    page.get_by_role("textbox", name="Message").fill(text)
    page.keyboard.press("Enter")


def _question(page: Page) -> Locator:
    return page.get_by_label("Question", exact=True)


def _answer(page: Page) -> Locator:
    return page.locator("article.answer:not(.live)")


def test_a_question_is_shown_with_its_options_below_the_text_before_it(chat: Page) -> None:
    live = chat.get_by_label("Answer being written")

    expect(live).to_contain_text("These are the words before it.")
    expect(live).to_contain_text("Waiting for your answer")
    expect(_question(chat).get_by_role("button")).to_have_text(["Yes, do", "No", "Later"])

    live_box, question_box = live.bounding_box(), _question(chat).bounding_box()
    assert live_box is not None
    assert question_box is not None
    assert live_box["y"] < question_box["y"]


def test_a_button_answers_and_the_question_is_gone(chat: Page) -> None:
    _question(chat).get_by_role("button", name="No").click()

    expect(_answer(chat)).to_contain_text("You chose No.")
    expect(_question(chat)).to_have_count(0)


@pytest.mark.parametrize(("typed", "option"), [("3", "Later"), ("yes, do", "Yes, do")])
def test_typing_a_number_or_the_words_answers_it(chat: Page, typed: str, option: str) -> None:
    _say(chat, typed)

    expect(_answer(chat)).to_contain_text(f"You chose {option}.")
    expect(_question(chat)).to_have_count(0)


def test_a_reload_shows_the_question_again(chat: Page) -> None:
    chat.reload()

    expect(_question(chat)).to_contain_text("Shall I go on?")
    _question(chat).get_by_role("button", name="Later").click()
    expect(_answer(chat)).to_contain_text("You chose Later.")


def test_other_words_get_a_hint_once_and_are_read_afterwards(chat: Page) -> None:
    hint = chat.locator("article").get_by_text("A question above is still open")

    _say(chat, "what is that")
    expect(hint).to_be_visible()
    _say(chat, "and that")

    _question(chat).get_by_role("button", name="No").click()

    expect(_answer(chat).last).to_contain_text("I read and that.")
    expect(hint).to_have_count(1)
