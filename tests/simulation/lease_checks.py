"""The invariants of leases: whose keys a host admits, and when it has to remove them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from zkdeployment.agent.rules.lease import Lease, lease_from_properties
from zkdeployment.base.json_values import readable
from zkdeployment.pools import paths as pool_paths
from zkdeployment.pools.rules.node import NodeState, PoolNode
from zkdeployment.pools.rules.snapshot import TenantSession
from zkdeployment.zookeeper import paths
from zkdeployment.zookeeper.nodes import unpack

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from simulation.machine import Machine, ScriptCall
    from simulation.server_tree import Change
    from simulation.world import World


class LeaseChecks:
    """The invariants of leases: whose keys a host admits, and since when it could know that a key has to go.

    ``is_late`` returns whether the running process could know by now what happened at a time.
    """

    def __init__(
        self, world: World, fail: Callable[[str], None], is_late: Callable[[Machine, float], bool]
    ) -> None:
        self._world = world
        self._fail = fail
        self._is_late = is_late
        self._leases: dict[str, Lease] = {}
        self._session_of: dict[str, int] = {}
        self._removed: dict[tuple[str, str], float] = {}  # when a key left the lease of a host

    def admitted(self, machine: Machine, keys: tuple[str, ...]) -> None:
        """Check the keys that a host admits from now on, and note them."""
        self._world.trace(f"{machine.name} admits {[self._session_of.get(key) for key in keys]}")
        if len({self._session_of.get(key) for key in keys}) > 1:
            self._fail(f"{machine.name} admits the keys of two sessions")
        for ago in self._outdated(machine, set(keys).difference(machine.tenant_keys)):
            self._fail(f"{machine.name} admits a key that left its lease {ago:.0f} s ago")
        machine.tenant_keys = keys

    def script_started(self, call: ScriptCall) -> None:
        """Check that a host that begins a step has removed the keys that its lease no longer has."""
        machine = call.machine
        for ago in self._outdated(machine, machine.tenant_keys):
            self._fail(f"{machine.name} runs {call}, but admits a key that left its lease {ago:.0f} s ago")

    def _outdated(self, machine: Machine, keys: Collection[str]) -> Iterator[float]:
        """Yield how long ago keys left the lease of a host whose agent could know that."""
        lease = self._leases.get(machine.name)
        for key in keys:
            since = self._removed.get((machine.name, key))
            is_leased = lease is not None and key in lease.keys
            if not is_leased and since is not None and self._is_late(machine, since):
                yield self._world.now - since

    def committed(self, changes: Sequence[Change]) -> None:
        """Check a transaction that wrote a lease, a session, a node of a pool or a host."""
        for change in changes:
            directory, _, name = change.path.rpartition("/")
            if directory == pool_paths.SESSIONS and change.kind != "delete":
                self._session_written(int(name), change)
            elif directory == pool_paths.LEASES:
                self._lease_written(name, change)
            elif directory == pool_paths.NODES and change.kind != "delete":
                self._node_written(change)
            elif directory == paths.HOSTS and change.kind != "delete":
                self._host_written(name, json.loads(change.data) if change.data else {})

    def _session_written(self, number: int, change: Change) -> None:
        record = TenantSession.from_json(readable(unpack(change.data)))
        if record.ssh_key is not None:
            self._session_of.setdefault(record.ssh_key, number)

    def _lease_written(self, name: str, change: Change) -> None:
        before = self._leases.get(name)
        lease = None if change.kind == "delete" else lease_from_properties(json.loads(change.data))
        had, has = (set() if each is None else set(each.keys) for each in (before, lease))
        for key in has - had:
            number = self._session_of.get(key)
            if f"{pool_paths.SESSIONS}/{number}" not in self._world.network.ensemble.leader.nodes:
                self._fail(f"the lease of {name} gets the key of session {number}, which has ended")
        self._removed |= dict.fromkeys(((name, key) for key in had - has), self._world.now)
        if lease is None:
            self._leases.pop(name, None)
        else:
            self._leases[name] = lease

    def _node_written(self, change: Change) -> None:
        """Check that the host of a node admits no key of an earlier session."""
        node = PoolNode.from_json(readable(unpack(change.data)))
        machine = self._world.machines.get(node.host or "")
        if machine is None or node.state in {NodeState.DEPROVISIONING, NodeState.FAILED, NodeState.DONE}:
            return
        others = {self._session_of.get(key) for key in machine.tenant_keys} - {node.session}
        if others:
            self._fail(f"node {node.id} is {node.state.value}, but {machine.name} admits session {others.pop()}")

    def _host_written(self, name: str, properties: dict[str, Any]) -> None:
        """Check that a host that confirms its present lease admits exactly the keys of that lease."""
        lease, leased = self._leases.get(name), properties.get("leased")
        if lease is None or not isinstance(leased, dict) or leased.get("number") != lease.number:
            return
        if set(self._world.machines[name].tenant_keys) != set(lease.keys):
            self._fail(f"{name} confirms lease {lease.number}, but admits other keys than those of the lease")
