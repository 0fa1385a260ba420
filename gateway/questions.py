"""
Questions with buttons: asked through the outbox, answered once, by the person they were put to, where they stand, in
time.

A button carries a nonce and nothing else; what it stands for is on disk, and in memory as long as it is open, so that a
press finds its place in the lane before anything has to wait. Where there are no buttons, a number is as good.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial

from gateway import replies
from gateway.commands import COMMANDS
from gateway.commands.registry import Answer, Call, Command, Request
from gateway.delivery import Delivery
from gateway.errors import AgentError
from gateway.model import (
    LARGEST_NUMBER,
    Ask,
    Button,
    Does,
    InboundMessage,
    InboxState,
    MessageKind,
    Part,
    PartId,
    Question,
    SessionKey,
    TurnId,
)
from gateway.observe import Observer
from gateway.patience import until_stored
from gateway.policy import Policy
from gateway.ports import Agent, Clock, TakesAnswers
from gateway.storing import Asked, Begun, Choice, InboxItem, Outcome, Store
from gateway.turns import PutQuestion

MOST_OPTIONS = 20
LONGEST_LABEL = 64
RUN_AGAIN = "Run it again"

_NOT_OPEN = "This question is no longer open."
_NOT_YOURS = "This question is for somebody else to answer."
_TOO_LATE = "It is too late to answer this question."
_NOBODY_WAITS = "Whoever asked this no longer waits for an answer."
_GONE = "It is no longer there to be run again. Please write it once more."


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """What a message means: the command it gives, the question it answers, and what is to be kept of it."""

    message: InboundMessage
    call: Call | None = None
    choosing: Choice | None = None
    taken: Part | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Waiting:
    """An agent that waits for an answer in a turn."""

    turn: TurnId
    chosen: asyncio.Future[int]


class Questions:
    """All that are open. `rerun` takes a message that was given up back to work."""

    def __init__(
        self,
        policy: Policy,
        store: Store,
        observer: Observer,
        clock: Clock,
        delivery: Delivery,
        tasks: asyncio.TaskGroup,
        rerun: Callable[[InboxItem], None],
    ) -> None:
        self._store = store
        self._delivery = delivery
        self._clock = clock
        self._observer = observer
        self._tasks = tasks
        self._answer_within = policy.answer_within
        self._rerun = rerun
        self._open: dict[PartId, Part] = {}
        self._by_nonce: dict[str, Choice] = {}
        self._by_number: dict[tuple[SessionKey, str | None], Part] = {}
        self._waiting: dict[PartId, _Waiting] = {}
        self._press = Command(name="press", summary="", run=self._pressed)

    async def load(self) -> None:
        """What earlier runs asked and nobody has answered yet."""
        self.remember(*(asked.part for asked in await self._store.questions()))

    def hear(self, message: InboundMessage, key: SessionKey) -> Heard:
        """
        What a message means. Whatever it chooses is taken at once: a second press finds nothing.

        If the message cannot be stored, `give_back` undoes that.
        """
        choice = self._choice_in(message, key)
        if message.kind is not MessageKind.BUTTON and choice is None:
            return Heard(message=message, call=self.call_in(message))
        nonce = self._open[choice.question].buttons[choice.option].nonce if choice else message.text
        message = replace(message, kind=MessageKind.BUTTON, text=nonce)
        if choice is None or self._why_not(choice, message) is not None:
            return Heard(message=message, call=self._call(nonce))
        part = self._open[choice.question]
        self._forget(choice.question)
        if part.question is not None and part.question.does is Does.SAY:
            words = self._as_words(part.buttons[choice.option].label)
            said = replace(message, kind=MessageKind.NEW, text=words)
            return Heard(message=said, choosing=choice, taken=part)
        return Heard(message=message, call=self._call(nonce), choosing=choice, taken=part)

    def call_in(self, message: InboundMessage) -> Call | None:
        """The command in a message that is stored."""
        if message.kind is MessageKind.BUTTON:
            return self._call(message.text)
        return None if message.forwarded else COMMANDS.find(message.text)

    def give_back(self, heard: Heard) -> None:
        """It was not stored after all, or was known before: what it chose may be chosen again."""
        if heard.taken is not None:
            self.remember(heard.taken)

    def asker(self, agent: Agent, begun: Begun, message: InboundMessage) -> PutQuestion:
        """For the questions of one turn."""
        return partial(self.ask, agent, begun, message)

    async def ask(
        self, agent: Agent, begun: Begun, message: InboundMessage, ask: Ask, text: str, labels: Sequence[str]
    ) -> timedelta:
        """
        Put a question of the agent's to the person who wrote. `text` and `labels` are what he is to read.

        An agent that takes answers is told the option, or None if nobody answered in time. Returns how long it waits.
        """
        if not 1 <= len(ask.options) <= MOST_OPTIONS:
            raise AgentError(f"a question needs options, at most {MOST_OPTIONS}; this one has {len(ask.options)}")
        does = Does.ANSWER if isinstance(agent, TakesAnswers) else Does.SAY
        part = self._question(message, begun.opened.session.key, does, text, labels, ask.id)
        asked = await until_stored(partial(self._store.ask, begun.turn, part), self._observer)
        self.remember(asked)
        self._tasks.create_task(self._delivery.deliver((asked,)), name="question")
        if isinstance(agent, TakesAnswers):
            waiting = _Waiting(turn=begun.turn, chosen=asyncio.get_running_loop().create_future())
            self._waiting[asked.id] = waiting
            self._tasks.create_task(self._tell(agent, asked.id, ask, waiting), name="answer")
            return self._answer_within
        return timedelta(0)

    def given_up(self, begun: Begun, message: InboundMessage) -> Outcome | None:
        """What is said of a turn that must not run, with a button that runs it all the same. None: let it run."""
        given_up = replies.given_up(begun, message, self._clock.now())
        if given_up is None or not self._delivery.has_buttons(message.source):
            return given_up
        first, *rest = given_up.parts
        asking = self._question(message, begun.opened.session.key, Does.RERUN, first.text, (RUN_AGAIN,))
        first = replace(first, text=asking.text, buttons=asking.buttons, question=asking.question)
        return replace(given_up, parts=(first, *rest))

    def remember(self, *parts: Part) -> None:
        """Those of them that are questions, as the store has them; and no longer those that are too old."""
        for part in parts:
            if part.question is not None:
                self._open[part.id] = part
                if part.question.numbered:
                    self._by_number[part.question.key, part.question.person] = part
                for option, button in enumerate(part.buttons):
                    self._by_nonce[button.nonce] = Choice(question=part.id, option=option)
        while self._open and self._is_late(oldest := next(iter(self._open.values()))):
            self._forget(oldest.id)

    def close(self, turn: TurnId) -> None:
        """The turn is over: nobody waits for its answers any more."""
        for id_ in [id_ for id_, waiting in self._waiting.items() if waiting.turn == turn]:
            self._waiting.pop(id_).chosen.cancel()
            self._forget(id_)

    def _question(
        self, message: InboundMessage, key: SessionKey, does: Does, text: str, labels: Sequence[str], ask: str = ""
    ) -> Part:
        source = message.source
        about = Question(
            does=does,
            person=source.participant_id,
            key=key,
            expires_at=self._clock.now() + self._answer_within,
            ask=ask,
            numbered=not self._delivery.has_buttons(source),
        )
        buttons = tuple(Button(label=_label(label), nonce=secrets.token_hex(16)) for label in labels)
        words = _numbered(text, buttons) if about.numbered else text
        return Part(target=source, text=words, buttons=buttons, question=about, reply_to=message.id)

    async def _tell(self, agent: TakesAnswers, id_: PartId, ask: Ask, waiting: _Waiting) -> None:
        """The agent, what was chosen."""
        try:
            async with asyncio.timeout(self._answer_within.total_seconds()):
                option: str | None = ask.options[await waiting.chosen]
        except TimeoutError:
            option = None
            self._forget(id_)
        except asyncio.CancelledError:
            if asyncio.current_task().cancelling():  # type: ignore[union-attr]  # a task runs this
                raise
            return  # the turn is over
        finally:
            self._waiting.pop(id_, None)
        try:
            await agent.answer(waiting.turn, ask.id, option)
        except Exception as exc:  # noqa: BLE001 - an agent's bug: the turn ends when it falls silent
            self._observer.bug(exc)

    async def _pressed(self, request: Request) -> Answer:
        """Do what the chosen option does, or say why nothing is done."""
        asked = await self._store.answered(request.row)
        if asked is None or asked.part.question is None or asked.option is None:
            return Answer(text=self._why_not_now(request), session=request.session.id, said="")
        label = asked.part.buttons[asked.option].label
        if asked.part.question.does is Does.RERUN:
            return Answer(text=await self._run_again(asked), session=request.session.id, said=label)
        waiting = self._waiting.get(asked.id)
        if waiting is None or waiting.chosen.done():
            return Answer(text=_NOBODY_WAITS, session=request.session.id, said=label)
        waiting.chosen.set_result(asked.option)
        text = f"{asked.part.text}\n\n→ {label}"
        return Answer(text=text, session=request.session.id, said=label, edits=asked.message_id)

    async def _run_again(self, asked: Asked) -> str:
        given_up = await self._store.inbox(InboxState.FAILED, InboxState.DEAD, limit=LARGEST_NUMBER)
        of_turn = [item for item in given_up if item.turn == asked.part.turn]
        if not of_turn:
            return _GONE
        self._rerun(await self._store.requeue(of_turn[0].id))
        return "It runs again."

    def _why_not_now(self, request: Request) -> str:
        choice = self._by_nonce.get(request.argument)
        return _NOT_OPEN if choice is None else self._why_not(choice, request.message) or _NOT_OPEN

    def _why_not(self, choice: Choice, message: InboundMessage) -> str | None:
        """Why this press counts for nothing; None if it counts."""
        part, source = self._open[choice.question], message.source
        asked_in, about = part.target, part.question
        here = (source.platform, source.account, source.chat_id, source.thread_id)
        if here != (asked_in.platform, asked_in.account, asked_in.chat_id, asked_in.thread_id) or about is None:
            return _NOT_YOURS
        if about.person is not None and about.person != source.participant_id:
            return _NOT_YOURS
        return _TOO_LATE if self._is_late(part) else None

    def _choice_in(self, message: InboundMessage, key: SessionKey) -> Choice | None:
        if message.kind is MessageKind.BUTTON:
            return self._by_nonce.get(message.text)
        part = self._by_number.get((key, message.source.participant_id))
        if part is None or message.kind is not MessageKind.NEW or message.forwarded or self._is_late(part):
            return None
        said = message.text.strip().rstrip(".)").casefold()
        answers = ((str(number), button.label.casefold()) for number, button in enumerate(part.buttons, start=1))
        option = next((option for option, names in enumerate(answers) if said in names), None)
        return None if option is None else Choice(question=part.id, option=option)

    def _is_late(self, part: Part) -> bool:
        return part.question is None or self._clock.now() >= part.question.expires_at

    def _forget(self, id_: PartId) -> None:
        part = self._open.pop(id_, None)
        if part is None or part.question is None:
            return
        for button in part.buttons:
            self._by_nonce.pop(button.nonce, None)
        writer = part.question.key, part.question.person
        if self._by_number.get(writer) is part:
            del self._by_number[writer]

    def _call(self, nonce: str) -> Call:
        return Call(command=self._press, argument=nonce)

    def _as_words(self, label: str) -> str:
        """An option is an agent's text: chosen, it is said, and does nothing a person would have to mean."""
        return f"“{label}”" if COMMANDS.find(label) else label


def _label(text: str) -> str:
    words = " ".join(text.split()) or "…"
    return words if len(words) <= LONGEST_LABEL else f"{words[: LONGEST_LABEL - 1].rstrip()}…"


def _numbered(text: str, buttons: Sequence[Button]) -> str:
    options = "\n".join(f"{number}. {button.label}" for number, button in enumerate(buttons, start=1))
    return f"{text}\n\n{options}\n\nAnswer with the number."
