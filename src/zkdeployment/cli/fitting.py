"""Tables that fit the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich import box
from rich.measure import Measurement
from rich.table import Table

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from rich.console import Console, ConsoleOptions, RenderResult
    from rich.table import Column
    from rich.text import Text

_ENDLESS = 10_000


class Fitting:
    """A table. On a narrow terminal those ``dispensable`` columns are left out in which all rows are alike."""

    def __init__(
        self, columns: Sequence[Column], rows: Iterable[Sequence[Text]], *, dispensable: Collection[str]
    ) -> None:
        self._columns = columns
        self._rows = [tuple(row) for row in rows]
        self._dispensable = dispensable

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        every = range(len(self._columns))
        whole = self._table(every)
        if Measurement.get(console, options.update(max_width=_ENDLESS), whole).maximum <= options.max_width:
            yield whole
        else:
            yield self._table([place for place in every if not self._is_dispensable(place)])

    def _is_dispensable(self, place: int) -> bool:
        alike = len({row[place].plain for row in self._rows}) <= 1
        return alike and self._columns[place].header in self._dispensable

    def _table(self, places: Sequence[int]) -> Table:
        table = Table(*(self._columns[place].copy() for place in places), box=box.SIMPLE_HEAD)
        for row in self._rows:
            table.add_row(*(row[place] for place in places))
        return table
