"""
`turngate chat` on a terminal: a prompt, the streamed answer, the prompt again.

A question of the agent gets a prompt of its own in the middle of the answer.
"""

from __future__ import annotations

import signal
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

from rich.console import Console
from rich.text import Text

from turngate.gateway.cli.answer_view import AnswerView
from turngate.gateway.cli.chat_connection import ChatConnection
from turngate.gateway.cli.line_editor import LineEditor
from turngate.gateway.cli.printable import printable, printable_line
from turngate.gateway.daemon.control.chat_events import ChatEvent, NotStored
from turngate.gateway.daemon.state_dir import StateDir
from turngate.gateway.domain.agent_events import Tool
from turngate.gateway.domain.errors import Unreachable
from turngate.gateway.domain.live_view import (
    Arrived,
    Began,
    FellBehind,
    Happened,
    Settled,
)
from turngate.gateway.domain.transcript import Text as Words

_POLL_SECONDS = 0.05
# What was typed at a question is an answer, or it is not; this long after it the question is open.
_SECONDS_TO_ANSWER = 1.0
_STOP = "/stop"


def run_chat(line: ChatConnection, folder: Path) -> None:
    """Run the prompt until Ctrl-D, or Ctrl-C at the prompt."""
    console = Console(markup=False, highlight=False, emoji=False)
    console.print(Text(_welcome(line), style="dim"))

    with LineEditor(
        StateDir(folder).chat_history, [f"/{command.name}" for command in line.commands]
    ) as editor:
        while True:
            _show_unseen(line, console)
            try:
                message = editor.read(f"{line.session or 'chat'}> ")
            except (EOFError, KeyboardInterrupt):
                console.print()
                return
            if message and not _answer(line, console, editor, message):
                return
            console.print()


def _welcome(line: ChatConnection) -> str:
    named = f", conversation “{line.session}”" if line.session else ""
    where = " No daemon runs, so the gateway runs inside this command." if line.in_process else ""
    return f"Turngate chat{named}. /help lists the commands, Ctrl-D leaves.{where}"


def _show_unseen(line: ChatConnection, console: Console) -> None:
    """Show messages that arrived while the prompt was open."""
    view = AnswerView(console)
    while (event := line.next(timeout=0)) is not None:
        _show(view, event)
    view.finish()


@dataclass(slots=True)
class _Exchange:
    """What is sent and not settled yet, and the questions that are open."""

    waiting: set[str]
    asked: dict[str, str] = field(default_factory=dict)
    is_prompt_due: bool = False

    def take(self, view: AnswerView, event: ChatEvent) -> None:
        """Show an event and note what it changes."""
        match event:
            case Arrived(part=part) if part.buttons:
                self.asked[str(part.id)] = part.text
                self.is_prompt_due = True
                view.ask(part.text)
            case Arrived(part=part) if part.edits in self.asked:
                # It repeats the question with the answer, which was just typed here.
                del self.asked[part.edits]
            case Arrived(part=part) if self.asked and part.turn is None:
                view.note(printable(part.text), style="dim")
            case _:
                _show(view, event)

        # In place: the signal handler adds to the same set.
        self.waiting -= _settled(event)

    def timeout(self, view: AnswerView) -> float | None:
        """Poll only while text is not drawn or a question is open; else block until an event."""
        if view.is_behind:
            return _POLL_SECONDS
        return _SECONDS_TO_ANSWER if self.asked else None


def _answer(line: ChatConnection, console: Console, editor: LineEditor, message: str) -> bool:
    """Send a message and show events until all are settled. False if the user left earlier."""
    exchange = _Exchange({line.say(message)})
    view = AnswerView(console)
    view.wait()

    try:
        while exchange.waiting:
            with _without_echo(), _stopping_on_interrupt(line, exchange.waiting):
                _follow(line, exchange, view)
            if exchange.waiting:
                _answer_question(line, exchange, editor)
    except (EOFError, KeyboardInterrupt):
        view.finish()
        console.print(Text("Left early; the answer will be in the transcript.", style="dim"))
        return False
    finally:
        view.finish()

    return True


def _follow(line: ChatConnection, exchange: _Exchange, view: AnswerView) -> None:
    """Show events until everything is settled or a question has to be answered."""
    while exchange.waiting and not exchange.is_prompt_due:
        event = line.next(timeout=exchange.timeout(view))
        if event is not None:
            exchange.take(view, event)
        elif exchange.asked and not view.is_behind:
            exchange.is_prompt_due = True
        view.keep_up()


def _answer_question(line: ChatConnection, exchange: _Exchange, editor: LineEditor) -> None:
    """Read the answer to an open question; Ctrl-C stops the turn instead."""
    exchange.is_prompt_due = False
    try:
        words = editor.read("answer> ")
    except KeyboardInterrupt:
        exchange.asked.clear()
        words = _STOP

    if words:
        exchange.waiting.add(line.say(words))


def _settled(event: ChatEvent) -> set[str]:
    match event:
        case Settled(messages=messages):
            return set(messages)
        case NotStored(id=message):
            return {message}
        case _:
            return set()


def _show(view: AnswerView, event: ChatEvent) -> None:
    match event:
        case Happened(event=Words(text=text)):
            view.add(text)
        case Happened(event=Tool() as tool):
            view.tool(tool)
        case Arrived(part=part):
            view.arrived(part.text)
        case NotStored(reason=reason):
            view.note(f"Not sent: {printable_line(reason)}", style="red")
        case Began():
            view.finish()
            view.wait()
        case FellBehind():
            raise Unreachable(
                "this terminal read too slowly; `turngate sessions show` has the rest"
            )


@contextmanager
def _without_echo() -> Iterator[None]:
    """
    Turn off echo, so that typed-ahead text does not mix with the answer; it stays in the input
    buffer.
    """
    before = termios.tcgetattr(sys.stdin)
    silent = [*before]
    # Index 3 holds the local flags.
    silent[3] &= ~termios.ECHO
    termios.tcsetattr(sys.stdin, termios.TCSADRAIN, silent)

    try:
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


@contextmanager
def _stopping_on_interrupt(line: ChatConnection, waiting: set[str]) -> Iterator[None]:
    """Make the first Ctrl-C stop the agent; the second leaves."""

    def stop(number: int, frame: FrameType | None) -> None:
        # The next Ctrl-C raises KeyboardInterrupt.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        # Runs between two steps of the main thread, which only receives in this block, so no other
        # line is half sent. The interrupted receive continues afterwards.
        waiting.add(line.say(_STOP))

    before = signal.signal(signal.SIGINT, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
