"""Decides whether a wait of ``status --wait`` for a revision is over."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from zkdeployment.fleet.host_status import HostState, all_have, is_revision, select_hosts
from zkdeployment.model.cluster import ClusterState

if TYPE_CHECKING:
    from collections.abc import Collection

    from zkdeployment.fleet.status import FleetStatus


class WaitVerdict(Enum):
    """The state of a wait for a revision."""

    REACHED = "reached"
    STOPPED = "stopped"
    WAITING = "waiting"


def wait_verdict(
    status: FleetStatus, revision: str | int | None = None, hosts: Collection[str] = ()
) -> WaitVerdict:
    """Return whether the fleet, or these ``hosts`` (ids or names), reached a revision (``None``: the wanted one).

    Revisions are compared as text; a commit id may be shortened to seven or more digits. The fleet has reached the
    wanted revision only when the rollout of that revision is completed. A named host that is excluded never gets a
    revision: that counts as stopped.
    """
    awaited = select_hosts(status.hosts, hosts, status.wanted) if hosts else status.hosts
    state = None if status.cluster is None else status.cluster.state
    stopped = (
        status.missed
        or state is ClusterState.STOPPED
        or any(host.expected and host.state is HostState.EXCLUDED for host in awaited)
    )
    if revision is None:
        reached = state is ClusterState.RUNNING and all_have(awaited)
    else:
        reached = all_have(awaited, str(revision))
    pending = (
        not hosts and not status.completed and (revision is None or is_revision(status.wanted, str(revision)))
    )
    if reached and not pending:
        return WaitVerdict.REACHED
    return WaitVerdict.STOPPED if stopped else WaitVerdict.WAITING
