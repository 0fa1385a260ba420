"""
What a message, a turn and a command leave behind: entries for the transcript, parts for the outbox.
Pure.

What the gateway itself says (notices, answers to commands) has the origin `command`: users can read
it, agents are never shown it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from turngate.gateway.domain.agent_events import File, RunEnd
from turngate.gateway.domain.messages import ChatType, InboundMessage, SessionSource
from turngate.gateway.domain.outbox import Part, Says
from turngate.gateway.domain.session import EndReason, Session
from turngate.gateway.domain.store_values import (
    LOST_PREVIEW,
    Begun,
    Outcome,
)
from turngate.gateway.domain.transcript import (
    Entry,
    Media,
    Origin,
    Role,
    Text,
)
from turngate.gateway.domain.usage import Spent
from turngate.gateway.rules.authorization import is_own_screen
from turngate.gateway.rules.policy import Policy

_WHY_ENDED = {EndReason.IDLE: "after a long silence", EndReason.DAILY: "with the day"}
_NOTHING_SAID = "(The agent gave no answer.)"
_ONLY_FILES = "(Files without text.)"
_MARK_BEGINS = "\n\n*(incomplete: "
_TRY_AGAIN = "Write again, or /retry."

MAY_STAND_ABOVE = "(possible repeat: the beginning of this may already stand above, unfinished)\n\n"

MOST_CRASHES = 3
TOO_MANY = (
    "Too many messages wait here. This one and what follows is not answered until there "
    "is room again."
)


def asked(message: InboundMessage) -> Entry:
    """Return a user's message as a transcript entry."""
    # A message without text and files is still an entry, with an empty text.
    words = (Text(message.text),) if message.text or not message.attachments else ()
    files = (
        Media(type=each.type, path=each.path, mime=each.mime, name=each.name)
        for each in message.attachments
    )
    return Entry(
        role=Role.USER,
        content=(*words, *files),
        at=message.sent_at,
        sender=message.source.participant_id,
        message_id=message.id,
        # In a direct chat the only name is that of whoever writes.
        sender_name=None if message.source.chat_type is ChatType.DM else message.source.user_name,
        forwarded=message.forwarded,
    )


def commanded(
    message: InboundMessage, answer: str, now: datetime, *, edits: str | None = None
) -> tuple[tuple[Entry, ...], tuple[Part, ...]]:
    """Return the entries and parts of a command and its answer."""
    told = parts(message, answer, says=Says.ANSWER)
    sending = tuple(replace(part, edits=edits) for part in told)
    return (replace(asked(message), origin=Origin.COMMAND), notice(answer, now)), sending


def notice(text: str, now: datetime) -> Entry:
    """Return a notice of the gateway as an entry."""
    return Entry(role=Role.ASSISTANT, content=(Text(text),), at=now, origin=Origin.COMMAND)


def parts(message: InboundMessage, *texts: str, says: Says = Says.NO_ANSWER) -> tuple[Part, ...]:
    """Return parts that reply to a message; by default a notice instead of an answer."""
    return _numbered(message, [(text, says) for text in texts])


def _numbered(message: InboundMessage, said: Iterable[tuple[str, Says]]) -> tuple[Part, ...]:
    texts = [(text, says) for text, says in said if text]
    return tuple(
        Part(target=message.source, text=text, ordinal=ordinal, reply_to=message.id, says=says)
        for ordinal, (text, says) in enumerate(texts)
    )


def without_mark(text: str) -> tuple[str, str]:
    """Return the words of an incomplete answer, and the mark that says so."""
    words, _, mark = text.rpartition(_MARK_BEGINS)
    return (words, f"{_MARK_BEGINS}{mark}".strip()) if words else (text, "")


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentResult:
    """
    What one run of an agent left: how it ended, its answer, its files, and what could not be sent.

    `failure` is why it did not end by itself, in words for users, and `cause` the same for the
    operator. `is_refused`: the agent refuses the messages of this turn, and would refuse them
    again.
    """

    ending: RunEnd
    text: str = ""
    entries: tuple[Entry, ...] = ()
    files: tuple[File, ...] = ()
    missed: tuple[str, ...] = ()
    spent: Spent = Spent()
    failure: str | None = None
    cause: str | None = None
    is_refused: bool = False

    def told_to(self, source: SessionSource) -> str | None:
        """Return why it did not end by itself: whoever can act learns the cause."""
        learns_cause = is_own_screen(source) and not self.is_refused
        return (self.cause if learns_cause else None) or self.failure


def outcome(
    result: AgentResult, message: InboundMessage, words: list[str], now: datetime
) -> Outcome:
    """
    Return how a turn ended, for the transcript and the user; `words` are notices that go before the
    answer.

    A partial answer is kept and marked. A failed turn shows no notices: the session keeps them
    until a turn succeeds.
    """
    ending = result.ending
    failed = ending in (RunEnd.FAILED, RunEnd.SILENT)
    words = [] if failed else words
    text = result.text
    entries = result.entries
    says = Says.ANSWER
    failure = result.told_to(message.source)

    if ending is not RunEnd.DONE and text:
        mark = f"{_MARK_BEGINS}{_why(ending, failure)})*"
        says = Says.INCOMPLETE
        text += mark
        entries = _marked(entries, mark)
    elif not text and not (ending is RunEnd.DONE and (result.files or result.missed)):
        # Only an answer that consists of files may be without text. The substitute is a notice:
        # the agent must not see it as its own words in the next turn.
        text = _without_words(ending, failure)
        says = Says.NO_ANSWER
        entries = (*entries, notice(text, now))

    entries = (*entries, *(notice(each, now) for each in result.missed))
    before = [(each, Says.NOTICE) for each in words]
    after = [(each, Says.NOTICE) for each in result.missed]
    sent = _numbered(message, [*before, (text, says), *after])
    return Outcome(
        entries=(*(notice(each, now) for each in words), *entries),
        spent=result.spent,
        parts=_with_files(message, sent, result.files),
        failure=_why(ending, result.cause or result.failure) if failed else None,
    )


