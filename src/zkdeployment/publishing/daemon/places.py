"""The places of syncers, which features fill."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.base.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from zkdeployment.publishing.daemon.keeper import SectionKeeper
    from zkdeployment.publishing.section import ApprovalVerifier
    from zkdeployment.publishing.store.store import ZooKeeperPublications


@dataclass(frozen=True)
class SyncerPlaces:
    """The contribution of a feature to syncers."""

    #: Makes the keeper of the section of governance; ``section_keeper`` describes the arguments.
    keeper: Callable[[ZooKeeperPublications, Path | None, ApprovalVerifier | None], SectionKeeper]
