"""Whoever logs never waits for whoever reads."""

from __future__ import annotations

import os
import threading

from turngate.gateway.observability.log_writer import LogWriter

PATIENCE = 30.0


class Told:
    """Remembers how many lines were said to be lost."""

    def __init__(self) -> None:
        self.lines = 0
        self.heard = threading.Event()

    def __call__(self, lines: int) -> None:
        self.lines += lines
        self.heard.set()


def test_a_reader_that_is_slow_costs_lines_and_hears_how_many() -> None:
    reader, writer = os.pipe()
    told = Told()
    sink = LogWriter(writer, told, most=10)
    for _ in range(100):
        sink.write("x" * 60_000)

    assert sink.lost >= 80
    reading = threading.Thread(target=drain, args=(reader,))
    reading.start()
    sink.flush(PATIENCE)
    assert told.heard.wait(PATIENCE)
    os.close(writer)
    reading.join(PATIENCE)
    assert told.lines == sink.lost


def drain(reader: int) -> None:
    """Until nobody writes any more."""
    with os.fdopen(reader, "rb") as stream:
        stream.read()


def test_a_reader_that_has_gone_away_costs_lines_and_nothing_else() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    sink = LogWriter(writer, Told())
    sink.write("into nothing")
    sink.flush(PATIENCE)

    assert sink.lost == 1
    os.close(writer)


def test_a_full_disk_costs_lines_until_there_is_room() -> None:
    with open("/dev/full", "w") as full:  # noqa: PTH123 - a device
        sink = LogWriter(full.fileno(), Told())
        sink.write("no room")
        sink.flush(PATIENCE)
        assert sink.lost == 1


def test_flushing_does_not_wait_for_ever() -> None:
    reader, writer = os.pipe()
    sink = LogWriter(writer, Told())
    sink.write("x" * 1_000_000)
    sink.flush(0.01)

    os.close(reader)
    sink.flush(PATIENCE)
    os.close(writer)
