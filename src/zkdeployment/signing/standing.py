"""What a signature is made for: a publication that stands in ZooKeeper, or one that is to be written."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zkdeployment.model.cluster import Revision
    from zkdeployment.model.publication import Targets
    from zkdeployment.model.publishing.publication import Publication
    from zkdeployment.model.strategy import Strategy


@dataclass(frozen=True, slots=True)
class StandingPublication:
    """A publication, as it has to be in ZooKeeper; ``stamp`` is the version of the targets' node that names it.

    The other values are those of ``Statement`` and of ``Publication``.
    """

    revision: Revision
    sequence: int
    since: int
    stamp: int = 0
    targets: Targets = field(default_factory=dict)
    strategy: Strategy | None = None


def coming_publication(publication: Publication) -> StandingPublication:
    """Return a publication as it will most probably be written: other writers may raise its sequences."""
    last, sequence = publication.published, publication.sequence
    since = last.effective_since if publication.repeats and last is not None else sequence
    return StandingPublication(
        publication.revision, sequence, since, targets=publication.targets, strategy=publication.strategy
    )
