"""The table that ``status`` prints."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from rich.console import Group

from zkdeployment.cli.shared.console import styled
from zkdeployment.cli.shared.responsive_table import ResponsiveTable
from zkdeployment.fleet.branch.refusals import describe_refusal
from zkdeployment.fleet.daemon_failures import describe_failure
from zkdeployment.fleet.host_status import HostState
from zkdeployment.fleet.requests import describe_request
from zkdeployment.fleet.stops import describe_group_stops, describe_stops
from zkdeployment.model.cluster import short

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

    from zkdeployment.fleet.host_status import HostStatus
    from zkdeployment.fleet.status import FleetStatus

COLOURS = {
    HostState.CONVERGED: "green",
    HostState.BEHIND: "yellow",
    HostState.DEPLOYING: "cyan",
    HostState.FAILED: "red",
    HostState.ABSENT: "magenta",
    HostState.EXCLUDED: "dim",
    HostState.UNKNOWN: "magenta",
}

_COLUMNS = ("HOST", "ID", "ROLE", "STATE", "VERSION", "WANTED", "STEP", "SINCE")
_WHOLE = ("HOST", "STATE")
_DISPENSABLE = ("ROLE", "WANTED", "STEP")


def render(status: FleetStatus) -> RenderableType:
    """Return a table of the hosts, a line for each error, and the summary."""
    reasons = " ".join(stop.reason for stop in status.stops)
    stops = describe_stops(status.stops, time.time())
    errors = [f"{host.name}: {host.error}" for host in status.hosts if host.error and host.error not in reasons]
    requests = [] if status.request is None else [describe_request(status.request, time.time())]
    requests += [] if status.refusal is None else [describe_refusal(status.refusal, time.time())]
    requests += describe_group_stops(status.group_stops, time.time())
    requests += [describe_failure(failure, time.time()) for failure in status.failures]
    lines = (styled(line, style="red") for line in (*stops, *errors, *requests))
    rollout = [styled(f"warning: {warning}", style="yellow") for warning in status.warnings]
    rollout += [] if status.rollout is None else [styled(status.rollout)]
    # Long cells are shortened, so that each host takes one line.
    hosts = ResponsiveTable(_COLUMNS, map(_cells, status.hosts), whole=_WHOLE, dispensable=_DISPENSABLE, cut=True)
    return Group(hosts, *lines, *rollout, styled(status.summary))


def _cells(host: HostStatus) -> tuple[Text | str, ...]:
    steps = "" if host.steps is None or host.steps == (0, 0) else f"{host.steps[0]}/{host.steps[1]} "
    return (
        host.name,
        host.id,
        host.role or "-",
        styled(host.state.value, style=COLOURS[host.state]),
        _version(host.version) if host.former is None else f"- (had {short(host.former)})",
        _version(host.wanted),
        steps + (host.step or host.lease_text),
        _since(host.since),
    )


def _version(version: str | int | None) -> str:
    return "-" if version is None else short(version)


def _since(since: float | None) -> str:
    return "" if since is None else time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(since))
