"""
Build what an agent is given for a turn: history, context prompt, and pseudonyms instead of ids.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from zoneinfo import ZoneInfo

from turngate.gateway.commands.registry import Retry
from turngate.gateway.domain.agent_events import Turn
from turngate.gateway.domain.messages import (
    Attachment,
    BackgroundMessage,
    InboundMessage,
)
from turngate.gateway.domain.session import (
    EndReason,
    Session,
    SessionEnded,
)
from turngate.gateway.domain.store_values import Claim
from turngate.gateway.domain.text import without_brackets
from turngate.gateway.domain.transcript import Entry, Media
from turngate.gateway.rules import outcomes
from turngate.gateway.rules.context_prompt import PromptFacts, context_prompt
from turngate.gateway.rules.history_window import Window, window
from turngate.gateway.rules.outgoing_text import OutgoingText
from turngate.gateway.rules.policy import ConfiguredAgent, Policy
from turngate.gateway.rules.redaction import Redactor
from turngate.gateway.rules.token_estimate import estimate_text_tokens
from turngate.gateway.stores.session_files import SessionFiles
from turngate.gateway.turns.batch import ActiveBatch
from turngate.gateway.turns.running_turn import RunningTurn


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentInput:
    """
    A turn as the agent may see it.

    `restore` turns pseudonyms back into ids, `redact` does the opposite, and `for_people` writes
    what they read. `weight` is the size of the whole history in tokens, had nothing been left out.
    """

    turn: Turn
    restore: Callable[[str], str]
    for_people: Callable[[str], str]
    redact: Callable[[str], str] = str
    weight: int = 0


def claim_for(
    policy: Policy, batch: ActiveBatch, messages: Sequence[InboundMessage], retry: Retry | None
) -> Claim:
    """Return what a turn claims: the messages of its batch, or a question that is asked again."""
    return Claim(
        inbox=tuple(stored.id for stored in batch.queued),
        opening=policy.opening(messages[-1].source),
        entries=retry.entries if retry else tuple(map(outcomes.asked, messages)),
        history=policy.history_to_read,
        replacing=retry.replacing if retry else None,
        repeatable=policy.is_repeatable(messages[-1].source),
        alone=batch.is_alone,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """
    What the agent is given besides the history. `tokens` is its estimated size.

    `redactor` replaces ids by pseudonyms, if the config asks for that.
    """

    context: str
    tokens: int
    shared: bool
    redactor: Redactor | None
    outgoing: OutgoingText


def build_prompt(
    policy: Policy,
    turn: RunningTurn,
    messages: Sequence[InboundMessage],
    background: Sequence[BackgroundMessage] = (),
    *,
    now: datetime,
) -> Prompt:
    """Write the context prompt of a turn."""
    redactor = policy.redactor(messages[-1].source.platform)
    if redactor is not None:
        # Every id is known before any text is redacted: a text may name a user who joined later.
        redactor.know_source(turn.session.origin)
        _learn_ids(redactor, turn.begun.history, messages)
        for each in background:
            redactor.know_source(each.source)

    facts = replace(
        _facts(policy, turn.session, messages),
        sends=turn.configured.sends,
        background=tuple(background),
        today=now.astimezone(ZoneInfo(policy.zone)).date(),
    )
    context = context_prompt(facts, redactor)

    texts = (turn.configured.system + context, *(message.text for message in messages))
    return Prompt(
        context=context,
        tokens=sum(map(estimate_text_tokens, texts)),
        shared=facts.shared,
        redactor=redactor,
        outgoing=_outgoing(redactor, turn, messages, background),
    )


def _outgoing(
    redactor: Redactor | None,
    turn: RunningTurn,
    messages: Sequence[InboundMessage],
    background: Sequence[BackgroundMessage],
) -> OutgoingText:
    outgoing = OutgoingText(redactor)
    outgoing.know_source(turn.session.origin)
    for each in background:
        outgoing.know_source(each.source)
    outgoing.know_history(turn.begun.history)
    outgoing.know_messages(messages)
    return outgoing


def select_history(policy: Policy, turn: RunningTurn, prompt: Prompt) -> Window:
    """Select the part of the transcript that fits into the token budget beside the prompt."""
    return window(
        turn.begun.history,
        policy.history_for(turn.configured),
        mark=turn.session.consolidated_through,
        prompt_tokens=prompt.tokens,
    )


def build_agent_input(
    policy: Policy,
    running: RunningTurn,
    messages: Sequence[InboundMessage],
    prompt: Prompt,
    history: Window,
    files: SessionFiles,
) -> AgentInput:
    """Put together what the agent is given, with pseudonyms if the config asks for them."""
    session = running.session
    configured = running.configured
    turn = Turn(
        id=running.id,
        session=session,
        source=messages[-1].source,
        messages=tuple(messages),
        history=history.entries,
        system=configured.system,
        context=prompt.context,
        workdir=files.workdir(session.id) if configured.has_workdir else None,
        shared=prompt.shared,
        mark_key=policy.mark_key,
    )
    redactor = prompt.redactor
    for_people = prompt.outgoing.for_people
    if redactor is None:
        return AgentInput(turn=turn, restore=str, for_people=for_people, weight=history.weight)

    return AgentInput(
        turn=redactor.turn(turn),
        restore=redactor.restore,
        for_people=for_people,
        redact=redactor.redact,
        weight=history.weight,
    )


def concluded(
    policy: Policy,
    configured: ConfiguredAgent,
    session: Session,
    history: Sequence[Entry],
    files: SessionFiles,
) -> SessionEnded:
    """Return what the agent of an ended session may see of it: no more than in a turn."""
    seen = window(history, policy.history, mark=session.consolidated_through)
    ending = SessionEnded(
        id=session.id,
        reason=session.end_reason or EndReason.RESET,
        source=session.origin,
        started_at=session.started_at,
        ended_at=session.ended_at or session.updated_at,
        title=session.title,
        goal=session.goal,
        history=seen.entries,
        workdir=files.workdir(session.id) if configured.has_workdir else None,
        shared=session.owner is None,
    )
    redactor = policy.redactor(session.origin.platform)
    if redactor is None:
        return ending

    redactor.know_source(session.origin)
    _learn_ids(redactor, history, ())
    return redactor.ending(ending)


def as_recorded(
    entries: Sequence[Entry], messages: Sequence[InboundMessage], files: SessionFiles
) -> list[InboundMessage]:
    """
    Return the messages as the transcript has them.

    A question that is asked again came with a command, not with its text; and after a crash only
    the transcript knows where the files of a message are.
    """
    by_id = {message.id: message for message in messages}
    return [
        _as_recorded(by_id.get(entry.message_id or ""), entry, messages[-1], files)
        for entry in entries
    ] or [*messages]


def _as_recorded(
    message: InboundMessage | None, entry: Entry, last: InboundMessage, files: SessionFiles
) -> InboundMessage:
    # The message is complete, and keeps what the transcript does not have, such as what it replies
    # to.
    if message is not None and all(each.path for each in message.attachments):
        return message

    media = [block for block in entry.content if isinstance(block, Media)]
    here = [each for each in media if each.path is not None and files.holds(each.path)]
    # The retention period may have deleted a file. The agent reads that instead.
    gone = [
        f"[file {without_brackets(each.name or each.type.value)} is no longer here]"
        for each in media
        if each not in here
    ]
    attachments = tuple(map(_as_attachment, here))
    text = "\n\n".join(filter(None, (entry.text, *gone)))
    if message is not None:
        return replace(message, text=text, attachments=attachments)

    # `last` is the command that asks again. What it replies to is not part of the question.
    return replace(
        last, id=entry.message_id or last.id, text=text, attachments=attachments, reply_to=None
    )


def _as_attachment(media: Media) -> Attachment:
    return Attachment(type=media.type, path=media.path, mime=media.mime, name=media.name)


def _learn_ids(
    redactor: Redactor, history: Sequence[Entry], messages: Sequence[InboundMessage]
) -> None:
    for message in messages:
        redactor.know_source(message.source)
    for sender in {entry.sender for entry in history if entry.sender}:
        redactor.user(sender)


def _facts(policy: Policy, session: Session, messages: Sequence[InboundMessage]) -> PromptFacts:
    source = messages[-1].source
    return PromptFacts(
        source=source,
        title=session.title,
        goal=session.goal,
        notice=session.notice,
        shared=policy.owner_of(source) is None,
        connected=policy.connected,
        homes=policy.homes,
        notes=policy.notes,
        zone=policy.zone,
        files=tuple(each.name for message in messages for each in message.attachments if each.name),
    )
