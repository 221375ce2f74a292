"""What goes on, live: a picture that is drawn again, or, where no terminal can do that, a line for each change."""

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
def shown(
    console: Console, changes: Callable[[T | None, T], Iterable[str]], picture: Callable[[T, str], RenderableType]
) -> Iterator[Callable[[T, str], None]]:
    """Give what shows a value, and what is wrong with the last look at it.

    ``picture`` draws both, ``changes`` says line by line what is different from the value before.
    """
    before: T | None = None
    said = ""

    def say(value: T, trouble: str) -> None:
        nonlocal before, said
        if trouble and trouble != said:
            echo(trouble, err=True)
        said = trouble
        for line in changes(before, value):
            echo(line)
        before = value

    if not console.is_terminal or console.is_dumb_terminal:
        yield say
        return
    with Live(console=console, auto_refresh=False, vertical_overflow="crop") as live:
        yield lambda value, trouble: live.update(picture(value, trouble), refresh=True)
