"""The contract of the mechanisms of pools: in memory, and with Ansible and SSH."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from support.pools.playbooks import made_machines, write_playbooks
from support.pools.simulated_nodes import SimulatedNodes
from support.pools.ssh_nodes import running_ssh_nodes
from support.pools.workers import KEY
from support.waiting import ManualClock
from zkdeployment.base.errors import ProgramError
from zkdeployment.pools.documents import described_pool
from zkdeployment.pools.mechanisms.ansible import AnsibleNodes, AnsiblePlaybooks, SshTenantKeys
from zkdeployment.pools.rules.node import NodeEvent, NodeState
from zkdeployment.pools.rules.work import new_node

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from zkdeployment.pools.documents import NodePool
    from zkdeployment.pools.opening import PoolMechanism


@dataclass
class Tried:
    """A mechanism, and the observable state of its machines: their ids, and whether one admits a tenant."""

    mechanism: PoolMechanism
    pool: NodePool
    machines: Callable[[], list[int]]
    admits: Callable[[], bool]


@pytest.fixture(params=["in memory", "by Ansible"])
def tried(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Tried]:
    if request.param == "in memory":
        simulated = SimulatedNodes()
        pool = described_pool("cloud", {"mechanism": {"type": "role", "role": {"idle": "a", "leased": "b"}}})
        yield Tried(simulated, pool, lambda: sorted(simulated.machines), lambda: simulated.machines[1] == KEY)
        return
    with running_ssh_nodes(tmp_path / "nodes", 1) as nodes:
        values: dict[str, Any] = {"mechanism": write_playbooks(tmp_path / "books", nodes)}
        keys = SshTenantKeys(nodes.key, nodes.configuration, timeout=60)
        mechanism = AnsibleNodes(AnsiblePlaybooks(), keys, ManualClock())
        file = nodes.nodes[0].authorized_keys
        yield Tried(
            mechanism,
            described_pool("cloud", values),
            lambda: made_machines(tmp_path / "books"),
            lambda: KEY in file.read_text(),
        )


def test_nodes_are_made_once_admit_tenants_only_during_their_sessions_and_are_removed(tried: Tried) -> None:
    node = new_node(1, tried.pool, 5)
    (ready,) = tried.mechanism.provision(tried.pool, [node]).nodes
    assert (ready.state, ready.stamp) == (NodeState.READY, node.stamp)
    again = tried.mechanism.provision(tried.pool, [node])  # as after the death of a worker
    assert (again.nodes[0].ipaddr, again.deleted, again.problems) == (ready.ipaddr, (), ())
    assert tried.machines() == [1]
    tried.mechanism.write_keys(ready, (KEY,))
    assert tried.admits()
    tried.mechanism.remove_keys(ready)
    assert not tried.admits()
    left = ready.after(NodeEvent.RELEASED, 6)
    outcome = tried.mechanism.deprovision(tried.pool, [left])
    assert [found.state for found in outcome.nodes] == [NodeState.DONE]
    assert tried.machines() == []
    with pytest.raises(ProgramError):
        tried.mechanism.write_keys(new_node(9, tried.pool, 5), (KEY,))
