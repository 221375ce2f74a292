"""Ports of operators: reading the fleet and the live tree, and acting on locks, rollouts and the cluster version.

Every act is recorded with who did it, when and why, in the transaction that carries it out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from zkdeployment.adapters.zookeeper.operator.audit import ZooKeeperActLog
    from zkdeployment.adapters.zookeeper.operator.intent_reader import ZooKeeperIntents
    from zkdeployment.documents.published import PublishedDocuments
    from zkdeployment.fleet.snapshot import FleetSnapshot
    from zkdeployment.intents.reality import FleetReports
    from zkdeployment.model.act import Act
    from zkdeployment.model.cluster import Revision
    from zkdeployment.model.inventory import KnownHost
    from zkdeployment.model.lock import Lock
    from zkdeployment.model.publication import Published, Targets
    from zkdeployment.model.publishing.history import PublicationRecord, Refusal
    from zkdeployment.model.publishing.request import GuardOverrides, SyncerReport
    from zkdeployment.model.publishing.tree_change import LiveTree, TreeChange
    from zkdeployment.model.stop import FailureOutput
    from zkdeployment.model.strategy import Strategy
    from zkdeployment.model.tree import Properties
    from zkdeployment.planning.prediction import PredictionBasis
    from zkdeployment.planning.targets.withheld import ServiceTarget
    from zkdeployment.rollout.state import Directive, RolloutState
    from zkdeployment.tree.links import Lookup


class FleetReader(Protocol):
    """The state of the fleet and its past."""

    def snapshot(self) -> FleetSnapshot:
        """Read the state of the fleet: registered and absent hosts, stops, requests, and the rollout."""

    def watch(self, changed: Callable[[], None]) -> None:
        """Call ``changed`` (which must not block) whenever the cluster version may have changed."""

    def published(self) -> Published:
        """Return the record of the last publication."""

    def known_hosts(self) -> tuple[KnownHost, ...]:
        """Return the inventories of all known hosts, absent ones included."""

    def known_host(self, host_id: str) -> KnownHost | None:
        """Return the inventory of a host; ``None`` if the host never published one."""

    def reports(self, services: Collection[str]) -> FleetReports:
        """Return what all known hosts and the providers of these services report, without any clusters.

        The number of requests does not grow with the fleet.
        """

    def forget(self, host: str) -> KnownHost:
        """Remove the inventory of a host, given by id or unambiguous name, and return that inventory.

        Raises ``RefusedError`` if the host is registered or unknown.
        """

    def history(self, last: int | None = None) -> tuple[PublicationRecord, ...]:
        """Return the records of the ``last`` publications (``None``: all that are kept), newest first."""

    def acts(self) -> tuple[Act, ...]:
        """Return the recorded acts of operators, oldest first."""

    def targets(self) -> Targets:
        """Return the targets of the last publication, by name."""

    def syncer_report(self) -> SyncerReport | None:
        """Return the last report of a syncer that follows the branch; ``None`` if there never was one."""

    def unfinished_gains(self, sequence: int) -> Mapping[str, frozenset[str]]:
        """Read which hosts were to gain a service in a publication and have not got it, by the service's path."""

    def failure_output(self, host_id: str) -> FailureOutput | None:
        """Return the end of the output of the script with which a host failed last, if it is kept."""

    def refusals(self) -> tuple[Refusal, ...]:
        """Return the recorded refusals of tips, oldest first: at most one of each revision."""

    def strategy(self) -> Strategy | None:
        """Return the published strategy, if there is one; raises ``TreeError`` if it cannot be read."""

    def documents(self) -> PublishedDocuments:
        """Return the published documents."""


