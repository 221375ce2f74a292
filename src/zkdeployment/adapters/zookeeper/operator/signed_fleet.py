"""Reads everything of a publication that its signature covers, for a check by hand."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING
from urllib.parse import unquote

from zkdeployment.adapters.zookeeper.client import paths
from zkdeployment.adapters.zookeeper.publication.last_publication import decode_published
from zkdeployment.adapters.zookeeper.publication.left_services import read_left
from zkdeployment.adapters.zookeeper.publication.live_tree import read_live_tree
from zkdeployment.adapters.zookeeper.publication.strategies import read_strategy
from zkdeployment.errors import ConflictError, TreeError
from zkdeployment.model.cluster import Cluster
from zkdeployment.planning.signed_fleet import SignedFleet

if TYPE_CHECKING:
    from zkdeployment.adapters.zookeeper.client.nodes import Node
    from zkdeployment.adapters.zookeeper.client.session import Session

#: Nodes of which every publication and every import writes at least one.
_MARKS = (paths.HOSTS, paths.TARGETS, paths.SIGNED)


def read_signed_fleet(session: Session) -> SignedFleet:
    """Return the snapshot; raises ``ConflictError`` if a publication was written at the same time."""
    hosts, targets, signed = before = session.get_many(_MARKS)
    strategy, strategy_problem = None, None
    try:
        strategy = read_strategy(session)
    except TreeError as error:
        strategy_problem = str(error)
    left = None
    with contextlib.suppress(TreeError):
        left = read_left(session)
    fleet = SignedFleet(
        cluster=None if hosts is None else Cluster.from_properties(hosts.properties),
        published=decode_published(targets),
        tree=read_live_tree(session).tree,
        signed=None if signed is None else signed.data,
        buckets=_read_children(session, paths.SIGNED),
        targets=_read_children(session, paths.TARGETS),
        strategy=strategy,
        strategy_problem=strategy_problem,
        left=left,
    )
    if [*map(_changed, before)] != [*map(_changed, session.get_many(_MARKS))]:
        raise ConflictError("a publication was written while the fleet was read; verify again")
    return fleet


def _read_children(session: Session, path: str) -> dict[str, bytes]:
    """Return the data of all children of a node, by the names that they stand for."""
    names = session.children(path) or ()
    nodes = session.get_many(f"{path}/{name}" for name in names)
    return {unquote(name): node.data for name, node in zip(names, nodes, strict=True) if node is not None}


def _changed(node: Node | None) -> int | None:
    return None if node is None else node.changed
