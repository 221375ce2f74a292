"""Reads what explains a host from the service's memory, for the API and for the page of the host."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.fleet.explanations.host import HostSnapshot, find_identity
from zkdeployment.fleet.operator import find_on_hosts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zkdeployment.base.lock import Lock
    from zkdeployment.fleet.views.snapshot import FleetSnapshot
    from zkdeployment.service.dependencies import ServerAdapters


def read_host_snapshot(
    adapters: ServerAdapters, fleet: FleetSnapshot, locks: Sequence[Lock], host: str, now: float
) -> HostSnapshot:
    """Return the values that explain the host with this id or name; raises ``UnreachableError``.

    ``now`` is in seconds since the epoch.
    """
    identity, feed, operator = find_identity(fleet, host), adapters.feed, adapters.operator
    if identity is None:
        return HostSnapshot(fleet, locks)
    host_id = identity.id
    return HostSnapshot(
        fleet,
        locks,
        known=next(iter(feed.known_hosts([host_id])), None),
        withheld=feed.withheld(),
        left=feed.left(),
        records=feed.snapshot().reading.governing_records,
        output=feed.read(("output of", host_id), lambda _session: operator.fleet.failure_output(host_id)),
        services=feed.snapshot().reading.services,
        checks=feed.read(("findings of", host_id), lambda _session: find_on_hosts(operator, [host_id], now)),
    )
