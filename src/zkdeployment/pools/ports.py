"""The ports of host pools: their records, and the mechanisms that make, remove and lend nodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from zkdeployment.base.machine.clock import Clock
    from zkdeployment.fleet.store.audit import ZooKeeperActLog
    from zkdeployment.pools.documents import NodePool
    from zkdeployment.pools.rules.node import PoolNode
    from zkdeployment.pools.rules.results import MechanismOutcome, PlaybookRun
    from zkdeployment.pools.rules.usage import SessionUse
    from zkdeployment.pools.store.store import ZooKeeperPools
    from zkdeployment.service.users.user_store import ZooKeeperUserReader


class PoolMechanism(Protocol):
    """Makes and removes the nodes of a kind of pool, and writes the keys of tenants to them.

    Any thread may call the methods, each for other nodes that the worker has claimed; a method returns when its
    work is done. The methods raise ``ProgramError`` if all of the work failed, or if this process has to end.
    """

    def reuse_values(self, pool: NodePool) -> Mapping[str, int | str] | None:
        """Return the values that unused nodes must have for a pool; ``None`` if its nodes are made anew."""

    def provision(self, pool: NodePool, nodes: Sequence[PoolNode]) -> MechanismOutcome:
        """Make nodes; return them as ready, or in the state after a failure of the node.

        The method is called again for the same nodes if a worker dies during the call.
        """

    def deprovision(self, pool: NodePool, nodes: Sequence[PoolNode]) -> MechanismOutcome:
        """Remove nodes, or reset them for further use; return them as unused, done or failed."""

    def probe(self, node: PoolNode) -> None:
        """Raise ``ProgramError`` if a ready node could not be lent now; takes seconds at most."""

    def write_keys(self, node: PoolNode, keys: Sequence[str]) -> tuple[str, ...]:
        """Make a node admit a tenant's keys instead of any earlier ones; return the newly admitted keys."""

    def remove_keys(self, node: PoolNode) -> None:
        """Remove the tenant's keys from a node and end the tenant's connections; other keys stay."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolAdapters:
    """The adapters with which verbs and the service see pools and act on them.

    ``present_hosts`` returns the ids of the registered hosts. ``wait`` returns after a number of seconds, or as
    soon as nodes or sessions have changed. ``runs`` returns the recorded runs of playbooks for a node, by its id.
    ``uses`` returns the use of pools by all active sessions, and by those that ended within a year. ``is_ending``
    returns whether this process was asked to end, so that waiting acts give up.
    """

    store: ZooKeeperPools
    users: ZooKeeperUserReader
    acts: ZooKeeperActLog
    present_hosts: Callable[[], Collection[str]]
    wait: Callable[[float], object]
    clock: Clock
    runs: Callable[[int], Sequence[PlaybookRun]]
    uses: Callable[[], Sequence[SessionUse]]
    is_ending: Callable[[], bool] = lambda: False
