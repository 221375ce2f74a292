"""Decides which stage of a lease a host has reached, from snapshots of the lease, the host and the cluster."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from zkdeployment.base.cluster import ClusterState

if TYPE_CHECKING:
    from zkdeployment.agent.rules.lease import Lease
    from zkdeployment.base.cluster import Cluster
    from zkdeployment.base.host import Host


class LeaseStage(Enum):
    """The stages of a lease; a worker waits for the last stage, up to a limit."""

    REACHED = "reached"
    ABSENT = "the host is not registered"
    WAITING = "waiting"
    HALTED = "the fleet is stopped or held"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class LeaseProgress:
    """The stage of a lease, and a text for people with the obstacle or the reason of a failure."""

    stage: LeaseStage
    reason: str = ""


@dataclass(frozen=True, slots=True)
class LeaseObservation:
    """A host that is registered, its lease, and the cluster, at one moment.

    ``has_acted`` is whether the host's node was written after the lease; otherwise an error in it may be older.
    """

    lease: Lease | None
    host: Host | None
    cluster: Cluster | None
    has_acted: bool


def lease_progress(seen: LeaseObservation, lease: Lease, *, needs_version: bool) -> LeaseProgress:
    """Return the progress of a host with a ``lease``.

    With ``needs_version``, the lease is reached only if the host is also at the cluster version, without an error.
    """
    host = seen.host
    if seen.lease is None or seen.lease.number != lease.number:
        found = "no lease" if seen.lease is None else f"number {seen.lease.number}"
        reason = f"another program changed the lease of the host: expected number {lease.number}, found {found}"
        return LeaseProgress(LeaseStage.FAILED, reason)
    if host is None:
        return LeaseProgress(LeaseStage.ABSENT, "the host is not registered: its agent does not run")
    if not host.is_leasable:
        role = host.identity.role or "no role"
        reason = f"the host cannot be leased: expected role = lease:IDLE in its configuration, found {role}"
        return LeaseProgress(LeaseStage.FAILED, reason)
    is_reached = host.leased == lease.reached
    if is_reached and (not needs_version or (_is_current(seen, host) and host.error is None)):
        return LeaseProgress(LeaseStage.REACHED)
    if host.error is not None and (seen.has_acted or host.lease_failed == lease.number):
        return LeaseProgress(LeaseStage.FAILED, host.error)
    if seen.cluster is None or seen.cluster.state is not ClusterState.RUNNING:
        state = "stopped" if seen.cluster is None else seen.cluster.state.value
        return LeaseProgress(LeaseStage.HALTED, f"the cluster is {state}")
    return LeaseProgress(
        LeaseStage.WAITING, f"the host is at: {host.step}" if host.step else "the host has not begun"
    )


def _is_current(seen: LeaseObservation, host: Host) -> bool:
    return seen.cluster is not None and host.has(seen.cluster.revision)
