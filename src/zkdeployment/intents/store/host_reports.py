"""The reports of hosts and services, for the status of intents, read with a limited number of requests."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from zkdeployment.base.host import Host
from zkdeployment.intents.rules.reality import PROVIDERS, FleetReports, fleet_reports
from zkdeployment.publishing.store.cluster import decode_published
from zkdeployment.publishing.store.history import read_results
from zkdeployment.publishing.store.hosts import decode
from zkdeployment.publishing.store.maintenance import read_maintenance
from zkdeployment.zookeeper import paths

if TYPE_CHECKING:
    from collections.abc import Collection

    from zkdeployment.zookeeper.nodes import Node
    from zkdeployment.zookeeper.session import Session

#: Requests for all hosts' nodes, inventories and providers.
_REQUESTS = 16


def read_reports(session: Session, services: Collection[str]) -> FleetReports:
    """Return the reports of all known hosts and of the providers of these services, without clusters."""
    directories = {f"{service}/{PROVIDERS}": service for service in sorted(services)}
    (targets,), (registered, known, *instances) = session.look(
        [paths.TARGETS], [paths.HOSTS, paths.INVENTORY, *directories]
    )
    host_paths = [f"{paths.HOSTS}/{name}" for name in registered or ()]
    inventory_paths = [f"{paths.INVENTORY}/{name}" for name in known or ()]
    provider_paths = {
        f"{directory}/{name}": (service, name)
        for (directory, service), names in zip(directories.items(), instances, strict=True)
        for name in names or ()
    }
    nodes = _read(session, [*host_paths, *inventory_paths, *provider_paths])
    providers: dict[str, dict[str, Any]] = {}
    for path, (service, name) in provider_paths.items():
        if path in nodes:
            providers.setdefault(service, {})[name] = nodes[path].properties
    return fleet_reports(
        [
            Host.from_properties(_name(path), nodes[path].properties, since=nodes[path].modified)
            for path in host_paths
            if path in nodes
        ],
        [decode(_name(path), nodes[path].data, software=False) for path in inventory_paths if path in nodes],
        read_results(session, decode_published(targets).effective_since),
        providers,
        read_maintenance(session, time.time()),
    )


def _read(session: Session, wanted: list[str]) -> dict[str, Node]:
    """Return the existing nodes by path."""
    found = zip(wanted, session.get_in(wanted, requests=_REQUESTS), strict=True)
    return {path: node for path, node in found if node is not None}


def _name(path: str) -> str:
    return path.rpartition("/")[2]
