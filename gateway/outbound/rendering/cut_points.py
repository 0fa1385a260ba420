"""
Choose where to cut Markdown that is too long: between sections, else paragraphs, lines, sentences,
words, characters.

Constructs such as links and tables stay whole as long as there is another cut point, and what leads
to something (a heading, "such as:") stays with it. Code is cut before a line that is indented
least.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from turngate.gateway.outbound.rendering.blocks import Blocks, Fence
from turngate.gateway.outbound.rendering.graphemes import last_boundary
from turngate.gateway.outbound.rendering.inline import Inline, Span, Spans, find_inline, merged

_PARAGRAPH_END = re.compile(r"\n(?:[ \t]*\r?\n)+")
_SENTENCE_END = re.compile(r"""[.!?…]["'”’»)\]*_]*[ \n]+|[。！？][」』”’）]*""")
_BLOCK_START = re.compile(r"[ \t]*(?:[-+*][ \t]|\d{1,9}[.)][ \t]|\#|>|```|~~~|\||\r?\n)")
_HEADING = re.compile(r" {0,3}#{1,6}[ \t]")
# What leads to the text below it: a heading, a line in bold, the line under a heading or under the
# head of a table, a colon.
_LEADS_ON = re.compile(
    r" {0,3}#{1,6}[ \t].*"
    r"|[ \t]*(?:\*\*|__)[^*_]+(?:\*\*|__):?"
    r"|={2,}"
    r"|[ \t|:]*-[-| \t:]*"
    r"|.*[:：][*_]*"
)
_LONGEST_LINE = 500
_LINE = ("\n",)
_BLANK = (" ", "\n", "\t")
# Bounds each search, so that text without any good place is still split in linear time.
_MOST_STEPS = 256
_MOST_OBSTACLES = 16  # one behind the other without a gap: then any place will do
_MOST_MEASURED = 3


def looks_closed_by_us(text: str) -> bool:
    """Return whether a text ends like a part cut inside code: a fence and one or two blanks."""
    bare = text[-5:].rstrip(" ")
    return bare.endswith(("```", "~~~")) and 1 <= len(text[-5:]) - len(bare) <= 2


