"""The time of ZooKeeper's servers, which judges where the clocks of hosts and operators may differ."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from zkdeployment.base.errors import ConflictError
from zkdeployment.zookeeper import paths
from zkdeployment.zookeeper.transactions import Delete

if TYPE_CHECKING:
    from zkdeployment.zookeeper.session import Session


def server_time(session: Session) -> float:
    """Return ZooKeeper's time, in seconds since the epoch; clocks of hosts and operators may differ from it."""
    path = session.enqueue(f"{paths.OURS}/time-", b"")
    node = session.get(path)
    with contextlib.suppress(ConflictError):
        session.commit(Delete(path))
    if node is None:
        raise ConflictError(f"{path} was removed right after it was created")
    return node.created
