"""What somebody who watches a fleet wants to see: the hosts that matter, and what has changed."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from zkdeployment.fleet.status import HostState
from zkdeployment.model.cluster import short

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zkdeployment.fleet.status import FleetStatus, HostStatus

#: What comes first where there is no room for all.
_ORDER = (
    HostState.FAILED,
    HostState.DEPLOYING,
    HostState.BEHIND,
    HostState.ABSENT,
    HostState.UNKNOWN,
    HostState.CONVERGED,
    HostState.EXCLUDED,
)


def foremost(status: FleetStatus, room: int) -> tuple[tuple[HostStatus, ...], str]:
    """Return the ``room`` hosts that matter most, by state and then by name, and how many of what is left out.

    An absent host that nothing is deployed to comes last.
    """
    ranked = sorted(
        status.hosts, key=lambda host: (not host.expected, _ORDER.index(host.state), host.name, host.id)
    )
    rest = Counter(host.state for host in ranked[room:])
    words = ", ".join(f"{rest[state]} {state.value}" for state in _ORDER if rest[state])
    return tuple(ranked[:room]), f"and {words}" if words else ""


def changes(before: FleetStatus | None, after: FleetStatus) -> Iterator[str]:
    """Say line by line what is different: stops, hosts by name, then the summary; all of it the first time."""
    stops = () if before is None else before.stops
    yield from (str(stop) for stop in after.stops if stop not in stops)
    former = {} if before is None else {host.id: _words(host) for host in before.hosts}
    for host in after.hosts:
        words = _words(host)
        if before is None and host.state is HostState.CONVERGED:
            continue  # it is in the summary
        if former.get(host.id) != words:
            yield f"{host.name}: {words}"
    for host in () if before is None else before.hosts:
        if host.id not in {one.id for one in after.hosts}:
            yield f"{host.name}: gone"
    if after.rollout is not None and (before is None or before.rollout != after.rollout):
        yield after.rollout
    if before is None or before.summary != after.summary:
        yield after.summary


def _words(host: HostStatus) -> str:
    match host.state:
        case HostState.FAILED:
            return f"failed: {host.error}"
        case HostState.DEPLOYING:
            done = "" if host.steps is None or host.steps == (0, 0) else f" {host.steps[0]}/{host.steps[1]}"
            return f"deploying{done} {host.step or ''}".rstrip()
        case HostState.CONVERGED | HostState.BEHIND:
            return f"{host.state.value} at {short(host.version)}" if host.version is not None else host.state.value
    return str(host.state.value)
