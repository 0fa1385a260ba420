"""How a line looks to each of its readers, and what Python itself would have printed."""

from __future__ import annotations

import logging
import os
import re
import sys
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

from turngate.config.load import service, wants_colours
from turngate.gateway.domain.errors import StoreUnavailable
from turngate.gateway.observability.log_dedup import FIRST_PAUSE
from turngate.gateway.observability.logs import (
    Action,
    Form,
    Log,
    form_of,
    tell_crashes,
)
from turngate.gateway.observability.observer import Observer

CANARY = "canary"


@pytest.fixture
def lines() -> Iterator[list[str]]:
    """What was written."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield []
    structlog.reset_defaults()
    logging.captureWarnings(False)
    logging.basicConfig(handlers=handlers, level=level, force=True)


def say(lines: list[str], form: Form) -> str:
    """One line with a field that has a newline in it."""
    Log(lines.append, form).configure("debug")
    Observer().store_failed(StoreUnavailable("the disk\nis full"))
    (line,) = lines
    return line


def test_programs_get_logfmt_with_the_time_in_utc(lines: list[str]) -> None:
    line = say(lines, Form.LOGFMT)
    assert re.fullmatch(
        r'timestamp=\S+Z level=error action=store event="the store failed" reason="the disk is full"',  # noqa: E501
        line,
    )


def test_the_journal_gets_priorities_and_no_time(lines: list[str]) -> None:
    assert (
        say(lines, Form.JOURNAL)
        == '<3>action=store event="the store failed" reason="the disk is full"'
    )


@pytest.mark.parametrize(
    ("level", "priority"), [("debug", 7), ("info", 6), ("warning", 4), ("error", 3)]
)
def test_every_level_has_its_priority(lines: list[str], level: str, priority: int) -> None:
    Log(lines.append, Form.JOURNAL).configure("debug")
    getattr(structlog.get_logger(), level)("words")
    assert lines == [f"<{priority}>event=words"]


def test_people_get_the_sentence_first(lines: list[str]) -> None:
    assert re.fullmatch(
        r'\d\d:\d\d:\d\d ERROR   the store failed {17}action=store reason="[^"]+"',
        say(lines, Form.TERMINAL),
    )


def test_a_terminal_that_can_gets_colours(lines: list[str]) -> None:
    line = say(lines, Form.COLOURS)
    assert "\x1b[31;1mERROR  \x1b[0m the store failed" in line
    assert line.endswith("\x1b[0m")


def test_a_trouble_that_stays_is_one_line_and_later_a_number_and_turns_are_never_held_back(
    lines: list[str],
) -> None:
    at = [0.0]
    log = Log(lines.append, Form.JOURNAL, now=lambda: at[0])
    log.configure("info")
    for number in range(42):
        Observer().store_failed(StoreUnavailable("locked"))
        structlog.get_logger().warning("a turn failed", action=Action.TURN, turn=number)
    log.tell_repeats()
    assert len(lines) == 1 + 42

    at[0] = FIRST_PAUSE
    log.tell_repeats()
    log.tell_repeats()
    assert lines[43:] == ['<3>action=store event="the store failed" reason=locked repeated=41']


def test_a_stream_is_the_journal_only_if_systemd_says_so(tmp_path: Path) -> None:
    with (tmp_path / "journal").open("w") as stream:
        found = os.fstat(stream.fileno())
        named = service({"JOURNAL_STREAM": f"{found.st_dev}:{found.st_ino}"}).journal
        assert form_of(stream.fileno(), journal=named, colours=True) is Form.JOURNAL
        assert form_of(stream.fileno(), journal="1:2", colours=True) is Form.LOGFMT
        assert form_of(stream.fileno(), journal=service({}).journal, colours=True) is Form.LOGFMT


def test_a_terminal_shows_colours_unless_somebody_does_not_want_them() -> None:
    controlling, terminal = os.openpty()
    try:
        for env, form in (
            ({"TERM": "xterm"}, Form.COLOURS),
            ({"TERM": "xterm", "NO_COLOR": "1"}, Form.TERMINAL),
            ({"TERM": "dumb"}, Form.TERMINAL),
            ({}, Form.TERMINAL),
        ):
            assert form_of(terminal, journal=None, colours=wants_colours(env)) is form
    finally:
        os.close(controlling)
        os.close(terminal)


def test_what_ends_a_thread_or_is_ignored_or_warned_of_is_told_without_its_words(
    lines: list[str],
) -> None:
    hooks = sys.excepthook, threading.excepthook, sys.unraisablehook
    Log(lines.append).configure("debug")
    tell_crashes()
    try:
        thread = threading.Thread(target=lambda: {}[CANARY])
        thread.start()
        thread.join()
        with pytest.raises(ValueError, match=CANARY) as raised:
            raise ValueError(CANARY)
        sys.excepthook(ValueError, raised.value, raised.value.__traceback__)
        Dying()
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.warn(CANARY, stacklevel=1)
    finally:
        sys.excepthook, threading.excepthook, sys.unraisablehook = hooks

    assert [found for line in lines for found in re.findall(r"reason=(\S+)", line)] == [
        "KeyError",
        "ValueError",
        "RuntimeError",
        "py.warnings",
    ]
    assert CANARY not in "".join(lines)


class Dying:
    """Breaks where nobody can catch it."""

    def __del__(self) -> None:
        raise RuntimeError(CANARY)
