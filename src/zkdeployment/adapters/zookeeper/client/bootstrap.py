"""The nodes that every client relies on, created by the first client."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.adapters.zookeeper.client import paths
from zkdeployment.adapters.zookeeper.client.nodes import encode
from zkdeployment.adapters.zookeeper.client.transactions import Create, TransactionError
from zkdeployment.model.cluster import INITIAL

if TYPE_CHECKING:
    from zkdeployment.adapters.zookeeper.client.session import Session


def make_skeleton(session: Session) -> None:
    """Create the missing nodes; ``/hosts`` starts at version ``initial``."""
    nodes = session.get_many(paths.SKELETON)
    missing = [Create(path, _data(path)) for path, node in zip(paths.SKELETON, nodes, strict=True) if node is None]
    if not missing:
        return
    try:
        session.commit(*missing)
    except TransactionError:  # another client creates them at the same time
        for creation in missing:
            session.ensure(creation.path, creation.data)


def _data(path: str) -> bytes:
    return encode({"version": INITIAL}) if path == paths.HOSTS else b""
