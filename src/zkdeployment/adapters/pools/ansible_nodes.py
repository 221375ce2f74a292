"""The mechanism ``ansible``: playbooks make and remove nodes, and the keys of tenants are written by SSH."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zkdeployment.documents.pools.values import AnsibleMechanism
from zkdeployment.errors import ProgramError
from zkdeployment.pools.node import end_of_deprovisioning
from zkdeployment.pools.playbook_results import MechanismOutcome, deprovisioned, provisioned

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zkdeployment.documents.pools.values import NodePool
    from zkdeployment.pools.node import PoolNode
    from zkdeployment.ports.pools import PlaybookRunner, TenantKeys
    from zkdeployment.ports.process import Clock


class AnsibleNodes:
    """Makes and removes nodes by playbooks (a ``PoolMechanism``)."""

    def __init__(self, playbooks: PlaybookRunner, keys: TenantKeys, clock: Clock) -> None:
        self._playbooks = playbooks
        self._keys = keys
        self._clock = clock

    def reuse_values(self, pool: NodePool) -> Mapping[str, int | str] | None:
        if pool.reuse is None:
            return None
        return {key: self._playbooks.render(value, pool.values) for key, value in pool.reuse.items()}

    def provision(self, pool: NodePool, nodes: Sequence[PoolNode]) -> MechanismOutcome:
        mechanism = _mechanism(pool)
        given = [_given(node) for node in nodes]
        output = self._playbooks.run(mechanism, mechanism.provision, pool.values, given)
        return provisioned(nodes, output, self._clock.now())

    def deprovision(self, pool: NodePool, nodes: Sequence[PoolNode]) -> MechanismOutcome:
        mechanism = _mechanism(pool)
        if mechanism.deprovision is None:
            ended = (end_of_deprovisioning(node, self._clock.now()) for node in nodes)
            return MechanismOutcome(tuple(ended), (), ())
        given = [{**_given(node), "data": dict(node.data)} for node in nodes]
        output = self._playbooks.run(mechanism, mechanism.deprovision, pool.values, given)
        return deprovisioned(nodes, output, self._clock.now())

    def write_key(self, node: PoolNode, key: str) -> None:
        self._keys.write(_address(node), key)

    def remove_key(self, node: PoolNode) -> None:
        self._keys.remove(_address(node))


def _mechanism(pool: NodePool) -> AnsibleMechanism:
    if not isinstance(pool.mechanism, AnsibleMechanism):
        raise ProgramError(f"the pool {pool.name} has another mechanism now; expected ansible")
    return pool.mechanism


def _given(node: PoolNode) -> dict[str, Any]:
    """Return a node as an item of ``duffy_in``."""
    return {"id": node.id, "hostname": node.hostname, "ipaddr": node.ipaddr}


def _address(node: PoolNode) -> str:
    if node.ipaddr is None:
        raise ProgramError(f"node {node.id} has no address")
    return node.ipaddr
