"""What a screen that opens in the middle of a turn is shown of it."""

from __future__ import annotations

from tests.fakes import FrozenClock
from turngate.adapters.screens import Screens
from turngate.gateway.domain.agent_events import Tool, ToolStatus
from turngate.gateway.domain.ids import TurnId
from turngate.gateway.domain.messages import WEB_PLATFORM, SessionSource
from turngate.gateway.domain.transcript import Text

TURN = TurnId(1)
PLACE = SessionSource.browser("one")


async def test_a_step_that_is_done_still_shows_what_it_was_asked() -> None:
    screens = Screens(WEB_PLATFORM, SessionSource.browser, FrozenClock())
    screens.turn_began(PLACE, TURN, ["m"])

    screens.turn_event(
        PLACE, TURN, Tool(id="1", name="sh", status=ToolStatus.STARTED, title="Look", input="{}")
    )
    screens.turn_event(PLACE, TURN, Tool(id="1", name="sh", status=ToolStatus.DONE, output="found"))

    with screens.watch("one") as watch:
        assert watch.live is not None
        assert watch.live.tools == {
            "1": Tool(
                id="1", name="sh", status=ToolStatus.DONE, title="Look", input="{}", output="found"
            )
        }


async def test_what_happens_after_a_screen_was_opened_does_not_change_what_it_was_shown_first() -> (
    None
):
    screens = Screens(WEB_PLATFORM, SessionSource.browser, FrozenClock())
    screens.turn_began(PLACE, TURN, ["m"])
    screens.turn_event(PLACE, TURN, Text("one "))

    with screens.watch("one") as watch:
        screens.turn_event(PLACE, TURN, Text("two"))

        assert watch.live is not None
        assert watch.live.text == "one "
