"""The ports of host pools: what is stored of them, and how nodes are made, removed and lent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from zkdeployment.adapters.zookeeper.operator.audit import ZooKeeperActLog
    from zkdeployment.adapters.zookeeper.users.reader import ZooKeeperUserReader
    from zkdeployment.documents.pools.values import AnsibleMechanism, NodePool, Playbook, PoolConfiguration
    from zkdeployment.pools.lease import Lease
    from zkdeployment.pools.lease_progress import LeaseObservation
    from zkdeployment.pools.node import PoolNode
    from zkdeployment.pools.playbook_results import MechanismOutcome
    from zkdeployment.pools.runs.playbook_run import PlaybookRun
    from zkdeployment.pools.snapshot import PoolChange, PoolHistory, PoolSnapshot
    from zkdeployment.pools.tenant_session import TenantSession
    from zkdeployment.pools.work import PoolSources
    from zkdeployment.ports.process import Clock


class PoolStore(Protocol):
    """Nodes and sessions. All methods may be called from any thread; they raise ``UnreachableError``."""

    def configuration(self) -> PoolConfiguration:
        """Return the pools of the document that is published at present; none without a document."""

    def read(self) -> PoolSnapshot:
        """Return all nodes that are not done and all active sessions."""

    def node(self, number: int) -> PoolNode | None:
        """Return a node, which may be done; ``None`` if there is none."""

    def session(self, number: int) -> TenantSession | None:
        """Return a session, which may have ended; ``None`` if there is none."""

    def take_ids(self, count: int) -> Sequence[int]:
        """Return ids that no node and no session has or will have; those that are not used are lost."""

    def commit(self, change: PoolChange, read: PoolSnapshot) -> None:
        """Write a change of what was read.

        Raises ``ConflictError`` if a node, a session or a record of filling in the change, a session of the same
        tenant, or the claim of a node has changed since; nothing is written then. Claiming a node changes it: a
        process that has lost its claim to another one cannot write the node any more.
        """

    def wait_for_change(self, timeout: float) -> bool:
        """Wait up to ``timeout`` seconds for a change of nodes or sessions; return whether there was one."""

    def announce(self, worker: str) -> None:
        """List a worker among those that run, for as long as this process is connected; does nothing if it is.

        No other process has the name.
        """

    def history(self, since: float) -> PoolHistory:
        """Return the sessions that ended and the nodes that were done at ``since`` or later."""

    def prune(self, before: float) -> int:
        """Remove the sessions that ended and the nodes that were done before a time; return how many.

        What was written before that time for hosts and pools that are gone is removed, too: the leases of hosts
        that are neither registered nor nodes, and the records of filling of pools that are not in the document and
        have no nodes.
        """


class PoolSourcesReader(Protocol):
    """What pools depend on. Only one thread may read it; watches wake the worker after each change."""

    def read(self) -> PoolSources:
        """Return the configuration, the tenants and the registered hosts; raises ``UnreachableError``.

        From now on the worker is also woken when nodes, sessions or claims change.
        """


class TenantKeys(Protocol):
    """The keys of tenants on nodes. All methods may be called from any thread; they raise ``ProgramError``."""

    def write(self, address: str, keys: Sequence[str]) -> tuple[str, ...]:
        """Make a node admit a tenant's keys instead of those of any earlier tenant.

        Return the keys that are new there; a key that others have put on the node is not.
        """

    def probe(self, address: str) -> None:
        """Log in to a node, and raise ``ProgramError`` if that fails."""

    def remove(self, address: str, keys: Sequence[str]) -> None:
        """Take all keys of tenants off a node and end the tenant's connections; other keys stay.

        The ``keys`` are removed wherever they are, other keys of tenants from their place in the file.
        """


class PoolMechanism(Protocol):
    """How nodes of a kind of pool are made and removed, and how they get the keys of tenants.

    The methods may be called from any thread, each for other nodes; they take as long as the work takes. They
    raise ``ProgramError`` if all of it failed, or if this process is to end. The worker has claimed the nodes.
    """

    def reuse_values(self, pool: NodePool) -> Mapping[str, int | str] | None:
        """Return the values that unused nodes must have for a pool; ``None`` if its nodes are made anew."""

    def provision(self, pool: NodePool, nodes: Sequence[PoolNode]) -> MechanismOutcome:
        """Make nodes; return them as ready, or as they are after a failure of their own.

        It is called again for the same nodes when a worker died in the meantime.
        """

    def deprovision(self, pool: NodePool, nodes: Sequence[PoolNode]) -> MechanismOutcome:
        """Remove nodes, or reset them for further use; return them as unused, done or failed."""

    def probe(self, node: PoolNode) -> None:
        """Raise ``ProgramError`` if a ready node could not be lent now; takes seconds at most."""

    def write_keys(self, node: PoolNode, keys: Sequence[str]) -> tuple[str, ...]:
        """Make a node admit a tenant's keys instead of any earlier ones; return the keys that are new there."""

    def remove_keys(self, node: PoolNode) -> None:
        """Take the tenant's keys off a node and end the tenant's connections; other keys stay."""


class LeaseStore(Protocol):
    """The leases of hosts. All methods may be called from any thread; they raise ``UnreachableError``."""

    def give(self, host_id: str, role: str | None, keys: Sequence[str]) -> Lease:
        """Give a host a role (``None``: it keeps its own) and keys, with the next number, and return the lease.

        A lease that has both already stays as it is, unless the host failed to follow it: the next number makes
        the host try again. Where leases are signed, one without a valid signature counts
        as none. Raises ``ProgramError`` if a host without a lease is to keep its role, ``TreeError`` if the
        present lease is malformed.
        """

    def observe(self, host_id: str) -> LeaseObservation:
        """Return what is known about a host and its lease now; raises ``TreeError`` if the lease is malformed."""

    def wait(self, host_ids: Sequence[str], timeout: float) -> None:
        """Wait up to ``timeout`` seconds for a change of one of these hosts."""


class PlaybookRunner(Protocol):
    """Ansible. The methods may be called from any thread."""

    def render(self, value: Any, values: Mapping[str, Any]) -> Any:
        """Return a value with all texts in it rendered as templates; raises ``ProgramError`` for invalid ones."""

    def run(
        self,
        mechanism: AnsibleMechanism,
        playbook: Playbook,
        values: Mapping[str, Any],
        nodes: Sequence[Mapping[str, Any]],
    ) -> object:
        """Run a playbook for nodes, given as ``duffy_in``, and return the last value of its fact ``duffy_out``.

        ``values`` are those of the pool, for the templates in the playbook's variables. Raises ``ProgramError`` if
        the playbook fails, exceeds its time limit, or does not set the fact.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolAdapters:
    """The adapters with which verbs and the service see pools and act on them.

    ``present_hosts`` returns the ids of the registered hosts. ``wait`` returns after a number of seconds, or
    as soon as nodes or sessions have changed. ``runs`` returns the recorded runs of playbooks for a node, by its
    id. ``is_ending`` returns whether this process is asked to end: what waits gives up then.
    """

    store: PoolStore
    users: ZooKeeperUserReader
    acts: ZooKeeperActLog
    present_hosts: Callable[[], Collection[str]]
    wait: Callable[[float], object]
    clock: Clock
    runs: Callable[[int], Sequence[PlaybookRun]]
    is_ending: Callable[[], bool] = lambda: False
