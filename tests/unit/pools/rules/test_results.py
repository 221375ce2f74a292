"""The consequences of tasks and of the results of playbooks, with all changes in the meantime."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from support.pools.builders import make_node
from zkdeployment.pools.documents import AnsibleMechanism, NodePool, Playbook
from zkdeployment.pools.rules.node import NodeEvent, NodeState, PoolNode, end_of_deprovisioning
from zkdeployment.pools.rules.results import (
    MechanismOutcome,
    all_failed,
    deprovisioned,
    fail_with_keys,
    finished,
    given_up,
    provisioned,
    session_begun,
    session_undone,
)
from zkdeployment.pools.rules.snapshot import FillingRecord, PoolChange, PoolSnapshot, TenantSession
from zkdeployment.pools.rules.work import NodeTask, TaskKind

POOL = NodePool("cloud", AnsibleMechanism("/srv", Playbook("p")), fill_level=2, values={"name": "cloud"})


def node(number: int, state: NodeState, **values: Any) -> PoolNode:
    return PoolNode(id=number, state=state, created_at=1, changed=20, pool="cloud", stamp=3, **values)


def task(kind: TaskKind, *numbers: int, **values: Any) -> NodeTask:
    session = 9 if kind is TaskKind.CONTEXTUALIZE else None
    nodes = tuple(node(number, kind.state, session=session, **values) for number in numbers)
    return NodeTask(kind, nodes, dict.fromkeys(numbers, POOL), session)


def read(*nodes: PoolNode, own: set[int] | None = None, **values: Any) -> PoolSnapshot:
    owned = frozenset(found.id for found in nodes) if own is None else frozenset(own)
    return PoolSnapshot({found.id: found for found in nodes}, own_claims=owned, **values)


SESSION = TenantSession(id=9, tenant=7, specs=(), nodes=(1, 2), created_at=1, expires_at=99, stamp=0)


def test_changes_by_operators_during_the_work_stay() -> None:
    given = task(TaskKind.DEPROVISION, 1, reusable=True)
    outcome = MechanismOutcome((end_of_deprovisioning(given.nodes[0], 30),), (), ())
    present = replace(given.nodes[0], reusable=False, comment="to the dump", stamp=8)
    (after,) = finished(given, outcome, read(present), 30).nodes
    assert (after.state, after.reusable, after.comment, after.stamp) == (
        NodeState.UNUSED,
        False,
        "to the dump",
        8,
    )


def test_nodes_that_another_worker_has_now_or_that_are_elsewhere_stay_unchanged() -> None:
    given = task(TaskKind.PROVISION, 1, 2, 3)
    results = [{"ipaddr": "192.0.2.1"}, {"ipaddr": "192.0.2.2"}, {}]
    outcome = provisioned(given.nodes, {"nodes": results}, 30)
    elsewhere = given.nodes[1].after(NodeEvent.PROVISIONED, 25)
    change = finished(given, outcome, read(*given.nodes[:1], elsewhere, own={2}), 30)
    assert change == PoolChange(released=frozenset({2}))


def test_failures_of_provisioning_delay_the_next_filling_and_a_success_ends_the_delay() -> None:
    given = task(TaskKind.PROVISION, 1)
    change = finished(given, all_failed(given, "no power", 30), read(*given.nodes), 30)
    assert [gone.id for gone in change.deleted] == [1]
    record = FillingRecord(1, 30.0, "no power", {"name": "cloud"})
    assert change.filling == {"cloud": record}
    outcome = provisioned(given.nodes, {"nodes": [{"ipaddr": "192.0.2.1"}]}, 30)
    change = finished(given, outcome, read(*given.nodes, filling={"cloud": record}), 30)
    assert change.filling["cloud"].failures == 0
    assert finished(given, outcome, read(*given.nodes), 30).filling == {}


def test_nodes_that_could_not_be_deprovisioned_have_failed() -> None:
    given = task(TaskKind.DEPROVISION, 1)
    change = finished(given, all_failed(given, "no power", 30), read(*given.nodes), 30)
    assert change.nodes[0].data["error"]["detail"] == "deprovisioning mechanism failed: no power"
    assert change.filling == {}


def test_a_remaining_key_matters_only_on_nodes_that_are_not_reset() -> None:
    given = task(TaskKind.DEPROVISION, 1, 2)
    outcome = fail_with_keys(given, {2: "no route"}, 30)
    assert [(found.id, found.state) for found in outcome.nodes] == [(2, NodeState.FAILED)]
    assert "the pool cloud has no playbook that resets the node: no route" in outcome.problems[0]
    reset = replace(POOL, mechanism=AnsibleMechanism("/srv", Playbook("p"), Playbook("d")))
    assert fail_with_keys(replace(given, pools={1: reset, 2: reset}), {2: "no route"}, 30).nodes == ()
    hosts = task(TaskKind.REVOKE, 1, 2, host="h1")
    assert fail_with_keys(replace(hosts, pools={}), {2: "no route"}, 30).nodes == ()


def test_a_session_begins_with_all_its_nodes() -> None:
    given = task(TaskKind.CONTEXTUALIZE, 1, 2)
    change = session_begun(given, read(*given.nodes, sessions={9: SESSION}), 30, {1: ("ssh-ed25519 AAAA",)})
    assert [found.state for found in change.nodes] == [NodeState.DEPLOYED] * 2
    assert [found.keys for found in change.nodes] == [("ssh-ed25519 AAAA",), ()]
    assert change.sessions == (replace(SESSION, begun_at=30),)
    assert change.released == {1, 2}


def test_a_session_that_cannot_begin_is_dropped_and_its_good_nodes_are_ready_again() -> None:
    given = task(TaskKind.CONTEXTUALIZE, 1, 2)
    change = session_undone(given, {2: "no route"}, read(*given.nodes, sessions={9: SESSION}), 30)
    assert [found.state for found in change.nodes] == [NodeState.READY, NodeState.FAILED]
    assert change.nodes[1].data["error"]["detail"] == "no route"
    assert change.dropped == (SESSION,)


def test_a_session_that_ended_while_it_was_prepared_stays_ended() -> None:
    given = task(TaskKind.CONTEXTUALIZE, 1, 2)
    released = [found.after(NodeEvent.RELEASED, 25) for found in given.nodes]
    for change in (
        session_begun(given, read(*released), 30, {}),
        session_undone(given, {2: "no route"}, read(*released), 30),
        given_up(given, read(*released)),
    ):
        assert change == PoolChange(released=frozenset({1, 2}))


def test_a_session_without_its_record_or_its_nodes_neither_begins_nor_is_dropped() -> None:
    given = task(TaskKind.CONTEXTUALIZE, 1, 2)
    lost = read(*given.nodes, own=set(), sessions={9: SESSION})
    for found in (read(*given.nodes), lost):
        begun, undone = session_begun(given, found, 30, {}), session_undone(given, {2: "no route"}, found, 30)
        assert (begun.sessions, undone.dropped, undone.waiting) == ((), (), ())


def test_a_request_that_ends_after_failures_names_the_nodes() -> None:
    given = task(TaskKind.CONTEXTUALIZE, 1, 2, hostname="web.example.com")
    waited = replace(SESSION, waiting_until=90, failures=2)
    for failures, names in (({2: "no route", 3: "gone"}, "web.example.com"), ({}, "some of them")):
        (ended,) = session_undone(given, failures, read(*given.nodes, sessions={9: waited}), 30).waiting
        assert ended.outcome == f"contextualization of nodes failed: {names}"


def nodes(state: NodeState, *provisions: Any, reusable: bool = False) -> list[PoolNode]:
    return [
        make_node(
            number,
            state,
            changed=0,
            pool="metal",
            reusable=reusable,
            data={} if provision is None else {"provision": provision},
        )
        for number, provision in enumerate(provisions, 1)
    ]


def test_results_of_provisioning_are_about_the_nodes_in_their_order() -> None:
    output = {"nodes": [{"ipaddr": "192.0.2.1", "hostname": "one", "serial": 5}, {"ipaddr": "2001:db8::2"}]}
    outcome = provisioned(nodes(NodeState.PROVISIONING, None, None), output, 9)
    one, two = outcome.nodes
    assert (one.state, one.hostname, one.ipaddr) == (NodeState.READY, "one", "192.0.2.1")
    assert one.data["provision"] == output["nodes"][0]
    assert (two.hostname, two.ipaddr) == ("2001:db8::2", "2001:db8::2")
    assert (outcome.deleted, outcome.problems) == ((), ())


@pytest.mark.parametrize(
    "result", [{}, {"ipaddr": None}, {"ipaddr": "no address"}, {"ipaddr": 7}, "text", {"hostname": "one"}]
)
def test_a_node_without_a_valid_address_was_not_provisioned(result: object) -> None:
    output = {"nodes": [{"ipaddr": "192.0.2.1"}, result]}
    outcome = provisioned(nodes(NodeState.PROVISIONING, None, None), output, 9)
    assert [node.id for node in outcome.nodes] == [1]
    assert outcome.deleted == (2,)
    assert "node 2 was not provisioned" in outcome.problems[0]


@pytest.mark.parametrize(
    "result",
    [
        {"ipaddr": "192.0.2.2", "hostname": "{{ lookup('pipe', 'id') }}"},
        {"ipaddr": "fe80::1%{{x}}"},
        {"ipaddr": "192.0.2.2", "facts": [{"deep": ["{% if x %}"]}]},
        {"ipaddr": "192.0.2.2", "{# key #}": 1},
    ],
)
def test_a_node_whose_result_has_a_template_was_not_provisioned(result: object) -> None:
    outcome = provisioned(nodes(NodeState.PROVISIONING, None), {"nodes": [result]}, 9)
    assert outcome.deleted == (1,)
    assert "expected plain text without {{, {% and {#, found" in outcome.problems[0]


def test_partial_results_return_reusable_nodes() -> None:
    outcome = provisioned(nodes(NodeState.PROVISIONING, None, None, reusable=True), {"nodes": []}, 9)
    assert [node.state for node in outcome.nodes] == [NodeState.UNUSED] * 2
    assert outcome.deleted == ()


@pytest.mark.parametrize("output", [None, [], {}, {"nodes": {}}, "text"])
def test_an_output_without_nodes_is_a_problem(output: object) -> None:
    outcome = provisioned(nodes(NodeState.PROVISIONING, None), output, 9)
    assert outcome.deleted == (1,)
    assert "expected duffy_out with a list of nodes" in outcome.problems[0]


def test_more_results_than_nodes_are_a_problem() -> None:
    output = {"nodes": [{"ipaddr": "192.0.2.1"}, {"ipaddr": "192.0.2.2"}]}
    outcome = provisioned(nodes(NodeState.PROVISIONING, None), output, 9)
    assert [node.id for node in outcome.nodes] == [1]
    assert outcome.problems == ("2 results for 1 nodes; the last ones are ignored",)


def test_results_of_deprovisioning_are_about_the_node_with_these_values() -> None:
    known = nodes(NodeState.DEPROVISIONING, {"ipaddr": "192.0.2.1", "serial": 5}, {"ipaddr": "192.0.2.2"})
    outcome = deprovisioned(known, {"nodes": [{"ipaddr": "192.0.2.2"}, {"serial": 5}]}, 9)
    assert {node.id: node.state for node in outcome.nodes} == {1: NodeState.DONE, 2: NodeState.DONE}
    assert outcome.problems == ()


def test_a_node_that_no_result_is_about_has_failed() -> None:
    known = nodes(NodeState.DEPROVISIONING, {"ipaddr": "192.0.2.1"}, None, reusable=True)
    outcome = deprovisioned(known, {"nodes": [{"ipaddr": "192.0.2.9"}, {}, {"ipaddr": "192.0.2.1"}]}, 9)
    assert {node.id: node.state for node in outcome.nodes} == {1: NodeState.UNUSED, 2: NodeState.FAILED}
    assert len(outcome.problems) == 3


LONG = "x" * 100_000


@pytest.mark.parametrize("output", [LONG, {"nodes": LONG}, {"nodes": [{"ipaddr": LONG}]}])
def test_problems_show_a_part_of_a_long_output(output: object) -> None:
    results = [
        provisioned(nodes(NodeState.PROVISIONING, None), output, 9),
        deprovisioned(nodes(NodeState.DEPROVISIONING, {"ipaddr": "192.0.2.1"}), output, 9),
    ]
    assert max(len(problem) for result in results for problem in result.problems) < 400
