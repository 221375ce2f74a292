"""The adapters of operators and of the service that have more than one implementation.

Every act is recorded with its author, time and reason, in the transaction that carries it out.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import Callable

    from zkdeployment.base.act import Act
    from zkdeployment.base.cluster import Revision
    from zkdeployment.fleet.store.audit import ZooKeeperActLog
    from zkdeployment.fleet.store.contention import ZooKeeperLocks
    from zkdeployment.fleet.store.fleet_reader import ZooKeeperFleetReader
    from zkdeployment.fleet.store.rollout_control import ZooKeeperRolloutControl
    from zkdeployment.fleet.views.forecast import PredictionBasis
    from zkdeployment.publishing.records import GuardOverrides
    from zkdeployment.publishing.store.live_tree import ZooKeeperLiveTree
    from zkdeployment.zookeeper.session import Session

T = TypeVar("T")


class ClusterControl(Protocol):
    """The cluster version as operators set it.

    ``RefusedError``: the state of the cluster does not allow the act. ``ConflictError``: other writers interfered,
    try again.
    """

    def stop(self, act: Act) -> None:
        """Stop the fleet: no host starts a step until the fleet is resumed.

        If the fleet is already stopped, the act is recorded as a further stop. Raises ``RefusedError`` before the
        first publication.
        """

    def hold(self, act: Act) -> None:
        """Hold all hosts until the next publication.

        Raises ``RefusedError`` if the cluster is stopped (a hold would end the stop), during a publication (which
        would end the hold), and before the first publication.
        """

    def resume(self, act: Act) -> Revision:
        """End a stop or a hold: set the published revision again, forget all stops, and return the revision.

        Hosts that failed then try again. Raises ``RefusedError`` if the cluster is neither stopped nor held, or if
        no revision is completely published.
        """

    def resume_group(self, group: str, act: Act) -> None:
        """End the stop of a deployment intent group: hosts that lack its steps run them.

        Raises ``RefusedError`` if the group is not stopped.
        """

    def resume_latest(self, act: Act, *, timeout: float, overrides: GuardOverrides | None = None) -> Revision:
        """Ask the syncer to publish the tip of the branch, and return the revision when it is published.

        The request is valid for ``timeout`` seconds, and only while the fleet is in its present state. If the call
        ends early, for any reason, it withdraws the request. Raises ``WaitTimeoutError`` if no syncer published in
        time, and ``ZkdeploymentError`` with the syncer's message if it could not publish.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorAdapters:
    """The adapters of operators' commands; ``made`` keeps those of features, which use the same ``session``."""

    fleet: ZooKeeperFleetReader
    tree: ZooKeeperLiveTree
    locks: ZooKeeperLocks
    rollouts: ZooKeeperRolloutControl
    cluster: ClusterControl
    acts: ZooKeeperActLog
    session: Session
    made: dict[object, object] = field(default_factory=dict)

    def of(self, make: Callable[[Session], T]) -> T:
        """Return the one object that ``make`` returned for the session, such as the adapters of a feature."""
        if make not in self.made:
            self.made[make] = make(self.session)
        found: Any = self.made[make]
        return cast("T", found)

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
        )
