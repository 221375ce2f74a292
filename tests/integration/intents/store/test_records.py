"""Records of intents in ZooKeeper: written whole or not at all, read with few requests."""

from __future__ import annotations

from dataclasses import replace

import pytest

from zkdeployment.base.deployment import Assignment
from zkdeployment.base.errors import ConflictError
from zkdeployment.intents.documents import Approval, ClusterIntents, DeploymentIntentGroup, IntentState
from zkdeployment.intents.rules.content import IntentContent
from zkdeployment.intents.rules.instances import InstanceService, IntentInstance, IntentRecord
from zkdeployment.intents.store import (
    INTENTS,
    ZooKeeperIntents,
    intent_operations,
    read_awaiting_records,
    read_intent_nodes,
)
from zkdeployment.publishing.store.assignments import read_withheld
from zkdeployment.zookeeper import paths
from zkdeployment.zookeeper.transactions import Set

CONTENT = IntentContent({"apps": {"front": ["/front"]}}, {"/front": {"version": "1"}}, {("/d", "v"): "1"})
SHOP = DeploymentIntentGroup(
    "p1",
    "store",
    "v1",
    "a@b:c",
    "plain",
    {"front": ("/front",)},
    IntentState.INSTANTIATED,
    approval=Approval(CONTENT.digest, "alice", "go"),
)
WEB = ClusterIntents("ams", "web", {"vlan12": ("/net",)})
FRONT = InstanceService("front", "web", Assignment("/front", 2, "front", "front", version="1"), 2, {"a": 1})


def instance(number, **values):
    return IntentInstance(number, float(number), "alice", number, {"front": ("/front",)}, (FRONT,), **values)


GROUP_RECORD = IntentRecord(
    SHOP, SHOP.state, (instance(7, terminated=8.0, final=({"name": "x"},)), instance(9)), CONTENT, CONTENT
)
CLUSTER_RECORD = IntentRecord(WEB, WEB.state, (), IntentContent({}, {"/net": {}}))


@pytest.fixture
def intents(session):
    session.ensure(paths.OURS)
    return ZooKeeperIntents(session)


def write(session, *records, kept=(), withheld=None, commits=None):
    changed = {record.intent.subject: record for record in records}
    nodes = read_intent_nodes(session, changed, {*changed, *(record.intent.subject for record in kept)})
    operations = intent_operations(changed, nodes, withheld)
    for transaction in [operations.parts, operations.closing][:commits]:
        session.commit(*transaction)


def test_records_are_read_back_unchanged(session, intents):
    assert intents.records() == ()
    assert intents.record(SHOP.subject) is None
    write(session, GROUP_RECORD, CLUSTER_RECORD)
    assert intents.record(SHOP.subject) == GROUP_RECORD
    assert intents.record(WEB.subject) == CLUSTER_RECORD
    cluster, group = intents.records()
    assert (cluster, group.content, group.approved) == (CLUSTER_RECORD, CONTENT, CONTENT)
    assert group.instances[-1] == instance(9)
    former = group.instances[0]
    assert (former.id, former.terminated, former.services, former.final) == (7, 8.0, (), ())


def test_a_record_without_its_former_instances_keeps_their_parts(session, intents):
    write(session, GROUP_RECORD)
    (known,) = intents.records()
    ended = replace(known.instances[-1], terminated=10.0, changed=10, final=({"name": "y"},) * 3)
    write(session, replace(known, instances=(known.instances[0], ended)))
    (first, last) = intents.record(SHOP.subject).instances
    assert first == GROUP_RECORD.instances[0]
    assert last.final == ({"name": "y"},) * 3


def test_an_intent_that_is_gone_leaves_no_node(session, intents):
    write(session, GROUP_RECORD, CLUSTER_RECORD)
    write(session, kept=[CLUSTER_RECORD])
    assert intents.records() == (CLUSTER_RECORD,)
    assert intents.record(SHOP.subject) is None
    assert len(session.children(INTENTS)) == 1


def test_a_writer_that_dies_before_the_index_leaves_the_former_record_and_the_next_one_completes(session, intents):
    write(session, GROUP_RECORD, commits=1)
    assert intents.records() == ()
    write(session, GROUP_RECORD)
    (known,) = intents.records()
    changed = replace(known, content=replace(CONTENT, nodes={"/front": {"version": "2"}}))
    write(session, changed, commits=1)
    assert intents.record(SHOP.subject) == GROUP_RECORD
    other = replace(known, content=replace(CONTENT, nodes={"/front": {"version": "3"}}))
    write(session, other)
    (node,) = session.children(INTENTS)
    parts = session.children(f"{INTENTS}/{node}")
    assert intents.records() == (other,)
    assert sorted(part.split("-")[0] for part in parts) == ["content", "content", "final", "instance", "instance"]


def test_a_record_that_another_writer_changed_is_not_overwritten(session, intents):
    write(session, GROUP_RECORD)
    (known,) = intents.records()
    write(session, known)
    with pytest.raises(ConflictError, match="changed since it was read"):
        write(session, known)


def test_large_values_are_written_in_several_parts(session, intents):
    nodes = {f"/front/n{number}": {"value": f"{number * 7919 % 1000003:x}" * 9} for number in range(40_000)}
    record = replace(CLUSTER_RECORD, content=IntentContent({}, nodes))
    changed = {WEB.subject: record}
    operations = intent_operations(changed, read_intent_nodes(session, changed, changed), None)
    assert len(operations.parts) > 3
    for operation in operations.parts:
        session.commit(operation)
    session.commit(*operations.closing)
    assert intents.record(WEB.subject) == record


@pytest.mark.parametrize(
    "data",
    [
        b"x",
        b"{}",
        b'{"instances": [], "content": []}',
        b'{"instances": [], "content": [], "approved": null, "document": {}, "state": "Created"}',
        b'{"instances": [], "content": ["gone"], "approved": null, "document": {}, "state": "Created"}',
        b'{"instances": [{}], "content": null, "approved": null, "document": {}, "state": "Created"}',
        b'{"instances": [{"terminated":8,"final":null}], "content":[], "approved":[], "document": {}, "state": 1}',
    ],
)
def test_a_damaged_record_is_omitted(session, intents, data):
    awaiting = replace(GROUP_RECORD, instances=(instance(7, terminated=8.0),))
    write(session, awaiting, CLUSTER_RECORD)
    for name in session.children(INTENTS):
        if ":" in name and "ams" in name:
            session.commit(Set(f"{INTENTS}/{name}", data))
    assert [record.intent.subject for record in intents.records()] == [SHOP.subject]
    assert read_awaiting_records(session) == (awaiting,)


def test_withheld_services_are_written_and_removed(session, intents):
    assert read_withheld(intents._session) == frozenset()
    withheld = frozenset({("/front", "web"), ("/front", "app1"), ("/db", "web")})
    write(session, withheld=withheld)
    assert read_withheld(intents._session) == withheld
    write(session)
    assert read_withheld(intents._session) == withheld
    write(session, withheld=frozenset())
    assert read_withheld(intents._session) == frozenset()
