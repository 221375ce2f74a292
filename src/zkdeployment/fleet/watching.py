"""The parts of a fleet's status that matter most, and the changes between two of them, for ``status --watch``."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from zkdeployment.fleet.host_status import HostState
from zkdeployment.model.cluster import short

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zkdeployment.fleet.host_status import HostStatus
    from zkdeployment.fleet.status import FleetStatus

#: States by importance, for displays without room for all hosts.
_ORDER = (
    HostState.FAILED,
    HostState.DEPLOYING,
    HostState.BEHIND,
    HostState.ABSENT,
    HostState.UNKNOWN,
    HostState.CONVERGED,
    HostState.EXCLUDED,
)


def most_important_hosts(status: FleetStatus, room: int) -> tuple[tuple[HostStatus, ...], str]:
    """Return the first ``room`` hosts by importance, and a line with counts of the hosts left out by state.

    Hosts are sorted by state, then by name. Absent hosts without deployments come last.
    """
    ranked = sorted(
        status.hosts, key=lambda host: (not host.expected, _ORDER.index(host.state), host.name, host.id)
    )
    rest = Counter(host.state for host in ranked[room:])
    counts = ", ".join(f"{rest[state]} {state.value}" for state in _ORDER if rest[state])
    return tuple(ranked[:room]), f"and {counts}" if counts else ""


def status_changes(before: FleetStatus | None, after: FleetStatus) -> Iterator[str]:
    """Yield a line for each change between two statuses: stops, hosts by name, the rollout, the summary.

    Without ``before``, everything but the converged hosts counts as changed.
    """
    stops = () if before is None else before.stops
    yield from (str(stop) for stop in after.stops if stop not in stops)
    former = {} if before is None else {host.id: _describe(host) for host in before.hosts}
    for host in after.hosts:
        description = _describe(host)
        if before is None and host.state is HostState.CONVERGED:
            continue  # the summary counts converged hosts
        if former.get(host.id) != description:
            yield f"{host.name}: {description}"
    for host in () if before is None else before.hosts:
        if host.id not in {present.id for present in after.hosts}:
            yield f"{host.name}: gone"
    if after.rollout is not None and (before is None or before.rollout != after.rollout):
        yield after.rollout
    if before is None or before.summary != after.summary:
        yield after.summary


def _describe(host: HostStatus) -> str:
    match host.state:
        case HostState.FAILED:
            return f"failed: {host.error}"
        case HostState.DEPLOYING:
            done = "" if host.steps is None or host.steps == (0, 0) else f" {host.steps[0]}/{host.steps[1]}"
            return f"deploying{done} {host.step or ''}".rstrip()
        case HostState.CONVERGED | HostState.BEHIND:
            return f"{host.state.value} at {short(host.version)}" if host.version is not None else host.state.value
    return str(host.state.value)
