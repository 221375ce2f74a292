"""Who had which node, and when."""

from __future__ import annotations

import pytest

from zkdeployment.pools.rules.snapshot import LeasedNode, NodesSpec, TenantSession
from zkdeployment.pools.rules.usage import LeaseFilter, lease_history

FIRST = LeasedNode(1, "metal", "n1", "192.0.2.1")
SECOND = LeasedNode(2, "metal", "n2")


def session(number: int, tenant: int, begin: float, end: float | None, *nodes: LeasedNode) -> TenantSession:
    return TenantSession(
        id=number,
        tenant=tenant,
        specs=(NodesSpec("metal", len(nodes)),),
        nodes=tuple(node.id for node in nodes),
        created_at=begin,
        expires_at=begin + 100,
        retired_at=end,
        leased=nodes,
        requested_by="ci",
        retired_by="ann@adm1",
    )


SESSIONS = [session(10, 5, 100, 150, FIRST, SECOND), session(11, 6, 200, None, FIRST)]
TENANTS = {5: "ci", 6: "web"}


@pytest.mark.parametrize(
    ("wanted", "leases"),
    [
        (LeaseFilter(), [(11, 1), (10, 1), (10, 2)]),
        (LeaseFilter(node="1"), [(11, 1), (10, 1)]),
        (LeaseFilter(node="n2"), [(10, 2)]),
        (LeaseFilter(node="192.0.2.1", tenant="ci"), [(10, 1)]),
        (LeaseFilter(tenant="web"), [(11, 1)]),
        (LeaseFilter(since=150), [(11, 1), (10, 1), (10, 2)]),
        (LeaseFilter(since=151), [(11, 1)]),
    ],
)
def test_leases_are_selected_the_newest_first(wanted: LeaseFilter, leases: list[tuple[int, int]]) -> None:
    found = lease_history(SESSIONS, TENANTS, wanted)
    assert [(lease.session.id, lease.node.id) for lease in found] == leases


def test_a_lease_names_its_holder_the_node_at_that_time_and_who_ended_it() -> None:
    (lease,) = lease_history(SESSIONS, {}, LeaseFilter(node="n2"))
    assert lease.to_json() == {
        "node": 2,
        "pool": "metal",
        "hostname": "n2",
        "ipaddr": None,
        "session": 10,
        "tenant": "tenant 5",
        "begin": 100,
        "end": 150,
        "expires_at": 200,
        "requested_by": "ci",
        "retired_by": "ann@adm1",
    }
