"""Tables that fit the terminal."""

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

_ENDLESS = 10_000


class Fitting:
    """A table that fits a narrow terminal.

    What is in ``whole`` columns stays in one line there; other text is broken, and long words are, or are ``cut``.
    Of the ``dispensable`` columns those are left out in which all rows are alike. ``numbers`` stand on the right.
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
        every = range(len(self._headings))
        whole = self._table(every)
        if Measurement.get(console, options.update(max_width=_ENDLESS), whole).maximum <= options.max_width:
            yield whole
        else:
            yield self._table([place for place in every if not self._is_dispensable(place)])

    def _is_dispensable(self, place: int) -> bool:
        alike = len({row[place].plain for row in self._rows}) <= 1
        return alike and self._headings[place] in self._dispensable

    def _table(self, places: Sequence[int]) -> Table:
        table = Table(box=box.SIMPLE_HEAD)
        for heading in (self._headings[place] for place in places):
            table.add_column(
                heading,
                no_wrap=heading in self._whole,
                overflow="ellipsis" if self._cut else "fold",
                justify="right" if heading in self._numbers else "left",
            )
        for row in self._rows:
            table.add_row(*(row[place] for place in places))
        return table
