"""A notice to following syncers that there may be something new: whoever watches the node looks at once."""

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
    from zkdeployment.model.publication import SyncerReport


def give_notice(session: Session, by: str) -> SyncerReport | None:
    """Wake the syncers; return the last sign of life of one, ``None`` if there never was any."""
    data = encode({"by": by})
    session.ensure(paths.OURS)
    with contextlib.suppress(ConflictError):  # somebody else gave notice at the same moment
        session.commit(
            Create(paths.NOTICE, data) if session.get(paths.NOTICE) is None else Set(paths.NOTICE, data)
        )
    return read_report(session)
