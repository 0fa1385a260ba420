"""
Commands about conversations: /new, /resume, /sessions, /title, /compact. They reach only sessions
of their own key.
"""

from __future__ import annotations

from turngate.gateway.commands.registry import Command, CommandAnswer, Request
from turngate.gateway.domain.session import Session
from turngate.gateway.domain.store_values import SessionFilter
from turngate.gateway.domain.text import clean_label

# As people copy names from a list or a help text.
_CLOSED_BY = {"[": "]", "(": ")", "<": ">", '"': '"', "'": "'", "`": "`", "“": "”", "‘": "’"}
_CLOSED_BY |= {"„": "“", "«": "»", "»": "«", "‹": "›", "「": "」", "『": "』", "【": "】"}
_MOST_LISTED = 20
_MOST_SEARCHED = 200


async def _new(request: Request) -> CommandAnswer:
    title = clean_label(request.argument) or None
    fresh = await request.store.reset(request.session.key, title=title)
    named = f" “{title}”" if title else ""
    back = " /resume brings the last one back." if request.session.has_talk else ""
    text = f"{_stopped(request)}A new conversation{named} has begun.{back}"
    return CommandAnswer(text=text, session=fresh.id)


async def _resume(request: Request) -> str | CommandAnswer:
    earlier = await _earlier(request)
    argument = _bare(request.argument)
    if not argument and not earlier:
        return f"{_stopped(request)}There is no earlier conversation here."

    found = _wanted(argument, earlier)
    if not found and _wanted(argument, [request.session]) and not argument.isdecimal():
        return f"{_stopped(request)}You are in {_name(request.session)} already."

    if len(found) != 1:
        problem = "Several fit that" if found else "There is no such conversation here"
        return f"{_stopped(request)}{problem}. /sessions lists them."

    resumed = await request.store.switch(request.session.key, found[0].id)
    text = f"{_stopped(request)}Back in {_name(resumed)}, {resumed.messages} messages."
    return CommandAnswer(text=text, session=resumed.id)


async def _sessions(request: Request) -> str:
    earlier = (await _earlier(request))[:_MOST_LISTED]
    lines = [f"You are in {_name(request.session)}, {request.session.messages} messages."]
    if earlier:
        lines += ["", "Earlier:", ""]
        lines += [f"{at}. {_line(session)}" for at, session in enumerate(earlier, start=1)]
        lines += ["", "`/resume 1` goes back to the first of them."]
    return "\n".join(lines)


async def _title(request: Request) -> str:
    title = clean_label(request.argument)
    if not title:
        return f"This is {_name(request.session)}. `/title WORDS` names it."

    await request.store.rename(request.session.id, title)
    return f"This conversation is now called “{title}”."


async def _compact(request: Request) -> str:
    return await request.compact()


async def _earlier(request: Request) -> list[Session]:
    """Return the sessions of this key other than the current one, last used first."""
    of_key = SessionFilter(key=request.session.key, limit=_MOST_SEARCHED)
    sessions = await request.store.sessions(of_key)
    return [each for each in sessions if each.id != request.session.id and each.has_talk]


def _bare(argument: str) -> str:
    """Return a name without the brackets or quotes that surround it."""
    bare = argument.strip()
    while len(bare) > 1 and _CLOSED_BY.get(bare[0]) == bare[-1]:
        bare = bare[1:-1].strip()
    return bare


def _wanted(argument: str, earlier: list[Session]) -> list[Session]:
    """Find sessions by number, id or name; without an argument the last one."""
    if not argument:
        return earlier[:1]

    numbered = {str(number): session for number, session in enumerate(earlier, start=1)}
    if argument in numbered:
        return [numbered[argument]]

    words = argument.casefold()
    # Exact matches first, or a title that is part of another could not be chosen by name.
    exact = [
        session
        for session in earlier
        if words in (session.id.casefold(), (session.title or "").casefold())
    ]
    return exact or [
        session
        for session in earlier
        if session.id.casefold().startswith(words)
        or words in (session.title or session.preview).casefold()
    ]


def _line(session: Session) -> str:
    return (
        f"{_name(session)}, {session.messages} messages, "
        f"{session.last_interaction_at:%Y-%m-%d %H:%M} UTC"
    )


def _name(session: Session) -> str:
    words = clean_label(session.title or session.preview)
    return f"“{words}”" if words else f"conversation `{session.id}`"


def _stopped(request: Request) -> str:
    return "What was running has been stopped. " if request.stopped else ""


COMMANDS = (
    Command(
        name="new",
        argument="[title]",
        aliases=("reset",),
        summary="begins a new conversation here (also /reset)",
        run=_new,
        stops_turn=True,
    ),
    Command(
        name="resume",
        argument="[number, name or id]",
        summary="goes back to an earlier conversation, without a name to the last one",
        run=_resume,
        stops_turn=True,
    ),
    Command(name="sessions", summary="lists the conversations you had here", run=_sessions),
    Command(name="title", argument="[words]", summary="names this conversation", run=_title),
    Command(
        name="compact",
        summary="summarises what was said so far",
        run=_compact,
        needs_exclusive=True,
    ),
)
