"""
What a message, a turn and a command leave behind: entries for the transcript, parts for the outbox. Pure.

What the gateway itself says (notices, answers to commands) is kept with the origin `command`, so that it is there for
people to read and is never shown to an agent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from turngate.gateway.domain.messages import (
    EndReason,
    Entry,
    File,
    InboundMessage,
    Media,
    Origin,
    Part,
    Role,
    Session,
    Text,
)
from turngate.gateway.domain.ports.store import LOST_PREVIEW, Begun, Outcome
from turngate.gateway.rules.policy import Policy
from turngate.gateway.turns.agent_run import AgentRun, Ending

_WHY_ENDED = {EndReason.IDLE: "after a long silence", EndReason.DAILY: "with the day"}
_NOTHING_SAID = "(The agent had nothing to say.)"
_ONLY_FILES = "(No words, but what follows.)"
_TRY_AGAIN = "Write again, or /retry."

MAY_STAND_ABOVE = "(possible repeat: the beginning of this may already stand above, unfinished)\n\n"

MOST_ATTEMPTS = 3
TOO_MANY = "Too many messages wait here. This one and what follows is not answered until there is room again."


def asked(message: InboundMessage) -> Entry:
    """A person's message as the transcript keeps it."""
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
    )


def commanded(
    message: InboundMessage, answer: str, now: datetime, *, edits: str | None = None
) -> tuple[tuple[Entry, ...], tuple[Part, ...]]:
    """A command and what it said, to keep and to send."""
    sending = tuple(replace(part, edits=edits) for part in parts(message, answer))
    return (replace(asked(message), origin=Origin.COMMAND), notice(answer, now)), sending


def notice(text: str, now: datetime) -> Entry:
    """The gateway's own words."""
    return Entry(role=Role.ASSISTANT, content=(Text(text),), at=now, origin=Origin.COMMAND)


def parts(message: InboundMessage, *texts: str) -> tuple[Part, ...]:
    """Back to where the message came from."""
    return tuple(
        Part(target=message.source, text=text, ordinal=ordinal, reply_to=message.id)
        for ordinal, text in enumerate(texts)
    )


def outcome(
    conversation: AgentRun,
    ending: Ending,
    message: InboundMessage,
    words: list[str],
    now: datetime,
) -> Outcome:
    """
    How a turn ended, for the transcript and for the person who asked; `words` are ours, and come before the answer.

    What the agent had said before it was cut off is kept and marked. A turn that failed says none of our words: the
    session keeps its notice until a turn succeeds, and the person is to hear it once.
    """
    said, failure, failed = (
        conversation.said,
        conversation.failure,
        ending in (Ending.FAILED, Ending.SILENT),
    )
    text, entries, words = said.text, said.entries(), [] if failed else words
    if ending is not Ending.DONE and text:
        mark = f"\n\n*(incomplete: {_why(ending, failure)})*"
        text, entries = text + mark, _marked(entries, mark)
    elif not text and not (ending is Ending.DONE and (said.files or said.missed)):
        text = _without_words(ending, failure)
        entries = (*entries, notice(text, now))
    entries = (*entries, *(notice(each, now) for each in said.missed))
    return Outcome(
        entries=(*(notice(each, now) for each in words), *entries),
        spent=said.spent,
        parts=_with_files(
            message, parts(message, *filter(None, (*words, text, *said.missed))), said.files
        ),
        failure=_why(ending, failure) if failed else None,
    )


def _with_files(
    message: InboundMessage, said: tuple[Part, ...], files: Sequence[File]
) -> tuple[Part, ...]:
    """The files come after the words."""
    sent = (
        Part(target=message.source, text="", ordinal=ordinal, reply_to=message.id, file=file)
        for ordinal, file in enumerate(files, start=len(said))
    )
    return (*said, *sent)


def given_up(begun: Begun, message: InboundMessage, now: datetime) -> Outcome | None:
    """For a turn that has died too often, or that must not run again: what to say instead. None: let it run."""
    if begun.attempt > MOST_ATTEMPTS:
        text = f"I tried {MOST_ATTEMPTS} times to answer this and was cut off each time, so I leave it. {_TRY_AGAIN}"
        given_up = Outcome(failure=f"its turn died {MOST_ATTEMPTS} times", dead=True)
    elif begun.attempt > 1 and not begun.repeatable:
        text = "I was interrupted while working on this, and doing it again could do harm. /retry does it all the same."
        given_up = Outcome(failure="interrupted, and must not run again by itself")
    else:
        return None
    said = replace(given_up, entries=(notice(text, now),), parts=parts(message, text))
    return in_place_of(begun.preview, said)


def in_place_of(preview: str | None, said: Outcome) -> Outcome:
    """The first part takes the place of the message that showed the turn while it ran, or says there may be one."""
    if preview is None or not said.parts:
        return said
    first, *rest = said.parts
    if preview == LOST_PREVIEW:
        return replace(said, parts=(replace(first, text=MAY_STAND_ABOVE + first.text), *rest))
    if first.file is not None:  # a message that shows words cannot become a file
        first, rest = replace(first, text=_ONLY_FILES, file=None), list(said.parts)
    numbered = (
        replace(part, ordinal=ordinal) for ordinal, part in enumerate(rest, start=first.ordinal + 1)
    )
    return replace(said, parts=(replace(first, edits=preview), *numbered))


def broken(message: InboundMessage, now: datetime) -> Outcome:
    """The turn failed for a reason that is ours, and that only the operator can understand."""
    text = f"Something went wrong here, and the operator can see it in the log. {_TRY_AGAIN}"
    return Outcome(
        entries=(notice(text, now),), parts=parts(message, text), failure="an unexpected error"
    )


def words_before(policy: Policy, session: Session) -> list[str]:
    """
    What the person should know before the answer.

    Why the conversation is new, if it became so by itself and anything was lost from sight; and why somebody else
    answers than was chosen.
    """
    words, reset = [], session.notice
    if reset is not None and reset.is_way_back:
        words.append(
            f"The conversation before this one ended {_WHY_ENDED[reset.reason]}. /resume brings it back."
        )
    if (missing := policy.missing_agent(session)) is not None:
        words.append(
            f"The agent {missing} is no longer there; {policy.agent_of(session).name} answers."
        )
    return words


def _why(ending: Ending, failure: str | None) -> str:
    return failure or ("stopped" if ending is Ending.STOPPED else "the agent failed")


def _without_words(ending: Ending, failure: str | None) -> str:
    match ending:
        case Ending.DONE:
            return _NOTHING_SAID
        case Ending.STOPPED if failure is None:
            return "(Stopped before the first word.)"
        case _:
            return f"There is no answer: {_why(ending, failure)}. {_TRY_AGAIN}"


def _marked(entries: tuple[Entry, ...], mark: str) -> tuple[Entry, ...]:
    """The mark goes to the last words the agent said; results of tools may come after them."""
    at = max(
        (at for at, entry in enumerate(entries) if entry.text and entry.role is Role.ASSISTANT),
        default=None,
    )
    if at is None:
        return entries
    files = [block for block in entries[at].content if isinstance(block, Media)]
    words = Text(entries[at].text + mark)
    return (*entries[:at], replace(entries[at], content=(words, *files)), *entries[at + 1 :])
