"""Removes the records of hosts that are gone for good, with the record of the act in the same transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.agent.store.role_locks import requests_of
from zkdeployment.agent.store.service_locks import works_of
from zkdeployment.base.errors import RefusedError
from zkdeployment.base.features import installed
from zkdeployment.fleet.places import FleetPlaces
from zkdeployment.fleet.store.audit import recording
from zkdeployment.fleet.views.maintenance import check_departure, host_id_of
from zkdeployment.zookeeper import paths
from zkdeployment.zookeeper.transactions import Check, Delete, Operation, commit_afresh

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from zkdeployment.base.act import Act
    from zkdeployment.fleet.store.fleet_reader import ZooKeeperFleetReader
    from zkdeployment.zookeeper.session import Session


def forget_hosts(
    session: Session, fleet: ZooKeeperFleetReader, hosts: Sequence[str], act: Act, *, force: bool = False
) -> None:
    """Remove all records of hosts, given by ids or unambiguous names.

    Raises ``RefusedError`` if one of them is registered or unknown. Unless the act is forced, a host that is
    expected back from a reboot is refused, too, and one to which the tree deploys something that no other host
    runs. Then all records stay.
    """

    def forgetting() -> list[Operation]:
        published = session.get(paths.TARGETS)
        known = fleet.known_hosts()
        ids = [host_id_of(known, host) for host in hosts]
        removals = [operation for host_id in dict.fromkeys(ids) for operation in _removing(session, host_id)]
        if not force:
            check_departure(fleet.snapshot(), fleet.targets(), ids)
        is_current = [] if published is None else [Check(paths.TARGETS, published.version)]
        return [*removals, *is_current, recording(session, act)]

    session.ensure(paths.OURS)
    commit_afresh(session, forgetting, "forget the hosts")


def _removing(session: Session, host_id: str) -> Iterator[Operation]:
    """Yield the removals of a host's records, such as its inventory, its lease and its requests for locks."""
    known_path = f"{paths.INVENTORY}/{host_id}"
    rest = [paths.out_of_service_path(host_id), paths.maintenance_path(host_id), paths.reboot_path(host_id)]
    rest += [path for places in installed(FleetPlaces) for path in places.host_nodes(host_id)]
    registered, known, *left = session.get_many([f"{paths.HOSTS}/{host_id}", known_path, *rest])
    if registered is not None:
        raise RefusedError(f"{host_id} is registered: stop its agent first, if it is to be gone for good")
    also = [Delete(path) for path, node in zip(rest, left, strict=True) if node is not None]
    also += [Delete(request.path) for request in requests_of(session, host_id)]
    also += [Delete(f"{paths.BUSY}/{name}") for name in works_of(session, host_id)]
    if known is None and not also:
        raise RefusedError(
            f"nothing is known of a host with the id {host_id}; 'zkdeployment status' lists all hosts"
        )
    yield from [] if known is None else [Delete(known_path, known.version)]
    yield from also
