"""Which node a result of a playbook is about."""

from __future__ import annotations

from typing import Any

import pytest

from support.pools.builders import make_node
from zkdeployment.pools.rules.node import NodeState, PoolNode
from zkdeployment.pools.rules.results import deprovisioned, provisioned


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