class LiveTreeStore(Protocol):
    """The live tree: the nodes that are in ZooKeeper now, whatever was published."""

    def live_tree(self) -> LiveTree:
        """Return the whole tree without ephemeral nodes."""

    def subtree(self, path: str) -> dict[str, Properties] | None:
        """Return a node and all nodes below it, ephemeral ones included; ``None`` if there is no such node.

        The empty path is the whole tree without the reserved nodes.
        """

    def providers(self, services: Collection[str]) -> Mapping[str, Mapping[str, Properties]]:
        """Return the registered instances of services: for each path of a service, name to properties.

        Services without a node for instances are left out.
        """

    def lookup(self) -> Lookup:
        """Return the function with which ``tree.links`` follows links."""

    def is_signed(self) -> bool:
        """Whether the last publication is signed."""

    def import_tree(
        self,
        change: TreeChange,
        *,
        roles: Collection[str],
        versions: Mapping[str, int],
        withheld: Collection[ServiceTarget] | None = None,
    ) -> None:
        """Apply ``change`` to the tree without publishing a version, and create the lock nodes of ``roles``.

        ``withheld`` are the services that are not deployed after the change because of the state of their intents
        (``None``: those that were not deployed before).
        The compiled targets become invalid; with an empty change they stay valid. Raises ``ConflictError`` if a
        node changed since it was read at ``versions`` (path → version).
        """


class LockStore(Protocol):
    """All locks of the fleet."""

    def locks(self) -> tuple[Lock, ...]:
        """Return every lock that is held or waited for, or whose last holder left a record of unfinished work."""

    def release(self, node: str, act: Act) -> None:
        """Remove the node that holds a lock, and record the act. Raises ``ConflictError`` if the node is gone."""


class RolloutControl(Protocol):
    """Rollouts, and the directives of operators to the coordinator."""

    def rollout(self, rollout_id: str | None = None) -> RolloutState | None:
        """Return a rollout by its id, or the current one; ``None`` if there is none."""

    def attempts(self, sequence: int) -> tuple[RolloutState, ...]:
        """Return all rollouts of the publication with this sequence, in order."""

    def coordinator(self) -> str | None:
        """Return the identity of the leading coordinator; ``None`` if no coordinator runs."""

    def direct(self, directive: Directive, act: Act, group: str | None = None) -> RolloutState:
        """Record a directive for the coordinator and return the rollout; ``group`` is the group to promote.

        Raises ``RefusedError`` if the rollout does not accept the directive now.
        """


class ClusterControl(Protocol):
    """The cluster version as operators set it.

    ``RefusedError``: the state of the cluster does not allow the act. ``ConflictError``: other writers interfered,
    try again.
    """

    def stop(self, act: Act) -> None:
        """Stop the fleet: no host starts a step until the fleet is resumed.

        If the fleet is stopped already, the act is recorded as a further stop. Raises ``RefusedError`` if nothing
        was ever published.
        """

    def hold(self, act: Act) -> None:
        """Hold all hosts until the next publication.

        Raises ``RefusedError`` if the cluster is stopped (a hold would end the stop), if a publication is under
        way (it would end the hold), and if nothing was ever published.
        """

    def resume(self, act: Act) -> Revision:
        """End a stop or a hold: set the published revision again, forget all stops, and return the revision.

        Hosts that failed then try again. Raises ``RefusedError`` if the cluster is neither stopped nor held, or if
        no revision is completely published.
        """

    def resume_latest(self, act: Act, *, timeout: float, overrides: GuardOverrides | None = None) -> Revision:
        """Ask the syncer to publish the tip of the branch, and return the revision when it is published.

        The request is valid for ``timeout`` seconds, and only while the fleet is in its present state. If the call
        ends early, for whatever reason, it withdraws the request. Raises ``WaitTimeoutError`` if no syncer
        published in time, and ``ZkdeploymentError`` with the syncer's message if it could not publish.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorAdapters:
    """The adapters that operators' commands depend on."""

    fleet: FleetReader
    tree: LiveTreeStore
    locks: LockStore
    rollouts: RolloutControl
    cluster: ClusterControl
    intents: ZooKeeperIntents
    acts: ZooKeeperActLog

    def prediction_basis(self) -> PredictionBasis:
        """Read the facts for the prediction of a publication."""
        from zkdeployment.planning.prediction import PredictionBasis  # noqa: PLC0415  other commands start faster

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
            left=self.intents.left() if published.intents is not None else (),
        )
