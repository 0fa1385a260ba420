"""The web chat in a real browser: what a person does, and what stands on the page then."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Locator, Page, expect

from tests.browser.conftest import Gateway
from tests.fakes import add_entries, said
from turngate.gateway.domain.errors import Refused, StoreUnavailable
from turngate.gateway.domain.messages import SessionSource
from turngate.gateway.domain.transcript import Origin, Role
from turngate.gateway.rules.session_keys import build_session_key
from turngate.gateway.web.chat import LONGEST_MESSAGE

SCREENSHOTS = Path(__file__).parent / "screenshots"

LINE = "It is a long story, and it goes on.\n" + "." * 13 + "\n"

HOSTILE = """\
<script>window.hacked = 1</script><img src=x onerror="window.hacked = 1">

[a](javascript:window.hacked=1) [b](data:text/html,<script>window.hacked=1</script>) <javascript:window.hacked=1>
[c](vbscript:x) ![d](http://127.0.0.1:9/pixel.png) ![e](javascript:window.hacked=1) [f](/enter?code=x)

<iframe srcdoc="<script>parent.hacked = 1</script>"></iframe><svg onload="window.hacked = 1"></svg>

| <b>x</b> | `</code><script>window.hacked = 1</script>` |
|---|---|
| <style>body { display: none }</style> | [g](https://example.org/"onmouseover="window.hacked=1) |

```"><script>window.hacked = 1</script>
if (admin\u202e\u2066) { // \u2069\u2066 check
</code></pre><script>window.hacked = 1</script>
```

\u202eturned around\u202c and on
"""  # noqa: E501


def field(page: Page) -> Locator:
    return page.get_by_label("Message", exact=True)


def say(page: Page, text: str) -> None:
    field(page).fill(text)
    field(page).press("Enter")


def paste(page: Page, text: str) -> None:
    """As the clipboard does it; letter by letter a million of them would take minutes."""
    put = (
        "(area, text) => { area.value = text; area.dispatchEvent(new Event('input', { "
        "bubbles: true })); }"
    )
    field(page).evaluate(put, text)


def answers(page: Page) -> Locator:
    return page.locator("article.answer:not(.live)")


def test_a_message_is_answered_while_one_watches(tab: Page) -> None:
    say(tab, "slowly 30 words")

    live = tab.get_by_label("Answer being written")
    expect(live).to_contain_text("word3")
    expect(live).not_to_contain_text("word29")
    expect(answers(tab)).to_contain_text("word29")
    expect(live).to_have_count(0)
    expect(tab.locator(".said")).to_have_text(re.compile("^slowly 30 words"))
    expect(field(tab)).to_have_value("")


def test_a_reload_in_the_middle_loses_nothing(tab: Page) -> None:
    say(tab, "slowly 150 words")
    expect(tab.get_by_label("Answer being written")).to_contain_text("word3")

    tab.reload()

    expect(tab.get_by_label("Answer being written")).to_contain_text("word0 word1 word2")
    expect(answers(tab)).to_contain_text("word148 word149")
    tab.reload()
    expect(answers(tab)).to_contain_text("word0 word1")
    expect(tab.locator(".said")).to_have_count(1)


def test_two_tabs_show_the_same_conversation(tab: Page, context: BrowserContext) -> None:
    other = context.new_page()
    other.goto(tab.url)
    other.get_by_text("Connected", exact=True).wait_for()

    say(tab, "slowly 150 words")
    expect(other.get_by_label("Answer being written")).to_contain_text("word3")
    say(other, "and from here")

    for page in (tab, other):
        expect(answers(page)).to_have_count(2)
        expect(page.locator(".said .bubble")).to_have_text(["slowly 150 words", "and from here"])
        expect(page.locator(".pending")).to_have_count(0)


def test_what_waits_for_its_turn_is_shown_as_queued_also_after_a_reload(tab: Page) -> None:
    say(tab, "slowly 60 words")
    expect(tab.get_by_label("Answer being written")).to_be_visible()
    say(tab, "and then this")
    expect(tab.locator(".pending")).to_contain_text("Queued")

    tab.reload()

    expect(tab.locator(".pending")).to_contain_text("and then this")
    expect(answers(tab)).to_have_count(2)
    expect(answers(tab).last).to_contain_text("and then this")
    expect(tab.locator(".pending")).to_have_count(0)


def test_what_is_written_while_the_gateway_is_gone_is_sent_once_when_it_is_back(
    tab: Page, gateway: Gateway, complaints: list[str]
) -> None:
    gateway.stop()
    expect(tab.get_by_text("Not connected")).to_be_visible()
    say(tab, "kept here")
    expect(tab.locator(".pending")).to_contain_text("Not sent yet")
    tab.get_by_text("The gateway does not answer.").wait_for()

    gateway.start()
    tab.get_by_role("button", name="Try now").click()

    expect(answers(tab)).to_have_text(re.compile("^kept here"))
    expect(tab.locator(".pending")).to_have_count(0)
    expect(tab.locator(".said")).to_have_count(1)
    assert [message.text for message in gateway.door.pipeline.received] == ["kept here"]
    tab.reload()
    expect(tab.locator(".said")).to_have_count(1)
    expect(answers(tab)).to_have_count(1)
    complaints.clear()  # the browser complains about a gateway that is gone


def test_what_was_not_stored_survives_a_reload_and_is_sent_once(
    tab: Page, gateway: Gateway
) -> None:
    tab.route_web_socket(re.compile("/chat/socket"), lambda socket: None)
    tab.reload()
    tab.get_by_text("Connected", exact=True).wait_for()
    say(tab, "into the void")
    expect(tab.locator(".pending")).to_contain_text("Sending")
    assert gateway.door.pipeline.received == []

    fresh = tab.context.new_page()
    fresh.goto(tab.url)

    expect(answers(fresh)).to_have_text(re.compile("^into the void"))
    expect(fresh.locator(".pending")).to_have_count(0)
    expect(tab.locator(".pending")).to_have_count(0)
    assert [message.text for message in gateway.door.pipeline.received] == ["into the void"]


def test_the_list_of_commands_is_used_with_the_keyboard(tab: Page) -> None:
    commands = tab.get_by_role("listbox", name="Commands")
    field(tab).press_sequentially("/")
    expect(commands.get_by_role("option")).to_have_count(8)
    field(tab).press_sequentially("st")
    expect(commands.get_by_role("option")).to_have_text(
        [re.compile("^/status"), re.compile("^/stop")]
    )

    field(tab).press("ArrowDown")
    expect(commands.get_by_role("option", selected=True)).to_have_text(re.compile("^/stop"))
    expect(field(tab)).to_have_attribute("aria-activedescendant", "command-stop")
    field(tab).press("ArrowDown")
    expect(commands.get_by_role("option", selected=True)).to_have_text(re.compile("^/status"))
    field(tab).press("Escape")
    expect(commands).to_have_count(0)

    field(tab).fill("/ti")
    field(tab).press("Tab")
    expect(field(tab)).to_have_value("/title ")
    expect(field(tab)).to_be_focused()
    field(tab).fill("/stat")
    field(tab).press("Enter")
    expect(field(tab)).to_have_value("/status")
    field(tab).press("Enter")
    expect(tab.locator(".card.output")).to_contain_text("/status done.")


def test_stop_ends_the_answer(tab: Page) -> None:
    say(tab, "slowly 500 words")
    expect(tab.get_by_label("Answer being written")).to_contain_text("word2")

    tab.get_by_role("button", name="Stop").click()

    expect(answers(tab)).to_contain_text("word2")
    expect(tab.get_by_role("button", name="Stop")).to_have_count(0)
    expect(tab.locator(".card.output")).to_contain_text("/stop done.")


def test_enter_sends_and_shift_enter_does_not(tab: Page) -> None:
    field(tab).press_sequentially("one")
    field(tab).press("Shift+Enter")
    field(tab).press_sequentially("two")
    expect(tab.locator(".said")).to_have_count(0)

    field(tab).press("Enter")

    expect(tab.locator(".said .bubble")).to_have_text("one\ntwo")


def test_what_is_being_written_stays_with_its_conversation_and_survives_a_reload(tab: Page) -> None:
    field(tab).fill("half a thought")
    tab.reload()
    expect(field(tab)).to_have_value("half a thought")

    tab.get_by_role("button", name="New conversation").click()
    expect(field(tab)).to_have_value("")
    tab.go_back()
    expect(field(tab)).to_have_value("half a thought")


def test_everything_is_reached_with_the_keyboard(tab: Page) -> None:
    say(tab, "about the garden")
    expect(answers(tab)).to_have_count(1)
    expect(tab.locator(".sidebar .more")).to_have_count(1)

    def tab_to(name: str) -> None:
        for _ in range(30):
            tab.keyboard.press("Tab")
            if tab.evaluate(
                "document.activeElement.ariaLabel ?? document.activeElement.innerText"
            ).startswith(name):
                return
        pytest.fail(f"the keyboard does not reach {name}")

    tab_to("More for")
    assert tab.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    tab.keyboard.press("Enter")
    expect(tab.get_by_role("menuitem", name="Rename")).to_be_focused()
    tab.keyboard.press("ArrowDown")
    expect(tab.get_by_role("menuitem", name="Archive")).to_be_focused()
    tab.keyboard.press("ArrowUp")
    tab.keyboard.press("Enter")
    tab.keyboard.type("Garden")
    tab.keyboard.press("Enter")
    expect(tab.get_by_role("heading", level=1)).to_have_text("Garden")
    expect(tab.get_by_role("dialog")).to_have_count(0)

    tab_to("New conversation")
    tab.keyboard.press("Enter")
    expect(tab.get_by_role("heading", level=1)).to_have_text("New conversation")
    expect(field(tab)).to_be_focused()
    tab_to("Use dark")
    tab.keyboard.press("Enter")
    assert tab.evaluate("document.documentElement.dataset.theme") == "dark"


def test_conversations_are_named_put_away_and_deleted(tab: Page) -> None:
    for name in ("first", "second"):
        say(tab, f"the {name}")
        expect(answers(tab)).to_have_text(re.compile(f"the {name}"))
        tab.get_by_role("button", name="New conversation").click()
    items = tab.locator(".sidebar > ul > li")
    expect(items).to_have_text(
        [re.compile("New conversation"), re.compile("the second"), re.compile("the first")]
    )

    items.nth(2).hover()
    items.nth(2).get_by_role("button").click()
    tab.get_by_role("menuitem", name="Archive").click()
    expect(items).to_have_count(2)
    tab.locator(".archived summary").click()
    tab.get_by_role("link", name="the first").click()
    expect(answers(tab)).to_have_text(re.compile("the first"))

    items.nth(0).hover()
    items.nth(0).get_by_role("button").click()
    tab.get_by_role("menuitem", name="Delete").click()
    expect(tab.get_by_role("button", name="Cancel")).to_be_focused()
    tab.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(tab.get_by_role("link", name="the second")).to_have_count(0)
    expect(answers(tab)).to_have_text(re.compile("the first"))


def test_hostile_words_are_only_words(tab: Page, gateway: Gateway, context: BrowserContext) -> None:
    asked: list[str] = []
    context.on("request", lambda request: asked.append(request.url))
    say(tab, HOSTILE)
    expect(answers(tab)).to_contain_text("turned around")
    source = SessionSource.browser(tab.url.rpartition("#")[2])
    session = gateway.run(gateway.door.store.current(build_session_key(source)))
    assert session is not None
    gateway.run(
        gateway.door.store.rename(session.id, "<img src=x onerror='window.hacked=1'>\u202eexe.txt")
    )
    gateway.run(
        add_entries(
            gateway.door.store, session.id, [said(Role.SYSTEM, HOSTILE, origin=Origin.DELIVERY)]
        )
    )
    tab.reload()
    expect(tab.locator(".card.notice")).to_contain_text("turned around")
    expect(tab.get_by_role("heading", level=1)).to_have_text(
        "<img src=x onerror='window.hacked=1'>exe.txt"
    )

    assert tab.evaluate("window.hacked") is None
    log = tab.get_by_role("log")
    expect(log.locator("script, iframe, img, svg[onload], style, object, form")).to_have_count(0)
    links = log.locator("a")
    hrefs = {link.get_attribute("href") for link in links.all()}
    assert all(re.match(r"https?://", href or "") for href in hrefs)
    assert {link.get_attribute("rel") for link in links.all()} == {"noopener noreferrer nofollow"}
    assert {link.get_attribute("target") for link in links.all()} == {"_blank"}
    assert {url.split("/")[2] for url in asked} == {
        gateway.door.server.address.removeprefix("http://")
    }
    code = log.locator("figure.code code").first
    expect(code).to_contain_text("if (adminU+202EU+2066)")
    assert tab.title() == "<img src=x onerror='window.hacked=1'>exe.txt · Turngate"


def test_markdown_is_shown_as_what_it_means(tab: Page) -> None:
    say(tab, "markdown")
    answer = answers(tab)

    expect(answer.get_by_role("heading", name="Moving the archive")).to_be_visible()
    expect(answer.get_by_role("cell", name="/dev/sdb1")).to_be_visible()
    expect(answer.locator("ol > li")).to_have_count(3)
    expect(answer.locator("blockquote")).to_have_text(
        "Nothing is deleted before the checksums agree."
    )
    expect(answer.get_by_role("link", name="the handbook")).to_have_attribute(
        "href", "https://example.org/handbook"
    )
    answer.get_by_role("button", name="Copy code").click()
    expect(answer.get_by_role("button", name="Copied")).to_be_visible()
    assert tab.evaluate("navigator.clipboard.readText()").startswith(
        "def compare(left: Path, right: Path)"
    )


def test_the_steps_of_an_answer_can_be_looked_into(tab: Page) -> None:
    say(tab, "tools hold")
    live = tab.get_by_label("Answer being written")
    steps = live.locator(".step")
    expect(steps).to_have_text(
        [
            re.compile("Search the notes.*done"),
            re.compile("shell.*failed"),
            re.compile("Read handbook.md.*running"),
        ]
    )
    steps.first.locator("summary").click()
    expect(steps.first).to_contain_text('"query": "archive"')
    expect(steps.first).to_contain_text("3 notes found")

    tab.get_by_role("button", name="Stop").click()

    expect(answers(tab)).to_contain_text("I have looked into the notes.")
    expect(tab.locator(".steps .step")).to_have_count(3)


def test_a_reader_further_up_is_left_there(tab: Page) -> None:
    say(tab, "markdown")
    expect(answers(tab)).to_have_count(1)
    box = tab.get_by_role("log")
    box.hover()
    tab.mouse.wheel(0, -5000)
    newest = tab.get_by_role("button", name="To the newest")
    expect(newest).to_be_visible()

    other = tab.context.new_page()
    other.goto(tab.url)
    other.get_by_text("Connected", exact=True).wait_for()
    say(other, "from elsewhere")
    expect(answers(tab)).to_have_count(2)
    assert tab.evaluate("document.querySelector('.messages').scrollTop") < 50

    newest.click()
    expect(answers(tab).last).to_be_in_viewport()
    expect(newest).to_be_hidden()


def test_a_message_that_is_too_long_stays_in_the_field(tab: Page, gateway: Gateway) -> None:
    paste(tab, LINE * (LONGEST_MESSAGE // len(LINE)) + "x")

    expect(tab.get_by_role("alert")).to_contain_text("1 characters too many")
    expect(tab.get_by_role("button", name="Send")).to_be_disabled()
    field(tab).press("Enter")
    assert len(field(tab).input_value()) == LONGEST_MESSAGE + 1
    assert gateway.door.pipeline.received == []


def test_a_million_characters_are_stored_and_shown_in_part(tab: Page, gateway: Gateway) -> None:
    paste(tab, LINE * (LONGEST_MESSAGE // len(LINE)))
    field(tab).press("Enter")

    expect(answers(tab)).to_be_visible()
    expect(tab.get_by_role("button", name="Show all 1,000,000 characters")).to_be_visible()
    assert len(gateway.door.pipeline.received[0].text) == LONGEST_MESSAGE


def test_a_message_that_is_refused_goes_back_into_the_field(tab: Page, gateway: Gateway) -> None:
    gateway.door.pipeline.refuse = Refused("too many messages are waiting here")
    say(tab, "one too many")

    expect(tab.get_by_role("alert")).to_contain_text("Not sent: too many messages are waiting here")
    expect(field(tab)).to_have_value("one too many")
    expect(tab.locator(".said")).to_have_count(0)
    tab.get_by_role("button", name="Dismiss").click()
    expect(tab.get_by_role("alert")).to_have_count(0)


def test_a_message_that_cannot_be_stored_is_tried_again_until_it_is(
    tab: Page, gateway: Gateway
) -> None:
    gateway.door.pipeline.refuse = StoreUnavailable("the disk is full")
    say(tab, "patience")
    expect(tab.locator(".pending")).to_contain_text("Not stored yet (the disk is full)")

    gateway.door.pipeline.refuse = None

    expect(answers(tab)).to_have_text(re.compile("^patience"))
    expect(tab.locator(".said")).to_have_count(1)


def test_a_message_that_got_no_turn_is_not_lost_silently(tab: Page) -> None:
    script = """async () => {
      const { heard, nothing, opened, stored } = await import("/static/js/state.js");
      let state = opened(nothing, "one");
      state = stored(state, { conversation: "one", id: "m", text: "words" });
      state = stored(state, { conversation: "one", id: "c", text: "/stop" });
      state = heard(state, { type: "settled", conversation: "one", messages: ["m", "c"] });
      state = heard(state, { type: "waiting", conversation: "one", waiting: [{ id: "m", text: "words" }] });
      return { waiting: state.waiting, unanswered: state.unanswered.map((one) => one.text) };
    }"""  # noqa: E501

    assert tab.evaluate(script) == {"waiting": [], "unanswered": ["words"]}


def test_earlier_messages_are_shown_on_request(tab: Page, gateway: Gateway) -> None:
    say(tab, "the very first")
    expect(answers(tab)).to_have_count(1)
    source = SessionSource.browser(tab.url.rpartition("#")[2])
    session = gateway.run(gateway.door.store.current(build_session_key(source)))
    assert session is not None
    gateway.run(
        add_entries(
            gateway.door.store, session.id, [said(Role.USER, f"number {n}") for n in range(250)]
        )
    )
    tab.reload()
    expect(tab.get_by_text("number 249", exact=True)).to_be_in_viewport()
    expect(tab.locator(".said")).to_have_count(200)

    tab.get_by_role("button", name="Show earlier messages").click()

    expect(tab.locator(".said")).to_have_count(251)
    expect(tab.get_by_text("number 50", exact=True)).to_be_in_viewport()
    expect(tab.get_by_role("button", name="Show earlier messages")).to_have_count(0)


def test_a_text_that_runs_from_right_to_left_does_so_here(tab: Page) -> None:
    say(tab, "שלום עולם")

    expect(tab.locator(".said .bubble")).to_have_attribute("dir", "rtl")
    expect(answers(tab).locator("p")).to_have_css("direction", "rtl")
    expect(field(tab)).to_have_attribute("dir", "ltr")


@pytest.mark.parametrize("width", [360, 390])
def test_a_phone_has_nothing_to_scroll_sideways(tab: Page, width: int) -> None:
    tab.set_viewport_size({"width": width, "height": 740})
    say(tab, "markdown")
    expect(answers(tab)).to_have_count(1)
    say(tab, "https://example.org/" + "long" * 100 + "\n```\n" + "code " * 100 + "\n```")
    expect(answers(tab)).to_have_count(2)

    for selector in ("html", "body", ".messages", ".column"):
        assert tab.evaluate(f"document.querySelector('{selector}').scrollWidth") <= width
    assert tab.locator("figure.code pre").last.evaluate("pre => pre.scrollWidth > pre.clientWidth")
    tab.get_by_role("button", name="Show conversations").click()
    expect(tab.get_by_role("button", name="New conversation")).to_be_in_viewport()
    expect(tab.get_by_role("button", name="Close the list")).to_be_focused()
    tab.keyboard.press("Escape")
    expect(tab.get_by_role("button", name="New conversation")).not_to_be_in_viewport()
    expect(tab.get_by_role("button", name="Show conversations")).to_be_focused()


def test_times_are_short_and_tell_the_whole_date_when_asked(tab: Page) -> None:
    say(tab, "hello")

    stamp = answers(tab).locator("time")
    expect(stamp).to_have_text(re.compile(r"^\d\d:\d\d$"))
    expect(stamp).to_have_attribute("title", re.compile(r"day.* 20\d\d.* at \d\d:\d\d:\d\d"))


def test_a_screen_reader_hears_the_answer_once_it_is_whole(tab: Page) -> None:
    say(tab, "slowly 10 words")
    heard = tab.locator(".unseen[role=status]")
    expect(heard).to_have_text("The answer is being written.")
    expect(heard).to_contain_text("word0 word1 word2 word3 word4 word5 word6 word7 word8 word9")


def test_without_a_link_the_page_says_how_to_come_in(
    context: BrowserContext, gateway: Gateway
) -> None:
    page = context.new_page()
    response = page.goto(f"{gateway.door.server.address}/chat")

    assert response is not None
    assert response.status == 401
    expect(page.get_by_text("turngate web link")).to_be_visible()


def test_a_browser_with_the_cookie_alone_is_told_how_to_come_in(
    tab: Page, complaints: list[str]
) -> None:
    """Finding R29: as after an upgrade from a version that had no key, or where it was removed."""
    tab.evaluate("localStorage.clear()")
    tab.reload()

    expect(tab.get_by_text("turngate web link")).to_be_visible()
    complaints.clear()


def test_the_key_is_not_left_in_the_address(tab: Page) -> None:
    """Finding R29."""
    assert "key=" not in tab.url
    tab.reload()
    tab.get_by_text("Connected", exact=True).wait_for()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(("width", "height"), [(1280, 800), (390, 844)])
def test_the_page_in_pictures(
    browser: Browser, gateway: Gateway, scheme: str, width: int, height: int
) -> None:
    """To be looked at by people; what is checked is that a scheme's colours are its own."""
    context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)  # type: ignore[arg-type]
    page = context.new_page()

    def shoot(name: str) -> None:
        page.screenshot(path=SCREENSHOTS / f"{name}-{scheme}-{width}.png")

    page.goto(f"{gateway.door.server.address}/chat")
    shoot("door")
    page.goto(gateway.link())
    page.get_by_text("What can I do for you?").wait_for()
    page.locator(".connection.open").wait_for()
    shoot("empty")
    field(page).fill("/")
    page.get_by_role("listbox").wait_for()
    shoot("commands")
    say(page, "markdown")
    expect(answers(page)).to_have_count(1)
    shoot("markdown")
    say(page, "tools hold")
    page.get_by_label("Answer being written").locator("summary").first.click()
    shoot("steps")
    red, green, blue = page.evaluate(
        "getComputedStyle(document.documentElement).backgroundColor.match(/\\d+/g).map(Number)"
    )
    assert (red + green + blue > 3 * 128) is (scheme == "light")
    context.close()
