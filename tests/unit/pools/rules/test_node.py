"""The life cycle of nodes: the table, and the values that nodes keep and lose."""

from __future__ import annotations

import itertools

import pytest

from support.pools.builders import make_node
from zkdeployment.pools.rules.node import (
    NODE_TRANSITIONS,
    NodeEvent,
    NodeState,
    NodeTransitionError,
    PoolNode,
    end_of_deprovisioning,
    end_of_provisioning,
    fail,
)


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