def without_asked(outcome: Outcome, asked: Sequence[Entry]) -> Outcome:
    """
    Set aside what the agent refused: it stays in the transcript, and later turns do not show it.

    /retry replaces the question and all after it, and so undoes this.
    """
    *before, last = outcome.entries
    ids = tuple(entry.id for entry in asked)
    return replace(outcome, entries=(*before, replace(last, sets_aside=ids)))


def _with_files(
    message: InboundMessage, text_parts: tuple[Part, ...], files: Sequence[File]
) -> tuple[Part, ...]:
    """Put the files after the text."""
    sent = (
        Part(target=message.source, text="", ordinal=ordinal, reply_to=message.id, file=file)
        for ordinal, file in enumerate(files, start=len(text_parts))
    )
    return (*text_parts, *sent)


def given_up(begun: Begun, message: InboundMessage, now: datetime) -> Outcome | None:
    """
    Return what to say instead of a turn that died too often or must not run again. None: run it.
    """
    # Only crashes while it ran alone count: a turn that merely ran beside others during a crash, or
    # was running when the process was killed from outside, is not their cause.
    if begun.alone_crashes >= MOST_CRASHES:
        text = (
            f"I tried {MOST_CRASHES} times to answer this and was cut off each time, so I "
            f"leave it. {_TRY_AGAIN}"
        )
        reason = f"the daemon crashed {MOST_CRASHES} times while this ran alone"
        given_up = Outcome(failure=reason, dead=True)
    elif begun.attempt > 1 and not begun.repeatable:
        text = (
            "I was interrupted while working on this, and doing it again could do harm. "
            "/retry runs it again."
        )
        given_up = Outcome(failure="interrupted, and must not run again by itself")
    else:
        return None

    answer = replace(given_up, entries=(notice(text, now),), parts=parts(message, text))
    return in_place_of(begun.preview, answer)


def in_place_of(preview: str | None, answer: Outcome) -> Outcome:
    """Replace the preview by the first part, or mark that part if a preview may be visible."""
    if preview is None or not answer.parts:
        return answer

    first, *rest = answer.parts
    # A preview may have been sent, but its id is unknown, so it cannot be edited.
    if preview == LOST_PREVIEW:
        return replace(answer, parts=(replace(first, text=MAY_STAND_ABOVE + first.text), *rest))

    # A sent text cannot be edited into a file: it gets a placeholder, and the file follows.
    if first.file is not None:
        first = replace(first, text=_ONLY_FILES, file=None)
        rest = list(answer.parts)

    numbered = (
        replace(part, ordinal=ordinal) for ordinal, part in enumerate(rest, start=first.ordinal + 1)
    )
    return replace(answer, parts=(replace(first, edits=preview), *numbered))


def broken(message: InboundMessage, now: datetime) -> Outcome:
    """Return the outcome of a turn that failed for a reason only the operator can act on."""
    text = f"Something went wrong here, and the operator can see it in the log. {_TRY_AGAIN}"
    return Outcome(
        entries=(notice(text, now),), parts=parts(message, text), failure="an unexpected error"
    )


def words_before(policy: Policy, session: Session, history: Sequence[Entry] = ()) -> list[str]:
    """
    Return the notices before the answer: why the session is new, and why another agent answers than
    was chosen. The latter not if the recent history has it.
    """
    words = []
    reset = session.notice
    if reset is not None and reset.reason is EndReason.DAMAGED:
        words.append(
            "The conversation before this one was damaged on disk and is set aside, so this is a "
            "new one. Whoever runs me can try to repair it."
        )
    elif reset is not None and reset.is_way_back:
        words.append(
            f"The conversation before this one ended {_WHY_ENDED[reset.reason]}. /resume brings "
            "it back."
        )

    if (missing := policy.missing_agent(session)) is not None:
        told = f"The agent {missing} is no longer there; {policy.agent_of(session).name} answers."
        if not any(entry.origin is Origin.COMMAND and entry.text == told for entry in history):
            words.append(told)

    return words


def _why(ending: RunEnd, failure: str | None) -> str:
    return failure or ("stopped" if ending is RunEnd.STOPPED else "the agent failed")


def _without_words(ending: RunEnd, failure: str | None) -> str:
    match ending:
        case RunEnd.DONE:
            return _NOTHING_SAID
        case RunEnd.STOPPED if failure is None:
            return "(Stopped before the first word.)"
        case _:
            return f"There is no answer: {_why(ending, failure)}. {_TRY_AGAIN}"


def _marked(entries: tuple[Entry, ...], mark: str) -> tuple[Entry, ...]:
    """Mark the agent's last text as unfinished; tool results may come after it."""
    at = max(
        (at for at, entry in enumerate(entries) if entry.text and entry.role is Role.ASSISTANT),
        default=None,
    )
    if at is None:
        return entries
    files = [block for block in entries[at].content if isinstance(block, Media)]
    words = Text(entries[at].text + mark)
    return (*entries[:at], replace(entries[at], content=(words, *files)), *entries[at + 1 :])
