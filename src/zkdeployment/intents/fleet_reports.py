"""Combines what hosts and services wrote to ZooKeeper into the reports that the status of intents is based on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.intents.reality import (
    FleetReports,
    RecordedDeployment,
    ReportedHost,
    ReportedHosts,
    ServiceProvider,
)
from zkdeployment.model.deployment import Deployment
from zkdeployment.model.inventory import absent_hosts
from zkdeployment.model.stop import services_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from zkdeployment.model.history import HostResult
    from zkdeployment.model.host import Host
    from zkdeployment.model.inventory import KnownHost
    from zkdeployment.model.tree import Properties

#: The node below a service whose children are the service's providers.
PROVIDERS = "providers"


def fleet_reports(
    hosts: Sequence[Host],
    known: Iterable[KnownHost],
    results: Mapping[str, HostResult],
    providers: Mapping[str, Mapping[str, Properties]],
) -> FleetReports:
    """Return the reports of the fleet.

    ``hosts`` are the registered hosts, ``known`` the inventories of all known hosts. ``results`` are those of the
    last publication that concerned hosts, by host id. ``providers`` are the registered instances of each service:
    path of the service, name, properties.
    """
    inventories = {host.identity.id: host for host in known}
    absent = absent_hosts(inventories.values(), hosts)
    return FleetReports(
        ReportedHosts(
            [
                *(_present(host, inventories.get(host.identity.id), results) for host in hosts),
                *(_absent(host, results.get(host.identity.id)) for host in absent),
            ]
        ),
        tuple(_providers(providers)),
    )


def _present(host: Host, inventory: KnownHost | None, results: Mapping[str, HostResult]) -> ReportedHost:
    result = None if host.deploying is not None else results.get(host.identity.id)
    failure, completed = host.failed, max(host.sequence or 0, host.completed or 0)
    if failure is None:
        failure = next((one.failed for one in host.lacking.values() if one.failed is not None), None)
    if failure is None and result is not None and result.failed is not None:
        # The agent was restarted after the failure; its new node does not have it.
        failure = result.failed if result.failed.sequence > completed else None
    return ReportedHost(
        host.identity,
        deployments=None if inventory is None else _deployments(inventory),
        completed=completed or None,
        failure=failure,
        step=host.step or (None if failure is None else failure.step),
        error=host.error or (None if failure is None or result is None else result.error),
        address=host.address,
        facts=_facts(host),
        lacking=services_of(host.lacking),
    )


def _absent(host: KnownHost, result: HostResult | None) -> ReportedHost:
    failure = None if result is None else result.failed
    if failure is not None and failure.sequence <= (host.completed or 0):
        failure = None
    return ReportedHost(
        host.identity,
        is_present=False,
        deployments=_deployments(host),
        completed=host.completed,
        failure=failure,
        step=None if failure is None else failure.step,
        error=None if failure is None or result is None else result.error,
        address=host.address,
        facts=_facts(host),
    )


def _deployments(host: KnownHost) -> dict[Deployment, RecordedDeployment] | None:
    """Return the markers of an inventory; ``None`` for an inventory that cannot be read."""
    if host.inventory is None:
        return None
    return {
        marker.deployment: RecordedDeployment(marker.package, marker.version, marker.sequence)
        for marker in host.inventory.markers
    }


def _facts(host: Host | KnownHost) -> dict[str, object]:
    facts: dict[str, object] = {
        "id": host.identity.id,
        "name": host.identity.name,
        "role": host.identity.role,
        "address": host.address,
        "rack": host.rack,
        "tags": list(host.tags),
        "labels": dict(host.labels),
    }
    return {name: value for name, value in facts.items() if value}


def _providers(providers: Mapping[str, Mapping[str, Properties]]) -> Iterator[ServiceProvider]:
    for service, instances in sorted(providers.items()):
        for name, properties in sorted(instances.items()):
            host = properties.get("host")
            yield ServiceProvider(
                f"{service}/{PROVIDERS}/{name}",
                service,
                host if isinstance(host, str) and host else None,
                _deployment(properties.get("deployment")),
                properties,
            )


def _deployment(value: object) -> Deployment | None:
    """Return the deployment in a provider's property, written as ``PATH N``; ``None`` for anything else."""
    path, _, number = value.rpartition(" ") if isinstance(value, str) else ("", "", "")
    if not path.startswith("/") or not number.isascii() or not number.isdecimal():
        return None
    return Deployment(path, int(number))
