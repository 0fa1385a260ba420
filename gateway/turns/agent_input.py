"""What an agent is handed for a turn: the window of history, the context prompt, and nobody's real ids."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from turngate.gateway.commands.registry import Retry
from turngate.gateway.domain.messages import (
    Attachment,
    EndReason,
    Entry,
    InboundMessage,
    Media,
    Session,
    SessionEnded,
    Turn,
)
from turngate.gateway.domain.ports.store import Begun, Claim
from turngate.gateway.inbound.background_messages import BackgroundMessage
from turngate.gateway.rules import outcomes as replies
from turngate.gateway.rules.context_prompt import PromptFacts, context_prompt
from turngate.gateway.rules.history_window import estimate_text_tokens, window
from turngate.gateway.rules.policy import ConfiguredAgent, Policy
from turngate.gateway.rules.redaction import Redactor
from turngate.gateway.stores.session_files import Files
from turngate.gateway.turns.batch import ActiveBatch


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentInput:
    """
    A turn as the agent may see it, and the way back from pseudonyms to what people wrote; and there again.

    `weight` is what it would weigh, had nothing been left out of it.
    """

    turn: Turn
    restore: Callable[[str], str]
    redact: Callable[[str], str] = str
    weight: int = 0


def claimed(
    policy: Policy, running: ActiveBatch, messages: Sequence[InboundMessage], again: Retry | None
) -> Claim:
    """What a turn takes up: the messages of its batch, or what was asked before and is asked again."""
    return Claim(
        inbox=tuple(stored.id for stored in running.batch),
        opening=policy.opening(messages[-1].source),
        entries=again.said if again else tuple(map(replies.asked, messages)),
        history=policy.history_to_read,
        replacing=again.replacing if again else None,
        repeatable=policy.is_repeatable(messages[-1].source),
    )


def brief(
    policy: Policy,
    employed: ConfiguredAgent,
    begun: Begun,
    messages: Sequence[InboundMessage],
    files: Files,
    overheard: Sequence[BackgroundMessage] = (),
) -> AgentInput:
    """Tell the redactor every id first: a person may be named in a text that was written before he joined."""
    source = messages[-1].source
    redactor = policy.redactor(source.platform)
    if redactor is not None:
        redactor.know_source(begun.opened.session.origin)
        _tell(redactor, begun.history, messages)
        for remark in overheard:
            redactor.know_source(remark.source)
    facts = replace(_facts(policy, begun.opened.session, messages), overheard=tuple(overheard))
    context = context_prompt(facts, redactor)
    prompt = estimate_text_tokens(employed.system + context) + sum(
        map(estimate_text_tokens, _texts(messages))
    )
    mark = begun.opened.session.consolidated_through
    seen = window(begun.history, policy.history, mark=mark, prompt_tokens=prompt)
    turn = Turn(
        id=begun.turn,
        session=begun.opened.session,
        source=source,
        messages=tuple(messages),
        history=seen.entries,
        system=employed.system,
        context=context,
        workdir=files.workdir(begun.opened.session.id) if employed.has_workdir else None,
        shared=facts.shared,
    )
    if redactor is None:
        return AgentInput(turn=turn, restore=str, weight=seen.weight)
    hidden = redactor.turn(turn)
    return AgentInput(
        turn=hidden, restore=redactor.restore, redact=redactor.redact, weight=seen.weight
    )


def concluded(
    policy: Policy,
    employed: ConfiguredAgent,
    session: Session,
    history: Sequence[Entry],
    files: Files,
) -> SessionEnded:
    """What the agent of a session that is over may see of it: no more than a turn would have shown it."""
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
        workdir=files.workdir(session.id) if employed.has_workdir else None,
        shared=session.owner is None,
    )
    redactor = policy.redactor(session.origin.platform)
    if redactor is None:
        return ending
    redactor.know_source(session.origin)
    _tell(redactor, history, ())
    return redactor.ending(ending)


def heard(
    said: Sequence[Entry], messages: Sequence[InboundMessage], files: Files
) -> list[InboundMessage]:
    """
    The messages as the transcript has them: a question that is asked again came with a command, not with words; and
    where the files are that came with a message, only the transcript knows after a crash.
    """
    by_id = {message.id: message for message in messages}
    return [
        _as_heard(by_id.get(entry.message_id or ""), entry, messages[-1], files) for entry in said
    ] or [*messages]


def _as_heard(
    message: InboundMessage | None, entry: Entry, last: InboundMessage, files: Files
) -> InboundMessage:
    if message is not None and all(each.path for each in message.attachments):
        return message
    media = [block for block in entry.content if isinstance(block, Media)]
    here = [each for each in media if each.path is not None and files.holds(each.path)]
    gone = [
        f"[file {each.name or each.type.value} is no longer here]"
        for each in media
        if each not in here
    ]
    attachments = tuple(map(_as_attachment, here))
    text = "\n\n".join(filter(None, (entry.text, *gone)))
    if message is not None:
        return replace(message, text=text, attachments=attachments)
    return replace(
        last, id=entry.message_id or last.id, text=text, attachments=attachments, reply_to=None
    )


def _as_attachment(media: Media) -> Attachment:
    return Attachment(type=media.type, path=media.path, mime=media.mime, name=media.name)


def _tell(redactor: Redactor, history: Sequence[Entry], messages: Sequence[InboundMessage]) -> None:
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
        files=tuple(each.name for message in messages for each in message.attachments if each.name),
    )


def _texts(messages: Sequence[InboundMessage]) -> list[str]:
    return [message.text for message in messages]
