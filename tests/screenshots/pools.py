"""The pools of the photographed fleets: two that have what they need, one that lacks nodes, and one that fails."""

from __future__ import annotations

from dataclasses import replace

from zkdeployment.pools.rules.node import NodeState, PoolNode, fail
from zkdeployment.pools.rules.snapshot import FillingRecord, LeasedNode, NodesSpec, PoolChange, TenantSession

_PLAYBOOKS = {"topdir": "/srv/playbooks", "provision": {"playbook": "provision.yml"}}

DOCUMENT: dict[str, object] = {
    "schema": "zkdeployment/Pools/v1",
    "metadata": {"name": "pools"},
    "data": {
        "defaults": {"node-quota": 8},
        "nodepools": {
            "concrete": {
                "fleet-web": {
                    "fill-level": 2,
                    "mechanism": {"type": "role", "role": {"idle": "spare", "leased": "ci"}},
                },
                "metal-arm64": {"fill-level": 2, "mechanism": {"type": "ansible", "ansible": _PLAYBOOKS}},
                "metal-x86": {"fill-level": 4, "mechanism": {"type": "ansible", "ansible": _PLAYBOOKS}},
                "virtual-c9s": {"fill-level": 6, "mechanism": {"type": "ansible", "ansible": _PLAYBOOKS}},
            }
        },
    },
}

_STATES = {
    "fleet-web": (NodeState.READY, NodeState.DEPLOYED),
    "metal-arm64": (NodeState.READY, NodeState.FAILED),
    "metal-x86": (*(NodeState.READY,) * 2, *(NodeState.PROVISIONING,) * 2, *(NodeState.DEPLOYED,) * 4),
    "virtual-c9s": (*(NodeState.READY,) * 6, *(NodeState.DEPLOYED,) * 3, NodeState.DEPROVISIONING),
}

_HOUR = 3600.0


def pool_change(now: float, tenants: tuple[int, int]) -> PoolChange:
    """Return the content of the pools at ``now``: nodes, and the sessions of two tenants."""
    nodes = _nodes(now)
    leased = {
        pool: [node for node in nodes if node.pool == pool and node.state is NodeState.DEPLOYED]
        for pool in _STATES
    }
    first, second = tenants
    sessions = (
        _session(101, first, leased["metal-x86"][:2] + leased["virtual-c9s"][:1], now - 2.2 * _HOUR),
        _session(104, second, leased["metal-x86"][2:] + leased["fleet-web"], now - 5.7 * _HOUR),
        _session(109, first, leased["virtual-c9s"][1:], now - 0.4 * _HOUR),
    )
    holders = {node: session.id for session in sessions for node in session.nodes}
    return PoolChange(
        nodes=tuple(replace(node, session=holders.get(node.id)) for node in nodes),
        sessions=sessions,
        filling={
            "metal-arm64": FillingRecord(
                3, now - 200, "provision.yml: TASK [install the image]: unreachable: 10.20.0.41: no route to host"
            )
        },
    )


def ended_sessions(now: float, tenants: tuple[int, int]) -> tuple[TenantSession, ...]:
    """Return ended sessions in their form at the beginning."""
    nodes = _nodes(now)
    return tuple(
        _session(number, tenant, nodes[2 * place : 2 * place + 2], now - (9 + place) * _HOUR)
        for place, (number, tenant) in enumerate(zip((80, 83, 91), (*tenants, tenants[0]), strict=True))
    )


def _nodes(now: float) -> list[PoolNode]:
    nodes = []
    for pool, states in _STATES.items():
        for state in states:
            number = len(nodes) + 11
            node = PoolNode(
                id=number,
                state=state,
                created_at=now - 9 * _HOUR,
                changed=now - 60.0 * number,
                pool=pool,
                hostname=f"{pool}-{number}.example.com",
                ipaddr=f"10.20.0.{number}",
                reusable=True,
            )
            if state is NodeState.FAILED:
                cleaned = replace(node, state=NodeState.DEPROVISIONING)
                node = fail(
                    cleaned, "deprovision.yml: TASK [wipe the disks]: exit status 1: /dev/sda is busy", now - 1400
                )
            nodes.append(node)
    spare = PoolNode(
        id=60, state=NodeState.UNUSED, created_at=now, changed=now - 700, hostname="metal-x86-60.example.com"
    )
    return [*nodes, replace(spare, ipaddr="10.20.0.60", comment="new disks", data={"architecture": "x86_64"})]


def _session(number: int, tenant: int, nodes: list[PoolNode], begun: float) -> TenantSession:
    pools = {node.pool or "": 0 for node in nodes}
    for node in nodes:
        pools[node.pool or ""] += 1
    return TenantSession(
        id=number,
        tenant=tenant,
        specs=tuple(NodesSpec(pool, count) for pool, count in pools.items()),
        nodes=tuple(node.id for node in nodes),
        created_at=begun,
        expires_at=begun + 6 * _HOUR,
        leased=tuple(LeasedNode(node.id, node.pool or "", node.hostname, node.ipaddr) for node in nodes),
    )
