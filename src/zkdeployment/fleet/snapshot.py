"""The fleet as ZooKeeper shows it at one moment: what ``status`` and the monitor judge."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zkdeployment.model.cluster import Cluster, Revision
    from zkdeployment.model.host import Host
    from zkdeployment.model.inventory import KnownHost
    from zkdeployment.model.publication import PublicationRequest
    from zkdeployment.model.stop import Stop
    from zkdeployment.model.strategy import Facts
    from zkdeployment.rollout.state import RolloutState


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Cluster, hosts and stops, both sorted by host id; ``published`` is the revision wholly published, if any.

    ``cluster`` is ``None`` where there is no ``/hosts``, ``changed`` when that was last written (seconds since the
    epoch). ``absent`` are hosts that are known but not registered,
    ``targets`` the names that are published as targets. ``out_of_service`` maps the ids of hosts that gave the
    lock of their role away before they were through to that role.

    Where a strategy is published, ``strategy`` is its name, ``rollout`` the rollout of that publication, if it was
    begun, and ``coordinator`` who leads, if anybody does. ``governed``: hosts take up the cluster version by it,
    as it was not set by hand.
    """

    cluster: Cluster | None = None
    published: Revision | None = None
    changed: float | None = None
    hosts: tuple[Host, ...] = ()
    stops: tuple[Stop, ...] = ()
    request: PublicationRequest | None = None
    absent: tuple[KnownHost, ...] = ()
    targets: frozenset[str] = frozenset()
    out_of_service: Mapping[str, str] = field(default_factory=dict)
    strategy: str | None = None
    governed: bool = False
    rollout: RolloutState | None = None
    coordinator: str | None = None

    @property
    def facts(self) -> Mapping[str, Facts]:
        """The facts of all known hosts, by id."""
        known = {host.identity.id: host.facts for host in self.absent}
        return known | {host.identity.id: host.facts for host in self.hosts}
