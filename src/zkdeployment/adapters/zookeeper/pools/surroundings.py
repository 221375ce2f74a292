"""What pools depend on: their published document, and the hosts of the fleet that are there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.adapters.zookeeper.client import paths
from zkdeployment.adapters.zookeeper.publication.documents import read_published_documents
from zkdeployment.documents.pools.kinds import POOLS
from zkdeployment.documents.pools.values import PoolConfiguration

if TYPE_CHECKING:
    from zkdeployment.adapters.zookeeper.client.session import Session


def read_configuration(session: Session) -> PoolConfiguration:
    """Return the published pools; without a document there are none."""
    published = read_published_documents(session).of(POOLS)
    return next(iter(published.values()), PoolConfiguration())


def registered_hosts(session: Session) -> frozenset[str]:
    """Return the ids of the hosts that are registered now."""
    return frozenset(session.children(paths.HOSTS) or ())
