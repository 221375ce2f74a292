"""Tables that adapt to the width of the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich import box
from rich.measure import Measurement
from rich.table import Table

from zkdeployment.cli.shared.console import styled

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from rich.console import Console, ConsoleOptions, RenderResult
    from rich.text import Text

_UNLIMITED = 10_000


class ResponsiveTable:
    """A table that adapts to a narrow terminal.

    Cells of ``whole`` columns are never broken. Other cells are broken into lines or, with ``cut``, shortened.
    ``dispensable`` columns are left out on a narrow terminal if all their cells are equal. Columns of ``numbers``
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
