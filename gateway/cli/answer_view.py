"""
An answer on the terminal while it grows, as Markdown.

Blocks that are finished are printed for good; only the last one is drawn again and again, and never more of it than
fits the screen. So nothing flickers, nothing is printed twice, and what has scrolled away stays as it was.
"""

from __future__ import annotations

import time

from rich.console import Console, ConsoleOptions, ConsoleRenderable, Group, RenderResult
from rich.live import Live
from rich.markdown import Markdown
from rich.segment import Segment
from rich.text import Text

from turngate.gateway.cli.printable import printable, printable_line
from turngate.gateway.domain.messages import Tool, ToolStatus

_CODE_THEME = "ansi_dark"
_WAITING = "…"
_BETWEEN_DRAWINGS = 0.05


class AnswerView:
    """One answer after the other; each begins when the one before is finished."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live: Live | None = None
        self._streamed: list[str] = []
        self._unfinished = ""
        self._held: list[str] = []
        self._tools: set[str] = set()
        self._is_begun = False
        self._drawn_at = 0.0
        self.is_behind = False

    def wait(self) -> None:
        """Nothing yet, but something will come."""
        self._draw(Text(_WAITING, style="dim"))

    def add(self, text: str) -> None:
        """More of the answer. Drawn at the next refresh, however many pieces come until then."""
        self._streamed.append(text)
        self._unfinished += text
        self.is_behind = True

    def keep_up(self) -> None:
        """Draw if there is something new and the last drawing is long enough ago to be seen."""
        if self.is_behind and time.monotonic() - self._drawn_at >= _BETWEEN_DRAWINGS:
            self.refresh()

    def refresh(self) -> None:
        """Print what is finished, draw what is not."""
        self.is_behind = False
        self._drawn_at = time.monotonic()
        finished, last = split_last_block(printable(self._unfinished))
        if finished.strip():
            self._print(_markdown(finished))
            self._unfinished = last
        if last.strip():
            self._draw(_markdown(last))

    def tool(self, tool: Tool) -> None:
        """A step on the way; a tool that ends well needs no second line."""
        if tool.id in self._tools and tool.status is not ToolStatus.FAILED:
            return
        self._tools.add(tool.id)
        words = printable_line(f"{tool.name} {tool.title or ''}")
        self.note(
            f"✗ {words} failed" if tool.status is ToolStatus.FAILED else f"• {words}", style="dim"
        )

    def note(self, text: str, style: str) -> None:
        """A line of our own, below what was said so far."""
        self._flush()
        self._print(Text(text, style=style), apart=False)

    def arrived(self, text: str) -> None:
        """
        The answer as it is kept. Usually it was all seen already, or its end is new; what has nothing to do with what
        is being shown waits until that is finished.
        """
        rest = rest_after(text, "".join(self._streamed))
        if rest is None:
            self._held.append(text)
            return
        self._unfinished += rest
        self._streamed = []
        self._flush()

    def finish(self) -> None:
        """Nothing more comes of this answer."""
        self._flush()
        self._streamed = []
        held, self._held = self._held, []
        for text in held:
            self._print(_markdown(printable(text)))
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _flush(self) -> None:
        """Print all there is for good."""
        self.is_behind = False
        text, self._unfinished = printable(self._unfinished), ""
        if text.strip():
            self._print(_markdown(text))

    def _print(self, shown: ConsoleRenderable, *, apart: bool = True) -> None:
        """Above whatever is still drawn, which is gone with it: it was the beginning of the same."""
        if self._live is not None:
            self._live.stop()
            self._live = None
        if apart and self._is_begun:
            self._console.print()
        self._console.print(_SafeRenderable(shown))
        self._is_begun = True

    def _draw(self, shown: ConsoleRenderable) -> None:
        if self._live is None:
            self._live = Live(
                console=self._console,
                auto_refresh=False,
                transient=True,
                redirect_stdout=False,
                redirect_stderr=False,
                vertical_overflow="crop",
            )
            self._live.start()
        # What does not fit the screen cannot be drawn over.
        last = _SafeRenderable(shown, most=max(self._console.height - 2, 1))
        self._live.update(Group(Text(), last) if self._is_begun else last, refresh=True)


def split_last_block(text: str) -> tuple[str, str]:
    """
    The blocks of a Markdown text that nothing can change any more, and the one that may still grow.

    A block of which not even one line is whole may yet turn out to belong to the one before.
    """
    starts = [token.map[0] for token in Markdown(text).parsed if token.level == 0 and token.map]
    lines = text.split("\n")
    at = max(starts, default=0)
    last = "\n".join(lines[at:])
    if at == 0 or "\n" not in last:
        return "", text
    return "\n".join(lines[:at]), last


def rest_after(whole: str, streamed: str) -> str | None:
    """What a text has beyond what was streamed of it, blanks aside; None if it is another text."""
    seen = "".join(streamed.split())
    at = 0
    for index, char in enumerate(whole):
        if at == len(seen):
            return whole[index:]
        if char.isspace():
            continue
        if char != seen[at]:
            return None
        at += 1
    return "" if at == len(seen) else None


def _markdown(text: str) -> Markdown:
    return Markdown(text, code_theme=_CODE_THEME, hyperlinks=False)


class _SafeRenderable:
    """
    Without blank lines around it, which some blocks bring along and others do not, and without anything that could harm
    the terminal: Markdown can spell characters out (`&#x202E;`), so what it becomes is looked at again.

    With `most`, no more than so many lines, the last ones.
    """

    def __init__(self, shown: ConsoleRenderable, most: int | None = None) -> None:
        self._shown = shown
        self._most = most

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        lines = _without_blank_ends(console.render_lines(self._shown, options, pad=False))
        for line in lines if self._most is None else lines[-self._most :]:
            for segment in line:
                yield (
                    segment if segment.control else Segment(printable(segment.text), segment.style)
                )
            yield Segment.line()


def _without_blank_ends(lines: list[list[Segment]]) -> list[list[Segment]]:
    said = [at for at, line in enumerate(lines) if any(segment.text.strip() for segment in line)]
    return lines[said[0] : said[-1] + 1] if said else []
