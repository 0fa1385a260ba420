"""
Questions with buttons: asked through the outbox, answered once, by the user they were put to, in
that chat, in time.

A button carries a nonce and nothing else. What it stands for is stored, and kept in memory while it
is open, so that a press gets its place in the lane before anything is awaited. Without buttons, and
while an agent waits, the number and the text of an option are answers too. Other words queue behind
the turn, so the user gets a hint that the question is open.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import count

from turngate.gateway.commands import COMMANDS
from turngate.gateway.commands.registry import Call, Command, CommandAnswer, Request
from turngate.gateway.domain.agent_events import Ask
from turngate.gateway.domain.errors import AgentError, Refused, StoreUnavailable
from turngate.gateway.domain.ids import LARGEST_NUMBER, PartId, SessionId, SessionKey, TurnId
from turngate.gateway.domain.messages import ChatType, InboundMessage, InboxState, MessageKind
from turngate.gateway.domain.outbox import Button, Does, Part, Question
from turngate.gateway.domain.ports.agent import Agent, LetsOthersAnswer, TakesAnswers
from turngate.gateway.domain.ports.capability import can
from turngate.gateway.domain.ports.clock import Clock
from turngate.gateway.domain.ports.store import Store
from turngate.gateway.domain.store_values import Asked, Begun, Choice, InboxItem, Outcome
from turngate.gateway.domain.tasks import start_unless_closing
from turngate.gateway.domain.text import cut
from turngate.gateway.observability.observer import Observer
from turngate.gateway.outbound.connected_accounts import ConnectedAccounts
from turngate.gateway.outbound.delivery import Delivery
from turngate.gateway.outbound.splitting import Splitter
from turngate.gateway.rules import outcomes
from turngate.gateway.rules.policy import Policy
from turngate.gateway.turns.batch import ActiveBatch
from turngate.gateway.turns.question_index import OpenQuestions
from turngate.gateway.turns.running_turn import RunningTurn

MOST_OPTIONS = 20
LONGEST_LABEL = 64
LONGEST_QUESTION = 20_000
MOST_AT_ONCE = 20
"""Of one turn. What was answered does not count."""
RUN_AGAIN = "Run it again"

_NOBODY_WAITS = "The agent no longer waits for an answer to this."
_CLOSED = "*(closed: I was interrupted. If this is still needed, it is asked again.)*"
_NO_WORDS = "…"
_HINT = (
    "A question above is still open: {how} the number or the words of one of its options. What you "
    "wrote is kept, and is read after that."
)
_HOW_WITH_BUTTONS = "press a button, or write"
_HOW_WITHOUT = "write"
_GONE = (
    "Nothing is left to be run again here. If there is no answer to it above, please write "
    "it once more."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Interpreted:
    """
    What a message means, and what is to be stored.

    `choosing` is the option it chooses. `answers` is the question, which is no longer open.
    """

    message: InboundMessage
    call: Call | None = None
    choosing: Choice | None = None
    answers: Part | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Waiting:
    """An agent that waits for an answer. None is set if the question could not be delivered."""

    turn: TurnId
    chosen: asyncio.Future[int | None]


class Questions:
    """All open questions. `rerun` enqueues a message that was given up."""

    def __init__(
        self,
        *,
        policy: Policy,
        store: Store,
        observer: Observer,
        clock: Clock,
        accounts: ConnectedAccounts,
        splitter: Splitter,
        delivery: Delivery,
        tasks: asyncio.TaskGroup,
        rerun: Callable[[InboxItem], None],
    ) -> None:
        self._store = store
        self._splitter = splitter
        self._accounts = accounts
        self._delivery = delivery
        self._clock = clock
        self._observer = observer
        self._tasks = tasks
        self._policy = policy
        self._rerun = rerun
        self._open = OpenQuestions(clock)
        self._waiting: dict[PartId, _Waiting] = {}
        self._press = Command(name="press", summary="", run=self._pressed)

        self._delivery.on_dead(self._did_not_arrive)

    def is_asked(self, key: SessionKey) -> bool:
        """Return whether a question of this session is still open. Safe to call from any thread."""
        return self._open.is_asked(key)

    def asked_in(self, key: SessionKey) -> list[Part]:
        """Return the open questions of a session, oldest first."""
        return self._open.asked_in(key)

    async def load(self) -> None:
        """
        Read the open questions of earlier runs. Called before anything is sent.

        The agents that waited for an answer died with their run and ask again, if they may run
        again. Their unsent questions are dropped, and those that were sent say that they are
        closed: a chat never shows two that look open.
        """
        for asked in await self._store.questions():
            if _does(asked.part) is not Does.ANSWER:
                self.remember(asked.part)
                continue
            try:
                await self._drop_or_close(asked)
            except StoreUnavailable as exc:
                # Then it is sent although no agent waits. A press is answered with NOT_OPEN.
                self._observer.store_failed(exc)

    async def _drop_or_close(self, asked: Asked) -> None:
        try:
            await self._store.drop_part(asked.id, "the turn no longer waits for the answer")
        except Refused:
            # It was sent, or may have been. Without its id its buttons answer that they are late,
            # and what has no buttons is a text like any other.
            question = asked.part.question
            if asked.message_id is None or question is None or question.first_number is not None:
                return
            closed = replace(
                asked.part,
                text=f"{asked.part.text}\n\n{_CLOSED}",
                edits=asked.message_id,
                buttons=(),
                question=None,
            )
            await self._store.close_question(asked.id, closed)

    def interpret(self, message: InboundMessage, key: SessionKey) -> Interpreted:
        """
        Interpret a message. A choice is taken at once: a second press finds nothing.

        If the message cannot be stored, `undo` gives the choice back.
        """
        choice = self._open.choice_in(message, key)
        if message.kind is not MessageKind.BUTTON and choice is None:
            return Interpreted(message=message, call=self.call_in(message))

        # A typed answer is stored as the press of its button, so that both run the same way.
        nonce = self._open.of(choice).buttons[choice.option].nonce if choice else message.text
        message = replace(message, kind=MessageKind.BUTTON, text=nonce)
        # Too late, or not for this user: the command answers with the reason.
        if choice is None or self._open.why_not(choice, message) is not None:
            return Interpreted(message=message, call=self._call(nonce))

        part = self._open.of(choice)
        # From here on a second press finds no open question.
        self._open.forget(choice.question)
        if _does(part) is Does.SAY:
            words = self._as_words(part.buttons[choice.option].label)
            as_text = replace(message, kind=MessageKind.NEW, text=words)
            return Interpreted(message=as_text, choosing=choice, answers=part)

        return Interpreted(message=message, call=self._call(nonce), choosing=choice, answers=part)

    def call_in(self, message: InboundMessage) -> Call | None:
        """Return the command in a stored message."""
        if message.kind is MessageKind.BUTTON:
            return self._call(message.text)
        return None if message.forwarded else COMMANDS.find(message.text)

    def undo(self, interpreted: Interpreted) -> None:
        """Give back the choice of a message that was not stored, if it is still waited for."""
        part = interpreted.answers
        # While the message was being stored, the agent may have stopped waiting.
        if part is not None and (_does(part) is not Does.ANSWER or part.id in self._waiting):
            self.remember(part)

    def hint(self, message: InboundMessage, key: SessionKey) -> None:
        """Tell a user, once a question, that their message has to wait for an open question."""
        question = self._open.to_hint_at(message, key)
        if question is not None and question.session is not None:
            has_buttons = self._accounts.has_buttons(message.source)
            text = _HINT.format(how=_HOW_WITH_BUTTONS if has_buttons else _HOW_WITHOUT)
            hint = self._send_hint(question.session, message, text)
            start_unless_closing(self._tasks, hint, "hint")

    async def _send_hint(self, session: SessionId, message: InboundMessage, text: str) -> None:
        entries = (outcomes.notice(text, self._clock.now()),)
        parts = (Part(target=message.source, text=text, reply_to=message.id),)
        # The session may have been deleted in the meantime.
        with suppress(Refused):
            await self._delivery.deliver(
                await self._store.tell(session, entries=entries, parts=parts)
            )

    async def ask(
        self,
        running: RunningTurn,
        ask: Ask,
        text: str,
        labels: Sequence[str],
        on_answer: Callable[[], None],
    ) -> bool:
        """
        Ask the user who wrote the last message; they read `text` and `labels`.

        Returns whether the agent waits for the chosen option, or None if none will come.
        """
        session = running.session
        self._check(ask, text, running.id)
        agent = _asking_agent(running.configured.agent, running.id)

        does = Does.ANSWER if can(agent, TakesAnswers) else Does.SAY
        message = running.batch.queued[-1].message
        part = self._question(message, session.key, does, text, labels, ask.id)
        fitted = await self._splitter.parts((part,), session.id)
        parts = await self._store.ask(running.id, *fitted)

        asked = next(part for part in parts if part.question is not None)
        # Before it is sent: a press may come as soon as the buttons are visible.
        self.remember(asked)
        # A gateway that is closing starts neither of the two, and cancels this turn, too.
        start_unless_closing(self._tasks, self._delivery.deliver(parts), "question")
        if not can(agent, TakesAnswers):
            return False

        # No await since the delivery was started: if it fails, `_did_not_arrive` finds this.
        waiting = _Waiting(turn=running.id, chosen=asyncio.Future())
        self._waiting[asked.id] = waiting
        # Users may take hours to answer: other turns use this turn's slot until they do.
        running.batch.release_slot()
        answering = self._give_answer(agent, asked.id, ask, waiting, running.batch, on_answer)
        start_unless_closing(self._tasks, answering, "answer")
        return True

    def _check(self, ask: Ask, text: str, turn: TurnId) -> None:
        if not 1 <= len(ask.options) <= MOST_OPTIONS:
            raise AgentError(
                f"a question needs options, at most {MOST_OPTIONS}; this one has {len(ask.options)}"
            )
        if len(text) > LONGEST_QUESTION:
            raise AgentError(f"it asked a question of more than {LONGEST_QUESTION:,} characters")
        if self._open.count_of(turn) >= MOST_AT_ONCE:
            raise AgentError(f"it asked more than {MOST_AT_ONCE} questions at once")

    def given_up(self, begun: Begun, message: InboundMessage) -> Outcome | None:
        """Return what to say of a turn that must not run, with a rerun button; None: run it."""
        given_up = outcomes.given_up(begun, message, self._clock.now())
        if given_up is None or not self._accounts.has_buttons(message.source):
            return given_up

        first, *rest = given_up.parts
        asking = self._question(
            message, begun.opened.session.key, Does.RERUN, first.text, (RUN_AGAIN,)
        )
        first = replace(first, text=asking.text, buttons=asking.buttons, question=asking.question)
        return replace(given_up, parts=(first, *rest))

    def remember(self, *parts: Part) -> None:
        """Add those parts that are questions, as stored."""
        self._open.add(*parts)

    def close(self, turn: TurnId) -> None:
        """Forget the open questions of a turn that is over."""
        for id_ in [id_ for id_, waiting in self._waiting.items() if waiting.turn == turn]:
            self._waiting.pop(id_).chosen.cancel()
            self._open.forget(id_)

    def _question(
        self,
        message: InboundMessage,
        key: SessionKey,
        does: Does,
        text: str,
        labels: Sequence[str],
        ask: str = "",
    ) -> Part:
        source = message.source
        about = Question(
            does=does,
            person=source.participant_id,
            key=key,
            expires_at=self._clock.now() + self._policy.answer_within,
            ask=ask,
            first_number=None
            if self._accounts.has_buttons(source)
            else self._open.next_number(key, source.participant_id),
        )
        buttons = tuple(
            Button(label=_label(label), nonce=secrets.token_hex(16)) for label in labels
        )
        words = text if text.strip() else _NO_WORDS
        if about.first_number is not None:
            words = _numbered(words, buttons, about.first_number, source.chat_type)

        return Part(target=source, text=words, buttons=buttons, question=about, reply_to=message.id)

    def _did_not_arrive(self, id_: PartId) -> None:
        """End the wait for the answer to a question that could not be delivered."""
        waiting = self._waiting.get(id_)
        if waiting is not None and not waiting.chosen.done():
            waiting.chosen.set_result(None)

    async def _give_answer(
        self,
        agent: TakesAnswers,
        id_: PartId,
        ask: Ask,
        waiting: _Waiting,
        batch: ActiveBatch,
        on_answer: Callable[[], None],
    ) -> None:
        """Wait for the choice and give it to the agent."""
        try:
            async with asyncio.timeout(self._policy.answer_within.total_seconds()):
                chosen = await waiting.chosen
        except TimeoutError:
            chosen = None
        except asyncio.CancelledError:
            # Cancelled from outside: the daemon stops. Otherwise the turn ended and closed its
            # questions.
            if asyncio.current_task().cancelling():  # type: ignore[union-attr]  # a task runs this
                raise
            return  # the turn is over
        finally:
            self._waiting.pop(id_, None)

        self._open.forget(id_)
        # The slot first: with the answer the agent continues to work.
        await batch.reacquire_slot()
        # Before the agent has it: if it fails to take it, only the idle timeout ends the turn.
        on_answer()
        try:
            await agent.answer(
                waiting.turn, ask.id, None if chosen is None else ask.options[chosen]
            )
        # An agent's bug: the turn ends when it falls silent.
        except Exception as exc:  # noqa: BLE001
            self._observer.bug(exc)

    async def _pressed(self, request: Request) -> CommandAnswer:
        """Do what the chosen option does, or say why nothing is done."""
        asked = await self._store.answered(request.row)
        # The store decides whether a press counts: it survives a crash, the index in memory does
        # not.
        if asked is None or asked.part.question is None or asked.option is None:
            why = self._open.why_not_nonce(request.argument, request.message)
            return CommandAnswer(text=why, kept_as="")

        label = asked.part.buttons[asked.option].label
        if asked.part.question.does is Does.RERUN:
            return CommandAnswer(text=await self._run_again(asked), kept_as=label)

        waiting = self._waiting.get(asked.id)
        if waiting is None or waiting.chosen.done():
            return CommandAnswer(text=_NOBODY_WAITS, kept_as=label)

        waiting.chosen.set_result(asked.option)
        text = f"{asked.part.text}\n\n→ {label}"
        return CommandAnswer(text=text, kept_as=label, edits=asked.message_id)

    async def _run_again(self, asked: Asked) -> str:
        """Requeue a message that was given up. After a crash it may be requeued already."""
        states = InboxState.FAILED, InboxState.DEAD, InboxState.RUNNING
        of_turn = [
            item
            for item in await self._store.inbox(*states, limit=LARGEST_NUMBER)
            if item.turn == asked.part.turn
        ]
        if not of_turn:
            return _GONE
        if of_turn[0].state is not InboxState.RUNNING:
            self._rerun(await self._store.requeue(of_turn[0].id))

        return "It runs again."

    def _call(self, nonce: str) -> Call:
        return Call(command=self._press, argument=nonce)

    def _as_words(self, label: str) -> str:
        """Return the text to say for an option: an agent's label must not act as a command."""
        return f"“{label}”" if COMMANDS.find(label) else label


def _asking_agent(agent: Agent, turn: TurnId) -> object:
    """Return the agent that asks: itself, or the fallback that answers in its place."""
    return agent.at_work(turn) if can(agent, LetsOthersAnswer) else agent


def _does(part: Part) -> Does | None:
    return None if part.question is None else part.question.does


def _label(text: str) -> str:
    return cut(" ".join(text.split()) or _NO_WORDS, LONGEST_LABEL)


def _numbered(text: str, buttons: Sequence[Button], first: int, where: ChatType) -> str:
    """Add numbers to the options. In a group only replies and mentions reach the bot."""
    options = "\n".join(
        f"{number}. {button.label}" for number, button in zip(count(first), buttons, strict=False)
    )
    how = (
        "Answer with the number."
        if where is ChatType.DM
        else "Reply to this message with the number."
    )
    return f"{text}\n\n{options}\n\n{how}"
