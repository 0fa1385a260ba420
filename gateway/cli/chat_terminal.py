"""`turngate chat` at a terminal: a prompt, the answer as it comes, the prompt again."""

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
from turngate.gateway.domain.errors import Unreachable
from turngate.gateway.domain.live_view import Arrived, Began, FellBehind, Happened, Settled
from turngate.gateway.domain.messages import Text as Words
from turngate.gateway.domain.messages import Tool

_BETWEEN_LOOKS = 0.05
_STOP = "/stop"


def converse(line: ChatConnection, folder: Path) -> None:
    """Until Ctrl-D, or Ctrl-C at the prompt."""
    console = Console(markup=False, highlight=False, emoji=False)
    console.print(Text(_welcome(line), style="dim"))
    with LineEditor(
        StateDir(folder).chat_history, [f"/{command.name}" for command in line.commands]
    ) as editor:
        while True:
            _show_what_came(line, console)
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
    where = " No daemon runs, so the gateway works inside this command." if line.is_inside else ""
    return f"Turngate chat{named}. /help lists the commands, Ctrl-D leaves.{where}"


def _show_what_came(line: ChatConnection, console: Console) -> None:
    """What somebody else said to this conversation, or what was delivered, while nobody looked."""
    view = AnswerView(console)
    while (event := line.next(timeout=0)) is not None:
        _show(view, event)
    view.finish()


def _answer(line: ChatConnection, console: Console, message: str) -> bool:
    """Show what comes until everything said is settled. False if somebody would not wait for that."""
    waiting, view = {line.say(message)}, AnswerView(console)
    view.wait()
    try:
        with _without_echo(), _stopping_on_interrupt(line, waiting):
            while waiting:
                event = line.next(timeout=_BETWEEN_LOOKS if view.is_behind else None)
                if event is not None:
                    _show(view, event)
                    waiting -= _settled(event)
                view.keep_up()
    except KeyboardInterrupt:
        view.finish()
        console.print(
            Text("Left before the end; the answer will be in the transcript.", style="dim")
        )
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
                "this terminal fell behind; `turngate sessions list` and `show` have the rest"
            )


@contextmanager
def _without_echo() -> Iterator[None]:
    """What is typed ahead waits for the prompt, and does not get between the lines of the answer."""
    before = termios.tcgetattr(sys.stdin)
    silent = [*before]
    silent[3] &= ~termios.ECHO
    termios.tcsetattr(sys.stdin, termios.TCSADRAIN, silent)
    try:
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


@contextmanager
def _stopping_on_interrupt(line: ChatConnection, waiting: set[str]) -> Iterator[None]:
    """The first Ctrl-C asks the agent to stop; the second leaves."""

    def stop(number: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        waiting.add(line.say(_STOP))

    before = signal.signal(signal.SIGINT, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
