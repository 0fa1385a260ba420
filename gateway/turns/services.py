"""What a running agent may ask for: keep a file, ask the user, send to another chat."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from turngate.gateway.domain.agent_events import Ask, File, Send
from turngate.gateway.domain.ports.store import Store
from turngate.gateway.stores.session_files import AnswerFiles
from turngate.gateway.turns.cross_chat import CrossChatSender
from turngate.gateway.turns.questions import Questions
from turngate.gateway.turns.running_turn import RunningTurn


@dataclass(frozen=True, slots=True, kw_only=True)
class ServicesForTurn:
    """The services of one turn, on behalf of the user who wrote its last message."""

    turn: RunningTurn
    store: Store
    files: AnswerFiles
    questions: Questions
    cross_chat: CrossChatSender

    @property
    def acts(self) -> bool:
        return not self.turn.configured.repeatable

    async def mark_not_repeatable(self) -> None:
        """Record that the turn must not run again."""
        self.turn.batch.runs_once = True
        # Otherwise the store has known it since the turn began.
        if self.turn.begun.repeatable:
            await self.store.record_tool(self.turn.id)

    async def keep_file(self, file: File) -> File:
        return await self.files(file)

    async def send_to_chat(self, send: Send) -> None:
        await self.cross_chat.send(self.turn.last_message, send)

    async def ask(
        self, ask: Ask, text: str, labels: Sequence[str], on_answer: Callable[[], None]
    ) -> bool:
        return await self.questions.ask(self.turn, ask, text, labels, on_answer)
