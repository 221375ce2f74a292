"""The order between services as agents use it: they join it and record their deployments."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

from zkdeployment.base.errors import ConflictError
from zkdeployment.base.publication import OrderEntry
from zkdeployment.publishing.store.last_publication import decode_published
from zkdeployment.publishing.store.service_order import decode_entry, encode_entry
from zkdeployment.zookeeper import paths
from zkdeployment.zookeeper.transactions import Create, Set

if TYPE_CHECKING:
    from collections.abc import Collection

    from zkdeployment.base.publication import Published
    from zkdeployment.zookeeper.session import Session

#: Attempts at a write while others write to the same node.
_ATTEMPTS = 50


def read_entries(session: Session, sequence: int, services: Collection[str]) -> dict[str, OrderEntry]:
    """Return the entries of these services in a publication, by path; services that no host awaits have none.

    Raises ``ConflictError`` if a later publication changed something for hosts, so that entries may be missing.
    """
    names = sorted(services)
    *nodes, targets = session.get_many([*(paths.awaited_path(sequence, name) for name in names), paths.TARGETS])
    check_current(decode_published(targets), sequence)  # read last: entries are removed after it has changed
    return {name: decode_entry(node)[0] for name, node in zip(names, nodes, strict=True) if node is not None}


def check_current(published: Published, sequence: int) -> None:
    """Raise ``ConflictError`` if the order of a publication is not that of the last publication any more."""
    if published.effective_since > sequence:
        raise ConflictError(
            f"publication {sequence} is superseded by {published.effective_since}: the host plans again"
        )


def join(session: Session, sequence: int, service: str, host_id: str) -> None:
    """Add a host to those that are expected to deploy a service, unless no host waits for the service any more."""
    path = paths.awaited_path(sequence, service)
    for _ in range(_ATTEMPTS):
        node = session.get(path)
        entry, is_complete = (OrderEntry(), True) if node is None else decode_entry(node)
        if node is None or is_complete or host_id in entry.hosts:
            return
        try:
            session.commit(Set(path, encode_entry(entry.with_host(host_id)), node.version))
        except ConflictError:
            continue
        return
    raise ConflictError(
        f"cannot add this host to {path}: other hosts changed it during each of {_ATTEMPTS} attempts"
    )


def finish(session: Session, sequence: int, service: str, host_id: str) -> None:
    """Record that a host has deployed a service; the last expected host wakes those that wait for the service."""
    path = paths.awaited_path(sequence, service)
    mine = f"{path}/{quote(host_id, safe='')}"
    for _ in range(_ATTEMPTS):
        node, recorded = session.get_many([path, mine])
        if node is None:
            return
        try:
            if recorded is None:
                session.commit(Create(mine))
            else:
                entry, is_complete = decode_entry(node)
                if not is_complete and node.children >= len(entry.hosts):
                    session.commit(Set(path, encode_entry(entry, is_complete=True), node.version))
                return
        except ConflictError:
            continue
    raise ConflictError(f"cannot write {mine}: other hosts changed {path} during each of {_ATTEMPTS} attempts")
