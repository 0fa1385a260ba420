"""
Questions with buttons: asked through the outbox, answered once, by the person they were put to, where they stand, in
time.

A button carries a nonce and nothing else; what it stands for is on disk, and in memory as long as it is open, so that a
press finds its place in the lane before anything has to wait. Where there are no buttons, a number is as good; and
where an agent waits, so are the words of an option, which would else wait behind it.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import count

from turngate.gateway.commands import COMMANDS
from turngate.gateway.commands.registry import Answer, Call, Command, Request
from turngate.gateway.domain.errors import AgentError, Refused, StoreUnavailable
from turngate.gateway.domain.messages import (
    LARGEST_NUMBER,
    Ask,
    Button,
    ChatType,
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
from turngate.gateway.domain.ports.adapter import Agent, Clock, LetsOthersAnswer, TakesAnswers, can
from turngate.gateway.domain.ports.store import Asked, Begun, Choice, InboxItem, Outcome, Store
from turngate.gateway.observability.observer import Observer
from turngate.gateway.outbound.splitting import Splitter
from turngate.gateway.rules import outcomes as replies
from turngate.gateway.rules.policy import Policy
from turngate.gateway.stores.waiting_store import until_stored
from turngate.gateway.turns.agent_run import Answered, PutQuestion
from turngate.gateway.turns.batch import ActiveBatch
from turngate.gateway.turns.question_index import OpenQuestions

MOST_OPTIONS = 20
LONGEST_LABEL = 64
LONGEST_QUESTION = 20_000
MOST_AT_ONCE = 20
"""Of one turn. What was answered does not count."""
RUN_AGAIN = "Run it again"

_NOBODY_WAITS = "Whoever asked this no longer waits for an answer."
_NO_WORDS = "…"
_GONE = "Nothing is left to be run again here. If there is no answer to it above, please write it once more."


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """What a message means: the command it gives, the question it answers, and what is to be kept of it."""

    message: InboundMessage
    call: Call | None = None
    choosing: Choice | None = None
    taken: Part | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asker:
    """A turn in which questions are asked."""

    agent: Agent
    begun: Begun
    message: InboundMessage
    running: ActiveBatch


@dataclass(frozen=True, slots=True, kw_only=True)
class _Waiting:
    """An agent that waits for an answer in a turn. None will come if the question did not arrive."""

    turn: TurnId
    chosen: asyncio.Future[int | None]


class Questions:
    """All that are open. `rerun` takes a message that was given up back to work."""

    def __init__(
        self,
        policy: Policy,
        store: Store,
        observer: Observer,
        clock: Clock,
        fitting: Splitter,
        tasks: asyncio.TaskGroup,
        rerun: Callable[[InboxItem], None],
    ) -> None:
        self._store = store
        self._fitting = fitting
        self._delivery = fitting.delivery
        self._clock = clock
        self._observer = observer
        self._tasks = tasks
        self._policy = policy
        self._rerun = rerun
        self._open = OpenQuestions(clock)
        self._waiting: dict[PartId, _Waiting] = {}
        self._press = Command(name="press", summary="", run=self._pressed)
        self._delivery.when_dead(self._did_not_arrive)

    def is_asked(self, key: SessionKey) -> bool:
        """Whether somebody there may still answer a question. May be asked from any thread."""
        return self._open.is_asked(key)

    async def load(self) -> None:
        """
        What earlier runs asked and nobody has answered yet. Called before anything is sent.

        The agents that waited died with their run, and ask again: what has not left yet is not asked for them.
        """
        for asked in await self._store.questions():
            if _does(asked.part) is not Does.ANSWER:
                self.remember(asked.part)
                continue
            try:
                await self._store.drop_part(asked.id, "nobody waits for the answer")
            except Refused:
                continue  # it is there to be read, or may be; its buttons say that they are too late
            except StoreUnavailable as exc:
                self._observer.store_failed(
                    exc
                )  # one that nobody waits for is asked, which harms nobody

    def hear(self, message: InboundMessage, key: SessionKey) -> Heard:
        """
        What a message means. Whatever it chooses is taken at once: a second press finds nothing.

        If the message cannot be stored, `give_back` undoes that.
        """
        choice = self._open.choice_in(message, key)
        if message.kind is not MessageKind.BUTTON and choice is None:
            return Heard(message=message, call=self.call_in(message))
        nonce = self._open.of(choice).buttons[choice.option].nonce if choice else message.text
        message = replace(message, kind=MessageKind.BUTTON, text=nonce)
        if choice is None or self._open.why_not(choice, message) is not None:
            return Heard(message=message, call=self._call(nonce))
        part = self._open.of(choice)
        self._open.forget(choice.question)
        if _does(part) is Does.SAY:
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
        """It was not stored after all, or was known before: what it chose may be chosen again, if anybody waits."""
        part = heard.taken
        if part is not None and (_does(part) is not Does.ANSWER or part.id in self._waiting):
            self.remember(part)

    def asker(
        self, agent: Agent, begun: Begun, message: InboundMessage, running: ActiveBatch
    ) -> PutQuestion:
        """For the questions of one turn."""
        return partial(
            self._ask, _Asker(agent=agent, begun=begun, message=message, running=running)
        )

    async def _ask(
        self, asker: _Asker, ask: Ask, text: str, labels: Sequence[str], answered: Answered
    ) -> bool:
        """
        Put a question of the agent's to the person who wrote. `text` and `labels` are what he is to read.

        An agent that takes answers is told the option, or None if none will come. Returns whether it waits for that.
        """
        turn, session = asker.begun.turn, asker.begun.opened.session
        self._check(ask, text, turn)
        agent = _at_work(asker.agent, turn)
        does = Does.ANSWER if can(agent, TakesAnswers) else Does.SAY
        part = self._question(asker.message, session.key, does, text, labels, ask.id)
        parts = await self._fitting.parts((part,), session.id)
        parts = await until_stored(partial(self._store.ask, turn, *parts), self._observer)
        asked = next(part for part in parts if part.question is not None)
        self.remember(asked)
        self._begin(self._delivery.deliver(parts), name="question")
        if can(agent, TakesAnswers):
            waiting = self._waiting[asked.id] = _Waiting(turn=turn, chosen=asyncio.Future())
            asker.running.rest()
            self._begin(
                self._tell(agent, asked.id, ask, waiting, asker.running, answered), name="answer"
            )
            return True
        return False

    def _begin(self, work: Coroutine[None, None, None], *, name: str) -> None:
        """A daemon that is being stopped begins nothing more, and what was not begun must not be left lying about."""
        try:
            self._tasks.create_task(work, name=name)
        except RuntimeError:
            work.close()
            raise

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
        """What is said of a turn that must not run, with a button that runs it all the same. None: let it run."""
        given_up = replies.given_up(begun, message, self._clock.now())
        if given_up is None or not self._delivery.has_buttons(message.source):
            return given_up
        first, *rest = given_up.parts
        asking = self._question(
            message, begun.opened.session.key, Does.RERUN, first.text, (RUN_AGAIN,)
        )
        first = replace(first, text=asking.text, buttons=asking.buttons, question=asking.question)
        return replace(given_up, parts=(first, *rest))

    def remember(self, *parts: Part) -> None:
        """Those of them that are questions, as the store has them."""
        self._open.add(*parts)

    def close(self, turn: TurnId) -> None:
        """The turn is over: nobody waits for its answers any more."""
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
            if self._delivery.has_buttons(source)
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
        """Nobody will answer what nobody can read."""
        waiting = self._waiting.get(id_)
        if waiting is not None and not waiting.chosen.done():
            waiting.chosen.set_result(None)

    async def _tell(
        self,
        agent: TakesAnswers,
        id_: PartId,
        ask: Ask,
        waiting: _Waiting,
        running: ActiveBatch,
        answered: Answered,
    ) -> None:
        """The agent, what was chosen."""
        try:
            async with asyncio.timeout(self._policy.answer_within.total_seconds()):
                chosen = await waiting.chosen
        except TimeoutError:
            chosen = None
        except asyncio.CancelledError:
            if asyncio.current_task().cancelling():  # type: ignore[union-attr]  # a task runs this
                raise
            return  # the turn is over
        finally:
            self._waiting.pop(id_, None)
        self._open.forget(id_)
        await running.go_on()
        answered()
        try:
            await agent.answer(
                waiting.turn, ask.id, None if chosen is None else ask.options[chosen]
            )
        except Exception as exc:  # noqa: BLE001 - an agent's bug: the turn ends when it falls silent
            self._observer.bug(exc)

    async def _pressed(self, request: Request) -> Answer:
        """Do what the chosen option does, or say why nothing is done."""
        asked = await self._store.answered(request.row)
        if asked is None or asked.part.question is None or asked.option is None:
            return Answer(
                text=self._open.why_not_nonce(request.argument, request.message),
                session=request.session.id,
                said="",
            )
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
        """An earlier run of the daemon may have died after it took it back to work: then it runs already."""
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
        """An option is an agent's text: chosen, it is said, and does nothing a person would have to mean."""
        return f"“{label}”" if COMMANDS.find(label) else label


def _at_work(agent: Agent, turn: TurnId) -> object:
    """Who asks: the agent itself, or the one that answers in its place."""
    return agent.at_work(turn) if can(agent, LetsOthersAnswer) else agent


def _does(part: Part) -> Does | None:
    return None if part.question is None else part.question.does


def _label(text: str) -> str:
    words = " ".join(text.split()) or _NO_WORDS
    return words if len(words) <= LONGEST_LABEL else f"{words[: LONGEST_LABEL - 1].rstrip()}…"


def _numbered(text: str, buttons: Sequence[Button], first: int, where: ChatType) -> str:
    """Among others only what is addressed to the bot is heard, and a reply always is."""
    options = "\n".join(
        f"{number}. {button.label}" for number, button in zip(count(first), buttons, strict=False)
    )
    how = (
        "Answer with the number."
        if where is ChatType.DM
        else "Reply to this message with the number."
    )
    return f"{text}\n\n{options}\n\n{how}"
