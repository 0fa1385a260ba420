"""
An incremental parser of server-sent events, without I/O.

It follows the standard (https://html.spec.whatwg.org/multipage/server-sent-events.html) except for
what only browsers need. The last event counts even without the blank line after it, since some
servers omit that.
"""

from __future__ import annotations

from dataclasses import dataclass

LONGEST_EVENT = 4_000_000
"""In bytes. A server that never ends a line must not fill memory."""

_COST_OF_LINE = 40
_BOM = b"\xef\xbb\xbf"


class EventTooLong(Exception):
    """An event is longer than LONGEST_EVENT."""


@dataclass(frozen=True, slots=True)
class ServerEvent:
    """One event; `name` is "message" if the server gave none."""

    name: str
    data: str


class EventReader:
    """The parser of one stream: bytes in, whole events out. Invalid UTF-8 becomes U+FFFD."""

    def __init__(self) -> None:
        self._unfinished: list[bytes] = []
        self._size = 0
        self._at_start = True
        self._after_return = False
        self._name = ""
        self._data: list[str] = []
        self._data_size = 0

    def feed(self, chunk: bytes) -> list[ServerEvent]:
        """Return the events that end in this chunk. Raises EventTooLong."""
        if self._after_return and chunk:
            chunk = chunk.removeprefix(b"\n")
            self._after_return = False
        self._size += len(chunk)
        self._unfinished.append(chunk)
        events = self._read_lines() if b"\n" in chunk or b"\r" in chunk else []
        if self._size > LONGEST_EVENT:
            raise EventTooLong
        return events

    def end(self) -> list[ServerEvent]:
        """Return the event at the end of the stream, if any."""
        self._take(self._without_mark(b"".join(self._unfinished)))
        self._unfinished.clear()
        return self._dispatched()

    def _read_lines(self) -> list[ServerEvent]:
        buffer = self._without_mark(b"".join(self._unfinished))
        lines = buffer.splitlines(keepends=True)
        # The LF of a CRLF may come with the next chunk, and would count as an empty line.
        self._after_return = buffer.endswith(b"\r")
        self._unfinished = [] if buffer.endswith((b"\n", b"\r")) else [lines.pop()]
        events: list[ServerEvent] = []

        for line in lines:
            bare = line.rstrip(b"\r\n")
            if bare:
                self._take(bare)
            else:
                events += self._dispatched()

        self._size = sum(map(len, self._unfinished)) + self._data_size

        return events

    def _without_mark(self, buffer: bytes) -> bytes:
        """Remove the byte order mark at the start of the stream."""
        if not self._at_start:
            return buffer
        self._at_start = False
        return buffer.removeprefix(_BOM)

    def _take(self, line: bytes) -> None:
        """Add one line to the event. Comments and fields other than data and event are skipped."""
        field, _, value = line.partition(b":")
        if field == b"data":
            # Summed up as they come, so that many chunks take linear time. An empty line has a
            # cost of its own, or a server could send them for ever.
            self._data_size += len(value) + _COST_OF_LINE
            self._data.append(value.removeprefix(b" ").decode("utf-8", "replace"))
        elif field == b"event":
            self._name = value.removeprefix(b" ").decode("utf-8", "replace")

    def _dispatched(self) -> list[ServerEvent]:
        """Return the event, if it has any data, and begin the next one."""
        name = self._name or "message"
        data = "\n".join(self._data)
        is_event = bool(self._data)
        self._name = ""
        self._data.clear()
        self._data_size = 0
        return [ServerEvent(name, data)] if is_event else []
