"""The heartbeat of following syncers: one node, written in each cycle."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from zkdeployment.adapters.zookeeper.client import paths
from zkdeployment.adapters.zookeeper.client.nodes import encode
from zkdeployment.adapters.zookeeper.client.transactions import Create, Set
from zkdeployment.errors import ConflictError
from zkdeployment.model.publishing.request import SyncerReport

if TYPE_CHECKING:
    from zkdeployment.adapters.zookeeper.client.nodes import Node
    from zkdeployment.adapters.zookeeper.client.session import Session

#: The largest number of characters of a message.
_LONGEST = 1000


def write_report(session: Session, by: str, message: str, interval: float, fetched: float | None) -> None:
    """Write the heartbeat of the syncer ``by``; of several syncers, the last one to write is shown.

    If this syncer has not ``fetched`` the repository yet, the recorded time of the last fetch stays.
    """
    session.ensure(paths.OURS)
    node = session.get(paths.SYNCER)
    if fetched is None and node is not None:
        fetched = _seconds(node)
    data = encode({"by": by, "said": message[:_LONGEST], "interval": interval, "fetched": fetched})
    with contextlib.suppress(ConflictError):  # another syncer was faster
        session.commit(Create(paths.SYNCER, data) if node is None else Set(paths.SYNCER, data))


def read_report(session: Session) -> SyncerReport | None:
    """Return the last heartbeat; ``None`` if no syncer ever followed a branch."""
    node = session.get(paths.SYNCER)
    return None if node is None else report_of(node)


def report_of(node: Node) -> SyncerReport:
    """Decode the node of the last heartbeat."""
    properties = node.properties
    interval = properties.get("interval")
    return SyncerReport(
        by=str(properties.get("by", "?")),
        last_message=str(properties.get("said", "")),
        interval=float(interval) if isinstance(interval, int | float) else 0.0,
        time=node.modified,
        fetched=_seconds(node),
    )


def _seconds(node: Node) -> float | None:
    fetched = node.properties.get("fetched")
    return float(fetched) if isinstance(fetched, int | float) else None
