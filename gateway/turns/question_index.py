"""
Index, in memory, of the questions that may still be answered, so that a message is interpreted
without waiting for the store.

A question is found by the nonce of a button, or by a text or number where the user may type the
answer. It counts only from the user who was asked, in the chat where they were asked, in time.

Options are counted from 1 for whoever types a number. Where they are printed as numbers, because a
platform has no buttons, those numbers count instead.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest

from turngate.gateway.commands import COMMANDS
from turngate.gateway.domain.ids import PartId, SessionKey, TurnId
from turngate.gateway.domain.messages import InboundMessage, MessageKind
from turngate.gateway.domain.outbox import Does, Part, Question
from turngate.gateway.domain.ports.clock import Clock
from turngate.gateway.domain.store_values import Choice

MOST_OPEN = 10_000
"""Of all turns together. Past it the oldest is forgotten as if its time were over."""

NOT_OPEN = "This question is no longer open."
NOT_YOURS = "This question is for another user to answer."
TOO_LATE = "It is too late to answer this question."


class OpenQuestions:
    """Open questions by id, by the nonces of their buttons, and by who may type the answer."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._open: dict[PartId, Part] = {}
        self._until: dict[PartId, float] = {}
        self._by_nonce: dict[str, Choice] = {}
        self._by_writer: dict[tuple[SessionKey, str | None], dict[PartId, Part]] = {}
        self._hinted: set[PartId] = set()

    def of(self, choice: Choice) -> Part:
        """Return the question that a choice is about."""
        return self._open[choice.question]

    def count_of(self, turn: TurnId) -> int:
        """Return how many open questions a turn has."""
        return sum(part.turn == turn for part in self._open.values())

    def is_asked(self, key: SessionKey) -> bool:
        """Return whether a question of this session is still open."""
        return bool(self.asked_in(key))

    def asked_in(self, key: SessionKey) -> list[Part]:
        """Return the open questions of a session, oldest first."""
        # A copy in one step: the sweep asks on the store's thread while the loop adds questions.
        return [
            part
            for part in tuple(self._open.values())
            if part.question and part.question.key == key and not self._is_late(part)
        ]

    def to_hint_at(self, message: InboundMessage, key: SessionKey) -> Part | None:
        """
        Return the question that an agent waits for, if the writer of a message has not been told
        yet that their words did not answer it. Returns each question once.
        """
        if not _is_plain_talk(message):
            return None

        asked = self._by_writer.get((key, message.source.participant_id), {})
        waited_for = [
            part
            for part in asked.values()
            if _does(part) is Does.ANSWER
            and not self._is_late(part)
            and part.id not in self._hinted
        ]
        if not waited_for:
            return None

        self._hinted.update(part.id for part in waited_for)
        return waited_for[0]

    def add(self, *parts: Part) -> None:
        """Add those parts that are questions, as stored, and drop expired ones."""
        for part in parts:
            if part.question is not None:
                self._open[part.id] = part
                self._until[part.id] = self._clock.monotonic() + self._left(part, part.question)
                if part.question.first_number is not None or part.question.does is Does.ANSWER:
                    self._by_writer.setdefault((part.question.key, part.question.person), {})[
                        part.id
                    ] = part
                for option, button in enumerate(part.buttons):
                    self._by_nonce[button.nonce] = Choice(question=part.id, option=option)
            self._forget_oldest()

    def forget(self, id_: PartId) -> None:
        """Remove a question that was answered or can no longer be."""
        part = self._open.pop(id_, None)
        self._until.pop(id_, None)
        self._hinted.discard(id_)
        if part is None or part.question is None:
            return

        for button in part.buttons:
            self._by_nonce.pop(button.nonce, None)

        writer = part.question.key, part.question.person
        if id_ in self._by_writer.get(writer, {}):
            del self._by_writer[writer][id_]
            if not self._by_writer[writer]:
                del self._by_writer[writer]

    def choice_in(self, message: InboundMessage, key: SessionKey) -> Choice | None:
        """Return what a button press or typed text chooses. Text that fits two chooses nothing."""
        if message.kind is MessageKind.BUTTON:
            return self._by_nonce.get(message.text)

        asked = self._by_writer.get((key, message.source.participant_id))
        if asked is None or not _is_plain_talk(message):
            return None

        words = _bare(message.text)
        open_ = [part for part in asked.values() if not self._is_late(part)]
        matching = [
            Choice(question=part.id, option=option)
            for part in open_
            for option, names in enumerate(_names(part, is_only=len(open_) == 1))
            if words in names
        ]
        return matching[0] if len(matching) == 1 else None

    def why_not(self, choice: Choice, message: InboundMessage) -> str | None:
        """Return why this press does not count; None if it does."""
        part = self._open[choice.question]
        source = message.source
        asked_in = part.target
        about = part.question
        if source.thread_key != asked_in.thread_key or about is None:
            return NOT_YOURS

        if about.person is not None and about.person != source.participant_id:
            return NOT_YOURS

        return TOO_LATE if self._is_late(part) else None

    def why_not_nonce(self, nonce: str, message: InboundMessage) -> str:
        """Return why a press did nothing, given its nonce."""
        choice = self._by_nonce.get(nonce)
        return NOT_OPEN if choice is None else self.why_not(choice, message) or NOT_OPEN

    def next_number(self, key: SessionKey, person: str | None) -> int:
        """Return the first free number, so that no two options a user can choose now share one."""
        return (
            max(
                (_numbers(part).stop for part in self._by_writer.get((key, person), {}).values()),
                default=0,
            )
            or 1
        )

    def _is_late(self, part: Part) -> bool:
        return self._clock.monotonic() >= self._until.get(part.id, 0.0)

    def _left(self, part: Part, question: Question) -> float:
        """Return the seconds left, which a clock that was set back cannot extend."""
        now = self._clock.now()
        return (question.expires_at - max(now, part.created_at or now)).total_seconds()

    def _forget_oldest(self) -> None:
        while self._open:
            oldest = next(iter(self._open.values()))
            if len(self._open) <= MOST_OPEN and not self._is_late(oldest):
                break
            self.forget(oldest.id)


def _numbers(part: Part) -> range:
    """Return the numbers of the options; none where there are buttons."""
    first = part.question.first_number if part.question is not None else None
    return range(0) if first is None else range(first, first + len(part.buttons))


def _names(part: Part, *, is_only: bool) -> Iterator[tuple[str, ...]]:
    """
    Yield the names of each option in a typed answer: its label, and its number.

    Beside other questions, a number that was not printed would be ambiguous.
    """
    numbers = _numbers(part)
    if not numbers and is_only:
        numbers = range(1, len(part.buttons) + 1)

    for button, number in zip_longest(part.buttons, numbers):
        yield (_bare(button.label),) if number is None else (_bare(button.label), str(number))


def _does(part: Part) -> Does | None:
    return None if part.question is None else part.question.does


def _is_plain_talk(message: InboundMessage) -> bool:
    """Return whether a message can be a typed answer: not a command, and without files."""
    if message.kind is not MessageKind.NEW or message.forwarded or message.attachments:
        return False
    return COMMANDS.find(message.text) is None


def _bare(text: str) -> str:
    return text.strip().rstrip(".)").casefold()
