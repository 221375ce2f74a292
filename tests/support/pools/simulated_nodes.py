"""Machines of pools in memory: a ``PoolMechanism`` that passes the contract suite of mechanisms."""

from __future__ import annotations

import ipaddress
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from zkdeployment.base.errors import ProgramError
from zkdeployment.pools.rules.node import end_of_deprovisioning
from zkdeployment.pools.rules.results import MechanismOutcome, provisioned

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zkdeployment.pools.documents import NodePool
    from zkdeployment.pools.rules.node import PoolNode


@dataclass
class SimulatedNodes:
    """Machines by the ids of their nodes, each with the key of a tenant, or ``None``.

    ``unreachable`` are the ids of machines that cannot be reached, ``failing`` those that cannot be made. While
    ``working`` is not set, machines take for ever. ``overlaps`` are the ids of nodes that were worked on twice at
    the same time, ``made`` lists the ids of each call of ``provision``.
    """

    machines: dict[int, str | None] = field(default_factory=dict)
    unreachable: set[int] = field(default_factory=set)
    failing: set[int] = field(default_factory=set)
    working: threading.Event = field(default_factory=threading.Event)
    made: list[list[int]] = field(default_factory=list)
    overlaps: list[int] = field(default_factory=list)
    must_end: threading.Event = field(default_factory=threading.Event)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _in_work: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.working.set()

    def reuse_values(self, pool: NodePool) -> Mapping[str, int | str] | None:
        """Return the values as they are written."""
        return pool.reuse

    def provision(self, pool: NodePool, nodes: Sequence[PoolNode]) -> MechanismOutcome:
        """Make the machines that do not exist yet."""
        with _Work(self, nodes):
            self.made.append([node.id for node in nodes])
            results: list[dict[str, str]] = []
            for node in nodes:
                if node.id in self.failing:
                    results.append({})
                    continue
                self.machines.setdefault(node.id, None)
                address = ipaddress.IPv4Address("192.0.2.0") + node.id
                results.append({"ipaddr": str(address), "hostname": f"{pool.name}{node.id}"})
            return provisioned(nodes, {"nodes": results}, nodes[0].changed)

    def deprovision(self, pool: NodePool, nodes: Sequence[PoolNode]) -> MechanismOutcome:
        """Remove the machines."""
        assert pool.name
        with _Work(self, nodes):
            for node in nodes:
                self.machines.pop(node.id, None)
            return MechanismOutcome(tuple(end_of_deprovisioning(node, node.changed) for node in nodes), (), ())

    def probe(self, node: PoolNode) -> None:
        """Reach a machine."""
        self._reach(node)

    def write_keys(self, node: PoolNode, keys: Sequence[str]) -> tuple[str, ...]:
        """Give a machine the keys of a tenant."""
        with _Work(self, [node]):
            self._reach(node)
            self.machines[node.id] = "\n".join(keys)
            return tuple(keys)

    def remove_keys(self, node: PoolNode) -> None:
        """Take the keys of a tenant off a machine."""
        with _Work(self, [node]):
            self._reach(node)
            self.machines[node.id] = None

    def _reach(self, node: PoolNode) -> None:
        if node.id in self.unreachable or node.id not in self.machines:
            raise ProgramError(f"no route to {node.ipaddr}")


@dataclass
class _Work:
    """The work on some machines, which takes until it may end."""

    place: SimulatedNodes
    nodes: Sequence[PoolNode]

    def __enter__(self) -> None:
        numbers = {node.id for node in self.nodes}
        with self.place._lock:
            self.place.overlaps += sorted(numbers & self.place._in_work)
            self.place._in_work |= numbers
        while not self.place.working.wait(0.01):
            if self.place.must_end.is_set():
                self.__exit__()
                raise ProgramError("was ended with this program")

    def __exit__(self, *_: object) -> None:
        with self.place._lock:
            self.place._in_work -= {node.id for node in self.nodes}
