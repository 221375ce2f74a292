"""Tables that adapt to the width of the terminal, live displays and coloured lines."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, TypeVar

from rich import box
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.live import Live
from rich.measure import Measurement
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from zkdeployment.base.text import printable
from zkdeployment.cli.terminal import echo

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence


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
    """A console that escapes unprintable characters in all output, except rich's own control codes."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Yield the segments to print."""
        for segment in super().render(renderable, options):
            if segment.control or segment.text.isprintable():
                yield segment
            else:
                yield Segment(printable(segment.text, keep="\n"), segment.style)


T = TypeVar("T")


@contextlib.contextmanager
def live_display(
    console: Console, changes: Callable[[T | None, T], Iterable[str]], render: Callable[[T, str], RenderableType]
) -> Iterator[Callable[[T, str], None]]:
    """Yield a function that shows a value, and the problem of the last attempt to read it (empty: none).

    ``render`` draws both, ``changes`` returns a line for each difference from the value before.
    """
    before: T | None = None
    last_problem = ""

    def print_changes(value: T, problem: str) -> None:
        nonlocal before, last_problem
        if problem and problem != last_problem:
            echo(problem, err=True)
        last_problem = problem
        for line in changes(before, value):
            echo(line, err=console.stderr)
        before = value

    if not console.is_terminal or console.is_dumb_terminal:
        yield print_changes
        return
    with Live(console=console, auto_refresh=False, vertical_overflow="crop") as live:
        yield lambda value, problem: live.update(render(value, problem), refresh=True)


class ResponsiveTable:
    """A table that adapts to a narrow terminal.

    Cells of ``whole`` columns are never broken. Other cells are broken into lines or, with ``cut``, shortened.
    ``dispensable`` columns are omitted on a narrow terminal if all their cells are equal. Columns of ``numbers``
    are aligned to the right.
    """

    def __init__(
        self,
        headings: Sequence[str],
        rows: Iterable[Sequence[Text | str]],
        *,
        whole: Collection[str] = (),
        numbers: Collection[str] = (),
        dispensable: Collection[str] = (),
        cut: bool = False,
    ) -> None:
        self._headings = headings
        self._rows = [tuple(styled(cell) if isinstance(cell, str) else cell for cell in row) for row in rows]
        self._whole, self._numbers, self._dispensable = whole, numbers, dispensable
        self._cut = cut

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        columns = range(len(self._headings))
        full = self._table(columns)
        if Measurement.get(console, options.update(max_width=_UNLIMITED), full).maximum <= options.max_width:
            yield full
        else:
            yield self._table([column for column in columns if not self._is_dispensable(column)])

    def _is_dispensable(self, column: int) -> bool:
        equal = len({row[column].plain for row in self._rows}) <= 1
        return equal and self._headings[column] in self._dispensable

    def _table(self, columns: Sequence[int]) -> Table:
        table = Table(box=box.SIMPLE_HEAD)
        for heading in (self._headings[column] for column in columns):
            table.add_column(
                heading,
                no_wrap=heading in self._whole,
                overflow="ellipsis" if self._cut else "fold",
                justify="right" if heading in self._numbers else "left",
            )
        for row in self._rows:
            table.add_row(*(row[column] for column in columns))
        return table
