"""The publication that stands in ZooKeeper, as it has to be there, for a signature of its own."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zkdeployment.model.cluster import Revision
    from zkdeployment.model.publication import Targets
    from zkdeployment.model.strategy import Strategy


@dataclass(frozen=True, slots=True)
class StandingPublication:
    """A publication that was written before; ``stamp`` is the version of the targets' node that names it.

    The other values are those of ``Statement`` and of ``Publication``.
    """

    revision: Revision
    sequence: int
    since: int
    stamp: int = 0
    targets: Targets = field(default_factory=dict)
    strategy: Strategy | None = None
