"""The adapters with which the commands of operators and the service read the fleet and act on it.

Every act is recorded with its author, time and reason, in the transaction that carries it out.
"""

from __future__ import annotations

import contextlib
import itertools
from dataclasses import field
from typing import TYPE_CHECKING, Any, TypeVar, cast

from zkdeployment.base.features import installed
from zkdeployment.base.values import dataclass
from zkdeployment.fleet.places import FleetPlaces
from zkdeployment.fleet.store.audit import ZooKeeperActLog
from zkdeployment.fleet.store.cluster_control import (
    ZooKeeperClusterControl,
    ZooKeeperMaintenance,
    ZooKeeperRolloutControl,
)
from zkdeployment.fleet.store.contention import ZooKeeperLocks
from zkdeployment.fleet.store.fleet_reader import ZooKeeperFleetReader
from zkdeployment.publishing.store.live_tree import ZooKeeperLiveTree
from zkdeployment.zookeeper.session import Session, verb_session

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from zkdeployment.fleet.explanations.explanation import HostFinding
    from zkdeployment.fleet.explanations.host import HostSnapshot
    from zkdeployment.fleet.views.forecast import PredictionBasis
    from zkdeployment.zookeeper.servers import Servers

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorAdapters:
    """The adapters of operators' commands; ``made`` keeps those of features, which use the same ``session``."""

    fleet: ZooKeeperFleetReader
    tree: ZooKeeperLiveTree
    locks: ZooKeeperLocks
    rollouts: ZooKeeperRolloutControl
    cluster: ZooKeeperClusterControl
    maintenance: ZooKeeperMaintenance
    acts: ZooKeeperActLog
    session: Session
    made: dict[object, object] = field(default_factory=dict)

    def of(self, make: Callable[[Session], T]) -> T:
        """Return the one object that ``make`` returned for the session, such as the adapters of a feature."""
        if make not in self.made:
            self.made[make] = make(self.session)
        found: Any = self.made[make]
        return cast("T", found)

    def host_snapshot(self, host: str, now: float) -> HostSnapshot:
        """Read the values that explain the host with this id or name; ``now`` is in seconds since the epoch."""
        from zkdeployment.fleet.explanations.host import HostSnapshot  # noqa: PLC0415  as below
        from zkdeployment.fleet.views.services import withheld_for  # noqa: PLC0415
        from zkdeployment.publishing.section import section  # noqa: PLC0415

        locks, fleet = self.locks.locks(), self.fleet.snapshot()
        identity = fleet.find_identity(host)
        if identity is None:
            return HostSnapshot(fleet, locks)
        withheld = self.fleet.withheld()
        return HostSnapshot(
            fleet,
            locks,
            known=self.fleet.known_host(identity.id),
            withheld=withheld,
            left=self.fleet.left(),
            records=tuple(section().records(self.session)) if withheld_for(identity, withheld) else (),
            output=self.fleet.failure_output(identity.id),
            checks=find_on_hosts(self, [identity.id], now),
            services=self.fleet.services(fleet),
        )

    def prediction_basis(self) -> PredictionBasis:
        """Read the facts for the prediction of a publication."""
        from zkdeployment.fleet.views.forecast import PredictionBasis  # noqa: PLC0415  other commands start faster

        snapshot, known = self.fleet.snapshot(), self.fleet.known_hosts()
        published = self.fleet.published()
        live, strategy = self.tree.live_tree(), self.fleet.strategy()
        return PredictionBasis(
            snapshot.cluster,
            snapshot.hosts,
            known,
            live,
            strategy,
            self.fleet.documents(),
            published=published,
            unfinished=self.fleet.unfinished_gains(published.effective_since),
            left=self.fleet.left() if published.intents is not None else (),
            maintenance=snapshot.maintenance,
        )


@contextlib.contextmanager
def open_operator(servers: Servers) -> Iterator[OperatorAdapters]:
    """Connect to ZooKeeper and return the adapters of an operator; raises ``UnreachableError``."""
    with verb_session(servers) as session:
        yield operator_adapters(session)


def operator_adapters(session: Session) -> OperatorAdapters:
    """Return the adapters of an operator, which use ``session``."""
    fleet = ZooKeeperFleetReader(session)
    return OperatorAdapters(
        fleet=fleet,
        tree=ZooKeeperLiveTree(session),
        locks=ZooKeeperLocks(session),
        rollouts=ZooKeeperRolloutControl(session),
        cluster=ZooKeeperClusterControl(session),
        maintenance=ZooKeeperMaintenance(session, fleet),
        acts=ZooKeeperActLog(session),
        session=session,
    )


def find_on_hosts(
    operator: OperatorAdapters, hosts: Collection[str], now: float, path: str | None = None
) -> tuple[HostFinding, ...]:
    """Return the findings of all features on hosts (by id), or only those about the service at a path."""
    findings = (places.host_findings(operator, hosts, now, path) for places in installed(FleetPlaces))
    return tuple(itertools.chain.from_iterable(findings))
