"""Notices to following syncers that the branch may have changed: they watch the node and sync at once."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from zkdeployment.adapters.zookeeper.client import paths
from zkdeployment.adapters.zookeeper.client.nodes import encode
from zkdeployment.adapters.zookeeper.client.transactions import Create, Set
from zkdeployment.adapters.zookeeper.publication.reports import read_report
from zkdeployment.errors import ConflictError

if TYPE_CHECKING:
    from zkdeployment.adapters.zookeeper.client.session import Session
    from zkdeployment.model.publishing.request import SyncerReport


def give_notice(session: Session, by: str) -> SyncerReport | None:
    """Wake the syncers; return the last heartbeat of a syncer, ``None`` if there never was one."""
    data = encode({"by": by})
    session.ensure(paths.OURS)
    with contextlib.suppress(ConflictError):  # another process gave notice at the same time
        session.commit(
            Create(paths.NOTICE, data) if session.get(paths.NOTICE) is None else Set(paths.NOTICE, data)
        )
    return read_report(session)
