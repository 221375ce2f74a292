"""The names of registered hosts: each agent claims its host's name in the transaction that registers the host.

A claim is an ephemeral node below ``/zkdeployment/host-names``, named like the host, with the host's id. So
agents find another host of the same name with a constant number of reads, however many hosts are registered.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from zkdeployment.adapters.zookeeper.client import paths
from zkdeployment.adapters.zookeeper.client.nodes import encode
from zkdeployment.adapters.zookeeper.client.transactions import Create, Delete, Operation
from zkdeployment.errors import ConflictError, DuplicateError
from zkdeployment.log import get_logger

if TYPE_CHECKING:
    from zkdeployment.adapters.zookeeper.client.nodes import Node
    from zkdeployment.adapters.zookeeper.client.session import Session
    from zkdeployment.model.host import Identity


@dataclass(frozen=True, slots=True)
class Rival:
    """Another registered host that has this host's id or name: the value that both of them ``shared``.

    ``path`` is the rival's ephemeral node, and ``owner`` the session that created it.
    """

    shared: str
    host_id: str
    path: str
    owner: int


def read_claim(session: Session, identity: Identity) -> Node | None:
    """Return the claim of a host's name; ``None`` if no host has claimed it."""
    return session.get(paths.host_name_path(identity.name))


def claiming_rival(session: Session, identity: Identity, claim: Node | None) -> Rival | None:
    """Return the other registered host that has made the ``claim`` of a host's name, if there is one."""
    holder = None if claim is None else _holder(claim)
    if claim is None or holder is None or holder == identity.id:
        return None
    path = f"{paths.HOSTS}/{holder}"
    node = session.get(path)
    is_registered = node is not None and node.owner == claim.owner
    return Rival(identity.name, holder, path, claim.owner) if is_registered else None


def claiming(session: Session, identity: Identity, claim: Node | None) -> list[Operation]:
    """Return the operations that claim a host's name; none if this session has claimed it.

    They replace the ``claim`` of a host that is not registered.
    """
    path = paths.host_name_path(identity.name)
    creation = Create(path, encode({"host": identity.id}), ephemeral=True)
    if claim is None:
        return [creation]
    is_own = _holder(claim) == identity.id and claim.owner == session.id
    return [] if is_own else [Delete(path, claim.version), creation]


def releasing(session: Session, identity: Identity) -> list[Operation]:
    """Return the operations that release a host's name; none if this session has not claimed it."""
    path = paths.host_name_path(identity.name)
    claim = session.get(path)
    return [] if claim is None or claim.owner != session.id else [Delete(path, claim.version)]


def older_rival(session: Session, identity: Identity, *, all_hosts: bool) -> Rival | None:
    """Return an older registration that shares a name or an id with this registered host, if there is one.

    The check comes after the registration: of two hosts that register at the same time, the later one sees the
    earlier one. Hosts whose agents claim no names are examined only with ``all_hosts``, one by one. Raises
    ``ConflictError`` if this host's node does not exist.
    """
    path = f"{paths.HOSTS}/{identity.id}"
    host_of_name, claim_of_id = f"{paths.HOSTS}/{identity.name}", paths.host_name_path(identity.id)
    own, hosts, names, named, claim = session.get_many(
        [path, paths.HOSTS, paths.HOST_NAMES, host_of_name, claim_of_id]
    )
    if own is None or own.owner != session.id:
        raise ConflictError(f"{path} was removed right after it was created")
    if identity.name != identity.id and named is not None and _is_older(named, own):
        return Rival(identity.name, identity.name, host_of_name, named.owner)
    if claim is not None and _holder(claim) != identity.id and _is_older(claim, own):
        return Rival(identity.id, _holder(claim), claim_of_id, claim.owner)
    if all_hosts and hosts is not None and names is not None and hosts.children > names.children:
        return _rival_among_all_hosts(session, identity, own)
    return None


def _rival_among_all_hosts(session: Session, identity: Identity, own: Node) -> Rival | None:
    ids = [name for name in session.children(paths.HOSTS) or () if name != identity.id]
    host_paths = [f"{paths.HOSTS}/{name}" for name in ids]
    for other, path, node in zip(ids, host_paths, session.get_many(host_paths), strict=True):
        if node is not None and _is_older(node, own):
            shared = {other, node.properties.get("name")} & {identity.id, identity.name}
            if shared:
                return Rival(str(shared.pop()), other, path, node.owner)
    return None


def await_end(session: Session, rival: Rival, identity: Identity, deadline: float) -> None:
    """Wait until a rival's session has ended, for example because its agent was killed; ``deadline`` is monotonic.

    Raises ``DuplicateError`` at the deadline.
    """
    began, changed = time.monotonic(), threading.Event()
    if began < deadline:
        get_logger().warning(
            "name-is-taken",
            name=rival.shared,
            host=rival.host_id,
            action="wait until its session ends, in case its agent was killed",
            seconds=round(deadline - began),
        )
    while True:
        changed.clear()
        if time.monotonic() < deadline:
            session.exists(rival.path, lambda _: changed.set())
        node = session.get(rival.path)
        if node is None or node.owner != rival.owner:
            return
        if not changed.wait(max(0.0, deadline - time.monotonic())):
            raise DuplicateError(
                f"two hosts are called {rival.shared}: {rival.host_id}, which is registered, and {identity.id},"
                " this one; an id or name must mean one host"
            )


def _is_older(node: Node, own: Node) -> bool:
    """Whether a node is that of a running agent, created before this host's node."""
    return bool(node.owner) and node.born < own.born


def _holder(claim: Node) -> str:
    return str(claim.properties.get("host"))
