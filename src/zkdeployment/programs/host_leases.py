"""Builds the follower of a host's lease, and removes the files of former leases."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from zkdeployment.agent.rules.lease import first_record
from zkdeployment.pools.host.lease_follower import LeaseFollower
from zkdeployment.pools.host.ssh_access import AuthorizedKeys
from zkdeployment.pools.host.tenant_traces import HostTraces

if TYPE_CHECKING:
    from pathlib import Path

    from zkdeployment.agent.adapters import AgentAdapters
    from zkdeployment.agent.files.run_directory import RunDirectory
    from zkdeployment.agent.reporting.host_reporting import HostReporting
    from zkdeployment.agent.rules.lease import LeaseRecord
    from zkdeployment.base.host import Host
    from zkdeployment.config.settings import Settings


def with_lease(run: RunDirectory, host: Host, idle_role: str) -> Host:
    """Return the host with the role of the lease that it followed last, or without one with ``idle_role``."""
    record = first_record(run.read_lease(), idle_role, has_version=host.version is not None)
    return replace(
        host,
        identity=replace(host.identity, role=record.lease.role),
        idle_role=idle_role,
        leased=record.lease.reached if record.is_reached else None,
        completed=host.completed if record.is_reached else None,
    )


def lease_follower(
    settings: Settings, adapters: AgentAdapters, reporting: HostReporting, idle_role: str
) -> LeaseFollower:
    """Return the follower of the lease of a host, which has ``idle_role`` without a lease."""
    traces = HostTraces(settings.root, settings.require_run_directory(), verifies=settings.packages != "none")
    return LeaseFollower(adapters, reporting, AuthorizedKeys(settings.root), traces, idle_role=idle_role)


def end_leases(root: Path, run: RunDirectory, record: LeaseRecord, role: str | None) -> None:
    """Remove the files of leases from a host that has ``role`` now and can no longer be leased."""
    access = AuthorizedKeys(root)
    traces = HostTraces(root, run.path, verifies=False)
    traces.restore_access()
    access.admit(())
    traces.write_baseline(None)
    if record.lease.keys:
        access.end_connections()
    run.end_leases(role)
