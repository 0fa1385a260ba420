"""`turngate chat` on a terminal: a prompt, the streamed answer, the prompt again."""

from __future__ import annotations

import signal
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from rich.console import Console
from rich.text import Text

from turngate.gateway.cli.answer_view import AnswerView
from turngate.gateway.cli.chat_connection import ChatConnection
from turngate.gateway.cli.line_editor import LineEditor
from turngate.gateway.cli.printable import printable_line
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
            if message and not _answer(line, console, message):
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


def _answer(line: ChatConnection, console: Console, message: str) -> bool:
    """Send a message and show events until all are settled. False if the user left earlier."""
    waiting = {line.say(message)}
    view = AnswerView(console)
    view.wait()

    try:
        with _without_echo(), _stopping_on_interrupt(line, waiting):
            while waiting:
                # Poll only while text is not drawn yet; otherwise block until something happens.
                event = line.next(timeout=_POLL_SECONDS if view.is_behind else None)
                if event is not None:
                    _show(view, event)
                    # In place: the signal handler adds to the same set.
                    waiting -= _settled(event)
                view.keep_up()
    except KeyboardInterrupt:
        view.finish()
        console.print(Text("Left early; the answer will be in the transcript.", style="dim"))
        return False
    finally:
        view.finish()

    return True


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
