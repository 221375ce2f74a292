"""The snapshot of the fleet on which ``status``, ``why``, the locks and the monitor base their results."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zkdeployment.fleet.daemon_failures import DaemonFailure
    from zkdeployment.model.cluster import Cluster, Revision
    from zkdeployment.model.host import Facts, Host, Identity
    from zkdeployment.model.inventory import KnownHost
    from zkdeployment.model.publishing.history import Refusal
    from zkdeployment.model.publishing.request import PublicationRequest
    from zkdeployment.model.stop import GroupStop, Stop
    from zkdeployment.rollout.state import RolloutState


@dataclass(frozen=True, slots=True)
class FleetSnapshot:
    """The fleet as ZooKeeper had it at one moment.

    ``cluster`` is ``None`` without the node ``/hosts``; ``changed`` is when that node was last written, in seconds
    since the epoch. ``published`` is the last revision that was published completely. ``since`` is the sequence of
    the last publication that changed anything for hosts; later ones changed only documents. ``hosts`` and
    ``stops`` are sorted by host id. ``absent`` hosts are known but not registered. ``targets`` are the names of
    the published targets. ``out_of_service`` maps the id of each host that released the lock of its role before it
    finished to that role.

    ``refusal`` is about the tip of the branch, if the syncer refuses to publish it. ``failures`` are the daemons
    whose cycles fail unexpectedly. ``group_stops`` are the stops of deployment intent groups, sorted by group.

    If a strategy is published, ``strategy`` is its name, ``rollout`` the rollout of the present publication once
    begun, and ``coordinator`` the leading coordinator. ``governed`` means that hosts deploy the cluster version in
    the order of the strategy: the version was not set by hand.
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
    since: int = 0
    refusal: Refusal | None = None
    failures: tuple[DaemonFailure, ...] = ()
    group_stops: tuple[GroupStop, ...] = ()

    @property
    def identities(self) -> tuple[Identity, ...]:
        """The identities of all registered and absent hosts."""
        return (*(host.identity for host in self.hosts), *(host.identity for host in self.absent))

    @property
    def facts(self) -> Mapping[str, Facts]:
        """The facts of all registered and absent hosts, by host id."""
        known = {host.identity.id: host.facts for host in self.absent}
        return known | {host.identity.id: host.facts for host in self.hosts}
