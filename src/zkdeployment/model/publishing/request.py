"""Requests for a publication, the options of a syncer's run, and syncers' reports."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from zkdeployment.model.cluster import Revision
    from zkdeployment.model.publishing.history import ForcedBy

#: The default age in seconds after which a request is no longer served.
AGE_LIMIT = 300.0


@dataclass(frozen=True)
class SyncerReport:
    """The last report of a syncer that follows the repository; ``time`` is in seconds since the epoch.

    ``interval`` is the number of seconds until its next cycle. ``fetched`` is when it last read the repository.
    """

    by: str
    last_message: str
    interval: float
    time: float
    fetched: float | None = None


@dataclass(frozen=True)
class GuardOverrides:
    """The guards that an operator overrides for one publication.

    They are against a rewind, against a mass removal, and against packages that hosts could not install.
    """

    rewind: bool = False
    mass_removal: bool = False
    package_problems: bool = False


@dataclass(frozen=True)
class RequestState:
    """The state of the fleet that a request refers to: the cluster version and the recorded stops.

    ``stops`` is the data version of the parent node of the stops, which changes with each stop and each resume.
    """

    version: Revision | Literal[False] | None
    stops: int


@dataclass(frozen=True)
class PublicationRequest:
    """An operator's request to publish the branch's tip now, as with ``sync --force``.

    ``id`` distinguishes requests. ``error`` is the syncer's answer if the publication failed. The request is
    served only in ``state`` (``None``: the node does not name one), and for ``age_limit`` seconds after it was
    ``written`` by ZooKeeper's clock, in seconds since the epoch.
    """

    id: str
    by: str
    reason: str
    time: float
    overrides: GuardOverrides = GuardOverrides()
    error: str | None = None
    state: RequestState | None = None
    age_limit: float = AGE_LIMIT
    written: float = field(default=0.0, compare=False)

    def is_expired(self, now: float) -> bool:
        """Whether the request is too old to be served at ``now``."""
        return now - self.written > self.age_limit


@dataclass(frozen=True)
class SyncOptions:
    """The options of one run of the syncer.

    ``force`` publishes whatever the fleet is doing, ``prune`` deletes managed top-level nodes without a file,
    ``overrides`` are for guards that hold even with ``force``. ``whole`` reads the whole live tree, which forced
    and pruning runs always do. ``forced`` records who forces the publication and why. ``request`` is the
    operator's request that the run serves.
    """

    force: bool = False
    prune: bool = False
    overrides: GuardOverrides = GuardOverrides()
    whole: bool = False
    forced: ForcedBy | None = None
    request: PublicationRequest | None = None

    @property
    def reads_whole_tree(self) -> bool:
        """Whether the last published text is not enough."""
        return self.whole or self.force or self.prune
