"""Instances of intents over publications, and their JSON form."""

import json
from dataclasses import replace

import pytest

from support.intents import GROUP, begun, recorded
from zkdeployment.base.deployment import Assignment
from zkdeployment.base.errors import NotFoundError, RefusedError
from zkdeployment.intents.documents import Approval, DeploymentIntentGroup, IntentState
from zkdeployment.intents.rules.governance import GovernedService
from zkdeployment.intents.rules.instances import (
    KEPT_EVENTS,
    KEPT_INSTANCES,
    InstanceChange,
    InstanceEvent,
    InstanceEventKind,
    InstanceHistory,
    InstanceService,
    IntentEffect,
    advance_instances,
    approved_event,
    events_from_json,
    history_from_json,
    instances_body,
    intent_history,
    merged_history,
    with_event,
)

SHOP = DeploymentIntentGroup("p1", "store", "v1", "shop", "plain", {"front": ("/front",)})
FRONT = GovernedService("front", "web", Assignment("/front", 2, "front", "front", version="1"))
ADMIN = GovernedService("front", "web", Assignment("/front/admin", 1, "admin", "admin", version="1"))


def publish(instances, sequence, *effects, services=(FRONT,)):
    change = InstanceChange(sequence, float(sequence), "alice")
    return advance_instances(instances, effects, change, SHOP, services, {"/front": {"version": "1"}})


def wanted(instance):
    return [(service.assignment.path, service.wanted, service.assignment.n) for service in instance.services]


def test_an_instance_begins_with_the_governed_services_and_ends_when_no_service_is_wanted():
    (begun,) = publish((), 7, IntentEffect.BEGIN_INSTANCE)
    assert (begun.id, begun.changed, begun.by, begun.terminated) == (7, 7, "alice", None)
    assert wanted(begun) == [("/front", 2, 2)]
    assert publish((begun,), 8) == (begun,)
    (ended,) = publish((begun,), 9, IntentEffect.END_INSTANCE)
    assert (ended.id, ended.changed, ended.terminated) == (7, 9, 9.0)
    assert wanted(ended) == [("/front", 0, 2)]


def test_an_update_remembers_services_that_are_no_longer_wanted():
    begun = publish((), 7, IntentEffect.BEGIN_INSTANCE, services=[FRONT, ADMIN])
    smaller = replace(FRONT, assignment=replace(FRONT.assignment, n=1, version="2"))
    (updated,) = publish(begun, 8, IntentEffect.UPDATE_INSTANCE, services=[smaller])
    assert (updated.id, updated.changed) == (7, 8)
    assert wanted(updated) == [("/front", 1, 2), ("/front/admin", 0, 1)]
    assert updated.services[0].assignment.version == "2"


def test_the_last_twenty_instances_are_kept():
    instances = ()
    for sequence in range(1, 60, 2):
        instances = publish(instances, sequence, IntentEffect.BEGIN_INSTANCE)
        instances = publish(instances, sequence + 1, IntentEffect.END_INSTANCE)
    assert [instance.id for instance in instances] == [*range(21, 60, 2)]
    assert len(instances) == KEPT_INSTANCES


def test_the_list_of_instances_begins_with_the_newest():
    instances = publish((), 7, IntentEffect.BEGIN_INSTANCE)
    instances = publish(instances, 8, IntentEffect.END_INSTANCE)
    instances = publish(instances, 9, IntentEffect.BEGIN_INSTANCE)
    assert instances_body(instances) == {
        "instances": [
            {"id": 9, "instantiated": 9.0, "terminated": None, "by": "alice"},
            {"id": 7, "instantiated": 7.0, "terminated": 8.0, "by": "alice"},
        ]
    }


def test_services_of_an_instance_survive_their_json_form():
    (instance,) = publish((), 7, IntentEffect.BEGIN_INSTANCE, services=[FRONT, ADMIN])
    written = json.dumps([service.to_json() for service in instance.services])
    assert tuple(map(InstanceService.from_json, json.loads(written))) == instance.services


def test_an_end_without_an_instance_changes_nothing():
    assert publish((), 7, IntentEffect.END_INSTANCE) == ()


