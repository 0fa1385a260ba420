"""A Python agent that asks in the middle of its answer, for the tests of the chats."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping

from turngate.gateway.agents.api import Agent, AgentEvent, Ask, Done, Text, Turn


class AskingAgent:
    """Asks whether to go on, and says what it was told."""

    def __init__(self) -> None:
        self._answers: dict[int, asyncio.Future[str | None]] = {}

    async def run(self, turn: Turn) -> AsyncIterator[AgentEvent]:
        """Answer, with a question in between."""
        if turn.messages[-1].text != "ask me":
            yield Text(f"I read {turn.messages[-1].text}.")
            yield Done()
            return

        answer = self._answers[turn.id] = asyncio.Future()
        yield Text("These are the words before it.\n\n")
        yield Ask(id="q", text="Shall I go on?", options=("Yes, do", "No", "Later"))
        yield Text(f"You chose {await answer}.")
        yield Done()

    async def answer(self, turn: int, ask: str, option: str | None) -> None:
        """Take the answer."""
        self._answers.pop(turn).set_result(option)


def build(options: Mapping[str, object]) -> Agent:
    """Return the agent; the factory that a config names."""
    return AskingAgent()
