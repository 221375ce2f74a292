"""The pools in force: those of the published document."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.documents.pools.kinds import POOLS
from zkdeployment.documents.pools.values import PoolConfiguration
from zkdeployment.errors import TreeError

if TYPE_CHECKING:
    from zkdeployment.documents.published import PublishedDocuments


def pools_in_force(documents: PublishedDocuments) -> PoolConfiguration:
    """Return the pools and the limits of the published document; without one, no pools and the usual limits.

    Raises ``TreeError`` for a document that this version cannot read: that does not mean that there are no pools.
    """
    found = documents.of(POOLS).get(())
    if found is None and (POOLS.name, ()) in documents.contents:
        raise TreeError(
            "the published document of pools has a form that this version does not know; expected"
            f" {POOLS.schema} as 'zkdeployment lint' accepts it: upgrade this host, or correct the document"
        )
    return PoolConfiguration() if found is None else found
