"""The fleet as ZooKeeper shows it at one moment: what ``status`` and the monitor judge."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zkdeployment.model.cluster import Cluster, Revision
    from zkdeployment.model.host import Host
    from zkdeployment.model.inventory import KnownHost
    from zkdeployment.model.publication import PublicationRequest
    from zkdeployment.model.stop import Stop
    from zkdeployment.rollout.running import Running


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Cluster, hosts and stops, both sorted by host id; ``published`` is the revision wholly published, if any.

    ``cluster`` is ``None`` where there is no ``/hosts``, ``changed`` when that was last written (seconds since the
    epoch). ``absent`` are hosts that are known but not registered,
    ``targets`` the names that are published as targets.

    Where a strategy is published, ``strategy`` is its name, ``rollout`` the rollout of that publication, if it was
    begun, and ``coordinator`` who leads, if anybody does.
    """

    cluster: Cluster | None = None
    published: Revision | None = None
    changed: float | None = None
    hosts: tuple[Host, ...] = ()
    stops: tuple[Stop, ...] = ()
    request: PublicationRequest | None = None
    absent: tuple[KnownHost, ...] = ()
    targets: frozenset[str] = frozenset()
    strategy: str | None = None
    rollout: Running | None = None
    coordinator: str | None = None

    @property
    def governed(self) -> bool:
        """Whether hosts take up the cluster version by a strategy; not one that was set by hand."""
        return self.strategy is not None and self.cluster is not None and self.cluster.version == self.published
