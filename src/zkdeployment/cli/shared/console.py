"""The door to the terminal for tables, pictures and coloured lines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console
from rich.segment import Segment
from rich.text import Text

from zkdeployment.printable import printable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import ConsoleOptions, RenderableType

_ENDLESS = 10_000


def console_for(*, stderr: bool) -> Console:
    """Return a console; what is not a terminal has no edge to break lines at."""
    console = _Console(stderr=stderr, highlight=False)
    if not console.is_terminal:
        console.width = _ENDLESS
    return console


def styled(line: str, style: str = "", *, cut: bool = False) -> Text:
    """Return one line for a console, cell or picture, with all that is not printable spelled out.

    A line that is too long for its place is broken there, or ``cut``.
    """
    return Text(printable(line), style, no_wrap=cut or None, overflow="ellipsis" if cut else None)


class _Console(Console):
    """Lets through only what is printable, and rich's own controls, whatever a renderable brings."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Return the segments to be printed."""
        for segment in super().render(renderable, options):
            if segment.control or segment.text.isprintable():
                yield segment
            else:
                yield Segment(printable(segment.text, keep="\n"), segment.style)
