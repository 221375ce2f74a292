"""Builds the readers and the follower of a host's lease, and removes the files of former leases."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from zkdeployment.agent.adapters import HostLeases
from zkdeployment.agent.rules.lease import first_record
from zkdeployment.pools.host.lease_follower import LeaseFollower, TrustedLeases, verified_lease_file
from zkdeployment.pools.host.ssh_access import AuthorizedKeys
from zkdeployment.pools.host.tenant_traces import HostTraces
from zkdeployment.pools.store.leases import ZooKeeperSignedLeases
from zkdeployment.publishing.keys.publisher_keys import LEASES, PublisherKeysFile

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from zkdeployment.agent.adapters import AgentAdapters
    from zkdeployment.agent.files.run_directory import RunDirectory
    from zkdeployment.agent.reporting.host_reporting import HostReporting
    from zkdeployment.agent.rules.lease import Lease, LeaseRecord
    from zkdeployment.zookeeper.session import Session


def lease_follower(
    adapters: AgentAdapters, reporting: HostReporting, root: Path, idle_role: str, packages: str
) -> LeaseFollower:
    """Give the host the role of the lease that it followed last, and return the follower of its lease.

    Without a lease, the host has its ``idle_role``. ``packages`` is the name of its package manager.
    """
    host, run = reporting.host, adapters.run
    record = first_record(run.lease.load(), idle_role, has_version=host.version is not None)
    reporting.local.host = replace(
        host,
        identity=replace(host.identity, role=record.lease.role),
        idle_role=idle_role,
        leased=record.lease.reached if record.is_reached else None,
        completed=host.completed if record.is_reached else None,
    )
    traces = HostTraces(root, run.path, verifies=packages != "none")
    return LeaseFollower(adapters, reporting, AuthorizedKeys(root), traces, idle_role=idle_role)


def trusted_leases(publishers: Path, session: Session, root: Path) -> Callable[..., Lease | None]:
    """Return the reader of leases signed by ``publishers``, for the host with this root."""
    return TrustedLeases(
        ZooKeeperSignedLeases(session),
        PublisherKeysFile(
            publishers, LEASES, "the lease of this host is not signed by one of the publishers of this host"
        ),
        verified_lease_file(root / "var" / "lib" / "zkdeployment" / "verified-lease"),
    ).lease


def end_leases(root: Path, run: RunDirectory, record: LeaseRecord, role: str | None) -> None:
    """Remove the files of leases from a host that has ``role`` now and can no longer be leased."""
    access = AuthorizedKeys(root)
    traces = HostTraces(root, run.path, verifies=False)
    traces.restore_access()
    access.admit(())
    traces.baseline.clear()
    if record.lease.keys:
        access.end_connections()
    run.end_leases(role)


#: The functions with which host pools lease a host.
HOST_LEASES = HostLeases(follow=lease_follower, trusted=trusted_leases, end=end_leases)
