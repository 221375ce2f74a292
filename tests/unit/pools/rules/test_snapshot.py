"""Demands on nodes, warnings before the end of sessions, and records of filling."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from support.builders import make_user
from support.pools.builders import lending_facts, make_node, make_request
from zkdeployment.pools.documents import NodePool, PoolConfiguration, RoleMechanism
from zkdeployment.pools.rules.node import NodeState, PoolNode
from zkdeployment.pools.rules.queue import (
    RequestProblem,
    RequestRefusal,
    Reservation,
    reserve,
)
from zkdeployment.pools.rules.snapshot import (
    FillingRecord,
    NodeProperty,
    NodesSpec,
    TenantSession,
    due_warnings,
    meets,
    next_warning,
    node_properties,
    read_properties,
    read_property,
    warning_time,
)
from zkdeployment.service.users.user import Role, TenantLimits

TENANT = make_user("ci", Role.TENANT, id=5)
POOLS = PoolConfiguration(
    {name: NodePool(name, RoleMechanism("spare", "ci"), fill_level=3) for name in ("web", "db")},
    TenantLimits(node_quota=9),
)


def node(number: int, state: NodeState = NodeState.READY, pool: str = "web", **provision: Any) -> PoolNode:
    data = {"provision": provision, "rack": "r1"}
    return make_node(number, state, changed=number, pool=pool, hostname=f"n{number}", data=data)


SMALL = node(1, arch="x86_64", memory=8)
LARGE = node(2, arch="x86_64", memory="32")
ARM = node(3, arch="aarch64", memory=16.0)


def chosen(
    *specs: NodesSpec, nodes: tuple[PoolNode, ...] = (SMALL, LARGE, ARM)
) -> tuple[int, ...] | RequestRefusal:
    given = reserve(make_request(11, TENANT, *specs), lending_facts(POOLS, TENANT, nodes))
    return given.session.nodes if isinstance(given, Reservation) else given


def spec(quantity: int, *properties: str, pool: str = "web") -> NodesSpec:
    return NodesSpec(pool, quantity, read_properties(properties))


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("arch=x86_64", NodeProperty("arch", "=", "x86_64")),
        ("memory>=16", NodeProperty("memory", ">=", "16")),
        ("load<=-0.5", NodeProperty("load", "<=", "-0.5")),
        ("note=a=b c", NodeProperty("note", "=", "a=b c")),
    ],
)
def test_a_property_is_a_name_a_relation_and_a_value(text: str, wanted: NodeProperty) -> None:
    assert read_property(text) == wanted
    assert str(wanted) == text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("arch", "expected NAME=VALUE"),
        ("=x", "expected NAME=VALUE"),
        ("arch=", "expected NAME=VALUE"),
        ("arch=x\n", "expected NAME=VALUE"),
        ("a b=c", "expected NAME=VALUE"),
        ("memory>16", "expected NAME=VALUE"),
        ("memory>=much", "expected a number after >= in 'memory>=much', found 'much'"),
        ("memory<=1e9", "expected a number after <="),
        ("arch=" + "x" * 201, "expected NAME=VALUE"),
    ],
)
def test_other_texts_are_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_property(text)


def test_a_part_of_a_request_has_at_most_20_properties() -> None:
    assert len(read_properties(["a=1"] * 20)) == 20
    with pytest.raises(ValueError, match="at most 20 properties, found 21"):
        read_properties(["a=1"] * 21)


@pytest.mark.parametrize(
    ("text", "found", "accepted"),
    [
        ("a=x", "x", True),
        ("a=x", "X", False),
        ("a=16", 16, True),
        ("a=16", 16.0, True),
        ("a=16.0", 16, True),
        ("a=16", "16", True),
        ("a=16", "16.0", False),
        ("a=true", True, True),
        ("a=1", True, False),
        ("a>=16", 16, True),
        ("a>=16", "32", True),
        ("a>=16", 15.5, False),
        ("a<=16", 16, True),
        ("a<=16", 17, False),
        ("a>=0", "many", False),
        ("a>=0", True, False),
    ],
)
def test_a_value_meets_an_equality_or_a_bound(text: str, found: str | float, accepted: bool) -> None:
    assert read_property(text).accepts(found) is accepted


def test_the_properties_of_a_node_are_its_names_its_data_and_over_them_the_result_of_provisioning() -> None:
    data = {
        "rack": "r1",
        "arch": "old",
        "disks": [1],
        "error": "x",
        "nodes_spec": {"pool": "web"},
        "provision": {"arch": "x86_64", "tags": ["a"], "none": None},
    }
    found = make_node(1, changed=0, hostname="n1", ipaddr="192.0.2.1", host="h1", data=data)
    assert node_properties(found) == {
        "hostname": "n1",
        "ipaddr": "192.0.2.1",
        "host": "h1",
        "rack": "r1",
        "arch": "x86_64",
    }
    assert meets(found, read_properties(["rack=r1", "arch=x86_64"]))
    assert not meets(found, read_properties(["rack=r1", "disks=1"]))


def test_only_nodes_that_match_are_reserved_and_the_session_keeps_the_demand() -> None:
    assert chosen(spec(1)) == (1,)
    assert chosen(spec(1, "memory>=16", "arch=x86_64")) == (2,)
    assert chosen(spec(2, "arch=x86_64")) == (1, 2)
    given = reserve(make_request(11, TENANT, spec(1, "arch=aarch64")), lending_facts(POOLS, TENANT, (SMALL, ARM)))
    assert isinstance(given, Reservation)
    assert [str(part) for part in given.session.specs] == ["1 of web with arch=aarch64"]
    assert given.nodes[0].data["nodes_spec"] == {"pool": "web", "quantity": 1}


def test_parts_of_a_request_with_more_properties_choose_first() -> None:
    assert chosen(spec(1), spec(1, "memory<=8")) == (1, 2)
    assert chosen(spec(2, "arch=x86_64"), spec(1, "arch=aarch64")) == (1, 2, 3)


@pytest.mark.parametrize(
    ("wanted", "problem", "message"),
    [
        (
            spec(1, "colour=red"),
            RequestProblem.NO_PROPERTY,
            "no node of the pool web has the property 'colour'; the properties are: arch, hostname, memory, rack",
        ),
        (
            spec(1, "memory>=64"),
            RequestProblem.NO_MATCH,
            "no node of the pool web has memory>=64; found: 16.0, 32, 8",
        ),
        (
            spec(2, "arch=aarch64"),
            RequestProblem.NO_MATCH,
            (
                "2 of web with arch=aarch64 requested, but the pool has 1 in all; request fewer nodes, or other"
                " properties"
            ),
        ),
        (
            spec(1, "arch=aarch64", "memory<=8"),
            RequestProblem.NO_MATCH,
            (
                "1 of web with arch=aarch64 and memory<=8 requested, but the pool has 0 in all; request fewer"
                " nodes, or other properties"
            ),
        ),
    ],
)
def test_a_refusal_names_the_properties_that_no_node_has(
    wanted: NodesSpec, problem: RequestProblem, message: str
) -> None:
    refused = chosen(wanted)
    assert isinstance(refused, RequestRefusal)
    assert (refused.problem, refused.message) == (problem, message)


def test_lent_nodes_have_properties_and_nodes_in_the_making_have_no_properties_yet() -> None:
    lent = node(4, NodeState.DEPLOYED, arch="s390x")
    refused = chosen(spec(1, "arch=s390x"), nodes=(SMALL, lent))
    assert isinstance(refused, RequestRefusal)
    assert refused.problem is RequestProblem.TOO_FEW
    made = make_node(5, NodeState.PROVISIONING, changed=0, pool="web")
    refused = chosen(spec(1, "arch=s390x"), nodes=(made,))
    assert isinstance(refused, RequestRefusal)
    assert refused.problem is RequestProblem.TOO_FEW


LONG = TenantSession(
    id=9, tenant=4, specs=(NodesSpec("metal", 1),), nodes=(1,), created_at=0.0, expires_at=6 * 3600.0
)
SHORT = replace(LONG, id=10, expires_at=600.0)


def test_tenants_are_warned_half_an_hour_before_the_end_or_after_half_of_a_short_session():
    assert warning_time(LONG) == 5.5 * 3600
    assert warning_time(SHORT) == 300.0


@pytest.mark.parametrize(
    ("now", "due"),
    [(0.0, []), (299.0, []), (300.0, [10]), (599.0, [10]), (600.0, []), (5.5 * 3600, [9]), (6 * 3600.0, [])],
)
def test_a_warning_is_due_between_its_time_and_the_end(now, due):
    assert [session.id for session in due_warnings((LONG, SHORT), now)] == due


def test_one_expiry_has_one_warning_and_an_extension_needs_another_one():
    (warned,) = due_warnings((LONG,), 5.6 * 3600)
    assert warned.is_warned
    assert due_warnings((warned,), 5.7 * 3600) == ()
    extended = replace(warned, expires_at=7 * 3600.0)
    assert due_warnings((extended,), 5.7 * 3600) == ()
    assert [session.id for session in due_warnings((extended,), 6.5 * 3600)] == [9]


def test_a_session_that_ended_has_no_warning():
    assert due_warnings((replace(LONG, retired_at=5.0),), 5.6 * 3600) == ()


def test_the_next_warning_is_the_earliest_that_is_still_to_come():
    assert next_warning((LONG, SHORT), 0.0) == 300.0
    assert next_warning((LONG, SHORT), 300.0) == 5.5 * 3600
    assert next_warning((replace(LONG, warned_expiry=LONG.expires_at),), 0.0) is None


def test_failures_of_nodes_that_were_chosen_together_count_once() -> None:
    record = FillingRecord().after_failure("no power", begun=100, now=110)
    assert (record.failures, record.last_failure, record.reason) == (1, 110, "no power")
    same = record.after_failure("no net", begun=100, now=115)
    assert (same.failures, same.last_failure, same.reason) == (1, 115, "no net")
    assert same.after_failure("no net", begun=180, now=190).failures == 2


def test_a_success_ends_the_failures_and_keeps_the_description_of_the_pool() -> None:
    record = FillingRecord(3, 9.0, "no power", {"name": "metal"}, stamp=4)
    assert record.after_success() == FillingRecord(values={"name": "metal"})
    assert record.after_success().stamp == 4


def test_a_long_reason_is_recorded_in_part() -> None:
    assert len(FillingRecord().after_failure("x" * 100_000, begun=100, now=110).reason) == 2000
