"""Printing of tables, live displays and coloured lines; plain lines are printed through ``terminal``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console
from rich.segment import Segment
from rich.text import Text

from zkdeployment.printable import printable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import ConsoleOptions, RenderableType

#: A width at which no line is broken.
_UNLIMITED = 10_000


def console_for(*, stderr: bool) -> Console:
    """Return a console for standard output or standard error; without a terminal, no line is broken."""
    console = _Console(stderr=stderr, highlight=False)
    if not console.is_terminal:
        console.width = _UNLIMITED
    return console


def styled(line: str, style: str = "", *, cut: bool = False) -> Text:
    """Return one line for a console, a table cell or a live display, with unprintable characters escaped.

    A line that is too long for its place is broken; with ``cut`` it is shortened.
    """
    return Text(printable(line), style, no_wrap=cut or None, overflow="ellipsis" if cut else None)


class _Console(Console):
    """A console that escapes unprintable characters in everything it prints, except rich's own control codes."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Yield the segments to print."""
        for segment in super().render(renderable, options):
            if segment.control or segment.text.isprintable():
                yield segment
            else:
                yield Segment(printable(segment.text, keep="\n"), segment.style)