def test_each_change_of_an_instance_is_an_event_with_its_approval():
    approval = Approval("sha256:1", "jane@example.com", "reviewed", "-----BEGIN")
    change = InstanceChange(7, 7.0, "bob", "r7", "Instantiate", "sha256:1", approval, is_verified=True)
    instances = ()
    for effect in (IntentEffect.BEGIN_INSTANCE, IntentEffect.UPDATE_INSTANCE, IntentEffect.END_INSTANCE):
        instances = advance_instances(instances, (effect,), change, SHOP, (FRONT,), {})
        change = replace(change, sequence=change.sequence + 1, content="sha256:2")
    (begun, updated, ended) = instances[0].events
    assert [event.kind.value for event in instances[0].events] == ["instantiated", "updated", "terminated"]
    assert (begun.by, begun.revision, begun.reason, begun.content) == ("bob", "r7", "Instantiate", "sha256:1")
    assert (begun.approved_by, begun.approval_reason, begun.is_verified) == ("jane@example.com", "reviewed", True)
    assert (updated.approved_by, ended.sequence, ended.is_verified) == (None, 9, False)  # of another content
    assert events_from_json(json.loads(json.dumps([event.to_json() for event in instances[0].events]))) == (
        begun,
        updated,
        ended,
    )
    unsigned = replace(change, content="sha256:1", approval=replace(approval, signature=None))
    assert unsigned.event(InstanceEventKind.UPDATED).is_verified is False


def test_events_are_bounded_and_damaged_ones_are_omitted():
    events = ()
    for sequence in range(1, KEPT_EVENTS + 11):
        change = InstanceChange(sequence, 1.0, "x" * 999, reason="a\nb")
        events = with_event(events, change.event(InstanceEventKind.UPDATED))
    assert [events[0].sequence, events[1].sequence, events[-1].sequence, len(events)] == [1, 12, 40, KEPT_EVENTS]
    assert (len(events[0].by), events[0].reason) == (300, "a b")
    good = InstanceEvent(InstanceEventKind.UPDATED, 1, 1.0, "bob")
    damaged = (7, None, {}, good.to_json() | {"event": "odd"}, good.to_json() | {"reason": 7})
    assert events_from_json([*damaged, good.to_json() | {"newer": 1}]) == (good,)
    assert (events_from_json(None), events_from_json({"a": 1})) == ((), ())


EVENT = InstanceEvent(
    InstanceEventKind.INSTANTIATED, 7, 7.0, "ann", "r7", "go", "sha256:1", "jane", "reviewed", True
)
OLD = InstanceHistory(5, 500.0, 900.0, "ann", (EVENT,))


def test_the_history_has_the_instances_of_the_record_and_of_removed_documents_newest_first():
    record = recorded(GROUP, IntentState.INSTANTIATED, replace(begun(7), events=(EVENT,)))
    found = intent_history(GROUP.subject, record, [OLD])
    assert [(one.id, one.events) for one in found] == [(7, (EVENT,)), (5, (EVENT,))]
    assert intent_history(GROUP.subject, None, [OLD]) == (OLD,)
    assert intent_history(GROUP.subject, recorded(GROUP, IntentState.CREATED), ()) == ()
    with pytest.raises(NotFoundError, match="no publication has an intent p1/store/v1/shop, and none had one"):
        intent_history(GROUP.subject, None, ())


def test_the_history_is_bounded_and_omits_damaged_events():
    many = [replace(OLD, id=number) for number in range(1, KEPT_INSTANCES + 6)]
    assert [one.id for one in merged_history(many, [replace(OLD, id=3)])] == list(range(6, KEPT_INSTANCES + 6))
    written = json.loads(json.dumps([OLD.to_json(), {"id": 1}, 7, OLD.to_json() | {"terminated": "x"}]))
    assert (history_from_json(written), history_from_json({"a": 1})) == ((OLD,), ())


def test_a_rollback_needs_a_recorded_and_approved_content():
    ended = replace(EVENT, kind=InstanceEventKind.TERMINATED, content="sha256:2")
    updated = replace(EVENT, kind=InstanceEventKind.UPDATED, content="sha256:3")
    assert approved_event(7, (EVENT, updated, ended)) == updated
    with pytest.raises(RefusedError, match="nothing is known of the content of instance 7"):
        approved_event(7, ())
    with pytest.raises(RefusedError, match="the content of instance 7 was never approved"):
        approved_event(7, (replace(EVENT, approved_by=None),))
