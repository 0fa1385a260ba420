"""
The log: fixed sentences with an `action` word and fields from an allow-list, one line each.

Text, names and ids of users and chats are on no list, so they cannot be logged by accident. Of an
unexpected error the location is logged, not the message, which may quote a user. What libraries,
warnings and dying threads would print is held to the same.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from enum import StrEnum
from types import TracebackType
from typing import Any, TextIO

import structlog

from turngate.gateway.observability.error_text import code_location
from turngate.gateway.observability.journal import is_journal
from turngate.gateway.observability.log_dedup import LogDedup

Fields = MutableMapping[str, Any]
Write = Callable[[str], object]


class Action(StrEnum):
    """What a line is about; operators search for these."""

    STARTED = "started"
    STOPPING = "stopping"
    STOPPED = "stopped"
    RELOADED = "reloaded"
    CONFIG = "config"
    STALLED = "stalled"
    ACCEPTED = "accepted"
    DUPLICATE = "duplicate"
    REFUSED = "refused"
    AMENDED = "amended"
    NOTED = "noted"
    UNREADABLE = "unreadable"
    COMMAND = "command"
    AGENT = "agent"
    TURN = "turn"
    SUMMARY = "summary"
    SESSION = "session"
    DROPPED = "dropped"
    SENT = "sent"
    UNSENT = "unsent"
    PREVIEW = "preview"
    ACCESS = "access"
    ACCOUNT = "account"
    STORE = "store"
    FILE = "file"
    BACKUP = "backup"
    LOG = "log"
    BUG = "bug"


class Form(StrEnum):
    """The format of a line."""

    LOGFMT = "logfmt"
    JOURNAL = "journal"
    TERMINAL = "terminal"
    COLOURS = "colours"


# fmt: off
_FIELDS = frozenset((
    "timestamp", "level", "event", "action", "reason", "where", "changed", "needs_restart",
    "repeated", "account", "address", "agent", "attempt", "command", "first_ms", "ms", "outcome",
    "part", "pid", "platform", "session", "turn", "version",
))
# fmt: on
_QUOTED = "said"
_FIRST = ["timestamp", "level", "action", "event"]
_PRIORITIES = {"debug": 7, "info": 6, "warning": 4, "error": 3, "critical": 2}
_COLOURS = {"debug": "2", "info": "32", "warning": "33", "error": "31;1", "critical": "31;1"}
_WIDEST_SENTENCE = 32
# Problems that may recur without limit. All other lines follow from a request: a start, a reload, a
# turn.
_COMES_BACK = frozenset(
    (
        Action.AGENT,
        Action.UNSENT,
        Action.ACCOUNT,
        Action.STORE,
        Action.FILE,
        Action.BUG,
        Action.STALLED,
        Action.SUMMARY,
    )
)


class Log:
    """The log of a process. `configure` may be called again, for example with another level."""

    def __init__(
        self, write: Write, form: Form = Form.LOGFMT, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._write = write
        self._form = form
        self._repeats = LogDedup(now)

    def configure(self, level: str, *, quote: bool = False) -> None:
        """
        Log our own lines in full; of libraries only warnings, and of those only who warned: the
        message may be data.

        With `quote` foreign text is logged as well.
        """
        # The order matters: the dedup needs the level and compares permitted fields only, and a
        # renderer turns the event into text.
        known = _FIELDS | {_QUOTED} if quote else _FIELDS
        structlog.configure(
            processors=[
                structlog.processors.add_log_level,
                _only_known_fields(known),
                self._hold_back_repeats,
                *_RENDERERS[self._form],
            ],
            wrapper_class=structlog.make_filtering_bound_logger(
                logging.getLevelNamesMapping()[level.upper()]
            ),
            logger_factory=lambda *_: _Writing(self._write),
            # A cached logger would keep the level of before a reload.
            cache_logger_on_first_use=False,
        )
        # force: without it, the second call would change nothing.
        logging.basicConfig(
            handlers=[_Libraries(logging.WARNING)], level=logging.WARNING, force=True
        )
        # Python prints warnings to stderr with their text, which may be data.
        logging.captureWarnings(True)

    def tell_repeats(self) -> None:
        """Log how often held-back lines recurred. Called periodically on the event loop."""
        for line, times in self._repeats.overdue():
            fields = {name: value for name, value in line.items() if name not in ("level", "event")}
            tell = getattr(structlog.get_logger(), str(line["level"]))
            tell(line["event"], **fields, repeated=times)

    def _hold_back_repeats(self, _: object, __: str, event: Fields) -> Fields:
        # An account that reconnects again and again changes its state at level info, too.
        is_trouble = event["level"] in ("warning", "error") or event.get("action") is Action.ACCOUNT
        comes_back = is_trouble and event.get("action") in _COMES_BACK
        # The report about repeats has the fields of the line it counts: it must pass.
        if comes_back and "repeated" not in event and not self._repeats.is_news(event):
            raise structlog.DropEvent
        return event


def form_of(descriptor: int, *, journal: str | None, colours: bool) -> Form:
    """Return the format for a stream; `journal` is systemd's own name of it."""
    if is_journal(descriptor, journal):
        return Form.JOURNAL
    if not os.isatty(descriptor):
        return Form.LOGFMT
    return Form.COLOURS if colours else Form.TERMINAL


