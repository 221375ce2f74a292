"""The publications that a syncer signs: the publication that stands in ZooKeeper, or the next one to be written.

A publication stands until the next publication replaces it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zkdeployment.model.cluster import Revision
    from zkdeployment.model.publication import Targets
    from zkdeployment.model.publishing.left_service import LeftService
    from zkdeployment.model.publishing.publication import Publication
    from zkdeployment.model.strategy import Strategy


@dataclass(frozen=True, slots=True)
class StandingPublication:
    """A publication as ZooKeeper has to hold it.

    ``stamp`` is the data version of the node ``/zkdeployment/targets`` that names the publication.

    The other values are those of ``Statement`` and of ``Publication``.
    """

    revision: Revision
    sequence: int
    since: int
    stamp: int = 0
    targets: Targets = field(default_factory=dict)
    strategy: Strategy | None = None
    left: tuple[LeftService, ...] = ()


def coming_publication(publication: Publication) -> StandingPublication:
    """Return a publication as it will most probably be written: other writers may raise its sequences."""
    last, sequence = publication.published, publication.sequence
    since = last.effective_since if publication.repeats and last is not None else sequence
    return StandingPublication(
        publication.revision,
        sequence,
        since,
        targets=publication.targets,
        strategy=publication.strategy,
        left=publication.left,
    )
