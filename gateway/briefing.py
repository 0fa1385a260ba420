"""What an agent is handed for a turn: the window of history, the context prompt, and nobody's real ids."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from gateway.history import estimate_text_tokens, window
from gateway.model import Attachment, Entry, InboundMessage, Media, Session, Turn
from gateway.policy import Employed, Policy
from gateway.privacy import Redactor
from gateway.prompt import PromptFacts, context_prompt
from gateway.storing import Begun


@dataclass(frozen=True, slots=True, kw_only=True)
class Briefing:
    """A turn as the agent may see it, and the way back from pseudonyms to what people wrote."""

    turn: Turn
    restore: Callable[[str], str]


def brief(policy: Policy, employed: Employed, begun: Begun, messages: Sequence[InboundMessage]) -> Briefing:
    """Tell the redactor every id first: a person may be named in a text that was written before he joined."""
    source = messages[-1].source
    redactor = policy.redactor(source.platform)
    if redactor is not None:
        redactor.know_source(begun.opened.session.origin)
        _tell(redactor, begun.history, messages)
    context = context_prompt(_facts(policy, begun.opened.session, messages), redactor)
    prompt = estimate_text_tokens(employed.system + context) + sum(map(estimate_text_tokens, _texts(messages)))
    mark = begun.opened.session.consolidated_through
    turn = Turn(
        id=begun.turn,
        session=begun.opened.session,
        source=source,
        messages=tuple(messages),
        history=window(begun.history, policy.history, mark=mark, prompt_tokens=prompt).entries,
        system=employed.system,
        context=context,
    )
    if redactor is None:
        return Briefing(turn=turn, restore=str)
    return Briefing(turn=redactor.turn(turn), restore=redactor.restore)


def heard(said: Sequence[Entry], messages: Sequence[InboundMessage]) -> list[InboundMessage]:
    """The messages as the transcript has them: a question that is asked again came with a command, not with words."""
    by_id = {message.id: message for message in messages}
    return [by_id.get(entry.message_id or "") or _as_message(entry, messages[-1]) for entry in said] or list(messages)


def _as_message(entry: Entry, like: InboundMessage) -> InboundMessage:
    files = (block for block in entry.content if isinstance(block, Media))
    attachments = tuple(Attachment(type=each.type, path=each.path, mime=each.mime, name=each.name) for each in files)
    return replace(like, id=entry.message_id or like.id, text=entry.text, attachments=attachments, reply_to=None)


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
