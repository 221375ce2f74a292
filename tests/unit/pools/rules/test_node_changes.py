"""What operators ask of nodes: each act leads where it should, or is refused with advice."""

from __future__ import annotations

from dataclasses import replace

import pytest

from support.pools.builders import make_node
from zkdeployment.base.errors import ConfigurationError, NotFoundError, RefusedError
from zkdeployment.base.host import Identity
from zkdeployment.base.inventory import KnownHost
from zkdeployment.pools.rules.node import (
    NewPoolNode,
    NodeState,
    PoolNode,
    added,
    check_new_node,
    drained,
    forgiven,
    node_data,
    node_of_host,
    retired,
    split_values,
)

MACHINE = NewPoolNode(hostname="n1.example.com", ipaddr="192.0.2.1", data={"architecture": "x86_64"})


def node(state: NodeState) -> PoolNode:
    return make_node(7, state, pool="metal", session=3, reusable=True, hostname="n7")


BUSY = [NodeState.PROVISIONING, NodeState.CONTEXTUALIZING, NodeState.DEPROVISIONING]


@pytest.mark.parametrize(
    ("before", "after", "reusable"),
    [
        (NodeState.UNUSED, NodeState.DONE, True),
        (NodeState.READY, NodeState.DEPROVISIONING, False),
        (NodeState.DEPLOYED, NodeState.DEPLOYED, False),
    ],
)
def test_a_drained_node_leaves_at_once_or_after_its_session(
    before: NodeState, after: NodeState, *, reusable: bool
) -> None:
    found = drained(node(before), 9)
    assert (found.state, found.reusable) == (after, reusable)


@pytest.mark.parametrize("state", BUSY)
def test_a_node_that_a_worker_is_about_to_change_is_left_to_it(state: NodeState) -> None:
    for act, verb in ((drained, "drain"), (retired, "retire")):
        if state is NodeState.CONTEXTUALIZING and act is retired:
            continue
        with pytest.raises(
            RefusedError, match=f"cannot {verb} node 7: it is {state.value}; try again when a worker has finished"
        ):
            act(node(state), 9)


def test_only_unused_and_failed_nodes_are_retired_and_only_failed_ones_forgiven() -> None:
    assert retired(node(NodeState.UNUSED), 9).state is NodeState.DONE
    assert retired(node(NodeState.FAILED), 9).state is NodeState.DONE
    assert forgiven(node(NodeState.FAILED), 9).state is NodeState.DEPROVISIONING
    for state in (NodeState.READY, NodeState.DEPLOYED, NodeState.CONTEXTUALIZING):
        with pytest.raises(RefusedError, match=f"found it {state.value}; 'zkdeployment node drain 7'"):
            retired(node(state), 9)
    with pytest.raises(
        RefusedError, match="cannot forgive node 7: expected a node that has failed, found it ready"
    ):
        forgiven(node(NodeState.READY), 9)
    with pytest.raises(RefusedError, match="has failed; 'zkdeployment node retire 7'"):
        drained(node(NodeState.FAILED), 9)
    for act in (drained, retired):
        with pytest.raises(RefusedError, match="node 7: it is done already"):
            act(node(NodeState.DONE), 9)


def test_a_new_node_is_unused_and_one_of_the_same_machine_is_refused() -> None:
    check_new_node(MACHINE)
    found = added(MACHINE, 8, [node(NodeState.READY)], 9)
    assert (found.id, found.state, found.reusable, found.pool, found.data) == (
        8,
        NodeState.UNUSED,
        True,
        None,
        {"architecture": "x86_64"},
    )
    for other in (replace(MACHINE, hostname="n2"), replace(MACHINE, ipaddr="192.0.2.2")):
        with pytest.raises(RefusedError, match=r"node 8 \(unused\) has the name n1.example.com"):
            added(other, 9, [found], 9)


@pytest.mark.parametrize(
    ("new", "message"),
    [
        (replace(MACHINE, hostname="-oProxyCommand=x"), "is not a host name"),
        (replace(MACHINE, ipaddr="here"), "expected an IP address, found 'here'"),
        (replace(MACHINE, ipaddr=None), "expected an IP address, found None"),
    ],
)
def test_invalid_host_names_and_addresses_are_refused(new: NewPoolNode, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        check_new_node(new)


def test_a_host_of_the_fleet_becomes_a_node_once() -> None:
    hosts = [
        KnownHost(Identity("h1", "app1.example.com", "spare"), address="192.0.2.5", idle_role="spare"),
        KnownHost(Identity("h2", "app2.example.com", "web")),
    ]
    new = node_of_host(hosts, "app1.example.com", comment="rack 4")
    assert new == NewPoolNode(hostname="app1.example.com", ipaddr="192.0.2.5", comment="rack 4", host="h1")
    assert node_of_host(hosts, "h1").host == "h1"
    with pytest.raises(RefusedError, match=r"host h1 is node 8 already \(unused\)"):
        added(new, 9, [added(new, 8, [], 9)], 9)
    with pytest.raises(NotFoundError, match="there is no host app2"):
        node_of_host(hosts, "app2")
    with pytest.raises(RefusedError, match=r"cannot be leased: expected role = lease:IDLE .* found web"):
        node_of_host(hosts, "h2")


@pytest.mark.parametrize(
    "changes",
    [
        {"hostname": "{{x}}"},
        {"ipaddr": "fe80::1%{{x}}"},
        {"comment": "{# a comment #}"},
        {"data": {"labels": [{"x": "{{ lookup('pipe', 'id') }}"}]}},
        {"data": {"{% raw %}": 1}},
    ],
)
def test_a_new_node_has_no_templates(changes: dict[str, object]) -> None:
    with pytest.raises(ConfigurationError, match=r"cannot add the node: .*\{"):
        check_new_node(replace(MACHINE, **changes))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("line", "values"),
    [
        ("", {}),
        ("architecture=x86_64 cores=8", {"architecture": "x86_64", "cores": 8}),
        ('cores="8"  rack="a b" name=a"b c"d', {"cores": "8", "rack": "a b", "name": 'a"b c"d'}),
        ("n=-5 m=--5 long=1234567890123456", {"n": -5, "m": "--5", "long": 1234567890123456}),
        ("arabic=\u0663 a=b=c empty=", {"arabic": "\u0663", "a": "b=c", "empty": ""}),
        ('q="" open="a b=1', {"q": "", "open": '"a', "b": 1}),
        ("twice=1 twice=2", {"twice": 2}),
        ("kvm=true ssd=False load=0.5 disks=[1,2]", {"kvm": True, "ssd": False, "load": 0.5, "disks": [1, 2]}),
        ("release=1.10 rack=3-1 port=007", {"release": "1.10", "rack": "3-1", "port": "007"}),
    ],
)
def test_the_values_of_a_new_node_have_one_meaning(line: str, values: dict[str, object]) -> None:
    assert node_data(split_values(line)) == values


@pytest.mark.parametrize("line", ["x", "=1", 'a=1 "b c"'])
def test_invalid_values_of_a_new_node_are_refused(line: str) -> None:
    with pytest.raises(ConfigurationError, match="expected KEY=VALUE such as architecture=x86_64, found"):
        node_data(split_values(line))