def configure_logging(level: str, stream: TextIO) -> None:
    """Configure a synchronous log for short-lived commands."""
    Log(lambda line: stream.write(f"{line}\n")).configure(level)


def lost_lines(lines: int) -> None:
    """Log how many lines were lost."""
    structlog.get_logger().warning(
        "log lines were dropped: the reader is too slow",
        action=Action.LOG,
        outcome=f"{lines} lines",
    )


def tell_crashes() -> None:
    """Log what ends a thread or the process like any bug: Python itself would print its message."""

    def crashed(
        kind: type[BaseException], error: BaseException, traceback: TracebackType | None
    ) -> None:
        if not issubclass(kind, KeyboardInterrupt):  # Ctrl-C is a request, not a bug
            tell_bug(error)

    sys.excepthook = crashed
    threading.excepthook = lambda ended: tell_bug(ended.exc_value)
    # Errors in destructors and callbacks, which Python prints and then ignores.
    sys.unraisablehook = lambda ended: tell_bug(ended.exc_value)


def tell_bug(error: BaseException | None) -> None:
    """Log an unexpected error: its location, not its message."""
    reason = type(error).__name__
    where = code_location(error) if error is not None else "unknown"
    structlog.get_logger().error("unexpected error", action=Action.BUG, reason=reason, where=where)


def _only_known_fields(known: frozenset[str]) -> Callable[[object, str, Fields], Fields]:
    def only_known_fields(_: object, __: str, event: Fields) -> Fields:
        """Drop fields that are not on the list: a new field is a decision, not an accident."""
        return {
            name: _on_one_line(value)
            for name, value in event.items()
            if name in known and value is not None
        }

    return only_known_fields


def _on_one_line(value: object) -> object:
    """Replace control characters by spaces: a line break would let text forge a log line."""
    if not isinstance(value, str) or value.isprintable():
        return value
    return "".join(char if char.isprintable() else " " for char in value)


_logfmt = structlog.processors.LogfmtRenderer(key_order=_FIRST, drop_missing=True)


def _for_journal(logger: object, name: str, event: Fields) -> str:
    """Format for the journal, which has its own time stamps and wants a priority."""
    # systemd reads a leading <N> on stderr as the syslog priority and removes it.
    return f"<{_PRIORITIES[event.pop('level')]}>{_logfmt(logger, name, event)}"


def _for_terminal(logger: object, name: str, event: Fields) -> str:
    clock = event.pop("timestamp")
    level = event.pop("level")
    sentence = event.pop("event")
    return (
        f"{clock} {level.upper():<7} {sentence:<{_WIDEST_SENTENCE}} {_logfmt(logger, name, event)}"
    ).rstrip()


def _in_colours(logger: object, name: str, event: Fields) -> str:
    clock = event.pop("timestamp")
    level = event.pop("level")
    sentence = event.pop("event")
    shown = f"\x1b[{_COLOURS[level]}m{level.upper():<7}\x1b[0m {sentence:<{_WIDEST_SENTENCE}}"
    return f"\x1b[2m{clock}\x1b[0m {shown} \x1b[2m{_logfmt(logger, name, event)}\x1b[0m"


_OF_DAY = structlog.processors.TimeStamper(fmt="%H:%M:%S", utc=False)
_RENDERERS: Mapping[Form, Sequence[structlog.typing.Processor]] = {
    Form.LOGFMT: (structlog.processors.TimeStamper(fmt="iso", utc=True), _logfmt),
    Form.JOURNAL: (_for_journal,),
    Form.TERMINAL: (_OF_DAY, _for_terminal),
    Form.COLOURS: (_OF_DAY, _in_colours),
}


class _Writing:
    """The last step of structlog: writes the line."""

    def __init__(self, write: Write) -> None:
        self._write = write

    def msg(self, line: str) -> None:
        self._write(line)

    # structlog calls the method that is named for the level; the line contains it already.
    debug = info = warning = error = critical = msg


class _Libraries(logging.Handler):
    """
    Handles library records: our own adapters' fixed sentences are kept; interpolated values may be
    data.
    """

    def emit(self, record: logging.LogRecord) -> None:
        # Adapters hand a logger named "....library" to their SDK: its messages are not ours.
        is_ours = record.name.startswith("turngate.adapters.") and not record.name.endswith(
            ".library"
        )
        if is_ours and not record.args:  # with arguments the sentence contains values
            structlog.get_logger().warning(
                str(record.msg), action=Action.ACCOUNT, where=record.name
            )
            return

        cause = record.exc_info[1] if record.exc_info else None
        where = code_location(cause) if cause else record.name
        structlog.get_logger().warning(
            "a library logged a warning", action=Action.BUG, where=where, reason=record.name
        )
