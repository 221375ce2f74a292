"""The node of a host's result, written below the publication; ``history`` reads these nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.adapters.zookeeper.client import paths
from zkdeployment.adapters.zookeeper.client.nodes import encode
from zkdeployment.adapters.zookeeper.client.transactions import Create, Set, TransactionError
from zkdeployment.adapters.zookeeper.publication.last_publication import decode_published

if TYPE_CHECKING:
    from zkdeployment.adapters.zookeeper.client.session import Session
    from zkdeployment.model.cluster import Revision
    from zkdeployment.model.history import HostResult


def write_result(session: Session, revision: Revision, result: HostResult) -> None:
    """Record a host's result in the publication of ``revision``; a version that was set by hand has no record."""
    targets = session.get(paths.TARGETS)
    last = decode_published(targets)
    if last.revision != revision or not last.sequence:
        return
    data = encode(result.to_json())
    mine = f"{paths.history_path(last.sequence)}/{result.host_id}"
    try:
        session.commit(Create(mine, data))
    except TransactionError:
        node = session.get(mine)  # ``None`` if the publication has no record
        if node is not None:
            session.commit(Set(mine, data, node.version))
