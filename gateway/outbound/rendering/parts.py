"""
Split a text into parts that fit, and join parts to the text again.

Parts laid end to end are the text, with one exception: where code between fences is cut, the part
is closed with a line of its own, and the next one opens again with another. The closing line is a
fence and one blank behind it; two blanks if the cut is inside a line, so that the line end before
the fence is not the text's. No other part ends like that: to a text that does, two more blanks are
added. Code that is still open at the end of the text is closed in the same way.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count

from turngate.gateway.outbound.rendering.blocks import Blocks, Fence, find_blocks
from turngate.gateway.outbound.rendering.cut_points import Stretch, looks_closed_by_us

Measure = Callable[[str], int]

_VISIBLE = re.compile(r"\S")
_FENCES = ("```", "~~~")
_WHOLE_LINE = " "
_INSIDE_LINE = "  "
# Characters read beyond the end, to see a fence or table that goes on there.
_AHEAD = 256
_MOST_TRIES = 8
_FEWEST = 1 / 32
_MOST = 64.0


def split(text: str, largest: int, measure: Measure) -> list[str]:
    """
    Cut a text into parts of which none measures more than `largest` and none is blank.

    A blank text has no parts. `measure` may take time proportional to its text: in total it is
    given a small multiple of the text. Below 64 a part may be larger if a fence's lines or one
    character are. A run of blanks that would fill a part of its own is left out.
    """
    return list(_Splitter(text, largest, measure).parts())


def last_part(text: str, largest: int, measure: Measure) -> str:
    """Return the last part of a text that still grows: code in it stays open."""
    *_, last = split(text, largest, measure) or [""]
    return _without_closing_line(last) if looks_closed_by_us(last) else last


def join(parts: Sequence[str]) -> str:
    """Return the text that was split."""
    pieces = []
    reopened = False
    for number, part in enumerate(parts, start=1):
        body = part.partition("\n")[2] if reopened else part
        reopened = looks_closed_by_us(body)
        if reopened:
            body = _without_closing_line(body)
        if number == len(parts) and _ends_in_fence_and_blanks(body):
            body = body.removesuffix(_INSIDE_LINE)
        pieces.append(body)

    return "".join(pieces)


def beginning(text: str, largest: int, measure: Measure, mark: str) -> tuple[str, int]:
    """
    Return as much of a text as fits into one part with `mark` behind it, and how many characters
    that is.

    Empty if not even the mark fits. Code that is cut is closed.
    """
    return _Splitter(text, largest, measure).beginning(mark)


def _ends_in_fence_and_blanks(text: str) -> bool:
    bare = text.rstrip(" ")
    return bare != text and bare.endswith(_FENCES)


def _without_closing_line(body: str) -> str:
    line = max(body.rfind("\n"), body.rfind("\r")) + 1
    return body[: line - 1] if body.endswith(_INSIDE_LINE) else body[:line]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cut:
    """A part, where the text goes on behind it, and the line that begins the next part."""

    part: str
    position: int
    head: str


class _Splitter:
    def __init__(self, text: str, largest: int, measure: Measure) -> None:
        self._largest = largest
        self._measure = measure
        self._visible_end = len(text.rstrip())
        # Blanks at the end that take more than half a part would make parts without visible text.
        if 2 * measure(text[self._visible_end :]) > largest:
            text = text[: self._visible_end]
        self._text = text + _INSIDE_LINE if _ends_in_fence_and_blanks(text) else text
        self._characters_per_unit = 1.0
        self._openings: dict[str, str | None] = {}

    def parts(self) -> Iterator[str]:
        position = 0
        head = ""
        while position < self._visible_end:
            cut = self._next(position, head)
            position = cut.position
            head = cut.head
            if cut.part:
                yield cut.part

    def beginning(self, mark: str) -> tuple[str, int]:
        start = 0
        budget = self._largest - self._measure(mark)
        for tried in range(_MOST_TRIES):
            end = self._fit(start, "", budget)
            stretch = self._stretch(start, end, "")
            position = end if end == len(self._text) else stretch.last_word()
            part = self._marked(position, stretch.blocks, mark)
            over = self._measure(part) - self._largest
            if over <= 0:
                return (part, position) if self._text[:position].strip() else ("", 0)
            # Doubled each time: a measure may jump, and the number of tries is limited.
            budget -= over << tried

        return "", 0

    def _marked(self, position: int, blocks: Blocks, mark: str) -> str:
        shown = self._text[:position].rstrip()
        fence = blocks.fence_around(len(shown))
        if fence is not None and not (fence.is_closed and fence.end <= position):
            shown += "\n" + fence.closing
        # Behind a fence on the same line the mark would keep it from closing.
        return f"{shown}\n{mark}" if shown.endswith(_FENCES) else shown + mark

    def _next(self, start: int, head: str) -> _Cut:
        budget = self._largest
        blocks = None
        for tried in count():
            end = self._fit(start, head, budget)
            if _VISIBLE.search(self._text, start, end) is None:
                return _Cut(part="", position=end, head=head)

            stretch = self._stretch(start, end, head, blocks)
            blocks = stretch.blocks
            cut = self._cut(start, head, stretch)
            over = self._measure(cut.part) - self._largest
            if over <= 0 or budget <= 1:
                break

            budget = max(1, budget - (over << tried))

        return cut

    def _stretch(self, start: int, end: int, head: str, blocks: Blocks | None = None) -> Stretch:
        visible = _VISIBLE.search(self._text, start)
        low = (visible.start() if visible is not None else start) + 1
        if end < len(self._text):
            end = max(low, min(end, self._visible_end - 1))
        if blocks is None:
            blocks = find_blocks(head + self._text[start : end + _AHEAD], start - len(head))

        return Stretch(
            text=self._text,
            start=start,
            low=low,
            end=end,
            blocks=blocks,
            fits=lambda piece: self._measure(piece) <= self._largest,
            can_reopen=lambda fence: self._opening(fence) is not None,
        )

    def _cut(self, start: int, head: str, stretch: Stretch) -> _Cut:
        is_last = stretch.end == len(self._text)
        position = stretch.end if is_last else stretch.best_cut()
        body = head + self._text[start:position]
        fence = stretch.blocks.fence_around(position)
        opening = self._opening(fence) if fence is not None else None
        if (
            fence is None
            or opening is None
            or not (is_last or fence.first_visible < position <= fence.last_visible)
        ):
            return _Cut(part=body, position=position, head="")

        whole = body.endswith(("\n", "\r"))
        closing = fence.closing + _WHOLE_LINE if whole else f"\n{fence.closing}{_INSIDE_LINE}"
        return _Cut(part=body + closing, position=position, head=opening + "\n")

    def _opening(self, fence: Fence) -> str | None:
        """Return the line that reopens a fence, without a long language; None if too long."""
        if fence.opening not in self._openings:
            lines = (line for line in (fence.opening, fence.plain_opening) if self._is_short(line))
            self._openings[fence.opening] = next(lines, None)
        return self._openings[fence.opening]

    def _is_short(self, line: str) -> bool:
        # A quarter of a part at most: opening and closing line leave half of it to the code.
        return len(line) <= self._largest and 4 * self._measure(line) <= self._largest

    def _fit(self, start: int, head: str, budget: int) -> int:
        """
        Return about the furthest end up to which the text fits, at least one character on.

        The next guess follows from the last measurement: mostly the first or second is good enough.
        """
        low = start
        high = len(self._text) + 1
        guess = start + max(1, int(budget * self._characters_per_unit))
        for _ in range(_MOST_TRIES):
            guess = max(low + 1, min(guess, high - 1))
            size = max(1, self._measure(head + self._text[start:guess]))
            if size <= budget:
                low = guess
            else:
                high = guess
            if high - low <= 1 or (size <= budget and (budget - size) * 32 < budget):
                break
            guess = start + min((guess - start) * budget // size, 4 * (guess - start))

        while low == start and high > start + 1:
            guess = (start + high) // 2
            if self._measure(head + self._text[start:guess]) <= budget:
                low = guess
            else:
                high = guess

        if low > start:
            self._characters_per_unit = min(max((low - start) / max(1, budget), _FEWEST), _MOST)

        return max(low, start + 1)
