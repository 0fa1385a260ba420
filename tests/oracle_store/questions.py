"""Questions with buttons, for the store in memory. Its caller holds the lock."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime

from turngate.gateway.domain.ids import (
    InboxId,
    PartId,
    SessionId,
    TurnId,
)
from turngate.gateway.domain.outbox import Does, Part
from turngate.gateway.domain.store_values import (
    Asked,
    Choice,
    QuestionState,
)


class MemoryQuestions:
    """By the number of their part. `sent_id` tells what the platform calls a part."""

    def __init__(self, sent_id: Callable[[PartId], str | None]) -> None:
        self._asked: dict[PartId, Asked] = {}
        self._sent_id = sent_id

    def put(self, part: Part) -> None:
        """As it was asked."""
        self._asked[part.id] = Asked(id=part.id, part=part)

    def choose(self, choice: Choice, by: InboxId) -> None:
        """Once."""
        asked = self._asked.get(choice.question)
        if asked is not None and asked.state is QuestionState.OPEN:
            answered = replace(
                asked, state=QuestionState.ANSWERED, option=choice.option, answered_by=by
            )
            self._asked[choice.question] = answered

    def close_of_turn(self, turn: TurnId) -> list[PartId]:
        """Nobody waits for these answers any more."""
        closed = []
        for id_, asked in self._asked.items():
            waits = asked.part.question is not None and asked.part.question.does is Does.ANSWER
            if asked.part.turn == turn and waits and asked.state is QuestionState.OPEN:
                self._asked[id_] = replace(asked, state=QuestionState.CLOSED)
                closed.append(id_)
        return closed

    def close(self, question: PartId) -> bool:
        """Whether it was open."""
        asked = self._asked.get(question)
        if asked is None or asked.state is not QuestionState.OPEN:
            return False
        self._asked[question] = replace(asked, state=QuestionState.CLOSED)
        return True

    def open(self) -> list[Asked]:
        """All that may be answered, oldest first."""
        return [
            self._now(asked) for asked in self._asked.values() if asked.state is QuestionState.OPEN
        ]

    def answered_by(self, inbox: InboxId) -> Asked | None:
        """The one that this message answered."""
        found = next((asked for asked in self._asked.values() if asked.answered_by == inbox), None)
        return found and self._now(found)

    def drop_of(self, session: SessionId) -> None:
        """Its session is gone."""
        self._drop(lambda asked: asked.part.session == session)

    def forget(self, before: datetime) -> int:
        """Those that expired before then."""
        return self._drop(
            lambda asked: (
                asked.part.question is not None and asked.part.question.expires_at < before
            )
        )

    def _now(self, asked: Asked) -> Asked:
        return replace(asked, message_id=self._sent_id(asked.id))

    def _drop(self, which: Callable[[Asked], bool]) -> int:
        gone = [id_ for id_, asked in self._asked.items() if which(asked)]
        for id_ in gone:
            del self._asked[id_]
        return len(gone)
