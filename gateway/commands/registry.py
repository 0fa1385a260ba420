"""What a chat command is, and how it is found in a message."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from difflib import get_close_matches

from turngate.gateway.domain.ids import EntryId, InboxId, SessionId
from turngate.gateway.domain.messages import InboundMessage
from turngate.gateway.domain.ports.store import Store
from turngate.gateway.domain.session import Session
from turngate.gateway.domain.transcript import Entry
from turngate.gateway.inbound.pairing import Pairing
from turngate.gateway.rules.budgets import Standing

# A slash, a word, and then nothing or a blank: "/etc/hosts" and "/2" are text.
_FORM = re.compile(r"/(?P<name>[A-Za-z][A-Za-z0-9_-]*)(?:\s+(?P<argument>.*))?", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """
    What a command is given.

    `stopped`: a turn was running and has been stopped for this command. `waiting`: how many
    messages wait for their turn. `recovered`: an earlier run of the daemon may have done it already
    and died before it could answer. `is_admin`: the sender is an admin. `offered`: the agents that
    may be chosen here. `standing`: the sender's usage and limits of today. `compact` summarises the
    session and returns the result as a sentence.
    """

    argument: str
    session: Session
    agent: str
    store: Store
    row: InboxId
    message: InboundMessage
    pairing: Pairing
    compact: Callable[[], Awaitable[str]]
    standing: Standing = Standing()
    is_admin: bool = False
    offered: tuple[str, ...] = ()
    stopped: bool = False
    busy: bool = False
    waiting: int = 0
    recovered: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandAnswer:
    """
    The answer to a command, if it is more than a text.

    `session` keeps it, if that is no longer the one the command was given in. `kept_as` is the text
    that the transcript keeps for the command, if not as it was written; `edits` is a message that
    becomes the answer.
    """

    text: str
    session: SessionId | None = None
    kept_as: str | None = None
    edits: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """A turn instead of an answer: ask these entries again, in place of all from `replacing`."""

    entries: tuple[Entry, ...]
    replacing: EntryId


Run = Callable[[Request], Awaitable[str | CommandAnswer | Retry]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """
    One command. None of them waits for a running turn.

    `stops_turn`: stop it first. `needs_exclusive`: refuse while one runs, and let none begin until
    it is done. `admins_only`: no menu offers it, and /help lists it to admins. `is_listed`: whether
    it is listed at all.
    """

    name: str
    summary: str
    run: Run
    argument: str = ""
    aliases: tuple[str, ...] = ()
    stops_turn: bool = False
    needs_exclusive: bool = False
    admins_only: bool = False
    is_listed: bool = True

    @property
    def usage(self) -> str:
        """The command with its argument, as users write it."""
        return f"/{self.name} {self.argument}".rstrip()


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A command with its argument, as a user gave it."""

    command: Command
    argument: str


class Registry:
    """All commands by name."""

    def __init__(self, commands: Iterable[Command]) -> None:
        # Telegram sends /start when a user opens the chat for the first time.
        start = Command(name="start", summary="says hello", run=_greet, is_listed=False)
        help_ = Command(name="help", summary="lists the commands", run=self._help)
        self.commands = (help_, *commands, start)
        self._by_name = {
            name: command for command in self.commands for name in (command.name, *command.aliases)
        }

    def find(self, text: str) -> Call | None:
        """Return the command in a text, or None if it is plain text."""
        form = _FORM.fullmatch(text.strip())
        if form is None:
            return None

        name = form["name"].lower()
        argument = (form["argument"] or "").strip()
        known = self._by_name.get(name)
        if known is not None:
            return Call(command=known, argument=argument)

        # A typo must not reach the agent as text, so an unknown name is a command that says so.
        return Call(command=Command(name="unknown", summary="", run=self._unknown), argument=name)

    async def _help(self, request: Request) -> str:
        # Without code marks: Telegram makes a plain command a link.
        lines = [
            f"- {command.usage} – {command.summary}"
            for command in self.commands
            if command.is_listed and (request.is_admin or not command.admins_only)
        ]
        return "\n".join(["Commands:", "", *lines])

    async def _unknown(self, request: Request) -> str:
        close = get_close_matches(request.argument, self._by_name, n=1)
        meant = f"Did you mean /{close[0]}?" if close else "/help lists what there is."
        return f"There is no command /{request.argument[:32]}. {meant}"


async def _greet(request: Request) -> str:
    return "Hello! Write to me, and I'll answer. /help lists what else you can do here."
