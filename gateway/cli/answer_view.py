"""
Live view of an answer on the terminal, as Markdown.

Finished blocks are printed permanently; only the last block is redrawn, cropped to the screen. This
avoids flicker and repeated output, and keeps the scrollback correct.
"""

from __future__ import annotations

import time

from rich.console import Console, ConsoleOptions, ConsoleRenderable, Group, RenderResult
from rich.live import Live
from rich.markdown import Markdown
from rich.segment import Segment
from rich.text import Text

from turngate.gateway.cli.printable import printable, printable_line
from turngate.gateway.domain.agent_events import Tool, ToolStatus

_CODE_THEME = "ansi_dark"
_WAITING = "…"
_SECONDS_BETWEEN_DRAWS = 0.05


class AnswerView:
    """View of one answer after the other; each begins when the previous one is finished."""

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
        """Show that an answer is expected."""
        self._draw(Text(_WAITING, style="dim"))

    def add(self, text: str) -> None:
        """Add streamed text. It is drawn at the next refresh."""
        self._streamed.append(text)
        self._unfinished += text
        self.is_behind = True

    def keep_up(self) -> None:
        """Draw new text, but not more often than the draw interval allows."""
        if self.is_behind and time.monotonic() - self._drawn_at >= _SECONDS_BETWEEN_DRAWS:
            self.refresh()

    def refresh(self) -> None:
        """Print finished blocks and draw the unfinished one."""
        self.is_behind = False
        self._drawn_at = time.monotonic()
        # Cleaned first: the parser counts a lone carriage return as a line break, and its line
        # numbers would no longer match those of the split.
        finished, last = split_last_block(printable(self._unfinished))
        if finished.strip():
            self._print(_markdown(finished))
            self._unfinished = last
        if last.strip():
            self._draw(_markdown(last))

    def tool(self, tool: Tool) -> None:
        """Show a tool call. A tool that succeeds gets no second line."""
        if tool.id in self._tools and tool.status is not ToolStatus.FAILED:
            return
        self._tools.add(tool.id)
        words = printable_line(f"{tool.name} {tool.title or ''}")
        self.note(
            f"✗ {words} failed" if tool.status is ToolStatus.FAILED else f"• {words}", style="dim"
        )

    def note(self, text: str, style: str) -> None:
        """Print a line of our own below the answer so far."""
        self._flush()
        self._print(Text(text, style=style), apart=False)

    def ask(self, text: str) -> None:
        """Print a question below the answer so far, which goes on afterwards."""
        self._flush()
        self._print(_markdown(printable(text)))

    def arrived(self, text: str) -> None:
        """
        Show the stored answer: usually all or most of it was streamed already.

        An answer that does not match the streamed text is held back until that is finished.
        """
        rest = rest_after(text, "".join(self._streamed))
        # Another text, such as a notice of the gateway: printed after the current answer.
        if rest is None:
            self._held.append(text)
            return

        self._unfinished += rest
        # The next part is compared with what is streamed from here on.
        self._streamed = []
        self._flush()

    def finish(self) -> None:
        """End the current answer."""
        self._flush()
        self._streamed = []
        for text in self._held:
            self._print(_markdown(printable(text)))
        self._held = []
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _flush(self) -> None:
        """Print all remaining text permanently."""
        self.is_behind = False
        text = printable(self._unfinished)
        self._unfinished = ""
        if text.strip():
            self._print(_markdown(text))

    def _print(self, shown: ConsoleRenderable, *, apart: bool = True) -> None:
        """
        Print permanently, replacing the live drawing: it showed the beginning of the same text.
        """
        if self._live is not None:
            self._live.stop()
            self._live = None
        if apart and self._is_begun:
            self._console.print()
        self._console.print(_SafeRenderable(shown))
        self._is_begun = True

    def _draw(self, shown: ConsoleRenderable) -> None:
        if self._live is None:
            # Without rich's refresh thread: everything is drawn by the main thread. `transient`
            # erases the drawing on stop, and the final text takes its place.
            self._live = Live(
                console=self._console,
                auto_refresh=False,
                transient=True,
                redirect_stdout=False,
                redirect_stderr=False,
                vertical_overflow="crop",
            )
            self._live.start()

        # Lines that scrolled off the screen cannot be redrawn, so draw only what fits.
        last = _SafeRenderable(shown, max_lines=max(self._console.height - 2, 1))
        self._live.update(Group(Text(), last) if self._is_begun else last, refresh=True)


def split_last_block(text: str) -> tuple[str, str]:
    """
    Split Markdown into the blocks that are final and the last one, which may still grow.

    A block without one complete line may still turn out to belong to the block before it.
    """
    starts = [token.map[0] for token in Markdown(text).parsed if token.level == 0 and token.map]
    lines = text.split("\n")
    at = max(starts, default=0)
    last = "\n".join(lines[at:])
    if at == 0 or "\n" not in last:
        return "", text

    return "\n".join(lines[:at]), last


def rest_after(whole: str, streamed: str) -> str | None:
    """
    Return what the text has beyond the streamed part, ignoring whitespace; None if it is a
    different text.
    """
    seen = "".join(streamed.split())
    at = 0

    for index, char in enumerate(whole):
        if at == len(seen):
            return whole[index:]
        # Rendering and storing may change whitespace.
        if char.isspace():
            continue
        if char != seen[at]:
            return None
        at += 1

    return "" if at == len(seen) else None


def _markdown(text: str) -> Markdown:
    # With hyperlinks only the label of a link would be visible, not where it leads.
    return Markdown(text, code_theme=_CODE_THEME, hyperlinks=False)


class _SafeRenderable:
    """
    Rendering without blank lines at the ends and without terminal control characters.

    Markdown can encode such characters (`&#x202E;`), so they are removed after rendering.
    `max_lines` keeps the last lines only.
    """

    def __init__(self, shown: ConsoleRenderable, max_lines: int | None = None) -> None:
        self._shown = shown
        self._max_lines = max_lines

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        lines = _without_blank_ends(console.render_lines(self._shown, options, pad=False))
        for line in lines if self._max_lines is None else lines[-self._max_lines :]:
            for segment in line:
                # Control segments are rich's own cursor movements and must stay.
                yield (
                    segment if segment.control else Segment(printable(segment.text), segment.style)
                )
            yield Segment.line()


def _without_blank_ends(lines: list[list[Segment]]) -> list[list[Segment]]:
    filled = [at for at, line in enumerate(lines) if any(segment.text.strip() for segment in line)]
    return lines[filled[0] : filled[-1] + 1] if filled else []
