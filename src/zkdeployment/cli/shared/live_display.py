"""A live display of a value: redrawn on a terminal; elsewhere, a printed line for each change."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, TypeVar

from rich.live import Live

from zkdeployment.cli.shared.terminal import echo

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from rich.console import Console, RenderableType

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
