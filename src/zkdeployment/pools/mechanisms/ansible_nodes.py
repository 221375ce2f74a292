"""The mechanism ``ansible``: playbooks make and remove nodes, whose names may come from the DNS."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from zkdeployment.base.errors import ProgramError
from zkdeployment.base.names import NameKind, name_problem
from zkdeployment.pools.documents.values import AnsibleMechanism
from zkdeployment.pools.rules.node import end_of_deprovisioning
from zkdeployment.pools.rules.results import MechanismOutcome, deprovisioned, provisioned

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from zkdeployment.base.machine.clock import Clock
    from zkdeployment.pools.documents.values import NodePool
    from zkdeployment.pools.mechanisms.ansible import AnsiblePlaybooks
    from zkdeployment.pools.mechanisms.tenant_keys import SshTenantKeys
    from zkdeployment.pools.rules.node import PoolNode


#: The most seconds that all lookups together may take.
_LIMIT = 10.0


def _name_of(address: str) -> str:
    return socket.gethostbyaddr(address)[0]


def reverse_names(
    addresses: Collection[str], limit: float = _LIMIT, lookup: Callable[[str], str] = _name_of
) -> Mapping[str, str]:
    """Return the host names of addresses, without addresses that have no valid name, or none in time."""
    found: dict[str, str] = {}

    def find(address: str) -> None:
        with contextlib.suppress(OSError, UnicodeError):
            name = lookup(address).rstrip(".")
            if name_problem(NameKind.HOST_NAME, name) is None:
                found[address] = name

    deadline = time.monotonic() + limit
    threads = [threading.Thread(target=find, args=(address,), daemon=True) for address in addresses]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    return dict(found)


class AnsibleNodes:
    """Makes and removes nodes by playbooks (a ``PoolMechanism``).

    ``names`` returns the host names of addresses, if they have one.
    """

    def __init__(
        self,
        playbooks: AnsiblePlaybooks,
        keys: SshTenantKeys,
        clock: Clock,
        names: Callable[[Collection[str]], Mapping[str, str]] = reverse_names,
    ) -> None:
        self._names = names
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
        return self._named(provisioned(nodes, output, self._clock.now()))

    def _named(self, outcome: MechanismOutcome) -> MechanismOutcome:
        """Return an outcome in which nodes without a name from their playbook have the name of their address."""
        nameless = {
            node.id for node in outcome.nodes if "ipaddr" in _result(node) and not _result(node).get("hostname")
        }
        names = (
            self._names({node.ipaddr or "" for node in outcome.nodes if node.id in nameless}) if nameless else {}
        )
        named = (
            replace(node, hostname=names.get(node.ipaddr or "", node.ipaddr)) if node.id in nameless else node
            for node in outcome.nodes
        )
        return replace(outcome, nodes=tuple(named))

    def deprovision(self, pool: NodePool, nodes: Sequence[PoolNode]) -> MechanismOutcome:
        mechanism = _mechanism(pool)
        if mechanism.deprovision is None:
            ended = (end_of_deprovisioning(node, self._clock.now()) for node in nodes)
            return MechanismOutcome(tuple(ended), (), ())
        given = [{**_given(node), "data": dict(node.data)} for node in nodes]
        output = self._playbooks.run(mechanism, mechanism.deprovision, pool.values, given)
        return deprovisioned(nodes, output, self._clock.now())

    def probe(self, node: PoolNode) -> None:
        self._keys.probe(_address(node))

    def write_keys(self, node: PoolNode, keys: Sequence[str]) -> tuple[str, ...]:
        return self._keys.write(_address(node), keys)

    def remove_keys(self, node: PoolNode) -> None:
        self._keys.remove(_address(node), node.keys)


def _mechanism(pool: NodePool) -> AnsibleMechanism:
    if not isinstance(pool.mechanism, AnsibleMechanism):
        raise ProgramError(f"the pool {pool.name} has another mechanism now; expected ansible")
    return pool.mechanism


def _result(node: PoolNode) -> Mapping[str, Any]:
    """Return the playbook's result for a node; empty for a node that no playbook provisioned."""
    result: Mapping[str, Any] = node.data.get("provision", {})
    return result


def _given(node: PoolNode) -> dict[str, Any]:
    """Return a node as an item of ``duffy_in``."""
    return {"id": node.id, "hostname": node.hostname, "ipaddr": node.ipaddr}


def _address(node: PoolNode) -> str:
    if node.ipaddr is None:
        raise ProgramError(f"node {node.id} has no address")
    return node.ipaddr
