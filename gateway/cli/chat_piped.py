"""`turngate chat` in a pipe: stdin is sent as messages, only the answers go to stdout."""

from __future__ import annotations

import re
import sys
from collections.abc import Collection
from typing import BinaryIO

from turngate.gateway.cli.chat_connection import ChatConnection
from turngate.gateway.cli.printable import printable
from turngate.gateway.daemon.control.chat_events import LARGEST_MESSAGE, NotStored
from turngate.gateway.domain.errors import Refused, Unreachable
from turngate.gateway.domain.ids import TurnId
from turngate.gateway.domain.live_view import (
    Arrived,
    Began,
    FellBehind,
    Settled,
)
from turngate.gateway.domain.outbox import Part

_COMMAND = re.compile(r"\s*/(?P<name>[A-Za-z][A-Za-z0-9_-]*)(?:\s.*)?")


def read_piped(stream: BinaryIO) -> str:
    """Read all of stdin, up to the largest message."""
    piped = stream.read(LARGEST_MESSAGE + 1)
    if len(piped) > LARGEST_MESSAGE:
        raise Refused(
            f"the input has more than {LARGEST_MESSAGE:,} bytes; send less, or name a file instead"
        )

    try:
        text = piped.decode()
    except UnicodeDecodeError as exc:
        raise Refused("the input is not UTF-8 text; convert it, or name a file instead") from exc

    if not text.strip():
        raise Refused("the input is empty; write the message to standard input")

    return text


def send_piped(line: ChatConnection, piped: str) -> None:
    """Send one message after the other, each once the previous one is settled."""
    for message in messages_in(piped, {command.name for command in line.commands}):
        _exchange(line, message)


def messages_in(text: str, commands: Collection[str]) -> list[str]:
    """
    Split the input: lines that are commands are messages of their own, the text between them is one
    message each.
    """
    messages = list[str]()
    lines = list[str]()

    # Not splitlines, which also splits at form feeds and other characters inside a message.
    for each in text.split("\n"):
        form = _COMMAND.fullmatch(each)
        if form is None or form["name"].lower() not in commands:
            lines.append(each)
            continue
        messages += ["\n".join(lines), each.strip()]
        lines = []

    return [
        message
        for message in (each.strip("\n") for each in [*messages, "\n".join(lines)])
        if message.strip()
    ]


def _exchange(line: ChatConnection, text: str) -> None:
    message = line.say(text)
    turns = set[TurnId]()

    while True:
        match line.next():
            # An empty id: the daemon could not read the message, so it does not know its id.
            case NotStored(id=refused, reason=reason) if refused in (message, ""):
                raise Refused(reason)
            case Began(turn=turn, messages=messages) if message in messages:
                turns.add(turn)
            case Arrived(part=part) if part.buttons and _answers(part, message, turns):
                _stop(line)
                raise Refused(_cannot_answer(part))
            case Arrived(part=part) if _answers(part, message, turns):
                _write(part.text)
            case Settled(messages=messages) if message in messages:
                return
            case FellBehind():
                raise Unreachable(
                    "this terminal read too slowly; `turngate sessions show` has the answer"
                )


def _stop(line: ChatConnection) -> None:
    """Stop the turn, which would wait for an answer, and return when it is over."""
    stop = line.say("/stop")
    while True:
        match line.next():
            case NotStored(id=refused) if refused == stop:
                return
            case Settled(messages=messages) if stop in messages:
                return


def _cannot_answer(part: Part) -> str:
    question = printable(part.text.partition("\n\n")[0])
    return (
        f"the agent asks a question, and nobody can answer it in a pipe: “{question}” The turn "
        "was stopped; `turngate chat` in a terminal lets you answer"
    )


def _answers(part: Part, message: str, turns: Collection[TurnId]) -> bool:
    """Whether the part answers our message: others may write in the same conversation."""
    # The answer to a command belongs to no turn, only `reply_to` identifies it.
    return part.reply_to == message or part.turn in turns


def _write(text: str) -> None:
    """Write an answer: unchanged to a program, without control characters to a terminal."""
    shown = printable(text) if sys.stdout.isatty() else text
    # As UTF-8 whatever the locale says; a lone surrogate must not raise.
    sys.stdout.buffer.write(f"{shown}\n".encode(errors="replace"))
    sys.stdout.buffer.flush()
