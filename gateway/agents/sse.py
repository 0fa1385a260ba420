"""
Server-sent events, read as bytes come in. Pure: who has the connection feeds it.

As the standard says (https://html.spec.whatwg.org/multipage/server-sent-events.html), but for what
only browsers need; and an event that the stream ends on counts even without the blank line after
it, since some servers forget it.
"""

from __future__ import annotations

from dataclasses import dataclass

LONGEST_EVENT = 4_000_000
"""In bytes. A server that never ends a line must not fill memory."""

_BOM = b"\xef\xbb\xbf"


class EventTooLong(Exception):
    """More than LONGEST_EVENT without an end."""


@dataclass(frozen=True, slots=True)
class ServerEvent:
    """What was sent: `name` is "message" where the server gave none."""

    name: str
    data: str


class EventReader:
    """
    Takes bytes however they were cut, and gives whole events. Bytes that are no UTF-8 become
    U+FFFD.
    """

    def __init__(self) -> None:
        self._unfinished: list[bytes] = []
        self._size = 0
        self._at_start = True
        self._after_return = False
        self._name = ""
        self._data: list[str] = []

    def feed(self, chunk: bytes) -> list[ServerEvent]:
        """The events that end in this piece. Raises EventTooLong."""
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
        """What was still being sent when the stream ended."""
        self._take(self._without_mark(b"".join(self._unfinished)))
        self._unfinished.clear()
        return self._dispatched()

    def _read_lines(self) -> list[ServerEvent]:
        buffer = self._without_mark(b"".join(self._unfinished))
        lines = buffer.splitlines(keepends=True)
        # The other half of a CRLF may be on its way: it is not another line.
        self._after_return = buffer.endswith(b"\r")
        self._unfinished = [] if buffer.endswith((b"\n", b"\r")) else [lines.pop()]
        events: list[ServerEvent] = []

        for line in lines:
            bare = line.rstrip(b"\r\n")
            if bare:
                self._take(bare)
            else:
                events += self._dispatched()

        self._size = sum(map(len, self._unfinished)) + sum(map(len, self._data))

        return events

    def _without_mark(self, buffer: bytes) -> bytes:
        """A byte order mark may begin the stream, and is no part of it."""
        if not self._at_start:
            return buffer
        self._at_start = False
        return buffer.removeprefix(_BOM)

    def _take(self, line: bytes) -> None:
        """
        A line without a colon is a field without a value; one that begins with it is a comment.
        """
        field, _, value = line.partition(b":")
        if field == b"data":
            self._data.append(value.removeprefix(b" ").decode("utf-8", "replace"))
        elif field == b"event":
            self._name = value.removeprefix(b" ").decode("utf-8", "replace")

    def _dispatched(self) -> list[ServerEvent]:
        """A name alone is no event."""
        name = self._name or "message"
        data = "\n".join(self._data)
        is_event = bool(self._data)
        self._name = ""
        self._data.clear()
        return [ServerEvent(name, data)] if is_event else []
