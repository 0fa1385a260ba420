"""Commands about a turn: /stop the one that runs, /undo or /retry the last one."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import dropwhile, takewhile

from turngate.gateway.commands.registry import (
    Command,
    CommandAnswer,
    Request,
    Retry,
)
from turngate.gateway.domain.transcript import (
    Entry,
    Origin,
    Role,
)

_BUSY = "A turn is running or waiting here. /stop it first, or wait for its answer."

_MAY_BE_UNDONE = "The gateway was restarted in the meantime. If it is still there, say /undo again."


async def _stop(request: Request) -> CommandAnswer:
    more = f" {_waiting(request.waiting)} next." if request.waiting else ""
    text = f"Stopped.{more}" if request.stopped else "Nothing is running."
    return CommandAnswer(text=text, session=request.session.id)


async def _undo(request: Request) -> CommandAnswer:
    if request.busy:
        return CommandAnswer(text=_BUSY, session=request.session.id)
    # An earlier run may have undone it before it died. A second time would delete another question.
    if request.recovered:
        return CommandAnswer(text=_MAY_BE_UNDONE, session=request.session.id)

    entries = (await request.store.transcript(request.session.id)).entries
    asked = last_question(entries)
    if not asked:
        return CommandAnswer(text="There is nothing to undo.", session=request.session.id)

    await request.store.truncate(
        request.session.id, sum(entry.seq < asked[0].seq for entry in entries)
    )
    text = f"Undone, and forgotten: “{_start(asked)}” and its answer."
    return CommandAnswer(text=text, session=request.session.id)


async def _retry(request: Request) -> CommandAnswer | Retry:
    if request.busy:
        return CommandAnswer(text=_BUSY, session=request.session.id)
    asked = last_question((await request.store.transcript(request.session.id)).entries)
    if not asked:
        return CommandAnswer(text="There is nothing to ask again.", session=request.session.id)
    return Retry(entries=asked, replacing=asked[0].id)


def last_question(entries: Sequence[Entry]) -> tuple[Entry, ...]:
    """Return what the last turn was asked: all the messages that it answered together."""
    since = list(dropwhile(lambda entry: not _is_question(entry), reversed(entries)))
    return tuple(reversed(list(takewhile(_is_question, since))))


def _is_question(entry: Entry) -> bool:
    return entry.role is Role.USER and entry.origin not in (Origin.COMMAND, Origin.SUMMARY)


def _start(asked: Sequence[Entry]) -> str:
    words = " ".join(asked[0].text.split())
    return words if len(words) <= 60 else f"{words[:59].rstrip()}…"


def _waiting(count: int) -> str:
    return "One message is" if count == 1 else f"{count} messages are"


COMMANDS = (
    Command(
        name="stop", summary="stops the answer that is being given", run=_stop, stops_turn=True
    ),
    Command(
        name="undo",
        summary="takes back your last message and its answer",
        run=_undo,
        needs_exclusive=True,
    ),
    Command(name="retry", summary="asks your last message again", run=_retry, needs_exclusive=True),
)
