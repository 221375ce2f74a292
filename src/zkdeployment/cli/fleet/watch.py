"""The live display of ``status --watch``: the most important hosts with bars, or a line for each change."""

from __future__ import annotations

import contextlib
import math
import time
from typing import TYPE_CHECKING

from rich.console import Group
from rich.progress_bar import ProgressBar
from rich.table import Table

from zkdeployment.cli.fleet.table import COLOURS
from zkdeployment.cli.shared.console import console_for, styled
from zkdeployment.cli.shared.live_display import live_display
from zkdeployment.errors import UnreachableError
from zkdeployment.fleet.ages import age
from zkdeployment.fleet.requests import describe_request
from zkdeployment.fleet.stops import describe_stops
from zkdeployment.fleet.watching import most_important_hosts, status_changes
from zkdeployment.model.cluster import short

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable

    from rich.console import RenderableType
    from rich.text import Text

    from zkdeployment.fleet.status import FleetStatus

#: Seconds between two reads while hosts work, and while the fleet is converged.
_BUSY = 1.0
_IDLE = 5.0

#: Lines besides the hosts: the summary, the counts of hosts left out, the cursor.
_FRAME = 3
_MOST_STOPS = 5

#: The least width for bars and ages, and the widths of columns.
_WIDE = 70
_STATE, _BAR, _AGE = 9, 12, 8


def watch(look: Callable[[], FleetStatus], changed: threading.Event, timeout: float | None) -> None:
    """Show the fleet until Ctrl-C, or for ``timeout`` seconds.

    ``changed`` is set when the cluster version may have changed. While ZooKeeper is unreachable, the display shows
    the error.
    """
    console = console_for(stderr=False)
    deadline = math.inf if timeout is None else time.monotonic() + timeout

    def draw(status: FleetStatus, problem: str) -> RenderableType:
        return render(status, console.height, console.width, time.time(), problem)

    with contextlib.suppress(KeyboardInterrupt), live_display(console, status_changes, draw) as show:
        status = look()
        while True:
            show(status, "")
            if time.monotonic() >= deadline:
                return
            time.sleep(min(_BUSY, max(0.0, deadline - time.monotonic())))
            if status.converged and deadline == math.inf:
                changed.wait(_IDLE - _BUSY)
            changed.clear()
            began = time.monotonic()
            try:
                status = look()
            except UnreachableError as error:
                show(status, str(error))
            # Pause as long as the read of a large fleet took, to spare the server and this machine.
            time.sleep(time.monotonic() - began)


def render(status: FleetStatus, height: int, width: int, now: float, problem: str = "") -> RenderableType:
    """Return a fleet in ``height`` lines of ``width``: the stops, the most important hosts, the summary."""
    lines = [_line(reason, "red") for reason in describe_stops(status.stops, now)[:_MOST_STOPS]]
    if problem:
        lines.insert(0, _line(problem, "red"))
    if status.request is not None:
        lines.append(_line(describe_request(status.request, now), "red"))
    if status.rollout is not None:
        lines.append(_line(status.rollout, "bold"))
    rows, rest = most_important_hosts(status, max(1, height - _FRAME - len(lines)))
    names = min(max((len(host.name) for host in rows), default=0), width // 3)
    bars, ages = (_BAR, _AGE) if width >= _WIDE else (0, 0)
    table = Table.grid(padding=(0, 2))
    for column_width in (names, _STATE, bars, ages, max(1, width - names - _STATE - bars - ages - 8)):
        table.add_column(no_wrap=True, overflow="ellipsis", width=column_width)
    for host in rows:
        done, total = host.steps or (0, 0)
        table.add_row(
            styled(host.name),
            styled(host.state.value, COLOURS[host.state]),
            ProgressBar(total=total, completed=done) if total and bars else styled(""),
            styled("" if host.since is None or not ages else age(now - host.since), "dim"),
            styled(host.error or host.step or ("" if host.version is None else short(host.version))),
        )
    return Group(*lines, table, _line(rest, "dim"), _line(status.summary, "bold"))


def _line(text: str, style: str) -> Text:
    return styled(text, style, cut=True)