@dataclass(slots=True, kw_only=True)
class Stretch:
    """
    A text from `start` to `end`, to be cut after `low`, so that the part has visible text.

    `fits`: whether a piece fits into one part. `can_reopen`: whether a fence's lines do.
    """

    text: str
    start: int
    low: int
    end: int
    blocks: Blocks
    fits: Callable[[str], bool]
    can_reopen: Callable[[Fence], bool]
    _paragraph: tuple[int, int, Spans, Spans] | None = field(default=None, init=False)

    def best_cut(self) -> int:
        """Return the cut point that disturbs a reader least."""
        # No cut too early: a paragraph that ends near the start would leave a tiny part.
        third, half = (
            max(self.low, self.start + (self.end - self.start) // share) for share in (3, 2)
        )
        for positions in (
            filter(self._starts_section, self._paragraph_ends(half)),
            filter(self._ends_well, self._paragraph_ends(third)),
            filter(self._ends_well, self._line_ends(third)),
            self._code_lines(half),
            filter(self._starts_flat, self._paragraph_ends(third)),
            filter(self._starts_flat, self._line_ends(third)),
            self._paragraph_ends(third),
            self._line_ends(third),
            filter(self._leaves_all_whole, self._after(_LINE, third)),
            filter(self._leaves_all_whole, self._sentence_ends(half)),
        ):
            for position in positions:
                return position

        return self.last_word()

    def last_word(self) -> int:
        """Return the end of the last word that fits; inside a word only if nothing else does."""
        for position in self._after(_BLANK, self.low):
            if self._leaves_all_whole(position):
                return position

        return (
            self._settled(self.end, self._spans_at)
            or next(filter(self._leaves_links_whole, self._after(_BLANK, self.low)), None)
            or self._settled(self.end, self._firm_spans_at)
            or self._settled(self.end, lambda _: Spans())
            or self._undisguised(last_boundary(self.text, self.low, self.end))
        )

    def _paragraph_ends(self, low: int) -> Iterator[int]:
        for position in reversed(
            [found.end() for found in _PARAGRAPH_END.finditer(self.text, low, self.end)]
        ):
            if self._block_start(position) is None and self._is_free(position):
                yield position

    def _line_ends(self, low: int) -> Iterator[int]:
        """Return line ends between blocks and in plain text."""
        position = self.end
        for _ in range(_MOST_STEPS):
            position = self.text.rfind("\n", low - 1, position)
            if position < 0:
                return
            block_start = self._block_start(position + 1)
            if block_start is not None:
                position = max(0, block_start)
            elif self._may_end_line(position + 1):
                yield position + 1

    def _may_end_line(self, position: int) -> bool:
        return (
            self._is_free(position)
            if _BLOCK_START.match(self.text, position)
            else self._leaves_all_whole(position)
        )

    def _sentence_ends(self, low: int) -> Iterator[int]:
        yield from reversed(
            [found.end() for found in _SENTENCE_END.finditer(self.text, low, self.end)]
        )

    def _after(self, signs: tuple[str, ...], low: int) -> Iterator[int]:
        """Return the positions behind these characters, last first."""
        position = self.end
        for _ in range(_MOST_STEPS):
            found = max(self.text.rfind(sign, low - 1, position) for sign in signs)
            if found < 0:
                return
            yield found + 1
            position = found

    def _starts_flat(self, position: int) -> bool:
        """Return whether the next part would not begin with an accidental code block."""
        return not self.text.startswith(("    ", "\t"), position)

    def _starts_section(self, position: int) -> bool:
        """Return whether the next part would begin with a heading, under none of its own."""
        return _HEADING.match(self.text, position) is not None and self._ends_well(position)

    def _ends_well(self, position: int) -> bool:
        """Return whether the part would not end with a line that leads to what follows it."""
        return self._starts_flat(position) and not _LEADS_ON.fullmatch(self._last_line(position))

    def _last_line(self, position: int) -> str:
        end = position
        while end > self.start and self.text[end - 1].isspace():
            end -= 1
        start = max(self.text.rfind("\n", self.start, end) + 1, self.start, end - _LONGEST_LINE)
        return self.text[start:end]

    def _code_lines(self, low: int) -> Iterator[int]:
        """Return, inside code, the start of the line that is indented least; the last of those."""
        fence = self._fence_around(self.end)
        if fence is None:
            return

        inside = [
            position
            for position in self._after(_LINE, max(low, fence.first_visible))
            if fence.first_visible < position <= fence.last_visible
            and self._settled(position, self._spans_at) == position
        ]
        # `min` takes the first of equals, and these begin with the last.
        if inside:
            yield min(inside, key=self._indentation)

    def _indentation(self, position: int) -> int:
        end = self.text.find("\n", position, position + _LONGEST_LINE)
        line = self.text[position : end if end >= 0 else position + _LONGEST_LINE]
        # A blank line belongs to what is above it.
        return len(line) - len(line.lstrip()) if line.strip() else _LONGEST_LINE

    def _block_start(self, position: int) -> int | None:
        """Return where the code or table begins that a cut here would split."""
        fence = self._fence_around(position)
        table = self.blocks.table_around(position)
        return fence.start if fence is not None else table[0] if table is not None else None

    def _fence_around(self, position: int) -> Fence | None:
        fence = self.blocks.fence_around(position)
        return fence if fence is not None and self.can_reopen(fence) else None

    def _is_free(self, position: int) -> bool:
        return self._settled(position, lambda _: Spans()) == position

    def _leaves_all_whole(self, position: int) -> bool:
        return self._settled(position, self._spans_at) == position

    def _leaves_links_whole(self, position: int) -> bool:
        return self._settled(position, self._firm_spans_at) == position

    def _settled(self, position: int, spans_at: Callable[[int], Spans]) -> int | None:
        """Return the last position up to this one that splits nothing."""
        for _ in range(_MOST_OBSTACLES):
            if position < self.low:
                return None
            earlier = self._earlier(position, spans_at)
            if earlier == position:
                return position
            position = earlier
        return None

    def _earlier(self, position: int, spans_at: Callable[[int], Spans]) -> int:
        fence = self._fence_around(position)
        if fence is not None and position <= fence.first_visible:
            return fence.start
        if fence is not None and position > fence.last_visible:
            return fence.last_visible
        span = spans_at(position).around(position) if fence is None else None
        if span is not None:
            return span[0]
        boundary = last_boundary(self.text, self.low, position)
        return self._undisguised(position) if boundary == position and fence is None else boundary

    def _undisguised(self, position: int) -> int:
        """Move the cut so that the part does not look as if it were closed by us."""
        while looks_closed_by_us(self.text[max(self.start, position - 5) : position]):
            position -= 1
        return position

    def _spans_at(self, position: int) -> Spans:
        return self._paragraph_around(position)[2]

    def _firm_spans_at(self, position: int) -> Spans:
        return self._paragraph_around(position)[3]

    def _paragraph_around(self, position: int) -> tuple[int, int, Spans, Spans]:
        known = self._paragraph
        if known is None or not known[0] < position <= known[1]:
            known = self._paragraph = self._read_paragraph(position)
        return known

    def _read_paragraph(self, position: int) -> tuple[int, int, Spans, Spans]:
        ahead = min(len(self.text), 2 * self.end - self.start)
        start = max([self.start, self.text.rfind("\n\n", self.start, position - 1) + 2])
        end = self.text.find("\n\n", position, ahead) + 1 or ahead
        for fence in self.blocks.fences:
            start = fence.end if start < fence.end <= position else start
            end = fence.start if position <= fence.start < end else end
        inline = find_inline(self.text, start, end)
        firm, loose = self._keepable(inline)
        return start, end, merged([*firm, *loose]), merged(firm)

    def _keepable(self, inline: Inline) -> tuple[list[Span], list[Span]]:
        """Return the firm and loose spans without those that the next part could not hold whole."""
        crossing = {span for span in (*inline.firm, *inline.loose) if span[0] < self.end < span[1]}
        too_large = set()
        # Outermost first: if one fits, those inside it do. Few are measured, because that is slow.
        for span in sorted(crossing, key=lambda span: (span[0], -span[1]))[:_MOST_MEASURED]:
            if span[0] >= self.low and self.fits(self.text[slice(*span)]):
                break
            too_large.add(span)

        too_large |= {
            span
            for span in crossing
            if span[0] < self.low or span[1] - span[0] > self.end - self.start
        }
        return [span for span in inline.firm if span not in too_large], [
            span for span in inline.loose if span not in too_large
        ]
