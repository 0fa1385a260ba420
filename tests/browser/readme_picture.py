"""
Take the README's picture of the web chat: `python -m tests.browser.readme_picture`.

A real Chromium shows the real page while an answer is being written. Look at the picture before it
is committed.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

from playwright.sync_api import expect, sync_playwright

from tests.browser.conftest import Gateway, browser_path
from turngate.gateway.domain.agent_events import AgentEvent, Tool, ToolStatus
from turngate.gateway.domain.transcript import Text

PICTURE = Path(__file__).parents[2] / "docs" / "images" / "web-chat.png"
EARLIER = ("Plan the backup", "Names for the new server", "Why is the importer slow?")
QUESTION = "Which disk holds the archive, and is there room for another year?"
BEGINNING = """\
The archive is on the **second disk**, and that one is nearly full:

| Disk | Used | Holds |
|:-----|-----:|:------|
| `/dev/sda1` | 81 % | system |
| `/dev/sdb1` | 97 % | archive, thumbnails |
| `/dev/sdc1` | 12 % | nothing yet |

It grows by 40 GB a month, so there is room for about two weeks. I suggest moving it:

1. Stop the importer.
2. Copy to `/dev/sdc1`, then compare the"""


async def answer(text: str) -> AsyncIterator[AgentEvent]:
    """Short for the earlier conversations; for the question one that stays unfinished."""
    if text != QUESTION:
        yield Text("Here is a first plan.")
        return
    yield Tool(id="1", name="shell", status=ToolStatus.STARTED, title="df -h")
    yield Tool(id="1", name="shell", status=ToolStatus.DONE, output="/dev/sdb1  97%  /archive")
    yield Tool(id="2", name="read_file", status=ToolStatus.STARTED, title="Read importer.log")
    yield Tool(id="2", name="read_file", status=ToolStatus.DONE, output="40 GB in October")
    for word in BEGINNING.split(" "):
        yield Text(f"{word} ")
    await asyncio.sleep(60)


def take(folder: Path) -> None:
    """Talk to a gateway in `folder` and take the picture."""
    gateway = Gateway(folder, answer)
    gateway.start()
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=browser_path(), args=["--no-sandbox"])
        page = chromium.new_page(viewport={"width": 1280, "height": 860}, locale="en-GB")
        page.goto(gateway.link())
        for words in (*EARLIER, QUESTION):
            if words != EARLIER[0]:
                page.get_by_role("button", name="New conversation").click()
            field = page.get_by_label("Message", exact=True)
            field.fill(words)
            field.press("Enter")
            if words != QUESTION:
                expect(page.locator("article.answer:not(.live)")).to_have_count(1)
        expect(page.get_by_label("Answer being written")).to_contain_text("then compare the")
        page.mouse.move(640, 720)
        page.screenshot(path=PICTURE)
        chromium.close()
    gateway.close()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        take(Path(made))
