"""The fleet as a table, for people."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from rich import box
from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from zkdeployment.fleet.status import FleetStatus, HostState
from zkdeployment.fleet.stops import tell
from zkdeployment.model.cluster import short

if TYPE_CHECKING:
    from rich.console import RenderableType

COLOURS = {
    HostState.CONVERGED: "green",
    HostState.BEHIND: "yellow",
    HostState.DEPLOYING: "cyan",
    HostState.FAILED: "red",
    HostState.ABSENT: "magenta",
    HostState.UNKNOWN: "magenta",
}


def console_for(*, stderr: bool) -> Console:
    """Return a console; what is not a terminal has no edge to break lines at."""
    console = Console(stderr=stderr, highlight=False)
    if not console.is_terminal:
        console.width = max(console.width, 200)
    return console


def render(status: FleetStatus) -> RenderableType:
    """Return a table of the hosts, a line for each error, and the summary."""
    table = Table("HOST", "ID", "ROLE", "STATE", "VERSION", "WANTED", "STEP", "SINCE", box=box.SIMPLE_HEAD)
    for host in status.hosts:
        step = host.step or ""
        if host.steps is not None:
            step = f"{host.steps[0]}/{host.steps[1]} {step}"
        cells = [
            host.name,
            host.id,
            host.role or "-",
            Text(host.state.value, style=COLOURS[host.state]),
            _version(host.version),
            _version(host.wanted),
            step,
            _since(host.since),
        ]
        table.add_row(*(cell if isinstance(cell, Text) else Text(str(cell)) for cell in cells))
    now = time.time()
    told = " ".join(stop.reason for stop in status.stops)
    stops = tell(status.stops, now)
    errors = [f"{host.name}: {host.error}" for host in status.hosts if host.error and host.error not in told]
    return Group(table, *(Text(line, style="red") for line in (*stops, *errors)), Text(status.summary))


def _version(version: str | int | None) -> str:
    return "-" if version is None else short(version)


def _since(since: float | None) -> str:
    return "" if since is None else time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(since))
