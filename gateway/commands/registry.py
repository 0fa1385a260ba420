"""What a chat command is, and how one is found in what somebody wrote."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from difflib import get_close_matches

from turngate.gateway.domain.messages import (
    Entry,
    EntryId,
    InboundMessage,
    InboxId,
    Session,
    SessionId,
)
from turngate.gateway.domain.ports.store import Store
from turngate.gateway.inbound.pairing import Pairing
from turngate.gateway.rules.budgets import Standing

# A slash, a word, and then nothing or a blank: "/etc/hosts" and "/2" are text.
_FORM = re.compile(r"/(?P<name>[A-Za-z][A-Za-z0-9_-]*)(?:\s+(?P<argument>.*))?", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """
    What a command knows: where it was given, what stands there, and what goes on there.

    `stopped`: a turn was running and has been stopped for this command. `waiting`: messages that wait for their turn.
    `recovered`: an earlier run of the daemon may have done it already, and died before it could say so.
    `is_admin`: given by somebody who may decide for others. `offered`: the agents that may be chosen here. `standing`:
    what he has used today, and may still use. `compact` has the conversation summarised, and says what became of it.
    """

    argument: str
    session: Session
    agent: str
    store: Store
    row: InboxId
    message: InboundMessage
    pairing: Pairing
    standing: Standing = Standing()
    compact: Callable[[], Awaitable[str]] | None = None
    is_admin: bool = False
    offered: tuple[str, ...] = ()
    stopped: bool = False
    busy: bool = False
    waiting: int = 0
    recovered: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """
    What to say, and the session that keeps it.

    `said` is what the command is kept as, if not as it was written; `edits` is a message that becomes the answer.
    """

    text: str
    session: SessionId
    said: str | None = None
    edits: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """Not an answer but a turn: these words once more, in place of everything from that entry on."""

    said: tuple[Entry, ...]
    replacing: EntryId


Run = Callable[[Request], Awaitable[Answer | Retry]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """
    One command. None of them waits for a running turn.

    `stops_turn`: stop it first. `needs_quiet`: refuse while one runs, and let none begin meanwhile.
    """

    name: str
    summary: str
    run: Run
    argument: str = ""
    aliases: tuple[str, ...] = ()
    stops_turn: bool = False
    needs_quiet: bool = False

    @property
    def usage(self) -> str:
        """As it is written."""
        return f"/{self.name} {self.argument}".rstrip()


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A command as somebody gave it."""

    command: Command
    argument: str


class Registry:
    """All commands by name."""

    def __init__(self, commands: Iterable[Command]) -> None:
        help_ = Command(
            name="help", summary="lists the commands", run=self._help, aliases=("start",)
        )
        self.commands = (help_, *commands)
        self._by_name = {
            name: command for command in self.commands for name in (command.name, *command.aliases)
        }

    def find(self, text: str) -> Call | None:
        """The command in a message, or None if it is just text. A word nobody knows is a call that says so."""
        form = _FORM.fullmatch(text.strip())
        if form is None:
            return None
        name, argument = form["name"].lower(), (form["argument"] or "").strip()
        known = self._by_name.get(name)
        if known is not None:
            return Call(command=known, argument=argument)
        return Call(command=Command(name="unknown", summary="", run=self._unknown), argument=name)

    def call_in(self, message: InboundMessage) -> Call | None:
        """The command that somebody gave. What he only passed on was another's word, and is text."""
        return None if message.forwarded else self.find(message.text)

    async def _help(self, request: Request) -> Answer:
        lines = [f"- `{command.usage}` {command.summary}" for command in self.commands]
        return Answer(text="\n".join(["Commands:", "", *lines]), session=request.session.id)

    async def _unknown(self, request: Request) -> Answer:
        close = get_close_matches(request.argument, self._by_name, n=1)
        meant = f"Did you mean /{close[0]}?" if close else "/help lists what there is."
        return Answer(
            text=f"There is no command /{request.argument[:32]}. {meant}",
            session=request.session.id,
        )
