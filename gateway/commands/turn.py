"""Commands about a turn: /stop the one that runs, /undo or /retry the last one."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import dropwhile, takewhile

from turngate.gateway.commands.registry import Command, Request, Retry
from turngate.gateway.domain.text import cut
from turngate.gateway.domain.transcript import Entry
from turngate.gateway.rules.history_window import is_user_turn

_LONGEST_START = 60
_MAY_BE_UNDONE = "The gateway was restarted in the meantime. If it is still there, say /undo again."


async def _stop(request: Request) -> str:
    more = f" {_waiting(request.waiting)} next." if request.waiting else ""
    return f"Stopped.{more}" if request.stopped else "Nothing is running."


async def _undo(request: Request) -> str:
    # An earlier run may have undone it before it died. A second time would delete another question.
    if request.recovered:
        return _MAY_BE_UNDONE

    entries = (await request.store.transcript(request.session.id)).entries
    asked = last_question(entries)
    if not asked:
        return "There is nothing to undo."

    kept = sum(entry.seq < asked[0].seq for entry in entries)
    await request.store.truncate(request.session.id, kept)
    return f"Undone, and forgotten: “{_start(asked)}” and its answer."


async def _retry(request: Request) -> str | Retry:
    asked = last_question((await request.store.transcript(request.session.id)).entries)
    if not asked:
        return "There is nothing to ask again."
    return Retry(entries=asked, replacing=asked[0].id)


def last_question(entries: Sequence[Entry]) -> tuple[Entry, ...]:
    """Return what the last turn was asked: all the messages that it answered together."""
    since = dropwhile(lambda entry: not is_user_turn(entry), reversed(entries))
    return tuple(reversed(list(takewhile(is_user_turn, since))))


def _start(asked: Sequence[Entry]) -> str:
    return cut(" ".join(asked[0].text.split()), _LONGEST_START)


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
