"""Ready nodes that do not answer: they are not lent, come back when they answer, and fail after a while."""

from __future__ import annotations

from dataclasses import replace

import pytest

from support.builders import make_user
from support.pools.builders import make_node
from zkdeployment.pools.documents import NodePool, PoolConfiguration, RoleMechanism
from zkdeployment.pools.rules.node import NodeState, probed
from zkdeployment.pools.rules.overview import pool_overviews
from zkdeployment.pools.rules.queue import RequestRefusal, SessionRequest, reserve
from zkdeployment.pools.rules.snapshot import NodesSpec, PoolSnapshot
from zkdeployment.pools.rules.work import PoolObservation, PoolSources, next_steps, plan_filling, surplus
from zkdeployment.service.users.user import Role

POOL = NodePool("web", RoleMechanism("spare", "ci"), fill_level=1)
NODE = make_node(1, changed=0.0, pool="web", host="h1", reusable=True)
SILENT = probed(NODE, "no route", 1000.0, may_fail=True)


def test_a_node_that_does_not_answer_is_not_lent_not_counted_and_replaced():
    assert (NODE.is_ready, SILENT.is_ready, SILENT.state) == (True, False, NodeState.READY)
    configuration = PoolConfiguration({"web": POOL})
    tenant = make_user("ci", Role.TENANT, id=5)
    request = SessionRequest(9, tenant, (NodesSpec("web", 1),), 0)
    refused = reserve(request, configuration, [SILENT], 2000.0)
    assert isinstance(refused, RequestRefusal)
    (overview,) = pool_overviews(configuration, PoolSnapshot({1: SILENT}))
    assert (overview.ready, overview.unreachable) == (0, 1)
    unused = replace(NODE, id=2, state=NodeState.UNUSED, pool=None, host="h2")
    assert [node.id for node in plan_filling(POOL, [SILENT, unused], 2000.0, roles={"h2": "spare"}).taken] == [2]
    assert surplus(POOL, [SILENT, replace(NODE, id=2)], ()) == ()


def test_a_node_that_answers_again_is_lent_again():
    assert probed(SILENT, "", 1100.0, may_fail=True) == NODE
    assert probed(NODE, "", 1100.0, may_fail=True) is NODE


def test_a_node_that_is_silent_for_fifteen_minutes_has_failed_unless_the_worker_may_be_at_fault():
    assert probed(SILENT, "no route", 1899.0, may_fail=True) is SILENT
    assert probed(SILENT, "no route", 1900.0, may_fail=False) is SILENT
    failed = probed(SILENT, "no route", 1900.0, may_fail=True)
    assert failed.state is NodeState.FAILED
    assert failed.data["error"]["detail"].startswith("the ready node answers no probe since 1970-01-01T00:16:40")


def test_a_damaged_record_of_a_silence_begins_anew():
    damaged = replace(NODE, data={"unreachable": {"since": "soon"}})
    assert probed(damaged, "no route", 9999.0, may_fail=True).data["unreachable"]["since"].startswith("1970")


@pytest.mark.parametrize("answers", [True, False])
def test_no_node_fails_if_no_node_at_all_answers(answers):
    other = replace(NODE, id=2, host="h2")
    sources = PoolSources(PoolConfiguration({"web": replace(POOL, fill_level=5)}))
    seen = PoolObservation(
        sources, PoolSnapshot({1: SILENT, 2: other, 3: replace(NODE, id=3)}, claimed={3}), 5000.0
    )
    probes = {1: "no route", 2: "" if answers else "no route", 3: "no route", 4: "gone"}
    steps = [step for step in next_steps(replace(seen, probes=probes)) if step.event == "node-probed"]
    states = {node.id: (node.state, node.is_ready) for step in steps for node in step.change.nodes}
    failed = {1: (NodeState.FAILED, False)}
    assert states == (failed if answers else {2: (NodeState.READY, False)})
