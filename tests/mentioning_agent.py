"""An agent that was talked into mentioning strangers by their ids, in every form there is."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from turngate.gateway.domain.agent_events import AgentEvent, Done, Turn
from turngate.gateway.domain.transcript import Text

STRANGERS = (
    "<@890000000000000009> <@!890000000000000009> <@&890000000000000009> <@7310000009> "
    "<\\@7310000009> &lt;@7310000009&gt; [Eve](tg://user?id=7310000009) <@U0EVE0009> "
    "<@U0EVE0009|eve> &lt;@U0EVE0009&gt; <!channel> <!here> @everyone"
)


class Mentioning:
    async def run(self, turn: Turn) -> AsyncGenerator[AgentEvent]:
        """Pieces that cut each mention."""
        answer = f"hey <@{turn.source.user_id}>, tell {STRANGERS}"
        for start in range(0, len(answer), 5):
            yield Text(answer[start : start + 5])
        yield Done()


def make(options: dict[str, object]) -> Mentioning:
    return Mentioning()
