"""The node with the buckets of check instances that the leading coordinator could not write, and the reasons."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from zkdeployment.adapters.zookeeper.client import paths
from zkdeployment.adapters.zookeeper.client.nodes import encode
from zkdeployment.adapters.zookeeper.client.transactions import Set

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zkdeployment.adapters.zookeeper.client.nodes import Node
    from zkdeployment.adapters.zookeeper.client.session import Session

#: Buckets that are recorded, and characters of each reason.
_MOST = 100
_LONGEST = 300


def record_unwritten(session: Session, reasons: Mapping[str, str]) -> None:
    """Record the reasons for which buckets were not written, by bucket; raises ``UnreachableError``."""
    node = session.get(paths.CHECKS_UNWRITTEN)
    data = encode({bucket: reason[:_LONGEST] for bucket, reason in islice(sorted(reasons.items()), _MOST)})
    if node is None and reasons:
        session.ensure(paths.CHECKS_UNWRITTEN, data)
    elif node is not None and node.data != data:
        session.commit(Set(paths.CHECKS_UNWRITTEN, data))


def read_unwritten(session: Session) -> Mapping[str, str]:
    """Return the recorded reasons by bucket."""
    return unwritten_in(session.get(paths.CHECKS_UNWRITTEN))


def unwritten_in(node: Node | None) -> Mapping[str, str]:
    """Return the reasons in the node by bucket; other values are left out."""
    found = {} if node is None else node.properties
    return {bucket: reason[:_LONGEST] for bucket, reason in found.items() if isinstance(reason, str)}
