"""Nodes: the table of their states, changes by operators, and probes."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from support.builders import make_user
from support.pools.builders import lending_facts, make_node, make_request
from zkdeployment.base.errors import ConfigurationError, NotFoundError, RefusedError
from zkdeployment.base.host import Identity
from zkdeployment.base.inventory import KnownHost
from zkdeployment.pools.documents import NodePool, PoolConfiguration, RoleMechanism
from zkdeployment.pools.rules.listing import pool_views
from zkdeployment.pools.rules.node import (
    NODE_TRANSITIONS,
    NewPoolNode,
    NodeEvent,
    NodeState,
    NodeTransitionError,
    PoolNode,
    added,
    check_new_node,
    drained,
    end_of_deprovisioning,
    end_of_provisioning,
    fail,
    forgiven,
    node_data,
    node_of_host,
    probed,
    retired,
    shortened,
    shown,
    split_values,
)
from zkdeployment.pools.rules.queue import RequestRefusal, reserve
from zkdeployment.pools.rules.snapshot import NodesSpec, PoolSnapshot
from zkdeployment.pools.rules.work import PoolFacts, PoolSources, next_steps, plan_filling, surplus
from zkdeployment.service.users.user import Role


def node(state: NodeState, *, reusable: bool = True, session: int | None = None) -> PoolNode:
    data = {"architecture": "x86_64", "provision": {"ipaddr": "192.0.2.1"}, "nodes_spec": {}}
    return make_node(7, state, pool="metal", session=session, reusable=reusable, data=data)


@pytest.mark.parametrize(("state", "event"), list(itertools.product(NodeState, NodeEvent)))
def test_each_event_leads_to_the_state_of_the_table_and_is_refused_elsewhere(
    state: NodeState, event: NodeEvent
) -> None:
    after = NODE_TRANSITIONS.get((state, event))
    if after is None:
        with pytest.raises(NodeTransitionError, match=rf"node 7 is {state.value}; that excludes: "):
            node(state).after(event, 9)
    else:
        assert node(state).after(event, 9).state is after


def test_every_state_is_left_but_the_last_one_and_every_event_has_an_effect() -> None:
    assert {state for state, _ in NODE_TRANSITIONS} == set(NodeState) - {NodeState.DONE}
    assert {event for _, event in NODE_TRANSITIONS} == set(NodeEvent)


def test_a_node_that_is_used_again_loses_pool_session_and_passing_data() -> None:
    unused = end_of_deprovisioning(node(NodeState.DEPROVISIONING), 9)
    assert (unused.state, unused.pool, unused.session, unused.is_active) == (NodeState.UNUSED, None, None, True)
    assert unused.data == {"architecture": "x86_64"}


def test_a_node_that_is_not_used_again_is_done_and_keeps_its_known_values() -> None:
    done = end_of_deprovisioning(node(NodeState.DEPROVISIONING, reusable=False), 9)
    assert (done.state, done.retired_at, done.is_active) == (NodeState.DONE, 9, False)
    assert done.data["provision"] == {"ipaddr": "192.0.2.1"}


def test_a_node_keeps_its_pool_until_it_is_deprovisioned() -> None:
    released = node(NodeState.DEPLOYED, session=3).after(NodeEvent.RELEASED, 9)
    assert (released.pool, released.session) == ("metal", None)


def test_a_node_that_could_not_be_provisioned_is_unused_or_deleted() -> None:
    again = end_of_provisioning(node(NodeState.PROVISIONING), 9)
    assert again is not None
    assert (again.state, again.pool) == (NodeState.UNUSED, None)
    assert end_of_provisioning(node(NodeState.PROVISIONING, reusable=False), 9) is None


def test_a_failed_node_records_when_and_why_and_belongs_to_no_session() -> None:
    failed = fail(node(NodeState.CONTEXTUALIZING, session=3), "no route to host", 0)
    assert failed.data["error"] == {"failed_at": "1970-01-01T00:00:00+00:00", "detail": "no route to host"}
    assert (failed.session, failed.pool) == (None, "metal")


def test_a_long_reason_of_a_failure_is_recorded_in_part() -> None:
    node = make_node(1, NodeState.DEPROVISIONING, changed=0)
    assert len(fail(node, "x" * 100_000, 5).data["error"]["detail"]) == 2000


MACHINE = NewPoolNode(hostname="n1.example.com", ipaddr="192.0.2.1", data={"architecture": "x86_64"})


def metal(state: NodeState) -> PoolNode:
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
    found = drained(metal(before), 9)
    assert (found.state, found.reusable) == (after, reusable)


@pytest.mark.parametrize("state", BUSY)
def test_a_node_that_a_worker_is_about_to_change_is_left_to_it(state: NodeState) -> None:
    for act, verb in ((drained, "drain"), (retired, "retire")):
        if state is NodeState.CONTEXTUALIZING and act is retired:
            continue
        with pytest.raises(
            RefusedError, match=f"cannot {verb} node 7: it is {state.value}; try again when a worker has finished"
        ):
            act(metal(state), 9)


def test_only_unused_and_failed_nodes_are_retired_and_only_failed_ones_forgiven() -> None:
    assert retired(metal(NodeState.UNUSED), 9).state is NodeState.DONE
    assert retired(metal(NodeState.FAILED), 9).state is NodeState.DONE
    assert forgiven(metal(NodeState.FAILED), 9).state is NodeState.DEPROVISIONING
    for state in (NodeState.READY, NodeState.DEPLOYED, NodeState.CONTEXTUALIZING):
        with pytest.raises(RefusedError, match=f"found it {state.value}; 'zkdeployment node drain 7'"):
            retired(metal(state), 9)
    with pytest.raises(
        RefusedError, match="cannot forgive node 7: expected a node that has failed, found it ready"
    ):
        forgiven(metal(NodeState.READY), 9)
    with pytest.raises(RefusedError, match="has failed; 'zkdeployment node retire 7'"):
        drained(metal(NodeState.FAILED), 9)
    for act in (drained, retired):
        with pytest.raises(RefusedError, match="node 7: it is done already"):
            act(metal(NodeState.DONE), 9)


def test_a_new_node_is_unused_and_one_of_the_same_machine_is_refused() -> None:
    check_new_node(MACHINE)
    found = added(MACHINE, 8, [metal(NodeState.READY)], 9)
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


POOL = NodePool("web", RoleMechanism("spare", "ci"), fill_level=1)
NODE = make_node(1, changed=0.0, pool="web", host="h1", reusable=True)
SILENT = probed(NODE, "no route", 1000.0, may_fail=True)


def test_a_node_that_does_not_answer_is_not_lent_not_counted_and_replaced():
    assert (NODE.is_ready, SILENT.is_ready, SILENT.state) == (True, False, NodeState.READY)
    configuration = PoolConfiguration({"web": POOL})
    tenant = make_user("ci", Role.TENANT, id=5)
    request = make_request(9, tenant, NodesSpec("web", 1))
    refused = reserve(request, lending_facts(configuration, tenant, [SILENT], 2000.0))
    assert isinstance(refused, RequestRefusal)
    (view,) = pool_views(configuration, PoolSnapshot({1: SILENT}))
    assert (view.ready, view.unreachable) == (0, 1)
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
    seen = PoolFacts(sources, PoolSnapshot({1: SILENT, 2: other, 3: replace(NODE, id=3)}, claimed={3}), 5000.0)
    probes = {1: "no route", 2: "" if answers else "no route", 3: "no route", 4: "gone"}
    steps = [step for step in next_steps(replace(seen, probes=probes)) if step.event == "node-probed"]
    states = {node.id: (node.state, node.is_ready) for step in steps for node in step.change.nodes}
    failed = {1: (NodeState.FAILED, False)}
    assert states == (failed if answers else {2: (NodeState.READY, False)})


def test_a_silence_before_a_maintenance_does_not_count_after_it():
    sources = PoolSources(PoolConfiguration({"web": POOL}), maintenance=frozenset({"h1"}))
    seen = PoolFacts(sources, PoolSnapshot({1: SILENT}), 1300.0, probes={1: "no route", 2: ""})
    (paused,) = (step.change.nodes[0] for step in next_steps(seen) if step.event == "node-probed")
    assert not paused.is_ready
    still = replace(seen, snapshot=PoolSnapshot({1: paused}))
    assert [step.event for step in next_steps(still) if step.event == "node-probed"] == []
    missed = probed(paused, "no route", 9000.0, may_fail=True)
    assert missed.state is NodeState.READY
    assert probed(missed, "no route", 9900.0, may_fail=True).state is NodeState.FAILED
    assert probed(paused, "", 9000.0, may_fail=True) == NODE


@pytest.mark.parametrize(
    ("text", "longest", "left"),
    [
        ("0123456789", 10, "0123456789"),
        ("0123456789a", 10, "01 [...] a"),
        ("begin" + 100 * "-" + "finis", 17, "begin [...] finis"),
        ("", 10, ""),
    ],
)
def test_a_long_text_keeps_its_beginning_and_its_end(text: str, longest: int, left: str) -> None:
    assert shortened(text, longest) == left


def test_a_long_value_is_shown_in_part() -> None:
    assert shown({"a": 1}) == "{'a': 1}"
    assert len(shown(["x" * 100] * 1000)) == 200
