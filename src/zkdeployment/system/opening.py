"""Reads the operating systems of hosts: for the monitor, for operators, and from the service's memory."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from zkdeployment.fleet.store.fleet_reader import ZooKeeperFleetReader
from zkdeployment.system.alarms import system_alarms
from zkdeployment.system.views import SystemsStatus, has_systems, systems_status

if TYPE_CHECKING:
    from zkdeployment.fleet.feed.feed import ZooKeeperFeed
    from zkdeployment.fleet.views.fleet_health import JudgeAlarms
    from zkdeployment.zookeeper.session import Session


def read_systems(fleet: ZooKeeperFleetReader) -> SystemsStatus:
    """Read the operating systems of all hosts; raises ``UnreachableError``.

    The reports of hosts are read only if the published tree has a system node.
    """
    targets = fleet.targets()
    if not has_systems(targets):
        return SystemsStatus()
    known = {host.identity.id: host for host in fleet.known_hosts()}
    return systems_status(fleet.snapshot().identities, known, targets)


def systems_of(feed: ZooKeeperFeed) -> SystemsStatus:
    """Return the operating systems of all hosts as ``read_systems`` does, from the service's memory."""
    targets, identities = feed.targets(), feed.snapshot().fleet.identities
    if not has_systems(targets):
        return SystemsStatus()
    known = feed.known_hosts([identity.id for identity in identities])
    return systems_status(identities, {host.identity.id: host for host in known}, targets)


def alarms(session: Session, _now: float) -> JudgeAlarms:
    """Read the operating systems, and return the function that judges them for the monitor of the fleet."""
    return partial(system_alarms, read_systems(ZooKeeperFleetReader(session)))
