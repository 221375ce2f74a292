"""What commands and the service read of the fleet, and the acts of operators."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from zkdeployment.fleet.snapshot import Snapshot
    from zkdeployment.model.act import Act
    from zkdeployment.model.cluster import Revision
    from zkdeployment.model.history import PublicationRecord
    from zkdeployment.model.inventory import KnownHost
    from zkdeployment.model.lock import Lock
    from zkdeployment.model.publication import GuardOverrides, LiveTree, SyncerReport, TreeChange
    from zkdeployment.model.strategy import Strategy
    from zkdeployment.model.tree import Properties
    from zkdeployment.rollout.state import Directive, RolloutState
    from zkdeployment.tree.links import Lookup


class FleetReader(Protocol):
    """The state of the fleet and its past."""

    def snapshot(self) -> Snapshot:
        """Return the state of the fleet at one moment."""

    def watch(self, changed: Callable[[], None]) -> None:
        """Call ``changed`` (which must not block) when the cluster version may have changed."""

    def known_hosts(self) -> tuple[KnownHost, ...]:
        """Return the inventories of all known hosts, absent ones included."""

    def forget(self, host: str) -> KnownHost:
        """Remove the inventory of a host (id or name); ``RefusedError`` if it is registered or unknown."""

    def history(self, last: int | None = None) -> tuple[PublicationRecord, ...]:
        """Return the records of the ``last`` publications (``None``: all that are kept), newest first."""

    def acts(self) -> tuple[Act, ...]:
        """Return the recorded acts of operators."""

    def syncer_report(self) -> SyncerReport | None:
        """Return the last report of a syncer that follows the branch; ``None`` if there never was one."""

    def strategy(self) -> Strategy | None:
        """Return the published strategy, if there is one; raises ``TreeError`` if it cannot be read."""


class LiveTreeStore(Protocol):
    """The tree as it stands in ZooKeeper."""

    def live_tree(self) -> LiveTree:
        """Return the whole tree without ephemeral nodes."""

    def subtree(self, path: str) -> dict[str, Properties] | None:
        """Return a node and all nodes below it, ephemeral ones included; ``None`` if there is no such node.

        The empty path is the whole tree without the reserved nodes.
        """

    def lookup(self) -> Lookup:
        """Return the function with which ``tree.links`` follows links."""

    def import_tree(self, change: TreeChange, *, roles: Collection[str], versions: Mapping[str, int]) -> None:
        """Change the tree by hand, without a new version, and create the lock nodes of ``roles``.

        Raises ``ConflictError`` if a node changed since it was read at ``versions``.
        """


class LockStore(Protocol):
    """All locks of the fleet."""

    def locks(self) -> tuple[Lock, ...]:
        """Return every lock that is held, waited for, or was left by a host that died under it."""

    def release(self, node: str, act: Act) -> None:
        """Remove the node that holds a lock and record the act; ``ConflictError`` if the node is gone."""


class RolloutControl(Protocol):
    """Rollouts and what operators ask of them."""

    def rollout(self, rollout_id: str | None = None) -> RolloutState | None:
        """Return a rollout by its id, or the current one; ``None`` if there is none."""

    def attempts(self, sequence: int) -> tuple[RolloutState, ...]:
        """Return all rollouts of the publication with this sequence, in order."""

    def coordinator(self) -> str | None:
        """Return who leads rollouts; ``None`` if no coordinator runs."""

    def direct(self, directive: Directive, act: Act, group: str | None = None) -> RolloutState:
        """Ask the coordinator for something; ``group`` is the one to promote. Raises ``RefusedError``."""


class ClusterControl(Protocol):
    """The cluster version as operators set it. Each act is recorded with who, when and why."""

    def stop(self, act: Act) -> None:
        """Stop the fleet: hosts start nothing until it is resumed."""

    def hold(self, act: Act) -> None:
        """Hold all hosts until the next publication."""

    def resume(self, act: Act) -> Revision:
        """End a stop or a hold at the published revision and return that; raises ``RefusedError``."""

    def resume_latest(self, act: Act, *, timeout: float, overrides: GuardOverrides | None = None) -> Revision:
        """Ask the syncer to publish the tip of the branch and return its revision.

        Raises ``WaitTimeoutError`` if no syncer published within ``timeout`` seconds.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorAdapters:
    """The adapters of whatever reads the fleet or acts on it for an operator."""

    fleet: FleetReader
    tree: LiveTreeStore
    locks: LockStore
    rollouts: RolloutControl
    cluster: ClusterControl
