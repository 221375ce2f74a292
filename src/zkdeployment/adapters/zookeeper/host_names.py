"""The names of registered hosts: each agent claims its host's name in the transaction that registers the host.

A claim is an ephemeral node below ``/zkdeployment/host-names``, named like the host, with the host's id. Agents so
find another host of the same name with a constant number of reads, however many hosts are registered.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.adapters.zookeeper.client import paths
from zkdeployment.adapters.zookeeper.client.nodes import encode
from zkdeployment.adapters.zookeeper.client.transactions import Create, Delete, Operation
from zkdeployment.errors import ConflictError, DuplicateError

if TYPE_CHECKING:
    from zkdeployment.adapters.zookeeper.client.nodes import Node
    from zkdeployment.adapters.zookeeper.client.session import Session
    from zkdeployment.model.host import Identity


def claiming(session: Session, identity: Identity) -> list[Operation]:
    """Return the operations that claim a host's name; none if this session has claimed it.

    Raises ``DuplicateError`` if another registered host has claimed it.
    """
    path = paths.host_name_path(identity.name)
    claim = session.get(path)
    creation = Create(path, encode({"host": identity.id}), ephemeral=True)
    if claim is None:
        return [creation]
    holder = _holder(claim)
    if holder != identity.id and _is_registered(session, holder, claim.owner):
        raise _duplicate(identity.name, holder, identity)
    is_own = holder == identity.id and claim.owner == session.id
    return [] if is_own else [Delete(path, claim.version), creation]


def releasing(session: Session, identity: Identity) -> list[Operation]:
    """Return the operations that release a host's name; none if this session has not claimed it."""
    path = paths.host_name_path(identity.name)
    claim = session.get(path)
    return [] if claim is None or claim.owner != session.id else [Delete(path, claim.version)]


def check_unique(session: Session, identity: Identity, *, all_hosts: bool) -> None:
    """Raise ``DuplicateError`` if an older registration shares a name or id with this host, which is registered.

    This check comes after the registration: of two hosts that register at the same time, the later one sees the
    earlier one. Hosts whose agents claim no names are examined only with ``all_hosts``, one by one. Raises
    ``ConflictError`` if this host's node does not exist.
    """
    path = f"{paths.HOSTS}/{identity.id}"
    own, hosts, names, named, claim = session.get_many(
        [
            path,
            paths.HOSTS,
            paths.HOST_NAMES,
            f"{paths.HOSTS}/{identity.name}",
            paths.host_name_path(identity.id),
        ]
    )
    if own is None or own.owner != session.id:
        raise ConflictError(f"{path} was removed right after it was created")
    if identity.name != identity.id and _is_older(named, own):
        raise _duplicate(identity.name, identity.name, identity)
    if claim is not None and _holder(claim) != identity.id and _is_older(claim, own):
        raise _duplicate(identity.id, _holder(claim), identity)
    if all_hosts and hosts is not None and names is not None and hosts.children > names.children:
        _check_all_hosts(session, identity, own)


def _check_all_hosts(session: Session, identity: Identity, own: Node) -> None:
    ids = [name for name in session.children(paths.HOSTS) or () if name != identity.id]
    nodes = session.get_many(f"{paths.HOSTS}/{name}" for name in ids)
    for other, node in zip(ids, nodes, strict=True):
        if node is not None and _is_older(node, own):
            shared = {other, node.properties.get("name")} & {identity.id, identity.name}
            if shared:
                raise _duplicate(str(shared.pop()), other, identity)


def _is_older(node: Node | None, own: Node) -> bool:
    """Whether a node is that of a running agent, created before this host's node."""
    return node is not None and bool(node.owner) and node.born < own.born


def _is_registered(session: Session, host_id: str, owner: int) -> bool:
    node = session.get(f"{paths.HOSTS}/{host_id}")
    return node is not None and node.owner == owner


def _holder(claim: Node) -> str:
    return str(claim.properties.get("host"))


def _duplicate(shared: str, other: str, identity: Identity) -> DuplicateError:
    return DuplicateError(
        f"two hosts are called {shared}: {other}, which is registered, and {identity.id}, this one; an id or name"
        " must mean one host"
    )
