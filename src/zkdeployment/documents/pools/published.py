"""The pools in force: those of the published document."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.documents.pools.kinds import POOLS
from zkdeployment.documents.pools.values import PoolConfiguration

if TYPE_CHECKING:
    from zkdeployment.documents.published import PublishedDocuments


def pools_in_force(documents: PublishedDocuments) -> PoolConfiguration:
    """Return the pools and the limits of the published document; without one, no pools and the usual limits."""
    return documents.of(POOLS).get((), PoolConfiguration())
